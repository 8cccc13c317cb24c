"""How a lab looked when it was saved, kept beside its objects: a look at a large lab does not reckon anew what was known when it
came to rest.

What is kept is what the same code told at that moment, in the same file as the objects and under the same checksum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import msgspec

from kailab.cluster.embedded.persistence import Packed
from kailab.cluster.protocol import Cluster
from kailab.errors import StateError
from kailab.evidence.decision_log import DecisionLog
from kailab.lab.picture import Picture, Row
from kailab.model import typed
from kailab.scheduler.present import Kept, KeptPresent, Present

Looks = Mapping[str, Packed]
"""Part of a picture -> what it held."""


def looks_of(picture: Picture) -> dict[str, Any]:
    """The parts of a picture worth keeping, as plain values."""
    looks: dict[str, Any] = {"rows": picture.rows, "used": picture.used, "pending": picture.pending}
    if isinstance(picture.present, Present):
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
    def rows(self) -> list[Row]:
        rows: list[Row] = self._looks["rows"].unpack()
        return rows

    @cached_property
    def used(self) -> dict[str, int]:
        used: dict[str, int] = self._looks["used"].unpack()
        return used

    @cached_property
    def pending(self) -> dict[str, dict[str, Any]]:
        pending: dict[str, dict[str, Any]] = self._looks["pending"].unpack()
        return pending

    @cached_property
    def present(self) -> Present | KeptPresent:
        if "present" not in self._looks:
            return self.reckoned()
        try:
            return KeptPresent(typed.convert(self._looks["present"].unpack(), Kept), self.reckoned)
        except msgspec.ValidationError as error:
            raise StateError(f"the state of the lab is damaged: {error}") from None
