"""Pictures of a lab: taken from its cluster, or read from the file that it was resumed from."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import structs

from kailab.cluster.protocol import Versioned
from kailab.evidence.cluster_state import RowCache, read_cluster_state, state_of_rows
from kailab.evidence.entries import ClusterState
from kailab.lab.picture import Picture
from kailab.lab.saved_picture import SavedParts, SavedPicture
from kailab.model import labels

if TYPE_CHECKING:
    from kailab.lab.open_lab import OpenLab
    from kailab.scheduler.scheduling_state import SchedulingState


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
        shift = decided.opened - lab.opened
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
