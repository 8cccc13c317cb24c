"""Policy kinds in documents about KAI (``kai.nvidia.com``), field by field: the field of KAI that acts this way, or that KAI has none.

KAI itself knows none of these kinds: its quotas are Queues, its settings a SchedulingShard. The table of all fields and the translation of
manifests by it come last. The rules of fields and their results come first. Source: KAI's API types and scheduler.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import Any

from kailab.engine.config import ACTIONS
from kailab.engine.policies.switches import DEFAULT_PLUGINS
from kailab.errors import InputError, InputErrors
from kailab.model import labels, quantities, times
from kailab.model.kinds import api_version_of
from kailab.model.manifests import Manifest, Manifests, from_objects, value_at
from kailab.model.objects import Object, name_of, priority_of
from kailab.model.quantities import UNLIMITED
from kailab.model.queues import RESOURCES, share
from kailab.model.times import format_duration
from kailab.scheduler.reading.podgroups import NON_PREEMPTIBLE_FROM


class FieldVerdict(StrEnum):
    """``KAI``: a field of KAI acts this way. ``ALWAYS``: KAI always does so. ``KAILAB``: KAI can't, a policy of kailab can. ``NONE``:
    neither can."""

    KAI = "acts as"
    ALWAYS = "KAI always"
    KAILAB = "kailab only"
    NONE = "KAI has none"


@dataclass(frozen=True, slots=True)
class Meaning:
    verdict: FieldVerdict
    text: str


def acts_as(text: str) -> Meaning:
    return Meaning(FieldVerdict.KAI, text)


def always(text: str) -> Meaning:
    return Meaning(FieldVerdict.ALWAYS, text)


def kailab_only(text: str) -> Meaning:
    return Meaning(FieldVerdict.KAILAB, text)


def none(text: str) -> Meaning:
    return Meaning(FieldVerdict.NONE, text)


@dataclass(frozen=True, slots=True)
class Given:
    """A field of a manifest. ``path``: ``spec.burstQuota.gpus``, ``spec.hierarchy[0].weight``."""

    manifest: Manifest
    path: str

    @property
    def value(self) -> Any:
        return value_at(self.manifest.object, self.path)

    def refuse(self, expected: str) -> InputError:
        return InputError(f"{self.value!r:.60}: expected {expected}", self.manifest.where(self.path))

    def beside(self, name: str) -> Given:
        """Another field of the same mapping."""
        return Given(self.manifest, f"{self.path.rpartition('.')[0]}.{name}")

    def at(self, path: str) -> Given:
        """Another field of the same object."""
        return Given(self.manifest, path)

    def number(self, least: float = 0) -> Fraction:
        value = self.value
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value < float("inf"):
            raise self.refuse(f"a number of at least {least:g}")
        return Fraction(repr(value))

    def count(self) -> int:
        value = self.number()
        if value.denominator != 1:
            raise self.refuse("a whole number")
        return int(value)

    def megabytes(self) -> int:
        """Memory in the unit of Queues: 10^6 bytes, rounded down."""
        if isinstance(self.value, bool) or not isinstance(self.value, int | float | str):
            raise self.refuse('an amount of memory such as "960Gi"')
        return quantities.mem_bytes(self.value, self.manifest.where(self.path)) // 10**6

    def flag(self) -> bool:
        if not isinstance(self.value, bool):
            raise self.refuse("true or false")
        return self.value

    def text(self) -> str:
        if not isinstance(self.value, str) or not self.value:
            raise self.refuse("a text")
        return self.value

    def one_of(self, choices: Sequence[str]) -> str:
        if self.value not in choices:
            raise self.refuse(" or ".join(choices))
        return str(self.value)

    def seconds(self) -> float:
        """A number of seconds, or a duration such as 30s."""
        if isinstance(self.value, str):
            return times.duration_seconds(self.value, self.manifest.where(self.path))
        return float(self.number())


MAIN = "default"
"""The SchedulingShard that KAI's chart makes, for all nodes without a node pool."""


