"""KAI's ``scenarioSearchBudgets``: how long it may search for victims, turned into how many sets of victims may be
simulated.

A bound in time makes the same cluster decide differently on a busy machine, so kailab counts. One second stands for
``SCENARIOS_PER_SECOND`` sets: about what KAI simulates on a cluster of ten nodes. Without this section there is no bound
here, while KAI ends a job's search after 4 minutes and an action's after 5. Source: KAI search_budget.go.
"""

from __future__ import annotations

from kailab.engine.policies.settings import DEFAULT, SearchBudget
from kailab.errors import InputError
from kailab.scheduler.settings.config_values import Reader

SCENARIOS_PER_SECOND = 100
ACTIONS = ("consolidation", "reclaim", "preempt")
GENERATORS = ("NodeLocalGreedy", "MultiNodeGang")


def read_durations(block: Reader) -> tuple[SearchBudget, str]:
    """The budget, and a notice of what was made of the durations. Raises InputError."""
    block.only(
        ("maxActionSearchDuration", "maxJobSearchDuration", "minJobSearchDuration", "maxGeneratorSearchDuration")
    )
    most = _scenarios(block, "maxJobSearchDuration")
    least = _scenarios(block, "minJobSearchDuration")
    if most and least >= most:
        raise InputError("must be less than maxJobSearchDuration", block.where("minJobSearchDuration"))
    budget = SearchBudget(
        per_job=most,
        min_per_job=least,
        per_action=_by_name(block, "maxActionSearchDuration", ACTIONS),
        per_generator=_by_name(block, "maxGeneratorSearchDuration", GENERATORS),
    )
    told = [f"a job {most}"] if most else []
    told += [f"{name} {count}" for name, count in sorted(budget.per_action.items()) if name != DEFAULT and count]
    if budget.per_action.get(DEFAULT):
        told.append(f"an action {budget.per_action[DEFAULT]}")
    bounds = ", ".join(told) or "none"
    notice = (
        f"{block.path}: durations are counted as sets of victims simulated, {SCENARIOS_PER_SECOND} for a second, so that "
        f"every run stops at the same place (most for {bounds})"
    )
    return budget, notice


def _scenarios(block: Reader, key: str) -> int:
    """0 where it is not given, or given as 0: unbounded."""
    if key not in block:
        return 0
    seconds = block.seconds(key)
    # However short a time, it stays a bound: 0 would lift it.
    return max(1, round(seconds * SCENARIOS_PER_SECOND)) if seconds > 0 else 0


def _by_name(block: Reader, key: str, names: tuple[str, ...]) -> dict[str, int]:
    inside = block.inside(key)
    inside.only((DEFAULT, *names))
    return {str(name): _scenarios(inside, name) for name in inside.values}


def read_counts(block: Reader) -> SearchBudget:
    """As kailab has it, in counts. Raises InputError."""
    block.only(("maxScenariosPerJob", "minScenariosPerJob", "maxScenariosPerAction", "maxScenariosPerGenerator"))
    most = block.count("maxScenariosPerJob") if "maxScenariosPerJob" in block else 0
    least = block.count("minScenariosPerJob") if "minScenariosPerJob" in block else 0
    if most and least >= most:
        raise InputError("must be less than maxScenariosPerJob", block.where("minScenariosPerJob"))
    return SearchBudget(
        per_job=most,
        min_per_job=least,
        per_action=_counts(block, "maxScenariosPerAction", ACTIONS),
        per_generator=_counts(block, "maxScenariosPerGenerator", GENERATORS),
    )


def _counts(block: Reader, key: str, names: tuple[str, ...]) -> dict[str, int]:
    inside = block.inside(key)
    inside.only((DEFAULT, *names))
    return {str(name): inside.count(name) for name in inside.values}
