"""Steps that remove causes: changes of the workload, of queues, of nodes, of other workloads, and of the objects that
the workload names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

from checks.explaining.misconfigurations import set_annotation, set_label
from checks.explaining.pod_templates import pod_templates
from checks.explaining.situation import Step, carry_out_steps
from checks.explaining.workload_context import Remover, WorkloadContext
from checks.explaining.workloads import other_workloads, unready_nodes, waiting_workloads
from checks.fuzzing.walk_objects import queue
from kailab.cluster.protocol import Object
from kailab.errors import NotFound
from kailab.model import labels
from kailab.model.kinds import api_version_of


def workload_reapplied(change: Callable[[Object, WorkloadContext], None]) -> Remover:
    """Delete the workload and apply it again with a change of each manifest with pods."""

    def steps(context: WorkloadContext) -> Iterator[Step]:
        manifests = context.manifests
        # A pod that was evicted or refused is not there any more.
        present = {pod["metadata"]["name"] for pod in context.lab.cluster.list("Pod", context.work.namespace)}
        yield {"delete": {"kind": context.work.kind, "name": context.work.name}}
        for manifest in manifests:
            if manifest["kind"] == "Pod" and context.work.kind != "Pod" and manifest["metadata"]["name"] in present:
                yield {"delete": {"kind": "Pod", "name": manifest["metadata"]["name"]}}
            if manifest["kind"] != "PodGroup":
                change(manifest, context)
        yield {"apply": manifests}

    return steps


def fields_removed(*fields: str) -> Remover:
    def change(manifest: Object, _: WorkloadContext) -> None:
        for pod in pod_templates(manifest):
            for field in fields:
                pod["spec"].pop(field, None)

    return workload_reapplied(change)


def workload_labelled(key: str, value: Callable[[WorkloadContext], str | None]) -> Remover:
    return workload_reapplied(lambda manifest, context: set_label(manifest, key, value(context)))


def nearest_leaf(context: WorkloadContext) -> str:
    """A leaf below its queue, else any leaf."""
    parents = {name: queue["spec"].get("parentQueue") or "" for name, queue in context.queues.items()}
    leaves = [name for name in parents if name not in parents.values() and name not in ("bare", "orphan")]
    below = [name for name in leaves if parents[name] == context.queue]
    return (below or leaves)[0]


def queue_named(context: WorkloadContext) -> Iterator[Step]:
    """The workload names a leaf; a PodGroup that was applied by hand names it itself."""
    leaf = nearest_leaf(context)
    yield from workload_labelled(labels.QUEUE, lambda _: leaf)(context)
    if context.work.kind == "PodGroup":
        yield {"patch": {"kind": "PodGroup", "name": context.work.name, "patch": {"spec": {"queue": leaf}}}}


def gang_shrunk(context: WorkloadContext) -> Iterator[Step]:
    """A minimum of as many pods as there are, or as there will be without ResourceQuotas."""
    quotas = [quota["metadata"]["name"] for quota in context.lab.cluster.list("ResourceQuota", context.work.namespace)]
    # Its pods may be refused, and then no minimum lets it run: they are made without the quota.
    yield from ({"delete": {"kind": "ResourceQuota", "name": name}} for name in quotas)
    manifests, present = context.manifests, len(context.work.pods(context.lab))
    if context.work.kind == "PodGroup":
        if quotas or not present:
            made = _applied_pods(context)
            present = len(made)
            yield {"apply": made}
        patch = {"spec": {"minMember": max(1, present)}}
        yield {"patch": {"kind": "PodGroup", "name": context.work.name, "patch": patch}}
        return
    # A controller that names its pods makes no other one before a pod that terminates on a node that is not ready has gone.
    leaving = [pod["spec"].get("nodeName") for pod in context.work.leaving_pods(context.lab)]
    if held := unready_nodes(context.lab).intersection(leaving):
        yield from _made_ready(held)
        present = min(context.work.wanted(context.lab), present + len(leaving))
    present = max(1, present)
    least = (manifests[0]["metadata"].get("annotations") or {}).get(labels.BATCH_MIN_MEMBER)
    wanted = context.work.wanted(context.lab) if quotas else present
    if quotas and (least is None or int(least) <= wanted):
        yield {"apply": manifests}
    else:
        yield from workload_reapplied(
            lambda manifest, _: set_annotation(manifest, labels.BATCH_MIN_MEMBER, str(wanted))
        )(context)


def _applied_pods(context: WorkloadContext) -> list[Object]:
    """The pods of a PodGroup as they were applied. A pod that still terminates, perhaps for ever, is made under another
    name.
    """
    pods = [manifest for manifest in context.manifests if manifest["kind"] == "Pod"]
    present = context.lab.cluster.list("Pod", context.work.namespace)
    leaving = {pod["metadata"]["name"] for pod in present if "deletionTimestamp" in pod["metadata"]}
    for pod in pods:
        if pod["metadata"]["name"] in leaving:
            pod["metadata"]["name"] += "-anew"
    return pods


def shrink_share(manifest: Object, _: WorkloadContext) -> None:
    for metadata in (manifest["metadata"], *(pod["metadata"] for pod in pod_templates(manifest))):
        notes = metadata.get("annotations") or {}
        if labels.GPU_MEMORY in notes:
            notes[labels.GPU_MEMORY] = "1000"
        if labels.GPU_FRACTION_DEVICES in notes:
            notes[labels.GPU_FRACTION_DEVICES] = "1"


def leave_topology(manifest: Object, _: WorkloadContext) -> None:
    for metadata in (manifest["metadata"], *(pod["metadata"] for pod in pod_templates(manifest))):
        for key in (labels.TOPOLOGY, labels.TOPOLOGY_REQUIRED):
            (metadata.get("annotations") or {}).pop(key, None)


def workload_resumed(context: WorkloadContext) -> Iterator[Step]:
    resumed: Object = {"suspend": False}
    spec = {"runPolicy": resumed} if context.work.kind == "PyTorchJob" else resumed
    yield {"patch": {"kind": context.work.kind, "name": context.work.name, "patch": {"spec": spec}}}


def remove_delay(manifest: Object, _: WorkloadContext) -> None:
    set_annotation(manifest, labels.PREEMPTION_DELAY, "0s")


_UNBOUNDED = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
_FREE = {"gpu": _UNBOUNDED, "cpu": _UNBOUNDED, "memory": _UNBOUNDED}


def queue_created(context: WorkloadContext) -> Iterator[Step]:
    yield {"apply": [queue(context.queue or "default-queue", "", -1, -1, 1)]}


def parent_created(context: WorkloadContext) -> Iterator[Step]:
    top = context.queues[context.queue_path()[-1]]["spec"].get("parentQueue")
    yield {"apply": [queue(top, "", -1, -1, 1)]}


def queues_patched(names: Sequence[str], patch: Callable[[Object], Any]) -> Callable[[WorkloadContext], Iterator[Step]]:
    def steps(context: WorkloadContext) -> Iterator[Step]:
        for name in names or context.queue_path():
            yield {"patch": {"kind": "Queue", "name": name, "patch": {"spec": patch(context.queues[name]["spec"])}}}

    return steps


def queue_amounts(**fields: int) -> Remover:
    """The same amounts of each resource for its queue and all ancestors."""

    def patch(spec: Object) -> Object:
        return {"resources": dict.fromkeys(spec.get("resources") or {}, fields)}

    return queues_patched((), patch)


def add_missing_amounts(spec: Object) -> Object:
    present = spec.get("resources") or {}
    return {"resources": {name: amount for name, amount in _FREE.items() if name not in present}}


def min_runtimes_removed(context: WorkloadContext) -> Iterator[Step]:
    names = list(context.queues)
    yield from queues_patched(names, lambda _: {"reclaimMinRuntime": "0s", "preemptMinRuntime": "0s"})(context)


def other_quotas_removed(context: WorkloadContext) -> Iterator[Step]:
    """Only its own queue and the queue's ancestors have a quota."""
    names = [name for name in context.queues if name not in context.queue_path()]
    if names:
        yield from queues_patched(
            names, lambda spec: {"resources": {name: {"quota": 0} for name in spec.get("resources") or {}}}
        )(context)


