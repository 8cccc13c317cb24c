"""The objects of a random walk: queues, and workloads of many kinds, in sizes that make them compete."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from kailab.cluster.protocol import Object
from kailab.model import labels
from kailab.model.kinds import api_version_of

_FREE = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
_PRIORITIES = ("train", "train", "build", "inference", "build-preemptible")


def queue(name: str, parent: str, quota: int, limit: int, weight: int) -> Object:
    """A queue with these GPU amounts, and unlimited CPU and memory. An empty ``parent`` makes a root."""
    resources = {"gpu": {"quota": quota, "limit": limit, "overQuotaWeight": weight}, "cpu": _FREE, "memory": _FREE}
    spec: dict[str, Any] = {"resources": resources}
    if parent:
        spec["parentQueue"] = parent
    return {"apiVersion": api_version_of("Queue"), "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def queue_tree(leaves: Sequence[str]) -> list[Object]:
    """An organisation, two departments, and half of the leaves below each."""
    tree = [queue("org", "", -1, -1, 1), queue("da", "org", 12, -1, 1), queue("db", "org", 12, 20, 1)]
    return tree + [queue(name, _parent(name, leaves), 6, -1, 1) for name in leaves]


def queue_with(name: str, leaves: Sequence[str], chance: Random) -> Object:
    """A leaf with random amounts."""
    quota, limit = chance.choice((0, 2, 4, 8, -1)), chance.choice((-1, -1, 8, 12))
    made = queue(name, _parent(name, leaves), quota, limit, chance.choice((1, 1, 2)))
    if chance.random() < 0.3:
        # Cores in thousandths, memory in MB.
        made["spec"]["resources"] |= {
            "cpu": {"quota": chance.choice((2_000, 8_000)), "limit": chance.choice((-1, 16_000)), "overQuotaWeight": 1},
            "memory": {"quota": 4_000, "limit": chance.choice((-1, 16_000)), "overQuotaWeight": 1},
        }
    return made


def _parent(name: str, leaves: Sequence[str]) -> str:
    return "da" if list(leaves).index(name) < len(leaves) // 2 else "db"


def _template(
    name: str,
    queue: str,
    chance: Random,
    gpus: int = 0,
    annotations: dict[str, str] | None = None,
    cpu: str = "1",
    **spec: Any,
) -> Object:
    named = {"app": name, "kai.scheduler/queue": queue, "priorityClassName": chance.choice(_PRIORITIES)}
    resources: Object = {"requests": {"cpu": cpu, "memory": "1Gi"}}
    if gpus:
        resources["limits"] = {"nvidia.com/gpu": gpus}
    return {
        "metadata": {"labels": named, "annotations": dict(annotations or {})},
        "spec": {
            "schedulerName": "kai-scheduler",
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "pause", "resources": resources}],
            **spec,
        },
    }


def _whole(kind: str, name: str, template: Object, spec: Object, api: str = "apps/v1") -> Object:
    metadata = {
        "name": name,
        "labels": template["metadata"]["labels"],
        "annotations": template["metadata"]["annotations"],
    }
    return {"apiVersion": api, "kind": kind, "metadata": metadata, "spec": {**spec, "template": template}}


def _job(name: str, queue: str, chance: Random, minimum: bool = False, **template: Any) -> Object:
    pods = chance.randint(1, 6)
    notes = {"kai.scheduler/batch-min-member": str(chance.randint(1, pods))} if minimum else {}
    made = _template(name, queue, chance, chance.choice((1, 1, 2, 4, 8)), notes, restartPolicy="Never", **template)
    spec = {"parallelism": pods, "completions": pods, "backoffLimit": 1000}
    return _whole("Job", name, made, spec, "batch/v1")


def _gang(name: str, queue: str, chance: Random) -> Object:
    return _job(name, queue, chance, minimum=True)


def _selecting(kind: str, name: str, template: Object, chance: Random) -> Object:
    spec = {"replicas": chance.randint(1, 8), "selector": {"matchLabels": {"app": name}}}
    return _whole(kind, name, template, spec)


def _deployment(name: str, queue: str, chance: Random) -> Object:
    return _selecting("Deployment", name, _template(name, queue, chance, chance.choice((1, 2, 4))), chance)


def _fractions(name: str, queue: str, chance: Random) -> Object:
    notes = {"gpu-fraction": chance.choice(("0.2", "0.5", "0.7"))}
    if chance.random() < 0.2:
        notes["gpu-fraction-num-devices"] = "2"
    return _selecting("Deployment", name, _template(name, queue, chance, annotations=notes), chance)


def _memory(name: str, queue: str, chance: Random) -> Object:
    notes = {"gpu-memory": chance.choice(("4000", "20000", "40000"))}
    return _selecting("Deployment", name, _template(name, queue, chance, annotations=notes), chance)


def _cpu_only(name: str, queue: str, chance: Random) -> Object:
    return _selecting("Deployment", name, _template(name, queue, chance, cpu=chance.choice(("1", "8", "24"))), chance)


def _stateful(name: str, queue: str, chance: Random) -> Object:
    made = _selecting("StatefulSet", name, _template(name, queue, chance, chance.choice((1, 2, 8))), chance)
    made["spec"]["serviceName"] = name
    return made


def _pod(name: str, queue: str, chance: Random) -> Object:
    made = _template(name, queue, chance, chance.choice((1, 2, 4, 8)))
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **made["metadata"]}, "spec": made["spec"]}


WORK: tuple[Callable[[str, str, Random], Object], ...] = (
    _job, _gang, _gang, _deployment, _fractions, _memory, _cpu_only, _stateful, _pod,
)  # fmt: skip


def subgroups(name: str, queue: str, chance: Random) -> list[Object]:
    """A PodGroup with two or three subgroups, some of which may be left out or grow beyond their minimum, and its pods. Half of them prefer or
    require a level of the topology ``racks``.
    """
    names = [f"{name}-s{number}" for number in range(chance.choice((2, 2, 3)))]
    sizes = {each: chance.randint(1, 3) for each in names}
    spec: Object = {
        "queue": queue,
        "priorityClassName": chance.choice(_PRIORITIES[:3]),
        "subGroups": [{"name": each, "minMember": chance.randint(1, size)} for each, size in sizes.items()],
    }
    if chance.random() < 0.5:
        spec["minSubGroup"] = chance.randint(1, len(names))
    if chance.random() < 0.5:
        level = chance.choice(("requiredTopologyLevel", "preferredTopologyLevel"))
        spec["topologyConstraint"] = {"topology": "racks", level: chance.choice(("lab/zone", "lab/rack"))}
    group = {"apiVersion": api_version_of("PodGroup"), "kind": "PodGroup", "metadata": {"name": name}, "spec": spec}
    gpus = chance.choice((0, 1, 1, 2, 4))
    return [
        group,
        *(_member(each, number, name, queue, gpus) for each, size in sizes.items() for number in range(size)),
    ]


def _member(subgroup: str, number: int, group: str, queue: str, gpus: int) -> Object:
    named = {"app": group, labels.QUEUE: queue, labels.SUBGROUP_NAME: subgroup}
    notes = {labels.POD_GROUP: group, labels.SKIP_PODGROUPER: "true"}
    resources: Object = {
        "requests": {"cpu": "1", "memory": "1Gi"},
        "limits": {labels.GPU_RESOURCE: gpus} if gpus else {},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"{subgroup}-{number}", "labels": named, "annotations": notes},
        "spec": {
            "schedulerName": labels.SCHEDULER_NAME,
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "pause", "resources": resources}],
        },
    }
