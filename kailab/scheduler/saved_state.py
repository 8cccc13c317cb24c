"""The scheduling state of a saved lab. Commands that show a lab read it without loading the engine or numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from kailab.engine.decisions import LabelDemand, QueueState, ServingPosition
from kailab.engine.queueing.division import Division
from kailab.engine.queueing.order_records import EarlierQueue, ReclaimOption


class SchedulingStateRecord(msgspec.Struct, kw_only=True):
    """A ``SchedulingState`` as plain values. ``names``: of the PodGroups in ``order`` and
    ``model_demands``, by UID. ``before`` and ``returns``: by queue. These
    two, ``divisions`` and ``model_demands`` are None if they were not saved."""

    queues: tuple[QueueState, ...]
    order: tuple[ServingPosition, ...]
    names: dict[str, str]
    before: dict[str, tuple[EarlierQueue, ...]] | None
    divisions: tuple[Division, ...] | None = None
    returns: dict[str, tuple[ReclaimOption, ...]] | None = None
    model_demands: tuple[LabelDemand, ...] | None = None


class ComputedSchedulingState(Protocol):
    """The part of ``SchedulingState`` that a saved state may have to compute."""

    def queues_before(self, name: str) -> tuple[EarlierQueue, ...]: ...

    @property
    def divisions(self) -> tuple[Division, ...]: ...

    @property
    def model_demands(self) -> tuple[LabelDemand, ...]: ...

    def returns(self, *names: str) -> dict[str, tuple[ReclaimOption, ...]]: ...

    def podgroup(self, uid: str) -> str: ...


class SavedSchedulingState:
    """A saved state with the interface of ``SchedulingState``. ``compute`` makes the state from the objects, for what was not saved."""

    def __init__(self, record: SchedulingStateRecord, compute: Callable[[], ComputedSchedulingState]) -> None:
        self.queues = record.queues
        self.order = record.order
        self._record = record
        self._compute = compute

    def queues_before(self, name: str) -> tuple[EarlierQueue, ...]:
        """See ``SchedulingState``."""
        before = self._record.before
        return before.get(name, ()) if before is not None else self._compute().queues_before(name)

    @property
    def divisions(self) -> tuple[Division, ...]:
        """See ``SchedulingState``."""
        saved = self._record.divisions
        return saved if saved is not None else self._compute().divisions

    @property
    def model_demands(self) -> tuple[LabelDemand, ...]:
        """See ``SchedulingState``."""
        saved = self._record.model_demands
        return saved if saved is not None else self._compute().model_demands

    def returns(self, *names: str) -> dict[str, tuple[ReclaimOption, ...]]:
        """See ``SchedulingState``."""
        saved = self._record.returns
        return {name: saved.get(name, ()) for name in names} if saved is not None else self._compute().returns(*names)

    def podgroup(self, uid: str) -> str:
        """See ``SchedulingState``."""
        return self._record.names.get(uid) or self._compute().podgroup(uid)