def nodes_patched(patch: Callable[[Object], Object]) -> Remover:
    def steps(context: WorkloadContext) -> Iterator[Step]:
        for node in context.lab.cluster.list("Node"):
            yield {"patch": {"kind": "Node", "name": node["metadata"]["name"], "patch": patch(node)}}

    return steps


def nodes_opened(context: WorkloadContext) -> Iterator[Step]:
    """No node is cordoned, and all are ready."""
    yield from nodes_patched(lambda _: {"spec": {"unschedulable": None}})(context)
    yield from _made_ready(unready_nodes(context.lab))


def _made_ready(nodes: Iterable[str]) -> Iterator[Step]:
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    for name in sorted(nodes):
        yield {"patch": {"kind": "Node", "name": name, "subresource": "status", "patch": ready}}


def node_pools_removed(context: WorkloadContext) -> Iterator[Step]:
    """Neither nodes nor the workload belong to a node pool."""
    yield from nodes_patched(lambda _: {"metadata": {"labels": {labels.NODE_POOL: None}}})(context)
    yield from workload_labelled(labels.NODE_POOL, lambda _: None)(context)


COPIES = 12
"""Empty copies of each node of a small cluster: more room of each kind, in the same place."""
SMALL = 16
"""Nodes of a small cluster."""
MOST_COPIES = 320
"""Copies that are made of all nodes of a larger cluster together."""
_SUFFIX = "-twin"
DEVICES = ("rdma/hca", "example.com/fpga")
"""Devices that only some nodes have."""
_AMPLE = {"cpu": "4096", "memory": "64Ti", "pods": "1000"}
"""Resources of the largest copies: many times a small node's memory might still be too little."""


