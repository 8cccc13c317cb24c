"""Pictures of a lab: taken from its cluster, or read from the file that it was resumed from.

The costly parts of a picture are kept in the lab's file beside the objects, so that showing a large lab does not compute them again. They
were computed by the same code at the moment of saving, and are under the same checksum as the objects.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import structs

from kailab.cluster.embedded.storage.state_file import PackedSection
from kailab.cluster.protocol import Cluster, Versioned
from kailab.evidence.cluster_state import RowCache, read_cluster_state, state_of_rows
from kailab.evidence.decision_log import DecisionLog
from kailab.evidence.entries import ClusterState, PendingReason, PodRow
from kailab.lab.picture import Picture
from kailab.model import labels
from kailab.scheduler.saved_state import SavedSchedulingState, SchedulingStateRecord

if TYPE_CHECKING:
    from kailab.lab.open_lab import OpenLab
    from kailab.scheduler.scheduling_state import SchedulingState
    from kailab.undertest.contract import SchedulerUnderTest


SavedParts = Mapping[str, PackedSection]
"""Name of a part of a picture -> its content."""


def parts_to_save(picture: Picture) -> dict[str, Any]:
    """The costly parts of a picture, as plain values."""
    pending = msgspec.to_builtins(picture.pending)
    parts: dict[str, Any] = {"rows": msgspec.to_builtins(picture.rows), "used": picture.used, "pending": pending}
    # A saved state that was read from the file is not written again.
    if not isinstance(picture.present, SavedSchedulingState):
        parts["present"] = msgspec.to_builtins(picture.present.to_record())
    return parts


class SavedPicture(Picture):
    """A picture with costly parts that were read. ``present`` computes the present state, for parts that were not saved."""

    def __init__(
        self,
        parts: SavedParts,
        cluster: Cluster,
        log: DecisionLog,
        present: Callable[[tuple[str, ...]], SchedulingState],
        scheduler: SchedulerUnderTest,
    ) -> None:
        super().__init__(cluster, log, present, scheduler)
        self._saved_parts = parts

    @cached_property
    def rows(self) -> list[PodRow]:
        return self._saved_parts["rows"].unpack_as(list[PodRow])

    @cached_property
    def used(self) -> dict[str, int]:
        return self._saved_parts["used"].unpack_as(dict[str, int])

    @cached_property
    def pending(self) -> dict[str, PendingReason]:
        return self._saved_parts["pending"].unpack_as(dict[str, PendingReason])

    @cached_property
    def present(self) -> SchedulingState | SavedSchedulingState:
        if "present" not in self._saved_parts:
            return self.compute_present()
        return SavedSchedulingState(self._saved_parts["present"].unpack_as(SchedulingStateRecord), self.compute_present)


class LabPictures:
    """``present``: gives the present state as the scheduler sees it. ``saved_parts``: the parts of the picture in the lab's file, if
    the lab is read-only and so cannot have changed since it was saved; else empty."""

    def __init__(
        self, lab: OpenLab, present: Callable[[tuple[str, ...]], SchedulingState], saved_parts: SavedParts
    ) -> None:
        self._lab = lab
        self._present = present
        self._saved_parts = saved_parts
        self._rows = RowCache()
        self._shared: tuple[tuple[int, float, int], object, Picture] | None = None
        self._shared_state: tuple[Picture, ClusterState] | None = None

    def picture(self, like: Picture | None) -> Picture:
        """See ``Lab.picture``."""
        lab = self._lab
        self._read_decisions()
        if self._saved_parts:
            saved = SavedPicture(self._saved_parts, lab.cluster, lab.log, self._present, lab.under_test)
            return self._with_schedulers(saved)
        if not lab.shares_pictures or like is not None or not isinstance(lab.cluster, Versioned):
            return self._take(like)
        version = lab.cluster.version, lab.cluster.now(), lab.log.cycle
        if self._shared is None or self._shared[0] != version or self._shared[1] is not lab.log.last:
            self._shared = version, lab.log.last, self._take(None)
        return self._shared[2]

    def cluster_state(self) -> ClusterState:
        """The state of the whole cluster now, in rows."""
        lab, picture = self._lab, self.picture(None)
        if self._saved_parts:
            return read_cluster_state(lab.cluster, self._rows)
        if self._shared_state is not None and self._shared_state[0] is picture:
            return self._shared_state[1]
        state = state_of_rows(lab.cluster, self._rows, picture.nodes, picture.rows, picture.accounts, picture.used)
        if lab.shares_pictures:
            self._shared_state = picture, state
        return state

    def _read_decisions(self) -> None:
        """Take over what a scheduler in its own process has decided."""
        lab = self._lab
        decided = lab.venue.decided(lab.under_test)
        if decided is None:
            return
        lab.log.cycle, lab.log.last = decided.cycle, decided.last
        # The file may hold evictions of an earlier lab; relative to this lab's opening their times are negative.
        shift = decided.opened - lab.spec.opened
        lab.log.evictions = [structs.replace(entry, t=entry.t + shift) for entry in decided.evictions]

    def _take(self, like: Picture | None) -> Picture:
        lab = self._lab
        return self._with_schedulers(Picture(lab.cluster, lab.log, self._present, lab.under_test, like, self._rows))

    def _with_schedulers(self, picture: Picture) -> Picture:
        """Set the names of the schedulers here. In a cluster that others use too, other schedulers are not known."""
        lab = self._lab
        if lab.venue.exclusive:
            default = (labels.DEFAULT_SCHEDULER_NAME,) if lab.under_test.has_default else ()
            own = lab.under_test.scheduler_names(lab.spec.adopt_default_scheduler)
            picture.schedulers = frozenset((*own, *default))
        return picture
