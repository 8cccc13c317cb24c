"""The ``kailab:`` section of a scheduler configuration: policies that KAI does not have, and what KAI takes as flags.

    kailab:
      jobOrder:                        # a weighted score instead of priority
        weights: {priority: 0.4, waiting: 0.3, efficiency: 0.2, fairness: 0.1}
        fullWait: 24h                  # waiting this long counts in full
        scope: queue                   # or cluster: over all queues
      agedAfter: 24h                   # who has waited this long goes first
      victimOrder: priority            # lowest priority, then newest, over all queues
      maxEvictionsPerCycle: 3
      maxEvictionsPerCycleByPriority: {50: 3, 75: 1}
      maxTakenRatio: 2                 # victims give at most twice what is asked for
      reservation: backfill            # a place is kept free for the first that finds none
      checkpoint: {gracePeriod: 2m}    # victims save their state first
      searchBudget: {maxScenariosPerJob: 200}
      maxConsolidationVictims: 16      # -1: no bound
      allowConsolidatingReclaim: true
      useSchedulingSignatures: true
      stalenessGracePeriod: 60s

``jobOrder``, ``victimOrder``, ``nodeScore`` and ``reservation`` also take the name of a policy that another distribution brings, or
``{policy: NAME, parameters: {...}}`` (docs/extending.md).

All of it is optional. A ``jobOrder``, ``checkpoint`` or ``agedAfter`` that is there without values has the values above.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kailab.engine.policies.settings import DAY, Checkpoint, PolicyChoice, WeightedOrder
from kailab.errors import InputError
from kailab.scheduler.settings.config_values import Reader
from kailab.scheduler.settings.policy_files import seen_from
from kailab.scheduler.settings.search_budgets import read_counts

WEIGHTS = ("priority", "waiting", "efficiency", "fairness")
KEYS = (
    "jobOrder", "nodeScore", "agedAfter", "victimOrder", "maxEvictionsPerCycle", "maxEvictionsPerCycleByPriority", "maxTakenRatio",
    "reservation", "queueShares", "checkpoint", "searchBudget", "maxConsolidationVictims", "allowConsolidatingReclaim", "useSchedulingSignatures",
    "stalenessGracePeriod",
)  # fmt: skip

POLICY_KEYS = {
    "job_order_policy": "jobOrder",
    "node_score_policy": "nodeScore",
    "victim_order_policy": "victimOrder",
    "reservation_policy": "reservation",
    "queue_shares_policy": "queueShares",
}
"""Fields of EngineConfig that hold a policy of another distribution -> their keys."""


def read_policies(block: Reader) -> dict[str, Any]:
    """Fields of EngineConfig. Raises InputError."""
    block.only(KEYS)
    values: dict[str, Any] = {}
    if (choice := _choice(block, "jobOrder")) is not None:
        values["job_order_policy"] = choice
    elif "jobOrder" in block.values:
        values["weighted_order"] = _job_order(block.inside("jobOrder"))
    for field in ("node_score_policy", "reservation_policy", "queue_shares_policy"):
        key = POLICY_KEYS[field]
        if key in block:
            values[field] = _choice(block, key)
            if values[field] is None:
                raise InputError("names no policy; expected a name, or policy and parameters", block.where(key))
    # Also without a value: then the default, see above.
    if "agedAfter" in block.values:
        values["aged_after"] = block.seconds("agedAfter") if "agedAfter" in block else DAY
    if block["victimOrder"] in ("queue", "priority"):
        values["victim_order"] = block["victimOrder"]
    elif "victimOrder" in block:
        values["victim_order_policy"] = _choice(block, "victimOrder")
        if values["victim_order_policy"] is None:
            # It is neither a policy nor one of these: this raises.
            block.one_of("victimOrder", ("queue", "priority"), "order of victims")
    if "maxEvictionsPerCycle" in block:
        values["max_evictions_per_cycle"] = block.count("maxEvictionsPerCycle")
    if "maxEvictionsPerCycleByPriority" in block:
        values["max_evictions_by_priority"] = _by_priority(block.inside("maxEvictionsPerCycleByPriority"))
    if "maxTakenRatio" in block:
        values["max_taken_ratio"] = block.number("maxTakenRatio")
        if values["max_taken_ratio"] <= 0:
            raise InputError(
                f"{values['max_taken_ratio']:g} lets nobody be evicted; expected a number above 0, such as 2",
                block.where("maxTakenRatio"),
            )
    if "checkpoint" in block.values:
        inside = block.inside("checkpoint")
        inside.only(("gracePeriod",))
        values["checkpoint"] = Checkpoint(grace=inside.seconds("gracePeriod") if "gracePeriod" in inside else None)
    if "searchBudget" in block:
        values["search_budget"] = read_counts(block.inside("searchBudget"))
    if "maxConsolidationVictims" in block:
        values["max_consolidation_victims"] = block.count("maxConsolidationVictims", -1)
    for field, key in (
        ("allow_consolidating_reclaim", "allowConsolidatingReclaim"),
        ("use_signatures", "useSchedulingSignatures"),
    ):
        if key in block:
            values[field] = block.flag(key)
    if "stalenessGracePeriod" in block:
        values["staleness_grace"] = block.seconds("stalenessGracePeriod")
    return values


def _choice(block: Reader, key: str) -> PolicyChoice | None:
    """A policy by its name; None where none is named. Files are seen from that of the configuration."""
    value = block[key]
    folder = Path(block.file).parent
    if isinstance(value, str):
        return PolicyChoice(name=seen_from(value, folder))
    if not isinstance(value, Mapping) or "policy" not in value:
        return None
    inside = block.inside(key)
    inside.only(("policy", "parameters"))
    if not isinstance(inside["policy"], str):
        raise InputError(f"{inside['policy']!r} is no name of a policy", inside.where("policy"))
    parameters = inside.inside("parameters").values
    name = seen_from(inside["policy"], folder)
    return PolicyChoice(name=name, parameters={str(name): value for name, value in parameters.items()})


def _job_order(block: Reader) -> WeightedOrder:
    block.only(("weights", "fullWait", "scope"))
    values: dict[str, Any] = {}
    if "weights" in block:
        weights = block.inside("weights")
        weights.only(WEIGHTS)
        for name in WEIGHTS:
            # Given weights stand alone: one that is left out is nothing, not its default.
            values[name] = weights.number(name) if name in weights else 0.0
            if values[name] < 0:
                raise InputError(f"{values[name]:g} is negative; expected a weight of 0 or more", weights.where(name))
        if not any(values.values()):
            raise InputError("are all zero; expected some weight above 0", block.where("weights"))
    if "fullWait" in block:
        values["full_wait"] = block.seconds("fullWait")
        if values["full_wait"] <= 0:
            raise InputError("is zero; expected a duration such as 24h", block.where("fullWait"))
    if "scope" in block:
        values["scope"] = block.one_of("scope", ("queue", "cluster"), "scope")
    return WeightedOrder(**values)


def _by_priority(block: Reader) -> tuple[tuple[int, int], ...]:
    found: dict[int, int] = {}
    for key in block.values:
        try:
            priority = int(key)
        except (TypeError, ValueError):
            raise InputError("is not a priority; expected a whole number such as 50", block.where(str(key))) from None
        found[priority] = block.count(key)
    return tuple(sorted(found.items()))
