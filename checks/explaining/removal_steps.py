"""What the workload names, made: volumes, a topology, a priority class."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

from checks.explaining.misconfigurations import set_annotation, set_label, template_of
from checks.explaining.situation import Step, carry_out_steps
from checks.explaining.workload_context import Remover, WorkloadContext
from checks.explaining.workloads import other_workloads, waiting_workloads
from checks.fuzzing.walk_objects import queue
from kailab.cluster.protocol import Object
from kailab.errors import NotFound
from kailab.lab.fork import fork
from kailab.model import labels
from kailab.model.kinds import api_version_of


def workload_reapplied(change: Callable[[Object, WorkloadContext], None]) -> Remover:
    """The workload deleted and applied as it was, but for a change of each manifest with pods."""

    def steps(place: WorkloadContext) -> Iterator[Step]:
        made = place.manifests
        yield {"delete": {"kind": place.work.kind, "name": place.work.name}}
        for one in made:
            if one["kind"] == "Pod" and place.work.kind != "Pod":
                yield {"delete": {"kind": "Pod", "name": one["metadata"]["name"]}}
            if one["kind"] != "PodGroup":
                change(one, place)
        yield {"apply": made}

    return steps


def fields_removed(*fields: str) -> Remover:
    def change(one: Object, _: WorkloadContext) -> None:
        for field in fields:
            template_of(one)["spec"].pop(field, None)

    return workload_reapplied(change)


def workload_labelled(key: str, value: Callable[[WorkloadContext], str | None]) -> Remover:
    return workload_reapplied(lambda one, place: set_label(one, key, value(place)))


def nearest_leaf(place: WorkloadContext) -> str:
    """The leaf below its queue, else any."""
    parents = {name: one["spec"].get("parentQueue") or "" for name, one in place.queues.items()}
    leaves = [name for name in parents if name not in parents.values() and name not in ("bare", "orphan")]
    below = [name for name in leaves if parents[name] == place.queue]
    return (below or leaves)[0]


def gang_shrunk(place: WorkloadContext) -> Iterator[Step]:
    there = max(1, len(place.work.pods(place.lab)))
    if place.work.kind == "PodGroup":
        patch = {"spec": {"minMember": there}}
        yield {"patch": {"kind": "PodGroup", "name": place.work.name, "patch": patch}}
    else:
        yield from workload_reapplied(lambda one, _: set_annotation(one, labels.BATCH_MIN_MEMBER, str(there)))(place)


def shrink_share(one: Object, _: WorkloadContext) -> None:
    for metadata in (one["metadata"], template_of(one)["metadata"]):
        notes = metadata.get("annotations") or {}
        if labels.GPU_MEMORY in notes:
            notes[labels.GPU_MEMORY] = "1000"
        if labels.GPU_FRACTION_DEVICES in notes:
            notes[labels.GPU_FRACTION_DEVICES] = "1"


def workload_resumed(place: WorkloadContext) -> Iterator[Step]:
    yield {"patch": {"kind": place.work.kind, "name": place.work.name, "patch": {"spec": {"suspend": False}}}}


def remove_delay(one: Object, _: WorkloadContext) -> None:
    set_annotation(one, labels.PREEMPTION_DELAY, "0s")


_UNBOUNDED = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
_FREE = {"gpu": _UNBOUNDED, "cpu": _UNBOUNDED, "memory": _UNBOUNDED}


def queue_created(place: WorkloadContext) -> Iterator[Step]:
    yield {"apply": [queue(place.queue or "default-queue", "", -1, -1, 1)]}


def parent_created(place: WorkloadContext) -> Iterator[Step]:
    top = place.queues[place.line()[-1]]["spec"].get("parentQueue")
    yield {"apply": [queue(top, "", -1, -1, 1)]}


def queues_patched(names: Sequence[str], patch: Callable[[Object], Any]) -> Callable[[WorkloadContext], Iterator[Step]]:
    def steps(place: WorkloadContext) -> Iterator[Step]:
        for name in names or place.line():
            yield {"patch": {"kind": "Queue", "name": name, "patch": {"spec": patch(place.queues[name]["spec"])}}}

    return steps


def queue_amounts(**fields: int) -> Remover:
    """The same amounts of each resource for its queue and all above."""

    def patch(spec: Object) -> Object:
        return {"resources": dict.fromkeys(spec.get("resources") or {}, fields)}

    return queues_patched((), patch)


def add_missing_amounts(spec: Object) -> Object:
    there = spec.get("resources") or {}
    return {"resources": {name: amount for name, amount in _FREE.items() if name not in there}}


def min_runtimes_removed(place: WorkloadContext) -> Iterator[Step]:
    names = list(place.queues)
    yield from queues_patched(names, lambda _: {"reclaimMinRuntime": "0s", "preemptMinRuntime": "0s"})(place)


def other_quotas_removed(place: WorkloadContext) -> Iterator[Step]:
    """No other queue, but those above, has a quota."""
    names = [name for name in place.queues if name not in place.line()]
    if names:
        yield from queues_patched(
            names, lambda spec: {"resources": {name: {"quota": 0} for name in spec.get("resources") or {}}}
        )(place)


def nodes_patched(patch: Callable[[Object], Object]) -> Remover:
    def steps(place: WorkloadContext) -> Iterator[Step]:
        for node in place.lab.cluster.list("Node"):
            yield {"patch": {"kind": "Node", "name": node["metadata"]["name"], "patch": patch(node)}}

    return steps


def node_pools_removed(place: WorkloadContext) -> Iterator[Step]:
    """Neither nodes nor the workload are of a node pool."""
    yield from nodes_patched(lambda _: {"metadata": {"labels": {labels.NODE_POOL: None}}})(place)
    yield from workload_labelled(labels.NODE_POOL, lambda _: None)(place)


COPIES = 12
"""Copies of each node, empty ones: more room of each kind that there is, where it is."""
_TWIN = "-twin"
_AMPLE = {"cpu": "4096", "memory": "64Ti", "pods": "1000"}
"""What the largest copies offer: many times a small node's memory would still be too little."""


