"""Reads KAI's scheduler configuration file: actions, plugins, their arguments, and the ``kailab:`` section.

The file is the YAML of KAI's scheduler ConfigMap (``actions``, ``tiers``, ``queueDepthPerAction``, ``usageDBConfig``,
``scenarioSearchBudgets``). A list of plugins replaces KAI's list: plugins that it leaves out are off. A name that KAI does not know is
an error; ``SchedulerSettings.notices`` names what KAI knows and kailab ignores. Source: KAI conf_util, plugins/factory.go.

KAI's search budgets are durations. A bound in time makes the same cluster decide differently on a busy machine, so kailab counts the
simulated sets of victims: ``SCENARIOS_PER_SECOND`` for one second, about what KAI simulates on a cluster of ten nodes. Without the section
kailab has no bound, while KAI ends a job's search after 4 minutes and an action's after 5. Source: KAI search_budget.go.

The ``kailab:`` section has the policies that KAI does not have, and what KAI takes as flags. Every key is optional. A ``jobOrder``,
``checkpoint`` or ``agedAfter`` without a value has the values below::

    kailab:
      jobOrder:                        # a weighted score instead of priority
        weights: {priority: 0.4, waiting: 0.3, efficiency: 0.2, fairness: 0.1}
        fullWait: 24h                  # waiting this long counts in full
        scope: queue                   # or cluster: over all queues
      agedAfter: 24h                   # a job that has waited this long goes first
      victimOrder: priority            # lowest priority, then newest, over all queues
      maxEvictionsPerCycle: 3
      maxEvictionsPerCycleByPriority: {50: 3, 75: 1}
      maxTakenRatio: 2                 # victims give at most twice what the job requests
      reservation: backfill            # reserve capacity for the first job that does not fit
      checkpoint: {gracePeriod: 2m}    # victims save their state first
      searchBudget: {maxScenariosPerJob: 200}
      maxConsolidationVictims: 16      # -1: no bound
      allowConsolidatingReclaim: true
      useSchedulingSignatures: true
      stalenessGracePeriod: 60s

``jobOrder``, ``victimOrder``, ``nodeScore`` and ``reservation`` also take the name of a policy of another distribution, or
``{policy: NAME, parameters: {...}}`` (docs/extending.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import structs

from kailab.engine.config import ACTIONS, EngineConfig
from kailab.engine.decisions import Action
from kailab.engine.policies.settings import DAY, DEFAULT, Checkpoint, PolicyChoice, SearchBudget, WeightedOrder
from kailab.engine.policies.switches import DEFAULT_PLUGINS, switches
from kailab.errors import ExtensionError, InputError, PolicyError, Where
from kailab.model import yamltext
from kailab.model.cron import Cron
from kailab.model.files import read_text
from kailab.model.times import duration_seconds, parse_time
from kailab.scheduler.reading.podgroups import DEFAULT_NODE_POOL
from kailab.scheduler.settings.policies import resolve_policy_name, with_policies
from kailab.scheduler.settings.shard import document_of_shard, engine_of_shard, is_shard
from kailab.scheduler.usage import UsageParams


class ConfigReader:
    """One mapping of the file. ``path`` is its place in the file, for errors. Null values count as absent."""

    def __init__(self, value: Any, file: str, path: str = "") -> None:
        self.file = file
        self.path = path
        self.values: Mapping[str, Any] = {} if value is None else cast("Mapping[str, Any]", value)
        if not isinstance(self.values, Mapping):
            raise InputError(f"is {type(value).__name__}; expected a mapping", self.where())

    def where(self, key: str = "") -> Where:
        return Where(file=self.file, field=".".join(part for part in (self.path, key) if part))

    def only(self, known: Iterable[str]) -> None:
        """Raises InputError for any other key."""
        expected = tuple(known)
        for key in self.values:
            if key not in expected:
                raise InputError(f"is not known; expected one of {', '.join(expected)}", self.where(str(key)))

    def __contains__(self, key: str) -> bool:
        return self.values.get(key) is not None

    def __getitem__(self, key: str) -> Any:
        return self.values.get(key)

    def inside(self, key: str) -> ConfigReader:
        return ConfigReader(self.values.get(key), self.file, self.where(key).field)

    def entries(self, key: str) -> list[Any]:
        value = self.values.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            raise InputError(f"is {type(value).__name__}; expected a list", self.where(key))
        return value

    def one_of(self, key: str, choices: Iterable[str], noun: str = "choice") -> Any:
        """The value of a key, which must be one of the choices. Raises InputError."""
        value, known = self.values[key], tuple(choices)
        if value not in known:
            raise InputError(f"{value!r} is no {noun}; expected {' or '.join(known)}", self.where(key))
        return value

    def number(self, key: str) -> float:
        """A finite number, also as text. Raises InputError."""
        value = self.values[key]
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            raise InputError(f"{value!r} is not a number", self.where(key)) from None
        # Python takes true for 1.
        if isinstance(value, bool) or number != number or abs(number) == float("inf"):
            raise InputError(f"{value!r} is not a number", self.where(key))
        return number

    def count(self, key: str, least: int = 0) -> int:
        value = self.values[key]
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise InputError(f"{value!r} is not a whole number of at least {least}", self.where(key))
        return value

    def flag(self, key: str) -> bool:
        value = self.values[key]
        if not isinstance(value, bool):
            raise InputError(f"{value!r} is not true or false", self.where(key))
        return value

    def seconds(self, key: str) -> float:
        """A duration such as 90s, 10m, 1h30m, 2d or 1w, in seconds. Raises InputError."""
        return duration_seconds(self.values[key], self.where(key), days=True)


SCENARIOS_PER_SECOND = 100
SEARCHING_ACTIONS = ("consolidation", "reclaim", "preempt")
SCENARIO_GENERATORS = ("NodeLocalGreedy", "MultiNodeGang")


def read_duration_budget(block: ConfigReader) -> tuple[SearchBudget, str]:
    """KAI's budget in durations, converted to counts, and a notice about the conversion. Raises InputError."""
    keys = ("maxJobSearchDuration", "minJobSearchDuration", "maxActionSearchDuration", "maxGeneratorSearchDuration")
    budget = _read_budget(block, keys, _scenarios)
    bounds = [f"a job {budget.per_job}"] if budget.per_job else []
    bounds += [f"{name} {count}" for name, count in sorted(budget.per_action.items()) if name != DEFAULT and count]
    if budget.per_action.get(DEFAULT):
        bounds.append(f"an action {budget.per_action[DEFAULT]}")
    notice = (
        f"{block.path}: durations are counted as sets of victims simulated, {SCENARIOS_PER_SECOND} for a second, so that "
        f"every run stops at the same place (most for {', '.join(bounds) or 'none'})"
    )
    return budget, notice