@dataclass
class Building:
    """The objects and settings so far. ``gpus``: of the cluster, if known. ``placements``: strategies of all SchedulingPolicies; if there
    are several, each gets a shard. ``given_classes``: values of existing PriorityClasses."""

    gpus: Fraction | None = None
    placements: set[str] = field(default_factory=set)
    given_classes: dict[str, int] = field(default_factory=dict)
    queues: dict[str, Object] = field(default_factory=dict)
    shards: dict[str, Object] = field(default_factory=dict)
    classes: dict[str, Object] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    _said: dict[tuple[str, ...], tuple[Any, Given]] = field(default_factory=dict)

    def queue(self, name: str, given: Given, parent: str = "") -> Object:
        """The spec of a Queue. Without amounts nothing is guaranteed and nothing is limited."""
        if parent:
            self.once(("queue", name, "parentQueue"), parent, given)
        if name not in self.queues:
            amounts = {resource: share(quota=0) for resource in RESOURCES}
            # The documents set only GPUs, so CPU and memory are unlimited.
            amounts["cpu"]["quota"] = amounts["memory"]["quota"] = UNLIMITED
            spec: Object = {"resources": amounts}
            self.queues[name] = {
                "apiVersion": api_version_of("Queue"),
                "kind": "Queue",
                "metadata": {"name": name},
                "spec": spec,
            }
        spec = self.queues[name]["spec"]
        if parent:
            self.queues[name]["spec"] = spec = {"parentQueue": parent, **spec}
        return spec

    def amount(self, queue: str, resource: str, key: str, value: Any, given: Given) -> str:
        """Set an amount; returns a description of the field."""
        self.once(("queue", queue, resource, key), value, given)
        self.queue(queue, given)["resources"][resource][key] = value
        return f"Queue/{queue} spec.resources.{resource}.{key}: {value}"

    def shard(self, name: str, *path: str, value: Any, given: Given) -> str:
        """Set a field of a SchedulingShard; returns a description of the field."""
        self.once(("shard", name, *path), value, given)
        made = {
            "apiVersion": api_version_of("SchedulingShard"),
            "kind": "SchedulingShard",
            "metadata": {"name": name},
            "spec": {},
        }
        at = self.shards.setdefault(name, made)["spec"]
        if name != MAIN:
            at["partitionLabelValue"] = name
        for step in path[:-1]:
            at = at.setdefault(step, {})
        at[path[-1]] = value
        text = "true" if value is True else "false" if value is False else value
        return f"SchedulingShard/{name} spec.{'.'.join(path)}: {text}"

    def policy(self, *path: str | int, value: Any, given: Given) -> str:
        """Set a field of kailab's section of the scheduler's configuration; returns a description of the field."""
        self.once(("config", *map(str, path)), value, given)
        at = self.config.setdefault("kailab", {})
        for step in path[:-1]:
            at = at.setdefault(step, {})
        at[path[-1]] = value
        return f"kailab.{'.'.join(map(str, path))}: {value}"

    def without(self, action: str, given: Given) -> str:
        """Disable an action."""
        return self.shard(MAIN, "actions", action, "enabled", value=False, given=given)

    def priority_class(self, name: str, value: int, given: Given) -> str:
        self.once(("class", name), value, given)
        if (there := self.given_classes.get(name, value)) != value:
            raise given.refuse(f"{there}, the value of the PriorityClass {name} beside it")
        if name not in self.given_classes:
            kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
            self.classes[name] = {**kind, "metadata": {"name": name}, "value": value}
        return f"PriorityClass/{name} value: {value}"

    def once(self, key: tuple[str, ...], value: Any, given: Given) -> None:
        """Raises InputError if two fields set one field of KAI to different values."""
        before, by = self._said.setdefault(key, (value, given))
        if before != value:
            raise InputError(
                f"{value} for {' '.join(key)}, where {by.manifest.where(by.path)} wants {before}: KAI has one such field",
                given.manifest.where(given.path),
            )

    def objects(self) -> list[Object]:
        """KAI's objects, parents before children."""
        return [*self.classes.values(), *self.queues.values(), *self.shards.values()]

    def configuration(self) -> Object:
        """The scheduler's configuration file: of the main shard, with kailab's own policies."""
        shard = self.shards.get(MAIN, {"spec": {}})["spec"]
        values: Object = {}
        off = {name for name, setting in shard.get("actions", {}).items() if not setting["enabled"]}
        if off:
            values["actions"] = ", ".join(name for name in ACTIONS if name not in off)
        if placement := shard.get("placementStrategy"):
            arguments = {"gpu": "binpack", "cpu": "binpack", **placement}
            configured = {"nodeplacement": {"arguments": arguments}}
            values["tiers"] = [{"plugins": [{"name": name, **configured.get(name, {})} for name in DEFAULT_PLUGINS]}]
        if depth := shard.get("queueDepthPerAction"):
            values["queueDepthPerAction"] = depth
        return {**values, **self.config}

    def pool(self, policy: str) -> str:
        """The shard of a SchedulingPolicy: the main one, or its own if policies place differently."""
        return MAIN if len(self.placements) < 2 else policy

    def pooled(self, name: str) -> str:
        return "" if name == MAIN else f"; nodes and work need the label {labels.NODE_POOL}: {name}"


