"""Translate a lab's settings into the configuration file and the flags of KAI's scheduler.

The inverse of ``kailab.scheduler.settings.config_file``. Settings that only kailab has are refused with a reason: a test that uses them
can't run on KAI. Source: KAI's conf_util and options.go.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import yaml

from kailab.engine.config import EngineConfig
from kailab.engine.policies.settings import SearchBudget
from kailab.engine.policies.switches import DEFAULT_PLUGINS
from kailab.scheduler.settings.config_file import SCENARIOS_PER_SECOND, SchedulerSettings, read_settings
from kailab.undertest.contract import Unsupported
from kailab.undertest.kai.releases import LINES, ReleaseFeatures

WHO = "a real KAI"


class KaiArguments(NamedTuple):
    """``conf``: the text for ``--scheduler-conf``. ``flags``: more arguments of KAI's scheduler."""

    conf: str
    flags: tuple[str, ...]


_OWN = {
    "weighted_order": "jobOrder (a weighted score)",
    "aged_after": "agedAfter",
    "max_evictions_per_cycle": "maxEvictionsPerCycle",
    "max_evictions_by_priority": "maxEvictionsPerCycleByPriority",
    "max_taken_ratio": "maxTakenRatio",
    "checkpoint": "checkpoint",
    "job_order_policy": "jobOrder (a policy)",
    "node_score_policy": "nodeScore",
    "victim_order_policy": "victimOrder (a policy)",
    "reservation_policy": "reservation",
    "queue_shares_policy": "queueShares",
}
"""Fields of EngineConfig that only kailab has, by their names in a configuration file."""


def kai_arguments(settings: SchedulerSettings | EngineConfig, dialect: ReleaseFeatures) -> KaiArguments:
    """The configuration and flags of KAI's scheduler. Raises Unsupported."""
    config = settings if isinstance(settings, EngineConfig) else settings.engine
    _refuse_own(config)
    document: dict[str, Any] = {
        "actions": ", ".join(config.actions),
        "tiers": [{"plugins": _plugins(config, dialect)}],
    }
    if config.queue_depth:
        document["queueDepthPerAction"] = dict(config.queue_depth)
    if config.search_budget.bounded:
        if not dialect.search_budgets:
            raise Unsupported("search budgets (scenarioSearchBudgets) came with KAI v0.16", WHO)
        document["scenarioSearchBudgets"] = _budgets(config.search_budget)
    grace = config.staleness_grace
    # These are flags, not fields of the configuration file.
    flags = (
        f"--max-consolidation-preemptees={config.max_consolidation_victims}",
        f"--allow-consolidating-reclaim={_flag(config.allow_consolidating_reclaim)}",
        f"--use-scheduling-signatures={_flag(config.use_signatures)}",
        # In KAI any negative duration means that no gang is evicted as stale.
        f"--default-staleness-grace-period={'-1s' if grace < 0 or math.isinf(grace) else _duration(grace)}",
    )
    return KaiArguments(yaml.safe_dump(document, sort_keys=False), flags)


def write_settings(config: EngineConfig) -> str:
    """A configuration file, with kailab's section for what are flags of KAI's scheduler, that is read as ``config``. Raises
    Unsupported."""
    document = yaml.safe_load(kai_arguments(config, ReleaseFeatures((*LINES[-1][:2], 0))).conf)
    default = EngineConfig()
    own: dict[str, Any] = {}
    if config.max_consolidation_victims != default.max_consolidation_victims:
        own["maxConsolidationVictims"] = config.max_consolidation_victims
    if config.allow_consolidating_reclaim != default.allow_consolidating_reclaim:
        own["allowConsolidatingReclaim"] = config.allow_consolidating_reclaim
    if config.use_signatures != default.use_signatures:
        own["useSchedulingSignatures"] = config.use_signatures
    if config.staleness_grace != default.staleness_grace:
        own["stalenessGracePeriod"] = _duration(config.staleness_grace)
    text = yaml.safe_dump({**document, **({"kailab": own} if own else {})}, sort_keys=False)
    if read_settings(text).engine != config:
        raise Unsupported("a configuration file can't hold all of this configuration", WHO)
    return text


