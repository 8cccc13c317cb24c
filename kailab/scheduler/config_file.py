"""KAI's scheduler configuration file: actions, plugins and their arguments, read into what decides here.

The file is the YAML of KAI's scheduler ConfigMap (``actions``, ``tiers``, ``queueDepthPerAction``,
``usageDBConfig``). Names that KAI does not know are errors; plugins that are KAI's but mean nothing here (its
snapshot server, say) are accepted. Source: KAI conf_util, plugins/factory.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import msgspec
import yaml

from kailab.engine.config import ACTIONS, EngineConfig
from kailab.engine.decisions import Action
from kailab.errors import InputError, Where
from kailab.model.times import duration_seconds, parse_time
from kailab.scheduler.usage import UsageParams

PLUGINS = (
    "predicates", "priority", "nodeplacement", "nominatednode", "numa", "nodeavailability", "gpusharingorder",
    "gpupack", "gpuspread", "resourcetype", "podaffinity", "elastic", "kubeflow", "ray", "taskorder", "subgrouporder",
    "dynamicresources", "topology", "proportion", "minruntime", "snapshot", "sg-nodelocalgreedy", "sg-multinodegang",
    "reflectjoborder",
)  # fmt: skip
"""Every plugin of KAI."""

_SECTIONS = ("actions", "tiers", "queueDepthPerAction", "usageDBConfig", "scenarioSearchBudgets")
_STRATEGIES = ("binpack", "spread")


class SchedulerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """``usage``: how past use is weighed, where the file asks for time-based fairness."""

    engine: EngineConfig
    usage: UsageParams = UsageParams()


def load_settings(path: str | Path) -> SchedulerSettings:
    """Read a configuration file. Raises InputError."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"can't be read: {error}", Where(file=str(path))) from None
    return read_settings(text, str(path))


def read_settings(text: str, file: str = "") -> SchedulerSettings:
    """Read the text of a configuration; an empty one gives KAI's defaults. Raises InputError."""
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark is not None else 0
        problem = getattr(error, "problem", None) or "broken YAML"
        raise InputError(f"is not YAML: {problem}", Where(file=file, line=line)) from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"is not YAML: {error}", Where(file=file)) from None
    block = _mapping(document, Where(file=file))
    for section in block:
        if section not in _SECTIONS:
            raise InputError(
                f"is not known; expected one of {', '.join(_SECTIONS)}", Where(file=file, field=str(section))
            )
    values: dict[str, Any] = {}
    if block.get("actions"):
        values["actions"] = _actions(block["actions"], Where(file=file, field="actions"))
    k_value = 1.0  # KAI's default, which matters only with a usage database
    if block.get("tiers"):
        plugins = _plugins(block["tiers"], file)
        values.update(_engine_values(plugins, file))
        if "proportion" in plugins:
            where = _where(file, "proportion", "kValue")
            k_value = max(0.0, _number(plugins["proportion"].get("kValue", "1.0"), where))
    usage = UsageParams()
    if block.get("usageDBConfig"):
        usage = _usage(_mapping(block["usageDBConfig"], Where(file=file, field="usageDBConfig")), file)
        values["k_value"] = k_value
    return SchedulerSettings(engine=EngineConfig(**values), usage=usage)


def _where(file: str, plugin: str, argument: str) -> Where:
    return Where(file=file, field=f"plugin {plugin}.{argument}")


def _mapping(value: Any, where: Where) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InputError(f"is {type(value).__name__}; expected a mapping", where)
    return cast("Mapping[str, Any]", value)


def _list(value: Any, where: Where) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise InputError(f"is {type(value).__name__}; expected a list", where)
    return value


def _actions(value: Any, where: Where) -> tuple[Action, ...]:
    if not isinstance(value, str):
        raise InputError(f"is {type(value).__name__}; expected text such as {', '.join(ACTIONS)!r}", where)
    actions: list[Action] = []
    for name in (part.strip() for part in value.split(",")):
        if name not in ACTIONS:
            raise InputError(f"no action is called {name!r}; expected some of {', '.join(ACTIONS)}", where)
        if name in actions:
            raise InputError(f"action {name!r} is given twice", where)
        actions.append(name)
    return tuple(actions)


