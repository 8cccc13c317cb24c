"""How the engine is to decide. KAI's behaviour is the default of every field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from kailab.engine.decisions import Action
from kailab.engine.policies.settings import Checkpoint, PolicyChoice, SearchBudget, WeightedOrder

ACTIONS: tuple[Action, ...] = ("allocate", "consolidation", "reclaim", "preempt", "stalegangeviction")
"""All actions, in the order in which KAI runs them."""


class EngineConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Times in seconds. ``k_value`` and ``usage`` drive time-based fairness: usage is each queue's normalised, decayed
    past share of the cluster (0..1), by queue name, per resource ("gpu", "cpu", "memory"). ``promised``: jobs that the cycle
    before made room for (``Decisions.heirs``); those that can start now do so ahead of their queue's turn. KAI forgets them.
    ``refused``: tasks whose last binding was refused; nobody is evicted for a job that would start with one of them.

    ``plugins``: which of KAI's plugins are on, in the order listed; None: KAI's own list. ``queue_depth``: per action, how
    many jobs of each queue are tried. The fields from ``weighted_order`` on are policies that KAI does not have
    (docs/policies.md); ``aged_after``: a job that has waited this long goes first; ``max_evictions_by_priority``: pairs
    of (victim's priority, evictions a cycle); ``max_taken_ratio``: what victims give / what their beneficiary asks for, at
    most. ``job_order_policy``, ``node_score_policy``, ``victim_order_policy``: policies written by others
    (docs/extending.md), which come in the place of the built-in ones; ``reservation_policy``: for whom a place is kept free;
    ``queue_shares_policy``: how what quotas leave is divided."""

    actions: tuple[Action, ...] = ACTIONS
    gpu_placement: Literal["binpack", "spread"] = "binpack"
    cpu_placement: Literal["binpack", "spread"] = "binpack"
    gpu_sharing: Literal["binpack", "spread", "any"] = "binpack"  # which shared device first: the fuller or the emptier
    prefer_shared_devices: bool = True  # a share goes to a node where it fits on a device in use (gpusharingorder)
    max_consolidation_victims: int = 16  # -1: unlimited
    allow_consolidating_reclaim: bool = True
    use_signatures: bool = True  # skip a job no easier to place than one that just failed
    staleness_grace: float = 60.0  # KAI's --default-staleness-grace-period
    reclaim_min_runtime: float = 0.0
    preempt_min_runtime: float = 0.0
    reclaim_resolve: Literal["lca", "queue"] = "lca"  # where a victim's reclaimMinRuntime is looked up
    saturation_multiplier: float = 1.0
    k_value: float = 0.0
    usage: Mapping[str, Mapping[str, float]] = {}
    promised: tuple[str, ...] = ()  # PodGroup uids
    refused: frozenset[str] = frozenset()  # task uids
    # Decide as KAI does even where that breaks its own rules: a victim recorded by a smaller try counts twice (a queue may
    # then pass its limit), and surplus pods too few to run on may be left behind by the core of their gang.
    imitate_faults: bool = False
    tell_turns: bool = (
        False  # say of each group that stays pending when its turn is (Pending.turn); decisions are the same
    )
    predicates: bool = True
    plugins: tuple[str, ...] | None = None
    queue_depth: Mapping[str, int] = {}
    search_budget: SearchBudget = SearchBudget()
    weighted_order: WeightedOrder | None = None
    aged_after: float | None = None
    victim_order: Literal["queue", "priority"] = "queue"
    max_evictions_per_cycle: int | None = None
    max_evictions_by_priority: tuple[tuple[int, int], ...] = ()
    max_taken_ratio: float | None = None
    checkpoint: Checkpoint | None = None
    job_order_policy: PolicyChoice | None = None
    node_score_policy: PolicyChoice | None = None
    victim_order_policy: PolicyChoice | None = None
    reservation_policy: PolicyChoice | None = None
    queue_shares_policy: PolicyChoice | None = None
