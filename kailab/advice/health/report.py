"""The records of a scheduler's health."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class LastCycle:
    """``decided_at``: seconds since the epoch, on the cluster's clock; ``age``: seconds since then. ``took``: its duration in seconds, None
    if it is not measured. ``waiting``: groups that stay pending."""

    number: int
    decided_at: float
    age: float
    bound: int
    evicted: int
    waiting: int
    took: float | None = None


@dataclass(frozen=True)
class Refusal:
    """A pod that is pending because the cluster refused its bind."""

    pod: str
    message: str


@dataclass(frozen=True)
class Served:
    """The number of pods that were evicted for a workload (and queue) by an action. Empty: for nobody (a stale gang)."""

    beneficiary: str
    queue: str
    action: str
    pods: int


@dataclass(frozen=True)
class Evictions:
    """Evictions of the last ``seconds``."""

    seconds: float
    pods: int = 0
    served: tuple[Served, ...] = ()

    @property
    def per_minute(self) -> float:
        return 60 * self.pods / self.seconds if self.seconds else 0.0


@dataclass(frozen=True)
class Loop:
    """Two workloads that are evicted for each other in turn. ``turns``: number of alternating evictions; ``every``: seconds between two of
    them; ``pods``: evicted in all."""

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
    """``unserved``: kind -> node pool -> number of objects in pools that the scheduler does not serve. ``metrics``: of the process.
    ``problems``: why it is not healthy, as sentences. ``unknown``: facts that are unknown here."""

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
        data = asdict(self)
        data["evictions"]["per_minute"] = self.evictions.per_minute
        return {"healthy": self.healthy, **data}
