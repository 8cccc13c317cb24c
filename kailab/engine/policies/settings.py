"""What can be chosen: plain values, times in seconds. Each default is KAI's behaviour."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

DAY = 86_400.0
DEFAULT = "default"


class WeightedOrder(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs in the order of a weighted score instead of priority; see ``kailab.engine.policies.score``.

    ``full_wait``: waiting this long counts as 1. ``scope`` "queue": the score orders the jobs of each queue, queues
    keep KAI's order; "cluster": the best job of all queues is next.
    """

    priority: float = 0.4
    waiting: float = 0.3
    efficiency: float = 0.2
    fairness: float = 0.1
    full_wait: float = DAY
    scope: Literal["queue", "cluster"] = "queue"

    @property
    def holds(self) -> float | None:
        """Seconds for which scores may be told as they were: a thousandth of a wait that counts in full. None: time does not
        change them."""
        return self.full_wait / 1000 if self.waiting > 0 else None


class PolicyChoice(msgspec.Struct, frozen=True, kw_only=True):
    """A policy that another distribution brings, by the name of its entry point, with its parameters (JSON values).

    ``distribution``, ``version``: what brought it when the configuration was read; empty where it was registered in this
    process, or nobody has looked yet."""

    name: str
    parameters: Mapping[str, Any] = {}
    distribution: str = ""
    version: str = ""

    @property
    def brought_by(self) -> str:
        return f"{self.distribution} {self.version}".strip()

    @property
    def told(self) -> str:
        """For messages."""
        return f"{self.name!r} of {self.brought_by}" if self.distribution else repr(self.name)


class SearchBudget(msgspec.Struct, frozen=True, kw_only=True):
    """How many sets of victims a search may simulate; 0: no bound. Counted, not timed, so that runs are alike.

    ``per_action`` and ``per_generator``: by name, ``default`` for those not named. ``min_per_job``: what each job may
    use even where its action's budget is spent. Source: KAI's scenarioSearchBudgets, which count time.
    """

    per_job: int = 0
    min_per_job: int = 0
    per_action: Mapping[str, int] = {}
    per_generator: Mapping[str, int] = {}

    @property
    def bounded(self) -> bool:
        return bool(self.per_job or any(self.per_action.values()) or any(self.per_generator.values()))


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Victims that can save their state are asked to, and keep their GPUs meanwhile. ``grace``: the seconds that every
    victim is given; None: what its pod says (terminationGracePeriodSeconds). Carried out by the scheduler's loop: to
    the engine, a victim that is still saving is a leaving pod."""

    grace: float | None = None
