"""Policy kinds in documents about KAI (``kai.nvidia.com``), field by field: the field of KAI that acts this way, or that KAI has none.

KAI itself knows none of these kinds: its quotas are Queues, its settings a SchedulingShard. The table of all fields and the translation of
manifests by it are here; ``builders`` has the rule of each field and what the rules yield. Source: KAI's API types and scheduler.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from kailab.advice.policykinds import builders
from kailab.advice.policykinds.builders import Building, FieldRule, Given, Meaning, none
from kailab.errors import InputError, InputErrors
from kailab.model.manifests import Manifest, Manifests, from_objects
from kailab.model.objects import name_of

GROUP = "kai.nvidia.com"

_QUOTA: Mapping[str, FieldRule] = {
    "namespace": builders.namespace,
    "guaranteedQuota.gpus": builders.guaranteed_gpus,
    "guaranteedQuota.memory": builders.guaranteed_memory,
    "guaranteedQuota.maxPodsPerDay": builders.pods_per_day,
    "guaranteedQuota.expirationSeconds": builders.expiration,
    "burstQuota.gpus": builders.burst_gpus,
    "burstQuota.memory": builders.burst_memory,
    "burstQuota.maxPodsPerDay": builders.pods_per_day,
    "burstQuota.conditionRequired": builders.condition,
    "preemptionAllowed": builders.preemption_allowed,
}

KINDS: Mapping[str, Mapping[str, FieldRule]] = {
    # [] stands for any index of a list, * for any depth of children.
    "ResourceQuota": {
        "hierarchy*.name": builders.hierarchy_name,
        "hierarchy*.weight": builders.hierarchy_weight,
        **_QUOTA,
    },
    "Quota": _QUOTA,
    "QueuePolicy": {
        "scheduling.algorithmName": builders.algorithm,
        "scheduling.fairShareConfig.updateIntervalSeconds": builders.update_interval,
        "scheduling.fairShareConfig.weightedFairnessEnabled": builders.weighted,
        "scheduling.fairShareConfig.timeWeightedFairness": builders.time_weighted,
        "scheduling.fairShareConfig.preemptionEnabled": builders.preemption_enabled,
    },
    "SchedulingPolicy": {
        "strategyName": builders.strategy,
        "placementStrategy.preferFewNodes": builders.few_nodes,
        "placementStrategy.preferManyNodes": builders.many_nodes,
        "placementStrategy.nodeAffinityPreference": builders.node_preference,
        "placementStrategy.antiAffinityPreference": builders.pod_preference,
        "placementStrategy.gpuDensityTarget": builders.density,
        "placementStrategy.spreadExclusiveGPUAcrossNodes": builders.spread_exclusive,
        "placementStrategy.maxGPUsPerNode": builders.most_gpus_of_a_node,
        "placementStrategy.minNodeCount": builders.fewest_nodes,
        "topologyPolicy.strategy": builders.strategy,
        "topologyPolicy.preferNVLink": builders.fabric,
        "memoryPolicy.strategy": builders.memory_strategy,
        "memoryPolicy.memoryThreshold": builders.memory_threshold,
        "multiGPUPolicy.preferSameSwitch": builders.fabric,
        "multiGPUPolicy.maxGPUsPerNode": builders.most_gpus_of_a_node,
        "preemption.enabled": builders.preemption_enabled,
        "preemption.gracePeriod": builders.grace,
    },
    "PreemptionPolicy": {
        "enabled": builders.preemption_enabled,
        "gracePeriodsSeconds": builders.grace,
        "targetPriorityDifference": builders.priority_difference,
        "preemptionOrder[].name": builders.preempted_class,
        "preemptionOrder[].priority": builders.preempted_priority,
        "preemptionOrder[].maxPreemptionsPerCycle": builders.preemptions_per_cycle,
        "checkpointHooksEnabled": builders.checkpoint_hooks,
    },
    "QueueMonitor": {
        "recordMetricsIntervalSeconds": builders.record_interval,
        "metricsEndpoint": builders.metrics_endpoint,
    },
    "QueueDrainingPolicy": {
        "selectionCriteria[].criterion": builders.criterion,
        "selectionCriteria[].weight": builders.criterion_weight,
        "maxJobsPerDrainCycle": builders.drained_jobs,
        "minimumResourcesPerJob": builders.least_resources,
    },
    "KAISchedulerConfig": {
        "enableGangScheduling": builders.gang,
        "enableFairShare": builders.fair_share,
        "enablePreemption": builders.preemption_enabled,
        "enableQueueManagement": builders.queue_management,
        "clusterResources.totalGpus": builders.total_gpus,
        "clusterResources.totalMemory": builders.total_memory,
        "schedulingPolicy": builders.algorithm,
        "placementStrategy": builders.main_placement,
        "preemptionEnabled": builders.preemption_enabled,
        "queueDrainingPolicy": builders.draining_policy,
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
        name_of(manifest.object): manifest.object["value"] for manifest in every if manifest.kind == "PriorityClass"
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
            if given.value is not None and (way := builders.placement_of(given)):
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
