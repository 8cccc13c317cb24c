"""How a lab stands at one moment, and what has happened to it so far, as far as metrics tell it: one value, whatever it was made from."""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kailab.evidence.entries import Evicted
from kailab.evidence.shares import Shares


class Group(NamedTuple):
    """A PodGroup. ``name``: ``namespace/name``; ``priority``: its priority class; ``least``: pods that start together."""

    name: str
    queue: str = ""
    priority: str = ""
    least: int = 1

    @property
    def gang(self) -> bool:
        return self.least > 1


class Waiting(NamedTuple):
    """A PodGroup of which pods wait. ``reason``: the code; ``since``: seconds since the lab opened."""

    group: Group
    reason: str
    since: float
    pods: int
    milli_gpus: int = 0


class Fleet(NamedTuple):
    """GPUs in milli-GPU: of all nodes, in use, and the most that are free on one node."""

    gpus: int
    used: int
    largest_free: int


@dataclass
class Tally:
    """What has happened since the lab opened. A count that nobody kept is None.

    ``evictions``: pods by (action, queue, whose work took the place, priority class of the victim); ``evicted``: pods of each
    PodGroup that is still there, by action. ``waits``: each time that a PodGroup started of which nothing ran, by priority class, how long it had waited, in seconds. ``gangs_started``: by priority
    class. ``completions``: of each gang whose pods have all ended, by queue, seconds from its creation."""

    binds: int | None = None
    promises: int | None = None
    left_waiting: int | None = None
    refused: int | None = None
    evictions: Counter[tuple[str, str, str, str]] = field(default_factory=Counter)
    evicted: dict[str, Counter[str]] = field(default_factory=dict)
    waits: dict[str, list[float]] = field(default_factory=dict)
    gangs_started: Counter[str] = field(default_factory=Counter)
    completions: dict[str, list[float]] = field(default_factory=dict)

    @classmethod
    def begun(cls) -> Tally:
        """From the opening on: all is counted."""
        return cls(binds=0, promises=0, left_waiting=0, refused=0)

    def evict(self, entry: Evicted, priority: str) -> None:
        """``priority``: the class of the PodGroup that lost the pod."""
        self.evictions[entry.action, entry.queue, entry.beneficiary_queue, priority] += 1
        self.evicted.setdefault(entry.podgroup, Counter())[entry.action] += 1

    def start(self, priority: str, waited: float) -> None:
        # In order, so that percentiles cost next to nothing at each of many looks.
        insort(self.waits.setdefault(priority, []), waited)


@dataclass(frozen=True)
class Look:
    """``t``: seconds since the lab opened. ``shares``: by resource (``gpu``, ``cpu``, ``memory``), as far as known. ``display``: display
    names of queues that have one. ``pods``: by (queue, phase). ``fleet``: None before the first node was seen."""

    t: float
    shares: Mapping[str, Shares]
    display: Mapping[str, str]
    waiting: tuple[Waiting, ...]
    pods: Mapping[tuple[str, str], int]
    fleet: Fleet | None
    tally: Tally
