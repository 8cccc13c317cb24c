"""How things stood when a lab was saved, asked without the engine: a command that looks at a lab loads neither it nor numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import msgspec

from kailab.engine.decisions import QueueState, ServingPosition
from kailab.engine.queueing.division import Division
from kailab.engine.queueing.order_records import Earlier, Return


class FreeGpus(NamedTuple):
    """Milli-GPU that nobody holds on a node, and of the whole node."""

    free: int
    size: int


class SchedulingStateRecord(msgspec.Struct, kw_only=True):
    """All that was to be asked about one moment, as plain values. ``names``: of PodGroups in ``order``, by UID. ``before``
    and ``returns``: by queue; these and ``divisions`` are None where they are not kept."""

    queues: tuple[QueueState, ...]
    room: dict[str, FreeGpus]
    order: tuple[ServingPosition, ...]
    names: dict[str, str]
    before: dict[str, tuple[Earlier, ...]] | None
    divisions: tuple[Division, ...] | None = None
    returns: dict[str, tuple[Return, ...]] | None = None


class ComputedSchedulingState(Protocol):
    """A present that is made from the objects, as far as it is asked here."""

    def queues_before(self, name: str) -> tuple[Earlier, ...]: ...

    @property
    def divisions(self) -> tuple[Division, ...]: ...

    def returns(self, *names: str) -> dict[str, tuple[Return, ...]]: ...

    def podgroup(self, uid: str) -> str: ...


class SavedSchedulingState:
    """A moment that was saved, asked as ``SchedulingState`` is. ``again`` makes it anew, for what was not saved."""

    def __init__(self, record: SchedulingStateRecord, again: Callable[[], ComputedSchedulingState]) -> None:
        self.queues = record.queues
        self.room = record.room
        self.order = record.order
        self._record = record
        self._again = again

    def queues_before(self, name: str) -> tuple[Earlier, ...]:
        """See ``SchedulingState``."""
        before = self._record.before
        return before.get(name, ()) if before is not None else self._again().queues_before(name)

    @property
    def divisions(self) -> tuple[Division, ...]:
        """See ``SchedulingState``."""
        kept = self._record.divisions
        return kept if kept is not None else self._again().divisions

    def returns(self, *names: str) -> dict[str, tuple[Return, ...]]:
        """See ``SchedulingState``."""
        kept = self._record.returns
        return {name: kept.get(name, ()) for name in names} if kept is not None else self._again().returns(*names)

    def podgroup(self, uid: str) -> str:
        """See ``SchedulingState``."""
        return self._record.names.get(uid) or self._again().podgroup(uid)