def _scenarios(block: ConfigReader, key: str) -> int:
    """A duration in sets of victims; 0 (unbounded) if it is missing or 0."""
    if key not in block:
        return 0
    seconds = block.seconds(key)
    # At least 1: 0 would be unbounded.
    return max(1, round(seconds * SCENARIOS_PER_SECOND)) if seconds > 0 else 0


def read_count_budget(block: ConfigReader) -> SearchBudget:
    """Kailab's own budget in counts. Raises InputError."""
    keys = ("maxScenariosPerJob", "minScenariosPerJob", "maxScenariosPerAction", "maxScenariosPerGenerator")
    return _read_budget(block, keys, ConfigReader.count)


def _read_budget(
    block: ConfigReader, keys: tuple[str, str, str, str], read: Callable[[ConfigReader, str], int]
) -> SearchBudget:
    """``keys``: the most and the least for a job, the most for an action and for a generator. ``read``: reads the amount of a key."""
    block.only(keys)
    most, least = (read(block, key) if key in block else 0 for key in keys[:2])
    if most and least >= most:
        raise InputError(f"must be less than {keys[0]}", block.where(keys[1]))

    def by_name(key: str, names: tuple[str, ...]) -> dict[str, int]:
        inside = block.inside(key)
        inside.only((DEFAULT, *names))
        return {str(name): read(inside, name) for name in inside.values}

    return SearchBudget(
        per_job=most,
        min_per_job=least,
        per_action=by_name(keys[2], SEARCHING_ACTIONS),
        per_generator=by_name(keys[3], SCENARIO_GENERATORS),
    )