FieldRule = Callable[[Given, Building], Meaning]
"""Gives the meaning of a field. Raises InputError for an invalid value."""


def always_means(meaning: Meaning, read: Callable[[Given], object] = lambda given: None) -> FieldRule:
    """A rule with the same meaning for every value that ``read`` accepts."""

    def rule(given: Given, building: Building) -> Meaning:
        read(given)
        return meaning

    return rule


def switch(on: Meaning, off: Meaning) -> FieldRule:
    """A rule for true and false."""

    def rule(given: Given, building: Building) -> Meaning:
        return on if given.flag() else off

    return rule


def team(given: Given) -> str:
    """The team of a quota: the namespace in its spec or its own namespace, else its name."""
    obj = given.manifest.object
    for path in ("spec.namespace", "metadata.namespace", "metadata.name"):
        if value_at(obj, path) is not None:
            return given.at(path).text()
    raise given.at("metadata.name").refuse("a name")


def namespace(given: Given, building: Building) -> Meaning:
    name = given.text()
    building.queue(name, given)
    return acts_as(f"Queue/{name}; KAI does not read the namespace: work needs the label {labels.QUEUE}: {name}")


def guaranteed_gpus(given: Given, building: Building) -> Meaning:
    text = building.amount(team(given), "gpu", "quota", format_fraction(given.number()), given)
    if given.at("spec.burstQuota.gpus").value is None:
        text += ", " + building.amount(team(given), "gpu", "limit", format_fraction(given.number()), given)
    return acts_as(text)


def guaranteed_memory(given: Given, building: Building) -> Meaning:
    text = building.amount(team(given), "memory", "quota", given.megabytes(), given)
    if given.at("spec.burstQuota.memory").value is None:
        text += ", " + building.amount(team(given), "memory", "limit", given.megabytes(), given)
    return acts_as(f"{text} (MB of what pods request of the node, not of GPUs)")


def burst_gpus(given: Given, building: Building) -> Meaning:
    beside = given.at("spec.guaranteedQuota.gpus")
    own = beside.number() if beside.value is not None else Fraction(0)
    text = building.amount(team(given), "gpu", "limit", format_fraction(own + given.number()), given)
    return acts_as(f"{text} (quota and burst together)")


def burst_memory(given: Given, building: Building) -> Meaning:
    beside = given.at("spec.guaranteedQuota.memory")
    own = beside.megabytes() if beside.value is not None else 0
    text = building.amount(team(given), "memory", "limit", own + given.megabytes(), given)
    return acts_as(f"{text} (MB, quota and burst together)")


pods_per_day = always_means(
    none("no queue counts pods or days; a Kubernetes ResourceQuota bounds the pods of a namespace at one time"),
    Given.count,
)


def preemption_allowed(given: Given, building: Building) -> Meaning:
    name = team(given)
    if given.flag():
        return always("evicts what a queue borrowed; within its quota, only for higher priority of the same queue")
    return none(
        f"no field of Queue/{name}: the work itself says {labels.PREEMPTIBILITY}: non-preemptible, and then runs only within the quota"
    )


def hierarchy_name(given: Given, building: Building) -> Meaning:
    name, parent = given.text(), hierarchy_parent(given)
    building.queue(name, given, parent)
    return acts_as(f"Queue/{name}" + (f" spec.parentQueue: {parent}" if parent else ""))