def _refuse_own(config: EngineConfig) -> None:
    default = EngineConfig()
    for field, name in _OWN.items():
        if getattr(config, field) != getattr(default, field):
            raise Unsupported(f"{name} is kailab's own", WHO)
    if config.victim_order != default.victim_order:
        raise Unsupported("victimOrder is kailab's own", WHO)
    if config.k_value or config.usage:
        raise Unsupported(
            "time-based fairness (kValue) needs a record of past use, which KAI reads from a Prometheus", WHO
        )


def _plugins(config: EngineConfig, dialect: ReleaseFeatures) -> list[dict[str, Any]]:
    """KAI's list of plugins with the switches of the configuration, in the same order."""
    listed = dialect.plugins(config.plugins or DEFAULT_PLUGINS)
    if not config.predicates:
        listed = [name for name in listed if name != "predicates"]
    if not config.prefer_shared_devices:
        listed = [name for name in listed if name != "gpusharingorder"]
    listed = _gpu_order(listed, config.gpu_sharing)
    arguments = _arguments(config)
    return [{"name": name, **({"arguments": arguments[name]} if name in arguments else {})} for name in listed]


def _gpu_order(listed: list[str], sharing: str) -> list[str]:
    """The list with the plugin that orders shared devices (gpupack or gpuspread), or without both for ``any``."""
    wanted = {"binpack": ["gpupack"], "spread": ["gpuspread"], "any": []}[sharing]
    # At the same position, because the order of plugins matters.
    place = next((listed.index(name) for name in ("gpupack", "gpuspread") if name in listed), len(listed))
    others = [name for name in listed if name not in ("gpupack", "gpuspread")]
    return others[:place] + wanted + others[place:]


def _arguments(config: EngineConfig) -> dict[str, dict[str, str]]:
    """Plugin -> its arguments, as text for KAI."""
    arguments: dict[str, dict[str, str]] = {"nodeplacement": {"cpu": config.cpu_placement, "gpu": config.gpu_placement}}
    runtimes = {
        "defaultReclaimMinRuntime": config.reclaim_min_runtime,
        "defaultPreemptMinRuntime": config.preempt_min_runtime,
    }
    minruntime = {name: _duration(seconds) for name, seconds in runtimes.items() if seconds}
    if config.reclaim_resolve != "lca":
        minruntime["reclaimResolveMethod"] = config.reclaim_resolve
    if minruntime:
        arguments["minruntime"] = minruntime
    if config.saturation_multiplier != 1.0:
        arguments["proportion"] = {
            "relcaimerSaturationMultiplier": f"{config.saturation_multiplier:g}"
        }  # KAI's spelling
    return arguments


def _budgets(budget: SearchBudget) -> dict[str, Any]:
    """Kailab's counts as KAI's durations (see ``search_budgets``)."""
    result: dict[str, Any] = {}
    if budget.per_job:
        result["maxJobSearchDuration"] = _searched(budget.per_job)
    if budget.min_per_job:
        result["minJobSearchDuration"] = _searched(budget.min_per_job)
    for key, counts in (
        ("maxActionSearchDuration", budget.per_action),
        ("maxGeneratorSearchDuration", budget.per_generator),
    ):
        if counts:
            result[key] = {name: _searched(count) for name, count in counts.items()}
    return result


def _searched(count: int) -> str:
    return _duration(count / SCENARIOS_PER_SECOND)


def _duration(seconds: float) -> str:
    """A duration in Go's format, in whole milliseconds."""
    milliseconds = round(seconds * 1000)
    return f"{milliseconds // 1000}s" if milliseconds % 1000 == 0 else f"{milliseconds}ms"


def _flag(value: bool) -> str:
    return "true" if value else "false"
