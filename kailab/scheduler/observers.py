"""Who is told of what happens, in a lab or in the scheduler's process: one list.

A new one is a class with the methods that it needs, in a module of its own, and a place in the list of whoever wants it.
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


class DecidingScheduler(Protocol):
    """What an observer may ask of kailab's scheduler (``kailab.scheduler.loop``)."""

    @property
    def mirror(self) -> Mirror: ...

    @property
    def past_usage(self) -> Mapping[str, Mapping[str, float]] | None: ...

    def follow_records(self) -> None:
        """Tell with each cycle what it was decided on, too."""

    def go_on_from(self, records: Snapshot, pending: Sequence[Pending]) -> None:
        """Go on where a scheduler before this one was, which decided last on these records and left this pending: what was told then is
        not told again."""


@dataclass(frozen=True)
class LabOpening:
    """Of a lab. ``facts``: tells what it is made of (``kailab.evidence.entries.LabFacts``), at a cost; ``opened``: seconds since the
    epoch; ``fleet``: its definition, where that is known."""

    cluster: Cluster
    opened: float
    facts: Callable[[], Any]
    fleet: Mapping[str, Any] | None = None


class Observer:
    """What can be seen. Nothing is done about any of it unless a method is overridden. ``wants_decisions``: the decisions of every
    cycle are to be given their names, for ``on_decisions``; otherwise only where something is evicted."""

    wants_decisions = False

    def on_opened(self, opening: LabOpening) -> None:
        """A lab is up."""

    def on_begin(self, scheduler: DecidingScheduler) -> None:
        """Kailab's scheduler is made, and has not decided anything yet: where it runs as a service, at each begin of a term."""

    def on_phase(self, name: str) -> None:
        """A phase of a cycle begins: the engine's, then ``carry out`` and ``status``."""

    def on_cycle(self, record: CycleRecord) -> None:
        """Kailab's scheduler has been through a cycle."""

    def on_reading(self, entries: Sequence[Any]) -> None:
        """Decisions of another scheduler were read off the cluster (``kailab.evidence.entries.Decision``)."""

    def on_decisions(self, entries: Sequence[Any], record: CycleRecord | None = None, number: int = 0) -> None:
        """The decisions of a cycle, with names, whoever took them (``kailab.evidence.entries.Decision``). ``record``: the cycle, where
        it was kailab's scheduler's, and its ``number`` in the decision log."""

    def on_step(self, operation: str, text: str = "", *, state: bool = False, **detail: Any) -> None:
        """Something was done to a lab (apply, delete, scale, settle, advance). ``state``: pods may stand differently now. ``detail``:
        fields of a step, as ``kailab.evidence.entries.RecordedStep`` has them, but ``manifests`` as (name, objects)."""

    def on_refusal(self, sources: Sequence[str | Object]) -> None:
        """Texts or objects were not taken by a lab."""

    def on_expectation(self, subject: str, expected: str, seen: str, held: bool) -> None:
        """An expectation was checked."""

    def on_closing(self, waiting: Callable[[], Sequence[Any]]) -> None:
        """A lab goes down. ``waiting``: the reasons of what waits still (``kailab.evidence.entries.PendingReason``)."""

    def on_turn(self) -> None:
        """A turn of the service is over: a chance to write down what has gathered."""

    def on_end(self) -> None:
        """What ``on_begin`` told of has ended."""


ObserverGuard = Callable[[Callable[[], None]], None]


def _unguarded(telling: Callable[[], None]) -> None:
    telling()


class Observers(Observer):
    """A list of them, told in its order. ``guard`` calls what tells one of them: it may keep its failure from the others."""

    def __init__(self, observers: Iterable[Observer] = (), guard: ObserverGuard = _unguarded) -> None:
        self._observers = list(observers)
        self._guard = guard

    def add(self, *observers: Observer) -> None:
        self._observers += observers

    def remove(self, observer: Observer) -> None:
        """It is told nothing any more."""
        self._observers.remove(observer)

    @property
    def wants_decisions(self) -> bool:  # type: ignore[override]
        return any(one.wants_decisions for one in self._observers)

    def on_opened(self, opening: LabOpening) -> None:
        self._tell(lambda one: one.on_opened(opening))

    def on_begin(self, scheduler: DecidingScheduler) -> None:
        self._tell(lambda one: one.on_begin(scheduler))

    def on_phase(self, name: str) -> None:
        self._tell(lambda one: one.on_phase(name))

    def on_cycle(self, record: CycleRecord) -> None:
        self._tell(lambda one: one.on_cycle(record))

    def on_reading(self, entries: Sequence[Any]) -> None:
        self._tell(lambda one: one.on_reading(entries))

    def on_decisions(self, entries: Sequence[Any], record: CycleRecord | None = None, number: int = 0) -> None:
        self._tell(lambda one: one.on_decisions(entries, record, number))

    def on_step(self, operation: str, text: str = "", *, state: bool = False, **detail: Any) -> None:
        self._tell(lambda one: one.on_step(operation, text, state=state, **detail))

    def on_refusal(self, sources: Sequence[str | Object]) -> None:
        self._tell(lambda one: one.on_refusal(sources))

    def on_expectation(self, subject: str, expected: str, seen: str, held: bool) -> None:
        self._tell(lambda one: one.on_expectation(subject, expected, seen, held))

    def on_closing(self, waiting: Callable[[], Sequence[Any]]) -> None:
        self._tell(lambda one: one.on_closing(waiting))

    def on_turn(self) -> None:
        self._tell(lambda one: one.on_turn())

    def on_end(self) -> None:
        self._tell(lambda one: one.on_end())

    def _tell(self, tell: Callable[[Observer], None]) -> None:
        for observer in self._observers:
            self._guard(partial(tell, observer))
