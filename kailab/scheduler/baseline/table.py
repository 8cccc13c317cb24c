"""Pods and nodes as kube-scheduler sees them: requests, priorities, placements, and the free capacity of nodes as arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
import numpy as np
import numpy.typing as npt

from kailab.cluster.protocol import Object
from kailab.engine.placing.fit import untolerated_reason
from kailab.engine.snapshot.records import GPU, UNREPORTED_CAPACITY, Node, Requirement, Shape, Taint
from kailab.model import labels as names
from kailab.model.objects import controller_of, is_terminating, labels_of, status_of
from kailab.scheduler.reading.affinity import tolerates
from kailab.scheduler.reading.podgroups import PriorityClasses
from kailab.scheduler.reading.queues import creation_time

# kube-scheduler's system defaults spread the pods of these controllers, but not those of Jobs.
_SPREAD_OWNERS = ("ReplicaSet", "StatefulSet", "ReplicationController")


class BaselinePod(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """``needs``: resource -> amount (cpu in millicores, memory in bytes, whole devices). ``controller``: UID of the controller whose pods are
    spread over nodes, or "". ``node``: the node that it is bound to, or ""."""

    uid: str
    name: str
    namespace: str
    shape: Shape
    needs: Mapping[str, int]
    priority: int
    preempts: bool
    labels: Mapping[str, str]
    controller: str = ""
    node: str = ""
    terminating: bool = False
    created: float = 0.0
    nominated: str = ""
    object: Object

    def matches(self, requirements: tuple[Requirement, ...], namespaces: tuple[str, ...]) -> bool:
        """Whether a pod affinity term selects this pod."""
        return self.namespace in namespaces and all(requirement_holds(r, self.labels) for r in requirements)


def requirement_holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    """Whether labels meet a requirement. As in Kubernetes, ``NotIn`` also holds without the label."""
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


def pod_needs(shape: Shape) -> dict[str, int]:
    """A pod's use of its node: one pod slot, and its resources."""
    needs = {"cpu": shape.cpu, "memory": shape.memory, "pods": 1}
    # No shares: ``ShapeCache(sharing=False)`` ignores KAI's annotations, as kube-scheduler does.
    needs.update(shape.gpu.resources())
    needs.update(shape.extended)
    return {name: amount for name, amount in needs.items() if amount}


def baseline_pod(pod: Object, shape: Shape, needs: Mapping[str, int], priorities: PriorityClasses) -> BaselinePod:
    metadata, spec = pod["metadata"], pod["spec"]
    class_name = spec.get("priorityClassName") or ""
    priority = spec.get("priority")
    # Admission sets it; objects of files may lack it.
    if priority is None:
        priority = priorities.values.get(class_name, priorities.default(0))
    policy = spec.get("preemptionPolicy") or ("Never" if class_name in priorities.never_preempt else "")
    owner = controller_of(pod)
    return BaselinePod(
        uid=metadata["uid"],
        name=metadata["name"],
        namespace=metadata["namespace"],
        shape=shape,
        needs=needs,
        priority=int(priority),
        preempts=policy != "Never",
        labels=labels_of(pod),
        controller=owner.get("uid", "") if owner and owner.get("kind") in _SPREAD_OWNERS else "",
        node=spec.get("nodeName") or "",
        terminating=is_terminating(pod),
        created=creation_time(metadata),
        nominated=status_of(pod).get("nominatedNodeName") or "",
        object=pod,
    )


Mask = npt.NDArray[np.bool_]
Amounts = npt.NDArray[np.int64]

_NOT_READY = Taint(key="node.kubernetes.io/not-ready")
_CORDON = Taint(key="node.kubernetes.io/unschedulable")
# kube-scheduler's scores count these for pods without requests: millicores and bytes.
_DEFAULT_CPU, _DEFAULT_MEMORY = 100, 200 * 1024 * 1024


