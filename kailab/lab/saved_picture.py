"""How a lab looked when it was saved, kept beside its objects: a look at a large lab does not reckon anew what was known when it
came to rest.

What is kept is what the same code told at that moment, in the same file as the objects and under the same checksum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from kailab.cluster.embedded.storage.persistence import Packed
from kailab.cluster.protocol import Cluster
from kailab.evidence.decision_log import DecisionLog
from kailab.evidence.entries import PendingReason, PodRow
from kailab.lab.picture import Picture
from kailab.scheduler.saved_present import PresentRecord, SavedPresent

if TYPE_CHECKING:
    from kailab.scheduler.present import Present
    from kailab.undertest.contract import SchedulerUnderTest

SavedParts = Mapping[str, Packed]
"""Part of a picture -> what it held."""


def parts_to_save(picture: Picture) -> dict[str, Any]:
    """The parts of a picture worth keeping, as plain values."""
    pending = msgspec.to_builtins(picture.pending)
    parts: dict[str, Any] = {"rows": msgspec.to_builtins(picture.rows), "used": picture.used, "pending": pending}
    # One that was read is in the file already, which a command that only looks does not write.
    if not isinstance(picture.present, SavedPresent):
        parts["present"] = msgspec.to_builtins(picture.present.keep())
    return parts


class SavedPicture(Picture):
    """A picture whose costly parts are read instead of made. ``present`` makes the present anew, for what was not kept."""

    def __init__(
        self,
        parts: SavedParts,
        cluster: Cluster,
        log: DecisionLog,
        present: Callable[[tuple[str, ...]], Present],
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
    def present(self) -> Present | SavedPresent:
        if "present" not in self._saved_parts:
            return self.reckoned()
        return SavedPresent(self._saved_parts["present"].unpack_as(PresentRecord), self.reckoned)
