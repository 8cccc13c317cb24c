"""What is known of how a scheduler is doing, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class LastCycle:
    """``decided_at``: seconds since the epoch, on the cluster's clock; ``age``: seconds since then. ``took``: how long it took, None
    where nobody measures it. ``waiting``: groups that it left waiting."""

    number: int
    decided_at: float
    age: float
    bound: int
    evicted: int
    waiting: int
    took: float | None = None


@dataclass(frozen=True)
class Refusal:
    """A pod that waits because the cluster refused to carry out what was decided for it."""

    pod: str
    message: str


@dataclass(frozen=True)
class Served:
    """For which workload (and queue) so many pods were evicted, and by which action. Empty: for nobody (a stale gang)."""

    beneficiary: str
    queue: str
    action: str
    pods: int


@dataclass(frozen=True)
class Evictions:
    """Of the last ``seconds``."""

    seconds: float
    pods: int = 0
    served: tuple[Served, ...] = ()

    @property
    def per_minute(self) -> float:
        return 60 * self.pods / self.seconds if self.seconds else 0.0


@dataclass(frozen=True)
class Loop:
    """Two workloads that are evicted for each other in turn. ``turns``: how often it went to and fro; ``every``: seconds from one
    turn to the next; ``pods``: evicted in all."""

    one: str
    other: str
    turns: int
    every: float
    pods: int


@dataclass(frozen=True)
class Lag:
    """Binds of the last cycle that the cluster does not show after ``seconds``."""

    pods: tuple[str, ...]
    seconds: float


@dataclass(frozen=True)
class Health:
    """``unserved``: kind -> node pool -> how many objects of it belong to a pool that the scheduler does not serve. ``metrics``: what
    the process itself counts. ``problems``: why it is not healthy, as sentences. ``unknown``: what nobody tells here."""

    scheduler: str
    cycle: LastCycle | None = None
    refusals: tuple[Refusal, ...] = ()
    evictions: Evictions = Evictions(0)
    loops: tuple[Loop, ...] = ()
    unserved: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    lag: Lag | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def healthy(self) -> bool:
        return not self.problems

    def data(self) -> dict[str, Any]:
        """For programs."""
        told = asdict(self)
        told["evictions"]["per_minute"] = self.evictions.per_minute
        return {"healthy": self.healthy, **told}