def hierarchy_weight(given: Given, building: Building) -> Meaning:
    """The quota that a weight amounts to, and the weight for GPUs beyond quotas."""
    name = given.beside("name").text()
    texts = [building.amount(name, "gpu", "overQuotaWeight", format_fraction(given.number()), given)]
    share = node_gpus(given, building)
    if share is None:
        return acts_as(f"{texts[0]}; its quota is a share of the cluster's GPUs, whose number is unknown: give --gpus")
    return acts_as(", ".join([building.amount(name, "gpu", "quota", format_fraction(share), given), *texts]))


def node_gpus(given: Given, building: Building) -> Fraction | None:
    """The GPUs of a node of the hierarchy: its part of the parent's, by the weights of its siblings. None if the cluster's GPUs are unknown."""
    node = given.path.rpartition(".")[0]
    around, _, _ = node.rpartition("[")
    siblings = given.at(around).value
    weights = [given.at(f"{around}[{number}].weight").number() for number in range(len(siblings))]
    total, mine = sum(weights, Fraction(0)), given.at(f"{node}.weight").number()
    above_path = around.rpartition(".children")[0]
    above = node_gpus(given.at(f"{above_path}.weight"), building) if above_path else building.gpus
    return None if above is None else above * mine / total if total else Fraction(0)


def hierarchy_parent(given: Given) -> str:
    """The name of the parent node in the hierarchy; empty at the top."""
    around = given.path.rpartition("[")[0].rpartition(".children")[0]
    return given.at(f"{around}.name").text() if around else ""


def format_fraction(value: Fraction) -> int | float:
    """As a manifest writes it."""
    return int(value) if value.denominator == 1 else round(float(value), 3)


_PLACEMENTS = {
    "bin-pack": "binpack",
    "binpack": "binpack",
    "BestFit": "binpack",
    "spread": "spread",
    "SpreadEvenly": "spread",
}
_WEIGHTS = {
    "priority-class": "priority",
    "wait-time": "waiting",
    "resource-efficiency": "efficiency",
    "team-fairness": "fairness",
}


def _placed(way: str, where: str) -> Meaning:
    return acts_as(f"placementStrategy.gpu: {way}, {where}")


def placement_of(given: Given) -> str:
    """``binpack`` or ``spread``; empty for another strategy."""
    return _PLACEMENTS.get(given.one_of((*_PLACEMENTS, "SingleNode")), "")


def strategy(given: Given, building: Building) -> Meaning:
    way = placement_of(given)
    if not way:
        need = f"{labels.TOPOLOGY_REQUIRED}: {labels.HOSTNAME}"
        return acts_as(f"annotations of the work: {need}, and {labels.TOPOLOGY} with a Topology of that level")
    name = building.pool(given.at("metadata.name").text())
    text = building.shard(name, "placementStrategy", "gpu", value=way, given=given)
    return acts_as(f"{text}, for all work of the shard{building.pooled(name)}")


def main_placement(given: Given, building: Building) -> Meaning:
    if not (way := placement_of(given)):
        raise given.refuse("bin-pack or spread")
    return acts_as(building.shard(MAIN, "placementStrategy", "gpu", value=way, given=given))


def preemption_enabled(given: Given, building: Building) -> Meaning:
    if given.flag():
        return always("reclaims and preempts: both are among its actions unless they are taken out")
    texts = [building.without(action, given) for action in ("reclaim", "preempt")]
    return acts_as(", ".join(texts))


def grace(given: Given, building: Building) -> Meaning:
    seconds = given.seconds()
    text = building.policy("checkpoint", "gracePeriod", value=format_duration(seconds), given=given)
    return acts_as(f"each pod's own spec.terminationGracePeriodSeconds: {seconds:g}; for all at once kailab has {text}")


def preempted_priority(given: Given, building: Building) -> Meaning:
    value = given.count()
    text = building.priority_class(given.beside("name").text(), value, given)
    if value >= NON_PREEMPTIBLE_FROM:
        text += f"; from {NON_PREEMPTIBLE_FROM} on KAI takes work as non-preemptible unless it says {labels.PREEMPTIBILITY}: preemptible"
    building.policy("victimOrder", value="priority", given=given)
    return acts_as(
        f"{text}; within a queue the lowest goes first, over all queues only with kailab.victimOrder: priority"
    )


