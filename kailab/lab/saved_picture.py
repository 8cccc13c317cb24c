"""The costly parts of a picture, kept in the lab's file beside the objects, so that showing a large lab does not compute them again.

They were computed by the same code at the moment of saving, and are under the same checksum as the objects.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from kailab.cluster.embedded.storage.state_file import PackedSection
from kailab.cluster.protocol import Cluster
from kailab.evidence.decision_log import DecisionLog
from kailab.evidence.entries import PendingReason, PodRow
from kailab.lab.picture import Picture
from kailab.scheduler.saved_state import SavedSchedulingState, SchedulingStateRecord

if TYPE_CHECKING:
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
