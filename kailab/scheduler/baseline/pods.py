"""Pods as kube-scheduler sees them: what they ask for, how important they are, where they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from kailab.cluster.protocol import Object
from kailab.engine.snapshot.records import GPU, Requirement, Shape
from kailab.model import labels as names
from kailab.scheduler.reading.podgroups import Priorities
from kailab.scheduler.reading.queues import created

_NOTHING: Mapping[str, Any] = {}
# Of these kube-scheduler's system defaults spread the pods; those of Jobs have no such default.
_SPREAD_OWNERS = ("ReplicaSet", "StatefulSet", "ReplicationController")


class BaselinePod(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """``needs``: resource -> amount (cpu in millicores, memory in bytes, devices whole). ``kin``: the controller whose
    pods are spread over nodes; "" for none. ``node``: where it is bound. ``leaving``: being deleted."""

    uid: str
    name: str
    namespace: str
    shape: Shape
    needs: Mapping[str, int]
    priority: int
    preempts: bool
    labels: Mapping[str, str]
    kin: str = ""
    node: str = ""
    leaving: bool = False
    created: float = 0.0
    nominated: str = ""
    object: Object

    def matches(self, requirements: tuple[Requirement, ...], namespaces: tuple[str, ...]) -> bool:
        """Whether a pod affinity term means this pod."""
        return self.namespace in namespaces and all(holds(r, self.labels) for r in requirements)


def holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    """One label requirement. ``NotIn`` holds where the label is missing, as in Kubernetes."""
    value = labels.get(requirement.key)
    operator = requirement.operator
    if operator == "In":
        return value in requirement.values
    if operator == "NotIn":
        return value not in requirement.values
    if operator in ("Exists", "DoesNotExist"):
        return (value is not None) == (operator == "Exists")
    try:
        number, bound = int(value or ""), int(requirement.values[0])
    except (ValueError, IndexError):
        return False
    return number > bound if operator == "Gt" else number < bound


def needs_of(shape: Shape) -> dict[str, int]:
    """What a pod takes of a node: one place for a pod, and its resources."""
    needs = {"cpu": shape.cpu, "memory": shape.memory, "pods": 1}
    if shape.gpu.mig:
        needs.update(shape.gpu.mig)
    elif shape.gpu.devices:
        # Whole devices: to kube-scheduler KAI's annotations mean nothing, and ``ShapeCache(sharing=False)`` reads none.
        needs[names.GPU_RESOURCE] = shape.gpu.devices * shape.gpu.portion // GPU
    needs.update(shape.extended)
    return {name: amount for name, amount in needs.items() if amount}


def baseline_pod(pod: Object, shape: Shape, needs: Mapping[str, int], priorities: Priorities) -> BaselinePod:
    metadata, spec = pod["metadata"], pod["spec"]
    status = pod.get("status") or _NOTHING
    class_name = spec.get("priorityClassName") or ""
    priority = spec.get("priority")
    # Admission fills it in; objects from elsewhere may lack it.
    if priority is None:
        priority = priorities.values.get(class_name, priorities.default(0))
    policy = spec.get("preemptionPolicy") or ("Never" if class_name in priorities.never_preempt else "")
    kin = ""
    for owner in metadata.get("ownerReferences") or ():
        if owner.get("controller") and owner.get("kind") in _SPREAD_OWNERS:
            kin = owner.get("uid", "")
    return BaselinePod(
        uid=metadata["uid"],
        name=metadata["name"],
        namespace=metadata["namespace"],
        shape=shape,
        needs=needs,
        priority=int(priority),
        preempts=policy != "Never",
        labels=metadata.get("labels") or _NOTHING,
        kin=kin,
        node=spec.get("nodeName") or "",
        leaving=bool(metadata.get("deletionTimestamp")),
        created=created(metadata),
        nominated=status.get("nominatedNodeName") or "",
        object=pod,
    )
