"""Misconfigurations that keep a workload from running: each changes a manifest as a user might have written it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from checks.explaining.pod_templates import pod_templates
from checks.explaining.random_clusters import MODELS, POOL, RACK, RESERVED, TOPOLOGY
from kailab.cluster.protocol import Object
from kailab.model import labels

GPU = labels.GPU_RESOURCE


@dataclass(frozen=True)
class Surroundings:
    """Objects to which a misconfiguration may refer. ``inner``: queues with children."""

    chance: Random
    inner: Sequence[str]
    racks: bool


Misconfiguration = Callable[[Object, Surroundings], None]


def template_of(work: Object) -> Object:
    """The metadata and spec of its pods: the last template, as that of workers, or the pod itself."""
    return list(pod_templates(work))[-1]


def _labels(work: Object) -> list[dict[str, str]]:
    return [holder["metadata"].setdefault("labels", {}) for holder in (work, *pod_templates(work))]


def _annotations(work: Object) -> list[dict[str, str]]:
    return [holder["metadata"].setdefault("annotations", {}) for holder in (work, *pod_templates(work))]


def _spec(work: Object) -> Object:
    spec: Object = template_of(work)["spec"]
    return spec


def set_label(work: Object, key: str, value: str | None) -> None:
    """Set a label of a workload and its pods, or remove it (None)."""
    for labels_of_object in _labels(work):
        labels_of_object.pop(key, None)
        if value is not None:
            labels_of_object[key] = value


def set_annotation(work: Object, key: str, value: str) -> None:
    for notes in _annotations(work):
        notes[key] = value


def _queue(name: str) -> Misconfiguration:
    return lambda work, _: set_label(work, labels.QUEUE, name)


def _no_queue(work: Object, _: Surroundings) -> None:
    set_label(work, labels.QUEUE, None)


def _inner_queue(work: Object, around: Surroundings) -> None:
    set_label(work, labels.QUEUE, around.chance.choice(around.inner) if around.inner else "t0")


def _model(work: Object, around: Surroundings) -> None:
    _spec(work)["nodeSelector"] = {labels.GPU_PRODUCT: around.chance.choice((*MODELS, "B200"))}


def _affinity(work: Object, around: Surroundings) -> None:
    models = around.chance.sample((*MODELS, "B200"), around.chance.choice((1, 2)))
    term = {"matchExpressions": [{"key": labels.GPU_PRODUCT, "operator": "In", "values": models}]}
    required = {"nodeSelectorTerms": [term]}
    _affinities(work)["nodeAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": required}


def _affinities(work: Object) -> Object:
    affinity: Object = _spec(work).setdefault("affinity", {})
    return affinity


def _tolerates(work: Object, _: Surroundings) -> None:
    _spec(work)["tolerations"] = [{"key": RESERVED, "operator": "Exists"}]


def _gates(work: Object, _: Surroundings) -> None:
    _spec(work)["schedulingGates"] = [{"name": "lab/budget"}]


def _suspended(work: Object, _: Surroundings) -> None:
    if work["kind"] == "Job":
        work["spec"]["suspend"] = True


def _claim(work: Object, _: Surroundings) -> None:
    _spec(work)["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "corpus"}}]


def _config_map(work: Object, _: Surroundings) -> None:
    _spec(work)["volumes"] = [{"name": "conf", "configMap": {"name": "settings"}}]


def _priority_class(work: Object, _: Surroundings) -> None:
    if work["kind"] != "Pod":  # refused for a bare pod
        _spec(work)["priorityClassName"] = "research-high"


def _priority_label(work: Object, _: Surroundings) -> None:
    set_label(work, "priorityClassName", "research-high")


def _node_pool(work: Object, _: Surroundings) -> None:
    set_label(work, labels.NODE_POOL, POOL)


def _together(work: Object, around: Surroundings) -> None:
    level = around.chance.choice((RACK, RACK, labels.HOSTNAME, "lab/row"))
    set_annotation(work, labels.TOPOLOGY, TOPOLOGY if around.racks and around.chance.random() < 0.8 else "rakcs")
    set_annotation(work, labels.TOPOLOGY_REQUIRED, level)


def _apart(work: Object, around: Surroundings) -> None:
    term = {
        "topologyKey": labels.HOSTNAME,
        "labelSelector": {"matchLabels": {"app": work["metadata"]["name"]}},
    }
    _affinities(work)["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


def _resources(work: Object) -> Object:
    resources: Object = _spec(work)["containers"][0]["resources"]
    return resources


def _large(work: Object, around: Surroundings) -> None:
    limits = _resources(work).setdefault("limits", {})
    if GPU in limits:
        limits[GPU] = around.chance.choice((8, 12, 16))


def _much_cpu(work: Object, around: Surroundings) -> None:
    _resources(work)["requests"]["cpu"] = around.chance.choice(("6", "30", "100"))


def _much_memory(work: Object, around: Surroundings) -> None:
    _resources(work)["requests"]["memory"] = around.chance.choice(("5Gi", "300Gi", "2Ti"))


def _large_share(work: Object, around: Surroundings) -> None:
    for notes in _annotations(work):
        if labels.GPU_MEMORY in notes:
            notes[labels.GPU_MEMORY] = "200000"


def _mig(work: Object, around: Surroundings) -> None:
    profile = around.chance.choice(("1g.10gb", "3g.40gb", "7g.80gb"))
    _resources(work)["limits"] = {labels.MIG_PREFIX + profile: 1}


def _delay(work: Object, around: Surroundings) -> None:
    set_annotation(work, labels.PREEMPTION_DELAY, around.chance.choice(("90s", "20m")))


def _set_preemptibility(work: Object, around: Surroundings) -> None:
    set_label(work, labels.PREEMPTIBILITY, around.chance.choice(("non-preemptible", "preemptible")))


def _set_run_time(work: Object, around: Surroundings) -> None:
    for notes in _annotations(work):
        notes[labels.RUN_SECONDS] = str(around.chance.choice((40, 400, 4000)))


def _incomplete(work: Object, _: Surroundings) -> None:
    if work["kind"] == "Job":
        set_annotation(work, labels.BATCH_MIN_MEMBER, str(work["spec"]["parallelism"] + 1))


MISCONFIGURATIONS: Sequence[tuple[Misconfiguration, int]] = (
    (_no_queue, 3), (_queue("speach"), 3), (_inner_queue, 3), (_queue("bare"), 3), (_queue("orphan"), 2),
    (_model, 8), (_affinity, 4), (_tolerates, 6), (_gates, 2), (_suspended, 2), (_claim, 2), (_config_map, 2),
    (_priority_class, 2), (_priority_label, 2), (_node_pool, 3), (_together, 8), (_apart, 4), (_large, 6),
    (_much_cpu, 5), (_much_memory, 5), (_large_share, 3), (_mig, 3), (_delay, 6), (_set_preemptibility, 8), (_set_run_time, 5), (_incomplete, 2),
)  # fmt: skip
"""Each with its weight."""


def add_misconfigurations(work: Object, around: Surroundings) -> None:
    """Add up to three misconfigurations, often none."""
    count = around.chance.choice((0, 0, 0, 0, 1, 1, 1, 2, 2, 3))
    changes, weights = zip(*MISCONFIGURATIONS, strict=True)
    for change in around.chance.choices(changes, weights, k=count):
        change(work, around)