class BaselineNodeTable:
    """The nodes as arrays, with the pods on them. Each change of use raises ``version``. ``pods``: the pods of each node by UID, in order of
    arrival."""

    def __init__(self, nodes: Mapping[str, Node], placed: Iterable[BaselinePod]) -> None:
        self.names = sorted(nodes)
        self.index = {name: position for position, name in enumerate(self.names)}
        self.nodes = [nodes[name] for name in self.names]
        self.labels = [dict(node.labels) for node in self.nodes]
        resources: dict[str, None] = dict.fromkeys(("cpu", "memory", "pods", names.GPU_RESOURCE, *UNREPORTED_CAPACITY))
        for node in self.nodes:
            resources.update(dict.fromkeys(name for name, _ in node.extended))
        self.rows = {name: row for row, name in enumerate(resources)}
        self.allocatable: Amounts = np.zeros((len(self.rows), len(self.nodes)), np.int64)
        for position, node in enumerate(self.nodes):
            # Whole devices, as kube-scheduler counts extended resources.
            own = {"cpu": node.cpu, "memory": node.memory, "pods": node.pods, names.GPU_RESOURCE: node.gpus // GPU}
            for name, amount in (*UNREPORTED_CAPACITY.items(), *own.items(), *node.extended):
                self.allocatable[self.rows[name], position] = amount
        self.free: Amounts = self.allocatable.copy()
        # cpu and memory in use with the defaults filled in, only for scores
        self.scored: Amounts = np.zeros((2, len(self.nodes)), np.int64)
        self.pods: list[dict[str, BaselinePod]] = [{} for _ in self.nodes]
        self.count: Amounts = np.zeros(len(self.nodes), np.int64)  # of pods
        self.by_controller: dict[str, Amounts] = {}  # pods of each controller on each node
        self.version = 0
        self.changes: list[int] = []  # positions of nodes whose use changed, in order
        self.soft_taints = any(t.effect == "PreferNoSchedule" for node in self.nodes for t in node.taints)
        self._static: dict[Shape, tuple[Mask, list[str]]] = {}
        for pod in placed:
            self.add(pod)

    def __len__(self) -> int:
        return len(self.names)

    # --- pods ---------------------------------------------------------------------------------------------------------

    def add(self, pod: BaselinePod) -> None:
        self._change(pod, 1)

    def remove(self, pod: BaselinePod) -> None:
        self._change(pod, -1)

    def _change(self, pod: BaselinePod, sign: int) -> None:
        position = self.index.get(pod.node)
        if position is None:
            return
        self.version += 1
        self.changes.append(position)
        for name, amount in pod.needs.items():
            row = self.rows.get(name)
            if row is not None:
                self.free[row, position] -= sign * amount
        self.count[position] += sign
        cpu, memory = scored_needs(pod)
        self.scored[0, position] += sign * cpu
        self.scored[1, position] += sign * memory
        if sign > 0:
            self.pods[position][pod.uid] = pod
        else:
            self.pods[position].pop(pod.uid, None)
        if pod.controller:
            counts = self.by_controller.get(pod.controller)
            if counts is None:
                counts = self.by_controller[pod.controller] = np.zeros(len(self.nodes), np.int64)
            counts[position] += sign

    # --- filters ------------------------------------------------------------------------------------------------------

    def allowed(self, shape: Shape) -> tuple[Mask, list[str]]:
        """The nodes allowed by cordon, taints, selector and affinity, and the reason of each refusal ("": allowed)."""
        # A changed node makes a new table, so this cache is never stale.
        result = self._static.get(shape)
        if result is None:
            reasons = [self._refusal(position, shape) for position in range(len(self.nodes))]
            result = self._static[shape] = (np.array([not reason for reason in reasons], bool), reasons)
        return result

    def _refusal(self, position: int, shape: Shape) -> str:
        node, labels = self.nodes[position], self.labels[position]
        tolerations = shape.tolerations
        if "unschedulable" in node.unavailable and not any(tolerates(t, _CORDON) for t in tolerations):
            return "node(s) were unschedulable"
        taints = node.taints
        # The node lifecycle controller sets this taint; an embedded cluster has none.
        if "NotReady" in node.unavailable and not any(taint.key == _NOT_READY.key for taint in taints):
            taints = (*taints, _NOT_READY)
        for taint in taints:
            if taint.effect != "PreferNoSchedule" and not any(tolerates(t, taint) for t in tolerations):
                return untolerated_reason(taint)
        if not is_selected(node.name, labels, shape):
            return "node(s) didn't match Pod's node affinity/selector"
        return ""

    def fitting(self, needs: Mapping[str, int], free: Amounts) -> Mask:
        """Nodes with enough free capacity of every resource."""
        mask = np.ones(len(self.nodes), bool)
        for name, amount in needs.items():
            row = self.rows.get(name)
            if row is None:
                return np.zeros(len(self.nodes), bool)
            mask &= free[row] >= amount
        return mask

    def lacking(self, position: int, needs: Mapping[str, int], free: Amounts) -> list[str]:
        """kube-scheduler's reasons for a node with too little capacity."""
        reasons = []
        for name, amount in needs.items():
            row = self.rows.get(name)
            if row is None or free[row, position] < amount:
                reasons.append("Too many pods" if name == "pods" else f"Insufficient {name}")
        return reasons

    def port_conflicts(self, shape: Shape) -> Mask:
        """Nodes on which a requested host port is in use."""
        mask = np.zeros(len(self.nodes), bool)
        if shape.ports:
            for position, pods in enumerate(self.pods):
                taken = [port for pod in pods.values() for port in pod.shape.ports]
                mask[position] = any(_clash(own, other) for own in shape.ports for other in taken)
        return mask


def scored_needs(pod: BaselinePod) -> tuple[int, int]:
    return pod.shape.cpu or _DEFAULT_CPU, pod.shape.memory or _DEFAULT_MEMORY


def is_selected(name: str, labels: Mapping[str, str], shape: Shape) -> bool:
    """Whether a node meets both nodeSelector and required node affinity."""
    if not all(requirement_holds(requirement, labels) for requirement in shape.selector):
        return False
    if not shape.terms:
        return True
    return any(matches_term(name, labels, term.requirements, term.fields) for term in shape.terms)


def matches_term(
    name: str, labels: Mapping[str, str], requirements: tuple[Requirement, ...], fields: tuple[Requirement, ...]
) -> bool:
    by_field = {"metadata.name": name}
    return all(requirement_holds(r, labels) for r in requirements) and all(
        requirement_holds(r, by_field) for r in fields
    )


def _clash(port: tuple[str, str, int], other: tuple[str, str, int]) -> bool:
    anywhere = "0.0.0.0"
    return port[1:] == other[1:] and (port[0] == other[0] or anywhere in (port[0], other[0]))