def _plugins(tiers: Any, file: str) -> dict[str, Mapping[str, Any]]:
    """Name -> arguments of every plugin in the file."""
    found: dict[str, Mapping[str, Any]] = {}
    for number, tier in enumerate(_list(tiers, Where(file=file, field="tiers"))):
        at = f"tiers[{number}]"
        block = _mapping(tier, Where(file=file, field=at))
        for place, entry in enumerate(_list(block.get("plugins"), Where(file=file, field=f"{at}.plugins"))):
            where = Where(file=file, field=f"{at}.plugins[{place}]")
            name = _mapping(entry, where).get("name")
            if name not in PLUGINS:
                raise InputError(f"no plugin is called {name!r}; expected one of {', '.join(PLUGINS)}", where)
            found[name] = _mapping(entry.get("arguments"), where)
    return found


def _engine_values(plugins: Mapping[str, Mapping[str, Any]], file: str) -> dict[str, Any]:
    values: dict[str, Any] = {"predicates": "predicates" in plugins}
    placement = plugins.get("nodeplacement", {})
    for resource in ("gpu", "cpu"):
        strategy = placement.get(resource, "binpack")
        if strategy not in _STRATEGIES:
            raise InputError(
                f"{strategy!r} is no placement; expected binpack or spread", _where(file, "nodeplacement", resource)
            )
        values[f"{resource}_placement"] = strategy
    if "gpuspread" in plugins:
        values["gpu_sharing"] = "spread"
    runtimes = plugins.get("minruntime", {})
    if "reclaimResolveMethod" in runtimes:
        method = runtimes["reclaimResolveMethod"]
        if method not in ("lca", "queue"):
            raise InputError(
                f"{method!r} is no method; expected lca or queue", _where(file, "minruntime", "reclaimResolveMethod")
            )
        values["reclaim_resolve"] = method
    for key, argument in (
        ("reclaim_min_runtime", "defaultReclaimMinRuntime"),
        ("preempt_min_runtime", "defaultPreemptMinRuntime"),
    ):
        if argument in runtimes:
            where = _where(file, "minruntime", argument)
            values[key] = duration_seconds(runtimes[argument], where, days=True)
    proportion = plugins.get("proportion", {})
    if "relcaimerSaturationMultiplier" in proportion:  # KAI's own spelling
        where = _where(file, "proportion", "relcaimerSaturationMultiplier")
        values["saturation_multiplier"] = max(1.0, _number(proportion["relcaimerSaturationMultiplier"], where))
    return values


def _number(value: Any, where: Where) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise InputError(f"{value!r} is not a number", where) from None
    if number != number or number in (float("inf"), float("-inf")):
        raise InputError(f"{value!r} is not a number", where)
    return number


def _usage(block: Mapping[str, Any], file: str) -> UsageParams:
    at = "usageDBConfig.usageParams"
    params = _mapping(block.get("usageParams"), Where(file=file, field=at))
    values: dict[str, Any] = {}
    for key, field in (("half_life", "halfLifePeriod"), ("window", "windowSize"), ("fetch_interval", "fetchInterval")):
        if params.get(field) is not None:
            where = Where(file=file, field=f"{at}.{field}")
            seconds = duration_seconds(params[field], where, days=True)
            if seconds == 0 and key != "half_life":
                raise InputError("is zero; expected a duration such as 1w", where)
            values[key] = seconds or None
    kind = params.get("windowType", "sliding")
    if kind not in ("sliding", "tumbling"):
        where = Where(file=file, field=f"{at}.windowType")
        raise InputError(f"{kind!r} is not supported; expected sliding or tumbling", where)
    values["window_type"] = kind
    if params.get("tumblingWindowStartTime") is not None:
        where = Where(file=file, field=f"{at}.tumblingWindowStartTime")
        start = params["tumblingWindowStartTime"]
        values["tumbling_start"] = start.timestamp() if hasattr(start, "timestamp") else parse_time(start, where)
    return UsageParams(**values)
