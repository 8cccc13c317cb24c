"""KAI's scheduler configuration file: actions, plugins and their arguments, read into what decides here.

The file is the YAML of KAI's scheduler ConfigMap (``actions``, ``tiers``, ``queueDepthPerAction``, ``usageDBConfig``,
``scenarioSearchBudgets``), taken as it is; kailab's own policies stand beside it under ``kailab`` (policy_section). A plugin
list replaces KAI's: what it leaves out is off. Names that KAI does not know are errors; what KAI knows and kailab does not
act upon is told in ``SchedulerSettings.notices``. Source: KAI conf_util, plugins/factory.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from kailab.engine.config import ACTIONS, EngineConfig
from kailab.engine.decisions import Action
from kailab.engine.policies.settings import SearchBudget
from kailab.engine.policies.switches import DEFAULT_PLUGINS, switches
from kailab.errors import ExtensionError, InputError, PolicyError, Where
from kailab.model import yamltext
from kailab.model.cron import Cron
from kailab.model.files import read_text
from kailab.model.times import parse_time
from kailab.scheduler.settings.config_values import Reader
from kailab.scheduler.settings.policies import with_policies
from kailab.scheduler.settings.policy_section import POLICY_KEYS, read_policies
from kailab.scheduler.settings.search_budgets import read_durations
from kailab.scheduler.usage import UsageParams

PLUGINS = (
    "predicates", "priority", "nodeplacement", "nominatednode", "numa", "nodeavailability", "gpusharingorder",
    "gpupack", "gpuspread", "resourcetype", "podaffinity", "elastic", "kubeflow", "ray", "taskorder", "subgrouporder",
    "dynamicresources", "topology", "proportion", "minruntime", "snapshot", "sg-nodelocalgreedy", "sg-multinodegang",
    "reflectjoborder",
)  # fmt: skip
"""Every plugin of KAI."""

ARGUMENTS: dict[str, tuple[str, ...]] = {
    "nodeplacement": ("gpu", "cpu"),
    "minruntime": ("defaultReclaimMinRuntime", "defaultPreemptMinRuntime", "reclaimResolveMethod"),
    "proportion": ("kValue", "relcaimerSaturationMultiplier"),  # KAI's own spelling
}
"""Plugin -> the arguments that have an effect here."""

_SECTIONS = ("actions", "tiers", "queueDepthPerAction", "usageDBConfig", "scenarioSearchBudgets", "kailab")
_PLACEMENTS = ("binpack", "spread")
_ALWAYS = {
    "proportion": "kailab always divides the cluster between queues",
    "dynamicresources": "resource claims are always reckoned with",
}
_IDLE = {
    "reflectjoborder": "there is no endpoint here to show the job order; see `kailab explain`",
}


class SchedulerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """``usage``: how past use is weighed, where the file asks for time-based fairness. ``notices``: sentences about what
    the file says and kailab does not act upon, or not in the same way."""

    engine: EngineConfig
    usage: UsageParams = UsageParams()
    notices: tuple[str, ...] = ()


def load_settings(path: str | Path) -> SchedulerSettings:
    """Read a configuration file. Raises InputError."""
    return read_settings(read_text(path), str(path))


def read_settings(text: str, file: str = "") -> SchedulerSettings:
    """Read the text of a configuration; an empty one gives KAI's defaults. Raises InputError."""
    documents = [value for value, _ in yamltext.read_documents(text, file)]
    if len(documents) > 1:
        raise InputError(f"{len(documents)} documents; expected one", Where(file=file))
    return settings_from(documents[0] if documents else None, file)


def settings_from(document: Mapping[str, Any] | None, file: str = "") -> SchedulerSettings:
    """From the file's content as a mapping. ``file`` is named in errors. Raises InputError."""
    block = Reader(document, file)
    block.only(_SECTIONS)
    values: dict[str, Any] = {}
    notices: list[str] = []
    if block["actions"]:
        values["actions"] = _actions(block["actions"], block.where("actions"))
    k_value = 1.0  # KAI's default, which matters only with a usage database
    if block["tiers"]:
        plugins = _plugins(block, notices)
        values.update(_engine_values(plugins, notices))
        if "proportion" in plugins and "kValue" in plugins["proportion"]:
            # KAI's proportion plugin takes a negative one for 0, and a multiplier below 1 (further down) for 1.
            k_value = max(0.0, plugins["proportion"].number("kValue"))
    if "queueDepthPerAction" in block:
        values["queue_depth"] = _depths(block.inside("queueDepthPerAction"))
    usage = UsageParams()
    if block["usageDBConfig"]:
        usage = _usage(block.inside("usageDBConfig"), notices)
        # Without a usage database KAI knows no past use, whatever kValue says.
        values["k_value"] = k_value
    if "scenarioSearchBudgets" in block:
        values["search_budget"], notice = read_durations(block.inside("scenarioSearchBudgets"))
        notices.append(notice)
    if "kailab" in block:
        own = read_policies(block.inside("kailab"))
        if "search_budget" in own and values.get("search_budget", SearchBudget()).bounded:
            notices.append("scenarioSearchBudgets: kailab.searchBudget holds instead")
        values.update(own)
    return SchedulerSettings(engine=_engine(values, file), usage=usage, notices=tuple(notices))


