"""A SchedulingShard as the configuration of a scheduler: what KAI's operator writes for it, and the flags that it starts the scheduler with.

Source: KAI, pkg/apis/kai/v1/schedulingshard_types.go (SetDefaultsWhereNeeded), pkg/operator/operands/scheduler.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import structs

from kailab.cluster.install.definitions import schema, shape_of_scheduling_shard
from kailab.engine.config import ACTIONS, EngineConfig
from kailab.errors import InputError, Where
from kailab.model.times import duration_seconds

_ACTIONS: dict[str, int] = {action: 100 * (len(ACTIONS) - place) for place, action in enumerate(ACTIONS)}
_PLUGINS = {
    "predicates": 1900, "proportion": 1800, "priority": 1700, "nodeavailability": 1600, "resourcetype": 1500,
    "podaffinity": 1400, "elastic": 1300, "kubeflow": 1200, "ray": 1100, "subgrouporder": 1000, "taskorder": 900,
    "nominatednode": 800, "dynamicresources": 700, "minruntime": 600, "topology": 500, "snapshot": 400,
    "sg-nodelocalgreedy": 360, "sg-multinodegang": 350, "gpupack": 300, "gpuspread": 300, "nodeplacement": 200,
    "gpusharingorder": 100,
}  # fmt: skip
"""KAI's defaults with their priorities; a higher one runs first."""


def is_shard(document: Mapping[str, Any]) -> bool:
    return document.get("kind") == "SchedulingShard" and str(document.get("apiVersion", "")).startswith(
        "kai.scheduler/"
    )


def document_of_shard(shard: Mapping[str, Any], file: str) -> dict[str, Any]:
    """The scheduler's configuration file. Raises InputError."""
    for fault in shape_of_scheduling_shard()(shard) or ():
        raise InputError(fault.message, Where(file=file, field=fault.field.removeprefix(".")))
    spec = shard.get("spec") or {}
    definition = schema("kai.scheduler", "SchedulingShard", "v1") or {}
    known = definition["properties"]["spec"]["properties"]
    for field in spec:
        if field not in known:
            raise InputError(
                f"is not known; expected one of {', '.join(known)}", Where(file=file, field=f"spec.{field}")
            )
    placement = {"gpu": "binpack", "cpu": "binpack", **(spec.get("placementStrategy") or {})}
    for resource, strategy in placement.items():
        if strategy not in ("binpack", "spread"):
            where = Where(file=file, field=f"spec.placementStrategy.{resource}")
            raise InputError(f"{strategy!r} is no placement; expected binpack or spread", where)
    packs = placement["gpu"] == "binpack"
    plugins: dict[str, dict[str, Any]] = {name: {"priority": priority} for name, priority in _PLUGINS.items()}
    for name, enabled in (("gpusharingorder", packs), ("gpupack", packs), ("gpuspread", not packs)):
        plugins[name]["enabled"] = enabled
    plugins["nodeplacement"]["arguments"] = placement
    if spec.get("kValue") is not None:
        plugins["proportion"]["arguments"] = {"kValue": spec["kValue"]}
    runtimes = {f"default{name[0].upper()}{name[1:]}": value for name, value in (spec.get("minRuntime") or {}).items()}
    plugins["minruntime"]["arguments"] = runtimes
    actions: dict[str, dict[str, Any]] = {name: {"priority": priority} for name, priority in _ACTIONS.items()}
    actions["consolidation"]["enabled"] = "spread" not in placement.values()
    tiers = [
        {"name": name, **({"arguments": entry["arguments"]} if entry.get("arguments") else {})}
        for name, entry in _in_order(plugins, spec.get("plugins"))
    ]
    document: dict[str, Any] = {
        "actions": ", ".join(name for name, _ in _in_order(actions, spec.get("actions"))),
        "tiers": [{"plugins": tiers}],
    }
    for field in ("queueDepthPerAction", "usageDBConfig", "scenarioSearchBudgets"):
        if spec.get(field):
            document[field] = spec[field]
    return document


def _in_order(defaults: Mapping[str, dict[str, Any]], given: Any) -> list[tuple[str, dict[str, Any]]]:
    """The enabled entries by priority. An entry of the shard replaces the fields that it has."""
    entries = {name: dict(entry) for name, entry in defaults.items()}
    for name, entry in (given or {}).items():
        changes = {field: value for field, value in (entry or {}).items() if value is not None}
        entries[name] = {"priority": 0, **entries.get(name, {}), **changes}
    enabled = [item for item in entries.items() if item[1].get("enabled", True)]
    return sorted(enabled, key=lambda item: (-item[1]["priority"], item[0]))


def with_flags(engine: EngineConfig, flags: Mapping[str, Any]) -> EngineConfig:
    """The engine's configuration with the flags of KAI's scheduler."""
    values: dict[str, Any] = {}
    if (most := flags.get("max-consolidation-preemptees")) is not None:
        values["max_consolidation_victims"] = int(most)
    for flag, field in (
        ("allow-consolidating-reclaim", "allow_consolidating_reclaim"),
        ("use-scheduling-signatures", "use_signatures"),
    ):
        if flag in flags:
            values[field] = str(flags[flag]).lower() != "false"
    if (grace := flags.get("default-staleness-grace-period")) is not None:
        values["staleness_grace"] = -1.0 if str(grace).startswith("-") else duration_seconds(str(grace))
    return structs.replace(engine, **values)


USED_FLAGS = (
    "max-consolidation-preemptees", "allow-consolidating-reclaim", "use-scheduling-signatures", "default-staleness-grace-period",
)  # fmt: skip


def engine_of_shard(shard: Mapping[str, Any], engine: EngineConfig, file: str) -> tuple[EngineConfig, tuple[str, ...]]:
    """The engine's configuration with the shard's arguments, and notices about those without effect. Raises InputError."""
    args = (shard.get("spec") or {}).get("args") or {}
    try:
        changed = with_flags(engine, args)
    except (ValueError, InputError) as error:
        raise InputError(f"can't be read: {error}", Where(file=file, field="spec.args")) from error
    idle = [name for name in args if name not in USED_FLAGS]
    return changed, (f"spec.args: {', '.join(idle)} has no effect",) if idle else ()
