"""A cluster as Kubernetes manifests: nodes, topologies, queues, PodGroups and pods, as a KAI cluster takes them.

The order of the documents is the order of creation. Comments at the head describe what manifests cannot express (pods
that are being deleted, settings of the scheduler).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
import yaml

from checks.case_input import LEAVING, PLACED, CaseInput
from kailab.engine.config import EngineConfig
from kailab.engine.snapshot.records import (
    GPU,
    Constraint,
    Node,
    PodGroup,
    PodTerm,
    Queue,
    Requirement,
    ResourceShare,
    Status,
    SubGroup,
    Task,
    Topology,
)
from kailab.model import labels
from kailab.model.kinds import api_version_of
from kailab.model.objects import Object
from kailab.scheduler.reading.tasks import gpu_group_labels

PRIORITY_CLASSES = {50: "train", 75: "build-preemptible", 100: "build", 125: "inference"}
MEMORY_UNIT = 1_000_000
SETTINGS = ("gpu_placement", "cpu_placement", "gpu_sharing", "max_consolidation_victims", "use_signatures", "actions")


def as_yaml(case_input: CaseInput, title: Iterable[str] = ()) -> str:
    """The whole cluster as one YAML stream; ``title`` lines come first, as comments."""
    head = [*title, *_not_expressible(case_input)]
    documents = [yaml.safe_dump(manifest, sort_keys=False) for manifest in objects(case_input)]
    return "".join(f"# {line}\n" for line in head) + "---\n" + "---\n".join(documents)


def objects(case_input: CaseInput) -> Iterator[Object]:
    """The objects in the order in which they must be applied."""
    groups = {group.uid: group for group in case_input.podgroups}
    yield from map(_node, case_input.nodes)
    yield from map(_topology, case_input.topologies)
    yield from map(_queue, sorted(case_input.queues, key=lambda queue: (queue.created, queue.name)))
    yield from map(_podgroup, sorted(case_input.podgroups, key=lambda group: (group.created, group.uid)))
    for task in case_input.tasks:
        yield _pod(task, groups[task.podgroup])


def _not_expressible(case_input: CaseInput) -> list[str]:
    lines = []
    leaving = [task.name for task in case_input.tasks if task.status in LEAVING]
    if leaving:
        lines.append(f"being deleted, with a long grace period: {', '.join(leaving)}")
    default = EngineConfig()
    for name in SETTINGS:
        value = getattr(case_input.config, name)
        if value != getattr(default, name):
            lines.append(f"scheduler setting: {name} {', '.join(value) if isinstance(value, tuple) else value}")
    return lines


def _node(node: Node) -> Object:
    allocatable: dict[str, str] = {"cpu": f"{node.cpu}m", "memory": str(node.memory), "pods": str(node.pods)}
    if node.gpus:
        allocatable[labels.GPU_RESOURCE] = str(node.gpus // GPU)
    allocatable |= {name: str(count) for name, count in node.extended}
    named = dict(node.labels)
    if node.gpu_memory_mib:
        named[labels.GPU_NODE_MEMORY] = str(node.gpu_memory_mib)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node.name, "labels": named},
        "status": {
            "capacity": allocatable,
            "allocatable": dict(allocatable),
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def _topology(topology: Topology) -> Object:
    return {
        "apiVersion": api_version_of("Topology"),
        "kind": "Topology",
        "metadata": {"name": topology.name},
        "spec": {"levels": [{"nodeLabel": level} for level in topology.levels]},
    }


def _queue(queue: Queue) -> Object:
    def share(bounds: ResourceShare, unit: int) -> Object:
        quota, limit = (value if value < 0 else _plain(value / unit) for value in (bounds.quota, bounds.limit))
        return {"quota": quota, "limit": limit, "overQuotaWeight": _plain(bounds.weight)}

    spec: Object = {"parentQueue": queue.parent} if queue.parent else {}
    spec |= {
        "priority": queue.priority,
        "resources": {
            "gpu": share(queue.gpu, GPU),
            "cpu": share(queue.cpu, 1),
            "memory": share(queue.memory, MEMORY_UNIT),
        },
    }
    if queue.reclaim_min_runtime is not None:
        spec["reclaimMinRuntime"] = f"{queue.reclaim_min_runtime:g}s"
    if queue.preempt_min_runtime is not None:
        spec["preemptMinRuntime"] = f"{queue.preempt_min_runtime:g}s"
    return {
        "apiVersion": api_version_of("Queue"),
        "kind": "Queue",
        "metadata": {"name": queue.name},
        "spec": spec,
    }


def _plain(value: float) -> float:
    return int(value) if value == int(value) else value


def _podgroup(group: PodGroup) -> Object:
    spec: Object = {"queue": group.queue}
    if group.priority in PRIORITY_CLASSES:
        spec["priorityClassName"] = PRIORITY_CLASSES[group.priority]
    spec["preemptibility"] = "preemptible" if group.preemptible else "non-preemptible"
    root = group.root
    if not root.groups and len(root.podsets) == 1 and root.podsets[0].name == "default":
        spec["minMember"] = root.podsets[0].min_available
    else:
        spec["subGroups"] = list(_subgroups(root, ""))
    if root.min_members is not None:
        spec["minSubGroup"] = root.min_members
    spec |= _constraint(root.constraint)
    if group.preemption_delay:
        spec["preemptionDelay"] = f"{group.preemption_delay:g}s"
    if group.staleness_grace is not None:
        spec["stalenessGracePeriod"] = f"{group.staleness_grace:g}s"
    return {
        "apiVersion": api_version_of("PodGroup"),
        "kind": "PodGroup",
        "metadata": {"name": group.name, "namespace": group.namespace or "default"},
        "spec": spec,
    }


def _constraint(constraint: Constraint | None) -> Object:
    if constraint is None:
        return {}
    block = {"topology": constraint.topology}
    if constraint.required:
        block["requiredTopologyLevel"] = constraint.required
    if constraint.preferred:
        block["preferredTopologyLevel"] = constraint.preferred
    return {"topologyConstraint": block}


def _subgroups(group: SubGroup, parent: str) -> Iterator[Object]:
    above = {"parent": parent} if parent else {}
    for podset in group.podsets:
        yield {"name": podset.name, **above, "minMember": podset.min_available, **_constraint(podset.constraint)}
    for inner in group.groups:
        minimum = {} if inner.min_members is None else {"minSubGroup": inner.min_members}
        yield {"name": inner.name, **above, **minimum, **_constraint(inner.constraint)}
        yield from _subgroups(inner, inner.name)


def _pod(task: Task, group: PodGroup) -> Object:
    shape, gpu = task.shape, task.shape.gpu
    named = dict(shape.labels) | {labels.QUEUE: group.queue}
    notes = {labels.POD_GROUP: group.name, labels.SKIP_PODGROUPER: "true"}
    if task.subgroup and task.subgroup != "default":
        named[labels.SUBGROUP_NAME] = task.subgroup
    if task.priority is not None:
        named[labels.TASK_PRIORITY] = str(task.priority)
    requests = {"cpu": f"{shape.cpu}m", "memory": str(shape.memory)}
    limits: dict[str, str] = {name: str(count) for name, count in (*gpu.profiles, *shape.extended)}
    if gpu.shared:
        notes |= _sharing(task)
    elif gpu.devices:
        limits[labels.GPU_RESOURCE] = str(gpu.devices)
    spec: Object = {
        "schedulerName": labels.SCHEDULER_NAME,
        "containers": [{"name": "main", "image": "pause", "resources": {"requests": requests, "limits": limits}}],
    }
    affinity = _affinity(task)
    if affinity:
        spec["affinity"] = affinity
    pod: Object = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": task.name,
            "namespace": task.namespace or "default",
            "labels": named,
            "annotations": notes,
        },
        "spec": spec,
    }
    if task.status in PLACED and task.node:
        spec["nodeName"] = task.node
        named |= gpu_group_labels(task.gpu_groups) if gpu.shared else {}
        pod["status"] = {"phase": "Pending" if task.status in (Status.BINDING, Status.BOUND) else "Running"}
    return pod


def _sharing(task: Task) -> dict[str, str]:
    gpu = task.shape.gpu
    notes = (
        {labels.GPU_MEMORY: str(gpu.memory_mib)} if gpu.by_memory else {labels.GPU_FRACTION: f"{gpu.portion / GPU:g}"}
    )
    if gpu.devices > 1:
        notes[labels.GPU_FRACTION_DEVICES] = str(gpu.devices)
    return notes


def _affinity(task: Task) -> Object:
    shape = task.shape
    affinity: Object = {}
    if shape.terms:
        terms = [
            {"matchExpressions": [_requirement(requirement) for requirement in term.requirements]}
            for term in shape.terms
        ]
        affinity["nodeAffinity"] = {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
        }
    for key, of_pod in (("podAffinity", shape.affinity), ("podAntiAffinity", shape.anti_affinity)):
        if of_pod:
            affinity[key] = {"requiredDuringSchedulingIgnoredDuringExecution": [_pod_term(term) for term in of_pod]}
    return affinity


def _requirement(requirement: Requirement) -> Object:
    raw = msgspec.structs.asdict(requirement)
    raw["values"] = list(requirement.values)
    return {name: value for name, value in raw.items() if value != []}


def _pod_term(term: PodTerm) -> Object:
    return {
        "topologyKey": term.topology_key,
        "labelSelector": {"matchExpressions": [_requirement(requirement) for requirement in term.requirements]},
    }
