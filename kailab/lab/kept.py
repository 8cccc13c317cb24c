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
from kailab.evidence.entries import PodRow, Reason
from kailab.lab.picture import Picture
from kailab.scheduler.saved_present import PresentRecord, SavedPresent

if TYPE_CHECKING:
    from kailab.scheduler.present import Present

Looks = Mapping[str, Packed]
"""Part of a picture -> what it held."""


def looks_of(picture: Picture) -> dict[str, Any]:
    """The parts of a picture worth keeping, as plain values."""
    pending = msgspec.to_builtins(picture.pending)
    looks: dict[str, Any] = {"rows": msgspec.to_builtins(picture.rows), "used": picture.used, "pending": pending}
    if not isinstance(picture.present, SavedPresent):
        looks["present"] = msgspec.to_builtins(picture.present.keep())
    return looks


class KeptPicture(Picture):
    """A picture whose costly parts are read instead of made. ``present`` makes the present anew, for what was not kept."""

    def __init__(
        self,
        looks: Looks,
        cluster: Cluster,
        log: DecisionLog,
        present: Callable[[tuple[str, ...]], Present],
        scheduler: str,
    ) -> None:
        super().__init__(cluster, log, present, scheduler)
        self._looks = looks

    @cached_property
    def rows(self) -> list[PodRow]:
        return self._looks["rows"].unpack_as(list[PodRow])

    @cached_property
    def used(self) -> dict[str, int]:
        return self._looks["used"].unpack_as(dict[str, int])

    @cached_property
    def pending(self) -> dict[str, Reason]:
        return self._looks["pending"].unpack_as(dict[str, Reason])

    @cached_property
    def present(self) -> Present | SavedPresent:
        if "present" not in self._looks:
            return self.reckoned()
        return SavedPresent(self._looks["present"].unpack_as(PresentRecord), self.reckoned)