def node_copies(places: Sequence[str] = (), factor: int = 1, offered: Mapping[str, str] | None = None) -> Remover:
    """Empty copies of each node. ``places``: labels that get a value of their own in each copy. ``factor``: how many
    times as large the copies are; for work that wants parts of split GPUs, more copies offer these. ``offered``: additional resources.
    """

    def steps(context: WorkloadContext) -> Iterator[Step]:
        nodes = {node["metadata"]["name"]: node for node in context.lab.cluster.list("Node")}
        own = [node for name, node in nodes.items() if not _is_copy(name)]
        number_of_copies = COPIES if len(own) <= SMALL else max(2, MOST_COPIES // len(own))
        made = [
            _copy(node, number, places, factor, beside)
            for beside in (
                (offered or {}, split_gpus("128")) if factor > 1 and _wants_instances(context) else (offered or {},)
            )
            for node in own
            for number in range(number_of_copies)
        ]
        missing = [node for node in made if node["metadata"]["name"] not in nodes]
        if missing:
            yield {"apply": missing}

    return steps


def split_gpus(amount: str) -> Mapping[str, str]:
    """So many instances of each MIG profile."""
    return {f"{labels.MIG_PREFIX}{name}": amount for name in ("1g.10gb", "3g.40gb", "7g.80gb")}


def _wants_instances(context: WorkloadContext) -> bool:
    return any(
        name.startswith(labels.MIG_PREFIX)
        for manifest in context.manifests
        for pod in pod_templates(manifest)
        for container in pod["spec"].get("containers") or ()
        for name in (container.get("resources") or {}).get("limits") or ()
    )


def work_begun_anew(context: WorkloadContext) -> Iterator[Step]:
    """Work of which some pods run is deleted and applied again: where these run decides where the others have to be."""
    if context.work.running(context.lab):
        yield from workload_reapplied(lambda *_: None)(context)


def one_after_the_other(*removers: Remover) -> Remover:
    """The steps of several removers."""
    return lambda context: (step for remover in removers for step in remover(context))


def _is_copy(name: str) -> bool:
    """True if a node of that name is a copy."""
    return _SUFFIX in name


def _copy(node: Object, number: int, places: Sequence[str], factor: int, beside: Mapping[str, str]) -> Object:
    name = (
        f"{node['metadata']['name']}{_SUFFIX}-{factor}{'-split' if beside else ''}{'-apart' if places else ''}-{number}"
    )
    named = {**(node["metadata"].get("labels") or {}), labels.HOSTNAME: name}
    named |= {key: f"{named[key]}{_SUFFIX}-{number}" for key in places if key in named}
    offered = {key: _times(amount, factor) for key, amount in node["status"]["allocatable"].items()}
    if factor > 1:  # with whole GPUs and every other device, even if the node's own are split
        offered |= dict.fromkeys(DEVICES, "1000")
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
    """A quantity multiplied by a factor.

    >>> _times("512Gi", 2), _times(8, 2)
    ('1024Gi', '16')
    """
    text = str(amount)
    digits = text.rstrip("KMGTPEkimunp")
    return f"{int(digits) * factor}{text[len(digits) :]}"


def others_deleted(context: WorkloadContext) -> Iterator[Step]:
    for other in other_workloads(context.situation, context.lab, context.work):
        yield {"delete": {"kind": other.kind, "name": other.name}}


def other_waiting_deleted(context: WorkloadContext) -> Iterator[Step]:
    """Delete the waiting pods of other workloads. Their running pods stay, because deleting these would make room."""
    for other in waiting_workloads(context.situation, context.lab):
        if other == context.work:
            continue
        running = other.running(context.lab)
        if not running:
            yield {"delete": {"kind": other.kind, "name": other.name}}
        elif other.kind == "PodGroup":
            for pod in other.pods(context.lab):
                if not pod["spec"].get("nodeName"):
                    yield {"delete": {"kind": "Pod", "name": pod["metadata"]["name"]}}
        elif other.field:
            fewer = {"spec": {other.field: running}}
            yield {"patch": {"kind": other.kind, "name": other.name, "patch": fewer}}


VALUES = (60, 99, 1000)
"""Values of the created priority class: above what is preemptible without a class, above all that is preemptible, above
everything.
"""


def volumes_created(context: WorkloadContext) -> Iterator[Step]:
    """Each claim and ConfigMap that its pods name, once: the templates of one workload may name the same."""
    made: dict[tuple[str, str], Object] = {}
    for volume in (volume for manifest in context.manifests for volume in _volumes_of(manifest)):
        if "persistentVolumeClaim" in volume:
            name = volume["persistentVolumeClaim"]["claimName"]
            spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
            kind = "PersistentVolumeClaim"
            made[kind, name] = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, "spec": spec}
        elif "configMap" in volume:
            name = volume["configMap"]["name"]
            kind = "ConfigMap"
            made[kind, name] = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, "data": {"a": "b"}}
    if made:
        yield {"apply": list(made.values())}


