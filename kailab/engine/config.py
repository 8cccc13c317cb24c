"""The configuration of the engine. The default of every field is KAI's behaviour."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from kailab.engine.decisions import Action
from kailab.engine.policies.settings import Checkpoint, PolicyChoice, SearchBudget, WeightedOrder

ACTIONS: tuple[Action, ...] = ("allocate", "consolidation", "reclaim", "preempt", "stalegangeviction")
"""All actions, in the order in which KAI runs them."""


class EngineConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a cycle. Times are in seconds.

    ``k_value`` and ``usage`` drive time-based fairness; ``usage`` maps queue name -> resource ("gpu", "cpu", "memory")
    -> the queue's normalised, decayed past share of the cluster (0..1). ``promised``: jobs for which the previous cycle
    made room, and those that consolidation moved (``Decisions.heirs``). Those that can start now do so before their
    queue's turn; KAI does not remember them. ``refused``: tasks whose last binding was refused. Nothing is evicted for a job that would start with one of
    them.

    ``plugins``: KAI's plugins that are on, in order; None: KAI's default list. ``queue_depth``: per action, how many
    jobs of each queue are tried.

    The fields from ``weighted_order`` on are policies that KAI does not have (docs/policies.md). ``aged_after``: a job
    that has waited this long goes first. ``max_evictions_by_priority``: pairs of (victim's priority, evictions a
    cycle). ``max_taken_ratio``: the most that victims may lose, as a multiple of what the beneficiary asks for.
    ``job_order_policy``, ``node_score_policy``, ``victim_order_policy``, ``queue_shares_policy``: user policies that
    replace the built-in ones (docs/extending.md). ``reservation_policy``: the policy that decides for which jobs nodes
    are kept free.
    """

    actions: tuple[Action, ...] = ACTIONS
    gpu_placement: Literal["binpack", "spread"] = "binpack"
    cpu_placement: Literal["binpack", "spread"] = "binpack"
    # the order of shared devices: fullest first, emptiest first, or neither
    gpu_sharing: Literal["binpack", "spread", "any"] = "binpack"
    # a share, or a task without a whole GPU, prefers a node where it fits beside shares in use (KAI's gpusharingorder)
    prefer_shared_devices: bool = True
    max_consolidation_victims: int = 16  # -1: unlimited
    allow_consolidating_reclaim: bool = True
    use_signatures: bool = True  # skip a job that is no easier to place than one that just failed
    staleness_grace: float = 60.0  # KAI's --default-staleness-grace-period
    reclaim_min_runtime: float = 0.0
    preempt_min_runtime: float = 0.0
    reclaim_resolve: Literal["lca", "queue"] = "lca"  # the queue whose reclaimMinRuntime protects a victim
    saturation_multiplier: float = 1.0
    k_value: float = 0.0
    usage: Mapping[str, Mapping[str, float]] = {}
    promised: tuple[str, ...] = ()  # PodGroup uids
    refused: frozenset[str] = frozenset()  # task uids
    # Imitate KAI even where it breaks its own rules: in all faults of ``kailab.engine.faults``, or in those with these
    # numbers (docs/conformance.md). Slower, because no simulation is left out.
    imitate_faults: bool | tuple[int, ...] = False
    tell_turns: bool = False  # fill in ``Pending.turn``; decisions are the same
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