def preemptions_per_cycle(given: Given, building: Building) -> Meaning:
    priority = given.beside("priority").count()
    building.policy("maxEvictionsPerCycleByPriority", priority, value=given.count(), given=given)
    return kailab_only(
        f"kailab.maxEvictionsPerCycleByPriority: {{{priority}: {given.count()}}}; KAI bounds no evictions"
    )


algorithm = always_means(
    always("divides by fair share (plugin proportion)"), lambda given: given.one_of(("fair-share",))
)


def time_weighted(given: Given, building: Building) -> Meaning:
    if not given.flag():
        return always("goes without: how long work waited decides only among equals")
    text = building.policy("agedAfter", value="24h", given=given)
    return kailab_only(
        f"{text}; KAI's spec.usageDBConfig weighs what queues used before, not how long their work waits"
    )


def metrics_endpoint(given: Given, building: Building) -> Meaning:
    if given.text() == "/metrics":
        return always("serves its metrics at /metrics")
    return none("the path is /metrics and can't be changed")


def criterion(given: Given, building: Building) -> Meaning:
    name = _WEIGHTS[given.one_of(tuple(_WEIGHTS))]
    return kailab_only(f"kailab.jobOrder.weights.{name}; KAI orders by priority, then age")


def criterion_weight(given: Given, building: Building) -> Meaning:
    name = _WEIGHTS[given.beside("criterion").one_of(tuple(_WEIGHTS))]
    text = building.policy("jobOrder", "weights", name, value=format_fraction(given.number()), given=given)
    return kailab_only(text)


def drained_jobs(given: Given, building: Building) -> Meaning:
    text = building.shard(MAIN, "queueDepthPerAction", "allocate", value=given.count(), given=given)
    return acts_as(f"{text}, of each queue")


few_nodes = switch(
    _placed("binpack", "where the strategy of this policy says so"),
    _placed("spread", "where the strategy of this policy says so"),
)

many_nodes = switch(
    _placed("spread", "where the strategy of this policy says so"),
    _placed("binpack", "where the strategy of this policy says so"),
)


most_gpus_of_a_node = always_means(
    none("no bound by node; required pod anti-affinity keeps pods of one app apart"), Given.count
)


spread_exclusive = switch(
    _placed("spread", "for whole GPUs and shares alike"), _placed("binpack", "for whole GPUs and shares alike")
)

fabric = always_means(
    none(
        "which GPUs of a node are linked is not looked at: the device plugin picks them; a Topology tells nodes apart"
    ),
    Given.flag,
)


GROUP = "kai.nvidia.com"

_QUOTA: Mapping[str, FieldRule] = {
    "namespace": namespace,
    "guaranteedQuota.gpus": guaranteed_gpus,
    "guaranteedQuota.memory": guaranteed_memory,
    "guaranteedQuota.maxPodsPerDay": pods_per_day,
    "guaranteedQuota.expirationSeconds": always_means(
        none("a queue's quota has no end and is not reset"), Given.seconds
    ),
    "burstQuota.gpus": burst_gpus,
    "burstQuota.memory": burst_memory,
    "burstQuota.maxPodsPerDay": pods_per_day,
    "burstQuota.conditionRequired": always_means(
        none("what is idle is lent at once, however little; there is no threshold"), Given.text
    ),
    "preemptionAllowed": preemption_allowed,
}