def node_copies(places: Sequence[str] = (), factor: int = 1, offered: Mapping[str, str] | None = None) -> Remover:
    """Empty copies of each node. ``places``: labels by which each copy is in a place of its own. ``factor``: how many times as large
    they are. ``offered``: what they offer beside."""

    def steps(place: WorkloadContext) -> Iterator[Step]:
        nodes = {node["metadata"]["name"]: node for node in place.lab.cluster.list("Node")}
        own = [node for name, node in nodes.items() if not _is_twin(name)]
        made = [_twin(node, number, places, factor, offered or {}) for node in own for number in range(COPIES)]
        missing = [one for one in made if one["metadata"]["name"] not in nodes]
        if missing:
            yield {"apply": missing}

    return steps


def _is_twin(name: str) -> bool:
    """Whether a node of that name is a copy."""
    return _TWIN in name


def _twin(node: Object, number: int, places: Sequence[str], factor: int, beside: Mapping[str, str]) -> Object:
    name = (
        f"{node['metadata']['name']}{_TWIN}-{factor}{'-split' if beside else ''}{'-apart' if places else ''}-{number}"
    )
    named = {**(node["metadata"].get("labels") or {}), labels.HOSTNAME: name}
    named |= {key: f"{named[key]}{_TWIN}-{number}" for key in places if key in named}
    offered = {key: _times(amount, factor) for key, amount in node["status"]["allocatable"].items()}
    if factor > 1:  # with whole GPUs, whatever those of the node are split into
        offered = {key: amount for key, amount in offered.items() if not key.startswith(labels.MIG_PREFIX)}
        offered |= {labels.GPU_RESOURCE: str(8 * factor), **_AMPLE}
        named = {key: value for key, value in named.items() if "mig" not in key}
    if beside:
        offered |= beside
        named["node-role.kubernetes.io/mig-enabled"] = "true"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": named,
            "annotations": dict(node["metadata"].get("annotations") or {}),
        },
        "spec": {key: value for key, value in (node.get("spec") or {}).items() if key in ("taints", "unschedulable")},
        "status": {**deepcopy(node["status"]), "capacity": offered, "allocatable": dict(offered)},
    }


