"""Values of the configuration. Times are in seconds; each default is KAI's behaviour."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

DAY = 86_400.0
DEFAULT = "default"


class WeightedOrder(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs in the order of a weighted score instead of priority; see ``kailab.engine.policies.weighted_score``.

    ``full_wait``: the wait that counts as 1. ``scope`` "queue": the score orders the jobs of each queue, and queues
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
        """Seconds for which scores stay valid: a thousandth of ``full_wait``. None: time does not change them."""
        return self.full_wait / 1000 if self.waiting > 0 else None


class PolicyChoice(msgspec.Struct, frozen=True, kw_only=True):
    """A policy of another distribution by its entry point's name, with its parameters (JSON values).

    ``distribution``, ``version``: where it came from when the configuration was read; empty if it was registered in
    this process, or is not resolved yet.
    """

    name: str
    parameters: Mapping[str, Any] = {}
    distribution: str = ""
    version: str = ""

    @property
    def brought_by(self) -> str:
        return f"{self.distribution} {self.version}".strip()

    @property
    def title(self) -> str:
        """The policy's name and origin for messages."""
        return f"{self.name!r} of {self.brought_by}" if self.distribution else repr(self.name)


class SearchBudget(msgspec.Struct, frozen=True, kw_only=True):
    """How many sets of victims a search may simulate; 0: unlimited. Counted, not timed, so that runs are repeatable.

    ``per_action`` and ``per_generator``: by name, ``default`` for the others. ``min_per_job``: what each job may use
    even if its action's budget is spent. Source: KAI's scenarioSearchBudgets, which are times.
    """

    per_job: int = 0
    min_per_job: int = 0
    per_action: Mapping[str, int] = {}
    per_generator: Mapping[str, int] = {}

    @property
    def bounded(self) -> bool:
        return bool(self.per_job or any(self.per_action.values()) or any(self.per_generator.values()))


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Victims that can save their state are asked to do so and keep their GPUs meanwhile. ``grace``: seconds given to
    every victim; None: its pod's terminationGracePeriodSeconds. The scheduler's loop carries this out; to the engine, a
    victim that is saving is a leaving pod.
    """

    grace: float | None = None