KINDS: Mapping[str, Mapping[str, FieldRule]] = {
    # [] stands for any index of a list, * for any depth of children.
    "ResourceQuota": {
        "hierarchy*.name": hierarchy_name,
        "hierarchy*.weight": hierarchy_weight,
        **_QUOTA,
    },
    "Quota": _QUOTA,
    "QueuePolicy": {
        "scheduling.algorithmName": algorithm,
        "scheduling.fairShareConfig.updateIntervalSeconds": always_means(
            always("works shares out anew in each cycle; --schedule-period (1s) says how often one begins"),
            Given.seconds,
        ),
        "scheduling.fairShareConfig.weightedFairnessEnabled": switch(
            always("lends by Queue spec.resources.*.overQuotaWeight"),
            acts_as("the same overQuotaWeight in every Queue: there is no switch"),
        ),
        "scheduling.fairShareConfig.timeWeightedFairness": time_weighted,
        "scheduling.fairShareConfig.preemptionEnabled": preemption_enabled,
    },
    "SchedulingPolicy": {
        "strategyName": strategy,
        "placementStrategy.preferFewNodes": few_nodes,
        "placementStrategy.preferManyNodes": many_nodes,
        "placementStrategy.nodeAffinityPreference": always_means(
            none("preferred node affinity is ignored, in a policy and in pods; a required one in the pods counts")
        ),
        "placementStrategy.antiAffinityPreference": always_means(
            acts_as("spec.affinity.podAntiAffinity of the pods themselves (plugin podaffinity)")
        ),
        "placementStrategy.gpuDensityTarget": always_means(
            none("binpack has no target: it fills a node as far as work fits"), Given.number
        ),
        "placementStrategy.spreadExclusiveGPUAcrossNodes": spread_exclusive,
        "placementStrategy.maxGPUsPerNode": most_gpus_of_a_node,
        "placementStrategy.minNodeCount": always_means(
            none("no least number of nodes; required pod anti-affinity gives each pod a node"), Given.count
        ),
        "topologyPolicy.strategy": strategy,
        "topologyPolicy.preferNVLink": fabric,
        "memoryPolicy.strategy": always_means(
            none(
                "shares of GPUs fit or do not; of several GPUs that fit, gpupack takes the fullest, gpuspread the emptiest"
            ),
            Given.text,
        ),
        "memoryPolicy.memoryThreshold": always_means(none("a GPU is shared to 100 %; what runs on it is not measured")),
        "multiGPUPolicy.preferSameSwitch": fabric,
        "multiGPUPolicy.maxGPUsPerNode": most_gpus_of_a_node,
        "preemption.enabled": preemption_enabled,
        "preemption.gracePeriod": grace,
    },
    "PreemptionPolicy": {
        "enabled": preemption_enabled,
        "gracePeriodsSeconds": grace,
        "targetPriorityDifference": always_means(
            none("any higher priority preempts, by however little, within one queue"), Given.number
        ),
        "preemptionOrder[].name": always_means(
            always("evicts by the value of the class, not by its name or place in a list"), Given.text
        ),
        "preemptionOrder[].priority": preempted_priority,
        "preemptionOrder[].maxPreemptionsPerCycle": preemptions_per_cycle,
        "checkpointHooksEnabled": switch(
            acts_as(
                "lifecycle.preStop of the pods' containers, within their grace period: the kubelet runs it, KAI waits"
            ),
            none("hooks of pods run whenever they have one; take preStop out of the containers"),
        ),
    },
    "QueueMonitor": {
        "recordMetricsIntervalSeconds": always_means(
            none("metrics are set in each cycle; how often they are read is the ServiceMonitor's interval"),
            Given.seconds,
        ),
        "metricsEndpoint": metrics_endpoint,
    },
    "QueueDrainingPolicy": {
        "selectionCriteria[].criterion": criterion,
        "selectionCriteria[].weight": criterion_weight,
        "maxJobsPerDrainCycle": drained_jobs,
        "minimumResourcesPerJob": always_means(none("no job is too small; an admission policy can refuse it")),
    },
    "KAISchedulerConfig": {
        "enableGangScheduling": switch(
            always("starts the minimum of members of each PodGroup together"),
            none("there is no switch; a minMember of 1 in each PodGroup is the same"),
        ),
        "enableFairShare": switch(
            always("divides by fair share (plugin proportion)"),
            none("there is no switch; one Queue for all work is the same"),
        ),
        "enablePreemption": preemption_enabled,
        "enableQueueManagement": switch(
            always("decides by queues"), none("there is no switch; one Queue for all work is the same")
        ),
        "clusterResources.totalGpus": always_means(
            always("counts status.allocatable of the nodes; here the number turns weights into quotas"), Given.number
        ),
        "clusterResources.totalMemory": always_means(always("counts status.allocatable of the nodes"), Given.megabytes),
        "schedulingPolicy": algorithm,
        "placementStrategy": main_placement,
        "preemptionEnabled": preemption_enabled,
        "queueDrainingPolicy": always_means(
            kailab_only("kailab.jobOrder, as the policy of that name says"), Given.text
        ),
    },
}
"""Kind -> field below ``spec`` -> its rule."""


