"""Observers of a lab or of the scheduler's process.

A new observer is a subclass of ``Observer`` with the methods that it needs; a lab or service adds it to its ``Observers``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from kailab.cluster.protocol import Cluster, Object

if TYPE_CHECKING:
    from kailab.engine.decisions import Pending
    from kailab.engine.snapshot.snapshot import Snapshot
    from kailab.scheduler.cycle_record import CycleRecord
    from kailab.scheduler.mirror import Mirror
    from kailab.scheduler.status.reporting import GroupReason


class DecidingScheduler(Protocol):
    """The part of kailab's scheduler (``kailab.scheduler.loop``) that observers may use."""

    @property
    def mirror(self) -> Mirror: ...

    @property
    def past_usage(self) -> Mapping[str, Mapping[str, float]] | None: ...

    def follow_records(self) -> None:
        """Add to each cycle's record the changes of the engine's records."""

    def reasons_when_asked(self) -> None:
        """Decide without reasons for pending work, and write no status of queues and PodGroups, for labs whose state nobody reads."""

    def reasons(self) -> Mapping[str, GroupReason]:
        """Why work waits now, by PodGroup (UID)."""

    def go_on_from(self, records: Snapshot, pending: Sequence[Pending]) -> None:
        """Continue after an earlier scheduler that last decided on ``records`` and left ``pending``: its reports are not repeated."""


@dataclass(frozen=True)
class LabOpening:
    """``facts`` computes the lab's ``kailab.evidence.entries.LabFacts``, which is expensive. ``opened``: seconds since the epoch.
    ``fleet``: its definition, if known."""

    cluster: Cluster
    opened: float
    facts: Callable[[], Any]
    fleet: Mapping[str, Any] | None = None


class Observer:
    """The events of a lab or scheduler process. Every method does nothing by default. ``wants_decisions``: call ``on_decisions`` for every
    cycle; otherwise only for cycles with evictions."""

    wants_decisions = False

    def on_opened(self, opening: LabOpening) -> None:
        """A lab has opened."""

    def on_begin(self, scheduler: DecidingScheduler) -> None:
        """Kailab's scheduler exists and has decided nothing yet. In a service: at the start of each term as leader."""

    def on_phase(self, name: str) -> None:
        """A phase of a cycle begins: the engine's, then ``carry out`` and ``status``."""

    def on_cycle(self, record: CycleRecord) -> None:
        """Kailab's scheduler has finished a cycle."""

    def on_reading(self, entries: Sequence[Any]) -> None:
        """Decisions of another scheduler were read from the cluster (``kailab.evidence.entries.Decision``)."""

    def on_decisions(self, entries: Sequence[Any], record: CycleRecord | None = None, number: int = 0) -> None:
        """The decisions of a cycle of any scheduler, with names (``kailab.evidence.entries.Decision``). ``record``: the cycle, if it was
        kailab's. ``number``: its number in the decision log."""

    def on_step(self, operation: str, text: str = "", *, state: bool = False, **detail: Any) -> None:
        """A lab was changed (apply, delete, scale, patch, settle, advance). ``state``: the state of pods may have changed. ``detail``: fields of
        ``kailab.evidence.entries.RecordedStep``, but ``manifests`` as (name, objects)."""

    def on_refusal(self, sources: Sequence[str | Object]) -> None:
        """A lab refused texts or objects."""

    def on_expectation(self, subject: str, expected: str, seen: str, held: bool) -> None:
        """An expectation was checked."""

    def on_closing(self, waiting: Callable[[], Sequence[Any]]) -> None:
        """A lab closes. ``waiting`` returns why work is still pending (``kailab.evidence.entries.PendingReason``)."""

    def on_turn(self) -> None:
        """A turn of the service has ended. Observers may write what they have buffered."""

    def on_end(self) -> None:
        """The scheduler of ``on_begin`` has ended."""


ObserverGuard = Callable[[Callable[[], None]], None]


# A function instead of a lambda, because the checkpoint of a replay pickles its lab.
def _unguarded(call: Callable[[], None]) -> None:
    call()


class Observers(Observer):
    """Passes each event to a list of observers, in order. ``guard`` makes each call; it may catch the error of one observer so that the
    others still hear of the event."""

    def __init__(self, observers: Iterable[Observer] = (), guard: ObserverGuard = _unguarded) -> None:
        self._observers = list(observers)
        self._hearing: dict[str, list[Observer]] = {}  # who hears of an event, by its method
        self._guard = guard

    def add(self, *observers: Observer) -> None:
        self._observers += observers
        self._hearing.clear()

    def remove(self, observer: Observer) -> None:
        self._observers.remove(observer)
        self._hearing.clear()

    @property
    def wants_decisions(self) -> bool:  # type: ignore[override]
        return any(observer.wants_decisions for observer in self._observers)


def _pass_on(event: str) -> Callable[..., None]:
    does_nothing = getattr(Observer, event)

    def notify(self: Observers, *arguments: Any, **named: Any) -> None:
        hearing = self._hearing.get(event)
        if hearing is None:
            # Most observers hear of few events, and a cycle has many.
            hearing = self._hearing[event] = [
                observer
                for observer in self._observers
                if getattr(getattr(observer, event), "__func__", None) is not does_nothing
            ]
        for observer in hearing:
            self._guard(partial(getattr(observer, event), *arguments, **named))

    return notify


# An event that is added to ``Observer`` is passed on without a further line.
for _event in [name for name in vars(Observer) if name.startswith("on_")]:
    setattr(Observers, _event, _pass_on(_event))