def _volumes_of(manifest: Object) -> list[Object]:
    return [volume for pod in pod_templates(manifest) for volume in pod["spec"].get("volumes") or ()]


def claims_labelled(context: WorkloadContext) -> Iterator[Step]:
    """Label each claim with the queue of the workload that shares it."""
    label = {"metadata": {"labels": {labels.QUEUE: context.queue}}}
    for claim in context.lab.cluster.list("ResourceClaim"):
        own = claim["metadata"]
        named = {"kind": "ResourceClaim", "name": own["name"], "namespace": own["namespace"]}
        yield {"patch": {**named, "patch": label}}


def topology_created(context: WorkloadContext) -> Iterator[Step]:
    """The topology and the level that the workload names, and the level's label on each node."""
    notes = context.manifests[0]["metadata"].get("annotations") or {}
    name, level = notes[labels.TOPOLOGY], notes[labels.TOPOLOGY_REQUIRED]
    try:
        present = context.lab.cluster.get("Topology", name)["spec"]["levels"]
    except NotFound:
        present = []
    for node in context.lab.cluster.list("Node"):
        if level not in (node["metadata"].get("labels") or {}):
            own = {"metadata": {"labels": {level: "one"}}}
            yield {"patch": {"kind": "Node", "name": node["metadata"]["name"], "patch": own}}
    levels = [*({"nodeLabel": level} for level in [level] if {"nodeLabel": level} not in present), *present]
    kind = {"apiVersion": api_version_of("Topology"), "kind": "Topology"}
    if present:
        yield {"delete": {"kind": "Topology", "name": name}}
    yield {"apply": [{**kind, "metadata": {"name": name}, "spec": {"levels": levels}}]}


def priority_class_created(context: WorkloadContext) -> Iterator[Step]:
    """The author's intended value is unknown, so take the one with which most of the workload runs."""
    yield from max((_with_value(context, value) for value in VALUES), key=lambda steps: _running(context, steps))


def runtime_class_created(context: WorkloadContext) -> Iterator[Step]:
    """The controller makes the pods once their class exists."""
    kind = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "handler": "runc"}
    specs = [pod["spec"] for manifest in context.manifests for pod in pod_templates(manifest)]
    names = sorted({spec["runtimeClassName"] for spec in specs if spec.get("runtimeClassName")})
    yield {"apply": [{**kind, "metadata": {"name": name}} for name in names]}


def _with_value(context: WorkloadContext, value: int) -> list[Step]:
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    made: Step = {"apply": [{**kind, "metadata": {"name": "research-high"}, "value": value}]}
    # Existing PodGroups keep the priority class that they got without it.
    return [made, *workload_reapplied(lambda _, __: None)(context)]


def _running(context: WorkloadContext, steps: list[Step]) -> int:
    with context.lab.fork() as lab:
        carry_out_steps(lab, steps)
        return context.work.running(lab)