@dataclass(frozen=True, slots=True)
class TranslatedField:
    """One field of a policy and its meaning."""

    given: Given
    meaning: Meaning


@dataclass(frozen=True)
class Translation:
    """``objects``: KAI's, ready to apply. ``configuration``: the scheduler's file, with kailab's own policies. ``passed_over``: manifests of
    other kinds."""

    fields: list[TranslatedField]
    objects: list[dict[str, Any]]
    configuration: dict[str, Any]
    passed_over: list[Manifest]


def translate(manifests: Manifests, gpus: Fraction | None = None) -> Translation:
    """``gpus``: of the cluster, for weights that are shares of it. Raises InputError(s), also if no manifest has one of these kinds."""
    ours = [manifest for manifest in manifests if str(manifest.object["apiVersion"]).startswith(f"{GROUP}/")]
    if not ours:
        raise InputError(f"nothing to translate; expected kinds of {GROUP}: {', '.join(KINDS)}")
    errors: list[InputError] = []
    building = Building()
    fields: list[TranslatedField] = []
    try:
        _read_context(ours, manifests, building, gpus)
        for given in (field for manifest in ours for field in _fields(manifest)):
            try:
                fields.append(TranslatedField(given, _rule(given)(given, building)))
            except InputError as error:
                errors.append(error)
    except InputError as error:
        errors.append(error)
    if errors:
        raise InputErrors.of(list({str(error): error for error in errors}.values()))
    from_objects(building.objects())  # raises errors that KAI's API server would raise
    passed = [manifest for manifest in manifests if manifest not in ours]
    return Translation(fields, building.objects(), building.configuration(), passed)


def _read_context(ours: list[Manifest], every: Manifests, building: Building, gpus: Fraction | None) -> None:
    """Collect values that the rules of other fields need."""
    building.gpus = gpus
    building.given_classes = {
        name_of(manifest.object): priority_of(manifest.object) for manifest in every if manifest.kind == "PriorityClass"
    }
    for manifest in ours:
        kind = manifest.object.get("kind")
        if kind not in KINDS:
            raise InputError(f"is no kind of the documents; expected {', '.join(KINDS)}", manifest.where("kind"))
        if not isinstance(manifest.object.get("spec"), dict):
            raise InputError("has no spec", manifest.where("spec"))
        total = Given(manifest, "spec.clusterResources.totalGpus")
        if kind == "KAISchedulerConfig" and gpus is None and total.value is not None:
            building.gpus = total.number()
        for path in ("spec.strategyName", "spec.topologyPolicy.strategy") if kind == "SchedulingPolicy" else ():
            given = Given(manifest, path)
            if given.value is not None and (way := placement_of(given)):
                building.placements.add(way)


def _fields(manifest: Manifest) -> Iterator[Given]:
    """Every field that has a rule, and every other leaf."""
    kind = str(manifest.object["kind"])

    def walk(value: Any, path: str) -> Iterator[Given]:
        whole = _pattern(path) in KINDS[kind]
        if not whole and isinstance(value, dict) and value:
            for key, inside in value.items():
                yield from walk(inside, f"{path}.{key}")
        elif not whole and isinstance(value, list) and value:
            for number, inside in enumerate(value):
                yield from walk(inside, f"{path}[{number}]")
        else:
            yield Given(manifest, path)

    for key, value in manifest.object["spec"].items():
        yield from walk(value, f"spec.{key}")


def _rule(given: Given) -> FieldRule:
    return KINDS[str(given.manifest.object["kind"])].get(_pattern(given.path), _unknown)


def _unknown(given: Given, building: Building) -> Meaning:
    pattern, known = _pattern(given.path), KINDS[str(given.manifest.object["kind"])]
    if given.value not in (None, {}, []) and any(
        text.startswith((f"{pattern}.", f"{pattern}[", f"{pattern}*")) for text in known
    ):
        raise given.refuse("what it holds field by field, as the documents write it")
    return none("the documents do not explain it either")


def _pattern(path: str) -> str:
    """``spec.hierarchy[0].children[1].name`` is ``hierarchy*.name``."""
    plain = re.sub(r"\[\d+\]", "[]", path.removeprefix("spec."))
    return re.sub(r"^hierarchy\[\](\.children\[\])*", "hierarchy*", plain)