def _engine(values: dict[str, Any], file: str) -> EngineConfig:
    # Each alone at first, so that an error can name the key that it comes from.
    for field, key in POLICY_KEYS.items():
        alone: dict[str, Any] = {field: values.get(field)}
        try:
            with_policies(EngineConfig(**alone))
        except (InputError, ExtensionError, PolicyError) as error:
            raise InputError(str(error), Where(file=file, field=f"kailab.{key}")) from error
    return with_policies(EngineConfig(**values))


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


def _plugins(block: Reader, notices: list[str]) -> dict[str, Reader]:
    """Name -> arguments of every plugin in the file, in order; a plugin that is listed twice keeps its first place."""
    found: dict[str, Reader] = {}
    for number, tier in enumerate(block.entries("tiers")):
        inside = Reader(tier, block.file, f"tiers[{number}]")
        for place, entry in enumerate(inside.entries("plugins")):
            plugin = Reader(entry, block.file, f"{inside.path}.plugins[{place}]")
            name = plugin["name"]
            if name not in PLUGINS:
                raise InputError(f"no plugin is called {name!r}; expected one of {', '.join(PLUGINS)}", plugin.where())
            idle = [key for key in plugin.values if key not in ("name", "arguments") and plugin[str(key)]]
            if idle:
                notices.append(f"plugin {name}: {', '.join(map(str, idle))} has no effect")
            found[name] = Reader(plugin["arguments"], block.file, f"plugin {name}")
            unknown = [str(key) for key in found[name].values if key not in ARGUMENTS.get(name, ())]
            if unknown:
                notices.append(f"plugin {name}: argument {', '.join(unknown)} has no effect")
    return found


def _engine_values(plugins: dict[str, Reader], notices: list[str]) -> dict[str, Any]:
    listed = tuple(plugins)
    values: dict[str, Any] = {"predicates": "predicates" in plugins}
    values["prefer_shared_devices"] = "gpusharingorder" in plugins
    # A list that has the same effect gives the same configuration, so that recorded cycles compare equal.
    if switches(listed) != switches(DEFAULT_PLUGINS):
        values["plugins"] = listed
    for name, why in _ALWAYS.items():
        if name not in plugins:
            notices.append(f"plugin {name} is not listed, but has its effect: {why}")
    notices += [f"plugin {name} has no effect: {why}" for name, why in _IDLE.items() if name in plugins]
    pack, spread = "gpupack" in plugins, "gpuspread" in plugins
    # With both the scores add up to the same for every GPU, as with neither.
    values["gpu_sharing"] = "any" if pack == spread else "spread" if spread else "binpack"
    if "nodeplacement" in plugins:
        placement = plugins["nodeplacement"]
        for resource in ("gpu", "cpu"):
            if resource in placement:
                values[f"{resource}_placement"] = placement.one_of(resource, _PLACEMENTS, "placement")
    runtimes = plugins.get("minruntime")
    if runtimes is not None:
        if "reclaimResolveMethod" in runtimes:
            values["reclaim_resolve"] = runtimes.one_of("reclaimResolveMethod", ("lca", "queue"), "method")
        for key, argument in (
            ("reclaim_min_runtime", "defaultReclaimMinRuntime"),
            ("preempt_min_runtime", "defaultPreemptMinRuntime"),
        ):
            if argument in runtimes:
                values[key] = runtimes.seconds(argument)
    if "proportion" in plugins and "relcaimerSaturationMultiplier" in plugins["proportion"]:
        values["saturation_multiplier"] = max(1.0, plugins["proportion"].number("relcaimerSaturationMultiplier"))
    return values


def _depths(block: Reader) -> dict[str, int]:
    """Action -> jobs of each queue that are tried, -1 for all."""
    block.only(ACTIONS)
    return {str(name): block.count(name, -1) for name in block.values}


def _usage(block: Reader, notices: list[str]) -> UsageParams:
    if block["connectionString"] or block["connectionStringEnvVar"]:
        notices.append("usageDBConfig: past use is reckoned from the cluster itself, no database is asked")
    params = block.inside("usageParams")
    values: dict[str, Any] = {}
    for key, field in (("half_life", "halfLifePeriod"), ("window", "windowSize"), ("fetch_interval", "fetchInterval")):
        if field in params:
            seconds = params.seconds(field)
            if seconds == 0 and key != "half_life":
                raise InputError("is zero; expected a duration such as 1w", params.where(field))
            values[key] = seconds or None
    if "windowType" in params:
        kind = values["window_type"] = params.one_of("windowType", ("sliding", "tumbling", "cron"), "type of window")
        if kind == "cron":
            values["cron"] = str(params["cronString"] or "")
            Cron(values["cron"], params.where("cronString"))
    if "tumblingWindowStartTime" in params:
        start = params["tumblingWindowStartTime"]
        where = params.where("tumblingWindowStartTime")
        # YAML has read an unquoted time already.
        values["tumbling_start"] = start.timestamp() if hasattr(start, "timestamp") else parse_time(start, where)
    return UsageParams(**values)


def settings_of(
    source: SchedulerSettings | EngineConfig | Mapping[str, Any] | str | Path | None, base: Path | None = None
) -> SchedulerSettings:
    """Settings from whatever says them: a file (relative ones as seen from ``base``), the content of one as a mapping, an
    engine configuration; None: KAI's defaults. Raises InputError."""
    if isinstance(source, SchedulerSettings):
        return source
    if isinstance(source, EngineConfig):
        return SchedulerSettings(engine=with_policies(source))
    if isinstance(source, str | Path):
        return load_settings(source if base is None else base / source)
    return settings_from(source)