WEIGHTS = ("priority", "waiting", "efficiency", "fairness")
POLICY_SECTION_KEYS = (
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
"""Field of EngineConfig with a policy -> its key in the ``kailab:`` section."""


def read_policies(block: ConfigReader) -> dict[str, Any]:
    """Read the ``kailab:`` section into fields of EngineConfig. Raises InputError."""
    block.only(POLICY_SECTION_KEYS)
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
    # A key without a value means the default.
    if "agedAfter" in block.values:
        values["aged_after"] = block.seconds("agedAfter") if "agedAfter" in block else DAY
    if block["victimOrder"] in ("queue", "priority"):
        values["victim_order"] = block["victimOrder"]
    elif "victimOrder" in block:
        values["victim_order_policy"] = _choice(block, "victimOrder")
        if values["victim_order_policy"] is None:
            # Neither a policy nor one of these: raises InputError.
            block.one_of("victimOrder", ("queue", "priority"), "order of victims")
    if "maxEvictionsPerCycle" in block:
        values["max_evictions_per_cycle"] = block.count("maxEvictionsPerCycle")
    if "maxEvictionsPerCycleByPriority" in block:
        values["max_evictions_by_priority"] = _by_priority(block.inside("maxEvictionsPerCycleByPriority"))
    if "maxTakenRatio" in block:
        values["max_taken_ratio"] = block.number("maxTakenRatio")
        if values["max_taken_ratio"] <= 0:
            raise InputError(
                f"{values['max_taken_ratio']:g} allows no evictions; expected a number above 0, such as 2",
                block.where("maxTakenRatio"),
            )
    if "checkpoint" in block.values:
        inside = block.inside("checkpoint")
        inside.only(("gracePeriod",))
        values["checkpoint"] = Checkpoint(grace=inside.seconds("gracePeriod") if "gracePeriod" in inside else None)
    if "searchBudget" in block:
        values["search_budget"] = read_count_budget(block.inside("searchBudget"))
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


def _choice(block: ConfigReader, key: str) -> PolicyChoice | None:
    """The policy that a key names, or None. Policy files are relative to the configuration file."""
    value = block[key]
    folder = Path(block.file).parent
    if isinstance(value, str):
        return PolicyChoice(name=resolve_policy_name(value, folder))
    if not isinstance(value, Mapping) or "policy" not in value:
        return None
    inside = block.inside(key)
    inside.only(("policy", "parameters"))
    if not isinstance(inside["policy"], str):
        raise InputError(f"{inside['policy']!r} is no name of a policy", inside.where("policy"))
    parameters = inside.inside("parameters").values
    name = resolve_policy_name(inside["policy"], folder)
    return PolicyChoice(name=name, parameters={str(name): value for name, value in parameters.items()})


def _job_order(block: ConfigReader) -> WeightedOrder:
    block.only(("weights", "fullWait", "scope"))
    values: dict[str, Any] = {}
    if "weights" in block:
        weights = block.inside("weights")
        weights.only(WEIGHTS)
        for name in WEIGHTS:
            # With ``weights``, a weight that is left out is 0, not its default.
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


def _by_priority(block: ConfigReader) -> tuple[tuple[int, int], ...]:
    limits: dict[int, int] = {}
    for key in block.values:
        try:
            priority = int(key)
        except (TypeError, ValueError):
            raise InputError("is not a priority; expected a whole number such as 50", block.where(str(key))) from None
        limits[priority] = block.count(key)
    return tuple(sorted(limits.items()))


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
"""Plugin -> the arguments that kailab uses."""

_SECTIONS = ("actions", "tiers", "queueDepthPerAction", "usageDBConfig", "scenarioSearchBudgets", "kailab")
_PLACEMENTS = ("binpack", "spread")
_ALWAYS = {
    "proportion": "kailab always divides the cluster between queues",
    "dynamicresources": "resource claims are always taken into account",
}
_NO_DIFFERENCE = ("kubeflow", "ray", "snapshot")
"""Plugins of KAI's list that change nothing in kailab."""
_EFFECTS = {
    ("sg-nodelocalgreedy", "sg-multinodegang"): "nothing is reclaimed or preempted",
    ("predicates",): "labels, taints, affinity and ports of nodes are not checked",
    ("topology",): "topology constraints have no effect",
    ("minruntime",): "no minimum runtime protects work",
    ("priority",): "jobs are not started by priority",
}
"""What it means if a file lists none of these plugins."""
_IDLE = {"reflectjoborder": "there is no endpoint here to show the job order; see `kailab explain`"}


class SchedulerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """``usage``: how past usage counts, if the file enables time-based fairness. ``notices``: sentences about settings that kailab ignores or
    treats differently. ``node_pool``: the pool that is scheduled, from a SchedulingShard."""

    engine: EngineConfig
    usage: UsageParams = UsageParams()
    node_pool: str = DEFAULT_NODE_POOL
    notices: tuple[str, ...] = ()


def load_settings(path: str | Path) -> SchedulerSettings:
    """Read a configuration file. Raises InputError."""
    return read_settings(read_text(path), str(path))


def read_settings(text: str, file: str = "") -> SchedulerSettings:
    """Read the text of a configuration; an empty text gives KAI's defaults. Raises InputError."""
    documents = [value for value, _ in yamltext.read_documents(text, file)]
    if len(documents) > 1:
        raise InputError(f"{len(documents)} documents; expected one", Where(file=file))
    return settings_from(documents[0] if documents else None, file)


def settings_from(document: Mapping[str, Any] | None, file: str = "") -> SchedulerSettings:
    """Read the content of a file, or a SchedulingShard, as a mapping. ``file`` is its name in errors. Raises InputError."""
    if isinstance(document, Mapping) and is_shard(document):
        return _settings_of_shard(document, file)
    return _settings_from(document, file)


def _settings_from(document: Mapping[str, Any] | None, file: str, *, complete: bool = False) -> SchedulerSettings:
    """``complete``: the list of plugins was made from KAI's, so what it lacks was switched off by name."""
    block = ConfigReader(document, file)
    block.only(_SECTIONS)
    values: dict[str, Any] = {}
    notices: list[str] = []
    if block["actions"]:
        values["actions"] = _actions(block["actions"], block.where("actions"))
    k_value = 1.0  # KAI's default, which matters only with a usage database
    if block["tiers"]:
        plugins = _plugins(block, notices)
        values.update(_engine_values(plugins, notices))
        if not complete:
            notices += _left_out(plugins)
        if "proportion" in plugins and "kValue" in plugins["proportion"]:
            # As in KAI's proportion plugin, a negative value counts as 0, and a multiplier below 1 (below) as 1.
            k_value = max(0.0, plugins["proportion"].number("kValue"))
    if "queueDepthPerAction" in block:
        values["queue_depth"] = _depths(block.inside("queueDepthPerAction"))
    usage = UsageParams()
    if block["usageDBConfig"]:
        usage = _usage(block.inside("usageDBConfig"), notices)
        # Without a usage database KAI ignores kValue.
        values["k_value"] = k_value
    if "scenarioSearchBudgets" in block:
        values["search_budget"], notice = read_duration_budget(block.inside("scenarioSearchBudgets"))
        notices.append(notice)
    if "kailab" in block:
        own = read_policies(block.inside("kailab"))
        if "search_budget" in own and values.get("search_budget", SearchBudget()).bounded:
            notices.append("scenarioSearchBudgets: kailab.searchBudget holds instead")
        values.update(own)
    return SchedulerSettings(engine=_engine(values, file), usage=usage, notices=tuple(notices))


def _settings_of_shard(shard: Mapping[str, Any], file: str) -> SchedulerSettings:
    settings = _settings_from(document_of_shard(shard, file), file, complete=True)
    engine, notices = engine_of_shard(shard, settings.engine, file)
    pool = (shard.get("spec") or {}).get("partitionLabelValue") or DEFAULT_NODE_POOL
    return structs.replace(settings, engine=engine, notices=(*settings.notices, *notices), node_pool=pool)


def _engine(values: dict[str, Any], file: str) -> EngineConfig:
    # Each policy alone first, so that an error names its key.
    for field, key in POLICY_KEYS.items():
        single: dict[str, Any] = {field: values.get(field)}
        try:
            with_policies(EngineConfig(**single))
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


def _plugins(block: ConfigReader, notices: list[str]) -> dict[str, ConfigReader]:
    """Name -> arguments of every plugin in the file, in order. A plugin that is listed twice keeps its first position."""
    plugins: dict[str, ConfigReader] = {}
    for number, tier in enumerate(block.entries("tiers")):
        inside = ConfigReader(tier, block.file, f"tiers[{number}]")
        for place, entry in enumerate(inside.entries("plugins")):
            plugin = ConfigReader(entry, block.file, f"{inside.path}.plugins[{place}]")
            name = plugin["name"]
            if name not in PLUGINS:
                raise InputError(f"no plugin is called {name!r}; expected one of {', '.join(PLUGINS)}", plugin.where())
            idle = [key for key in plugin.values if key not in ("name", "arguments") and plugin[str(key)]]
            if idle:
                notices.append(f"plugin {name}: {', '.join(map(str, idle))} has no effect")
            plugins[name] = ConfigReader(plugin["arguments"], block.file, f"plugin {name}")
            unknown = [str(key) for key in plugins[name].values if key not in ARGUMENTS.get(name, ())]
            if unknown:
                notices.append(f"plugin {name}: argument {', '.join(unknown)} has no effect")
    return plugins


def _engine_values(plugins: dict[str, ConfigReader], notices: list[str]) -> dict[str, Any]:
    listed = tuple(plugins)
    values: dict[str, Any] = {"predicates": "predicates" in plugins}
    values["prefer_shared_devices"] = "gpusharingorder" in plugins
    # Lists with the same effect give equal configurations, so that recorded cycles compare equal.
    if switches(listed) != switches(DEFAULT_PLUGINS):
        values["plugins"] = listed
    for name, why in _ALWAYS.items():
        if name not in plugins:
            notices.append(f"plugin {name} is not listed, but has its effect: {why}")
    notices += [f"plugin {name} has no effect: {why}" for name, why in _IDLE.items() if name in plugins]
    pack, spread = "gpupack" in plugins, "gpuspread" in plugins
    # With both plugins every GPU has the same score, as with none.
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


def _left_out(plugins: Mapping[str, Any]) -> list[str]:
    """A sentence about the plugins of KAI's list that a file leaves out, with the largest effects of that; none if it
    leaves out none that matters here."""
    replaced = {"gpupack"} if "gpuspread" in plugins else set()
    missing = [
        name for name in DEFAULT_PLUGINS if name not in plugins and name not in {*_ALWAYS, *_NO_DIFFERENCE, *replaced}
    ]
    if not missing:
        return []
    effects = [effect for names, effect in _EFFECTS.items() if not plugins.keys() & set(names)]
    lost = f": {'; '.join(effects)}" if effects else ""
    are = "plugin {} is" if len(missing) == 1 else "plugins {} are"
    return [f"tiers replaces KAI's list of plugins, so {are.format(', '.join(missing))} off{lost}"]


def _depths(block: ConfigReader) -> dict[str, int]:
    """Action -> the number of jobs to try in each queue; -1: all."""
    block.only(ACTIONS)
    return {str(name): block.count(name, -1) for name in block.values}


def _usage(block: ConfigReader, notices: list[str]) -> UsageParams:
    if block["connectionString"] or block["connectionStringEnvVar"]:
        notices.append("usageDBConfig: past usage is computed from the cluster itself, without a database")
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
        # YAML parses an unquoted time.
        values["tumbling_start"] = start.timestamp() if hasattr(start, "timestamp") else parse_time(start, where)
    return UsageParams(**values)


def settings_of(
    source: SchedulerSettings | EngineConfig | Mapping[str, Any] | str | Path | None, base: Path | None = None
) -> SchedulerSettings:
    """Settings from a file (relative to ``base``), from the content of one as a mapping, or from an engine configuration. None gives KAI's
    defaults. Raises InputError."""
    if isinstance(source, SchedulerSettings):
        return source
    if isinstance(source, EngineConfig):
        return SchedulerSettings(engine=with_policies(source))
    if isinstance(source, str | Path):
        return load_settings(source if base is None else base / source)
    return settings_from(source)