def _times(amount: Any, factor: int) -> str:
    """A quantity, so many times.

    >>> _times("512Gi", 2), _times(8, 2)
    ('1024Gi', '16')
    """
    text = str(amount)
    digits = text.rstrip("KMGTPEkimunp")
    return f"{int(digits) * factor}{text[len(digits) :]}"


def others_deleted(place: WorkloadContext) -> Iterator[Step]:
    for one in other_workloads(place.situation, place.lab, place.work):
        yield {"delete": {"kind": one.kind, "name": one.name}}


def other_waiting_deleted(place: WorkloadContext) -> Iterator[Step]:
    """What others run stays: its going would make room."""
    for one in waiting_workloads(place.situation, place.lab):
        if one == place.work:
            continue
        running = one.running(place.lab)
        if not running:
            yield {"delete": {"kind": one.kind, "name": one.name}}
        elif one.kind == "PodGroup":
            for pod in one.pods(place.lab):
                if not pod["spec"].get("nodeName"):
                    yield {"delete": {"kind": "Pod", "name": pod["metadata"]["name"]}}
        else:
            fewer = {"spec": {one.field: running}}
            yield {"patch": {"kind": one.kind, "name": one.name, "patch": fewer}}


VALUES = (60, 99, 1000)
"""Of the priority class that is made: above what is preemptible without a class, above all that is preemptible, above everything."""


def volumes_created(place: WorkloadContext) -> Iterator[Step]:
    made: list[Object] = []
    for volume in (one for made_of in place.manifests for one in _volumes_of(made_of)):
        if "persistentVolumeClaim" in volume:
            name = volume["persistentVolumeClaim"]["claimName"]
            spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
            made.append({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec})
        elif "configMap" in volume:
            name = volume["configMap"]["name"]
            made.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "b"}})
    if made:
        yield {"apply": made}


def _volumes_of(one: Object) -> list[Object]:
    return [] if one["kind"] == "PodGroup" else list(template_of(one)["spec"].get("volumes") or ())


def claims_labelled(place: WorkloadContext) -> Iterator[Step]:
    """Each carries the label of the queue whose work shares it."""
    label = {"metadata": {"labels": {labels.QUEUE: place.queue}}}
    for claim in place.lab.cluster.list("ResourceClaim"):
        own = claim["metadata"]
        named = {"kind": "ResourceClaim", "name": own["name"], "namespace": own["namespace"]}
        yield {"patch": {**named, "patch": label}}


def topology_created(place: WorkloadContext) -> Iterator[Step]:
    """The one that it names, with the level that it names, and that on each node."""
    notes = place.manifests[0]["metadata"].get("annotations") or {}
    name, level = notes[labels.TOPOLOGY], notes[labels.TOPOLOGY_REQUIRED]
    try:
        there = place.lab.cluster.get("Topology", name)["spec"]["levels"]
    except NotFound:
        there = []
    for node in place.lab.cluster.list("Node"):
        if level not in (node["metadata"].get("labels") or {}):
            own = {"metadata": {"labels": {level: "one"}}}
            yield {"patch": {"kind": "Node", "name": node["metadata"]["name"], "patch": own}}
    levels = [*({"nodeLabel": level} for level in [level] if {"nodeLabel": level} not in there), *there]
    kind = {"apiVersion": api_version_of("Topology"), "kind": "Topology"}
    if there:
        yield {"delete": {"kind": "Topology", "name": name}}
    yield {"apply": [{**kind, "metadata": {"name": name}, "spec": {"levels": levels}}]}


def priority_class_created(place: WorkloadContext) -> Iterator[Step]:
    """Nobody knows what value its author meant: the one by which most of the work runs."""
    yield from max((_of_value(place, value) for value in VALUES), key=lambda steps: _running(place, steps))


def _of_value(place: WorkloadContext, value: int) -> list[Step]:
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    made: Step = {"apply": [{**kind, "metadata": {"name": "research-high"}, "value": value}]}
    # PodGroups that are there keep the priority class that they got without it.
    return [made, *workload_reapplied(lambda _, __: None)(place)]


def _running(place: WorkloadContext, steps: list[Step]) -> int:
    with fork(place.lab) as lab:
        carry_out_steps(lab, steps)
        return place.work.running(lab)
