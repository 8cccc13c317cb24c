"""The baseline scheduler: kube-scheduler's default profile, pod by pod, without queues or gangs.

Pods go by priority, then by arrival. A pod that fits nowhere waits until a pod leaves or a node is new or changes.

Filters: NodeResourcesFit, node affinity, taints, host ports, volumes, DynamicResources, PodTopologySpread, InterPodAffinity. Scores (0..100) and weights:
NodeResourcesFit (least allocated) 1, balanced allocation 1, topology spreading by a pod's own constraints or else of a controller's pods 2,
preferred node affinity 2, preferred pod affinity 2, PreferNoSchedule taints 3. kube-scheduler breaks ties at random; the baseline takes the node with fewer pods, then the first name, so
that runs are repeatable. Preemption is that of DefaultPreemption without disruption budgets. Source: kube-scheduler.

Pods (requests, priorities, placements) and the free capacity of nodes are arrays.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from kailab.cluster.protocol import Cluster, Object, WatchEvent
from kailab.engine.placing.fit import meets, tolerates, untolerated_reason
from kailab.engine.snapshot.records import GPU, UNREPORTED_CAPACITY, Node, NodeTerm, PodTerm, Requirement, Shape, Taint
from kailab.errors import ApiError, NotFound
from kailab.model import labels as names
from kailab.model.labels import DEFAULT_SCHEDULER_NAME, GPU_RESOURCE
from kailab.model.objects import (
    conditions_of,
    controller_of,
    is_ended,
    is_terminating,
    labels_of,
    metadata_of,
    name_of,
    status_of,
)
from kailab.scheduler.binding import Binding
from kailab.scheduler.binding.claim_allocation import ClaimAllocator
from kailab.scheduler.reading import latest_events
from kailab.scheduler.reading.affinity import label_selector
from kailab.scheduler.reading.nodes import node_record
from kailab.scheduler.reading.podgroups import PriorityClasses
from kailab.scheduler.reading.queues import creation_time
from kailab.scheduler.reading.references import missing_message, referenced_objects
from kailab.scheduler.reading.shapes import ShapeCache
from kailab.scheduler.reading.volumes import NO_LIMITS, VOLUME_KINDS, VolumeIndex
from kailab.scheduler.status.reporting import not_scheduled, with_condition

# kube-scheduler's system defaults spread the pods of these controllers, but not those of Jobs.
_SPREAD_OWNERS = ("ReplicaSet", "StatefulSet", "ReplicationController")


class SpreadConstraint(NamedTuple):
    """A constraint of ``topologySpreadConstraints``. ``hard``: nodes that violate it are refused. ``selector``: of the pods that count; None
    selects none. ``heeds_affinity``, ``heeds_taints``: only nodes that the pod's node affinity or its tolerations allow count as domains."""

    topology_key: str
    selector: tuple[Requirement, ...] | None
    max_skew: int
    hard: bool
    min_domains: int
    heeds_affinity: bool
    heeds_taints: bool

    def counts(self, pod: BaselinePod, namespace: str) -> bool:
        """Whether a placed pod counts for a new one of ``namespace``. As in kube-scheduler, an empty selector counts none."""
        return not pod.terminating and bool(self.selector) and self.selects(pod) and pod.namespace == namespace

    def selects(self, pod: BaselinePod) -> bool:
        return self.selector is not None and all(meets(each, pod.labels) for each in self.selector)


def spread_constraints(spec: Object, labels: Mapping[str, str]) -> tuple[SpreadConstraint, ...]:
    """The topology spread constraints of a pod with these labels."""
    return tuple(_spread_constraint(block, labels) for block in spec.get("topologySpreadConstraints") or ())


def _spread_constraint(block: Object, labels: Mapping[str, str]) -> SpreadConstraint:
    selector = label_selector(block.get("labelSelector"))
    if selector is not None:
        # kube-scheduler ignores keys that the pod itself lacks.
        selector += tuple(
            Requirement(key=key, operator="In", values=(labels[key],))
            for key in block.get("matchLabelKeys") or ()
            if key in labels
        )
    return SpreadConstraint(
        topology_key=block.get("topologyKey") or "",
        selector=selector,
        max_skew=int(block.get("maxSkew") or 1),
        hard=block.get("whenUnsatisfiable") != "ScheduleAnyway",
        min_domains=int(block.get("minDomains") or 1),
        heeds_affinity=block.get("nodeAffinityPolicy") != "Ignore",
        heeds_taints=block.get("nodeTaintsPolicy") == "Honor",
    )


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
    spread: tuple[SpreadConstraint, ...] = ()
    controller: str = ""
    node: str = ""
    terminating: bool = False
    created: float = 0.0
    nominated: str = ""
    object: Object

    def matches(self, requirements: tuple[Requirement, ...], namespaces: tuple[str, ...]) -> bool:
        """Whether a pod affinity term selects this pod."""
        return self.namespace in namespaces and all(meets(r, self.labels) for r in requirements)


def pod_needs(shape: Shape) -> dict[str, int]:
    """A pod's use of its node: one pod slot, and its resources."""
    needs = {"cpu": shape.cpu, "memory": shape.memory, "pods": 1}
    # No shares: ``ShapeCache(sharing=False)`` ignores KAI's annotations, as kube-scheduler does.
    needs.update(shape.gpu.resources())
    needs.update(shape.extended)
    return {name: amount for name, amount in needs.items() if amount}


def baseline_pod(pod: Object, shape: Shape, needs: Mapping[str, int], priorities: PriorityClasses) -> BaselinePod:
    metadata, spec = metadata_of(pod), pod["spec"]
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
        spread=spread_constraints(spec, labels_of(pod)),
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
        if "unschedulable" in node.unavailable and not tolerates(tolerations, _CORDON):
            return "node(s) were unschedulable"
        taints = node.taints
        # The node lifecycle controller sets this taint; an embedded cluster has none.
        if "NotReady" in node.unavailable and not any(taint.key == _NOT_READY.key for taint in taints):
            taints = (*taints, _NOT_READY)
        for taint in taints:
            if taint.effect != "PreferNoSchedule" and not tolerates(tolerations, taint):
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
    if not all(meets(requirement, labels) for requirement in shape.selector):
        return False
    if not shape.terms:
        return True
    return any(matches_term(name, labels, term.requirements, term.fields) for term in shape.terms)


def matches_term(
    name: str, labels: Mapping[str, str], requirements: tuple[Requirement, ...], fields: tuple[Requirement, ...]
) -> bool:
    by_field = {"metadata.name": name}
    return all(meets(r, labels) for r in requirements) and all(meets(r, by_field) for r in fields)


def _clash(port: tuple[str, str, int], other: tuple[str, str, int]) -> bool:
    anywhere = "0.0.0.0"
    return port[1:] == other[1:] and (port[0] == other[0] or anywhere in (port[0], other[0]))


AFFINITY = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
OTHERS_ANTI_AFFINITY = "node(s) didn't satisfy existing pods anti-affinity rules"


def affinity_refusals(
    pod: BaselinePod, table: BaselineNodeTable, placed: Iterable[BaselinePod], exclusive: Mapping[str, BaselinePod]
) -> list[tuple[Mask, str]]:
    """The nodes refused by required pod affinity and anti-affinity, with a reason, in kube-scheduler's order.

    ``exclusive``: placed pods with required anti-affinity of their own.
    """
    refusals: list[tuple[Mask, str]] = []
    affinity = [term for term in pod.shape.affinity if not term.weight]
    anti_affinity = [term for term in pod.shape.anti_affinity if not term.weight]
    others = list(placed) if affinity or anti_affinity else []
    if affinity:
        # Only pods that all terms select count.
        selected = [other for other in others if _all_select(affinity, other)]
        near = [_domains_of(selected, term.topology_key, table) for term in affinity]
        # The first pod of a series that selects itself may start anywhere in the topology.
        if not any(nodes.any() for nodes in near) and _all_select(affinity, pod):
            near = [np.array([term.topology_key in labels for labels in table.labels], bool) for term in affinity]
        refusals.append((~np.logical_and.reduce(near), AFFINITY))
    if anti_affinity:
        refused = np.zeros(len(table), bool)
        for term in anti_affinity:
            selected = [other for other in others if _all_select([term], other)]
            refused |= _domains_of(selected, term.topology_key, table)
        refusals.append((refused, ANTI_AFFINITY))
    refused = np.zeros(len(table), bool)
    # The anti-affinity of placed pods also refuses the new one.
    for other in exclusive.values():
        for term in other.shape.anti_affinity:
            if not term.weight and pod.matches(term.requirements, term.namespaces):
                refused |= _domains_of([other], term.topology_key, table)
    if refused.any():
        refusals.append((refused, OTHERS_ANTI_AFFINITY))
    return refusals


def affinity_points(pod: BaselinePod, table: BaselineNodeTable, placed: Iterable[BaselinePod]) -> np.ndarray | None:
    """The points of preferred terms for each node; None without such terms."""
    terms = [(term, 1) for term in pod.shape.affinity if term.weight]
    terms += [(term, -1) for term in pod.shape.anti_affinity if term.weight]
    if not terms:
        return None
    others = list(placed)
    points = np.zeros(len(table), np.float64)
    for term, sign in terms:
        for other in others:
            if other.matches(term.requirements, term.namespaces):
                points += sign * term.weight * _domains_of([other], term.topology_key, table)
    return points


def _reached(claims: Iterable[tuple[NodeTerm, ...]], table: BaselineNodeTable) -> Mask:
    """The nodes that one term of each claim allows."""
    return np.array(
        [
            all(any(matches_term(name, labels, term.requirements, term.fields) for term in terms) for terms in claims)
            for name, labels in zip(table.names, table.labels, strict=True)
        ],
        bool,
    )


def _all_select(terms: Iterable[PodTerm], pod: BaselinePod) -> bool:
    return all(pod.matches(term.requirements, term.namespaces) for term in terms)


def _domains_of(pods: Iterable[BaselinePod], key: str, table: BaselineNodeTable) -> Mask:
    """The nodes that have the same value of the label ``key`` as the node of one of these pods."""
    positions = [position for pod in pods if (position := table.index.get(pod.node)) is not None]
    values = {table.labels[position].get(key) for position in positions} - {None}
    if not values:
        return np.zeros(len(table), bool)
    return np.array([labels.get(key) in values for labels in table.labels], bool)


SPREAD = "node(s) didn't match pod topology spread constraints"
SPREAD_LABEL = f"{SPREAD} (missing required label)"


def spread_refusals(
    pod: BaselinePod, table: BaselineNodeTable, placed: Iterable[BaselinePod]
) -> list[tuple[Mask, str]]:
    """The nodes refused by hard topology spread constraints, with a reason."""
    hard = [constraint for constraint in pod.spread if constraint.hard]
    if not hard:
        return []
    skewed, unlabelled = np.zeros(len(table), bool), np.zeros(len(table), bool)
    others = list(placed)
    for constraint in hard:
        counts = _domain_counts(constraint, hard, pod, table, others)
        least = min(counts.values(), default=0) if len(counts) >= constraint.min_domains else 0
        room = constraint.max_skew + least - constraint.selects(pod)
        # The first constraint that refuses a node gives the reason.
        for position in np.flatnonzero(~(skewed | unlabelled)):
            value = table.labels[position].get(constraint.topology_key)
            if value is None:
                unlabelled[position] = True
            elif counts.get(value, 0) > room:
                skewed[position] = True
    return [(unlabelled, SPREAD_LABEL), (skewed, SPREAD)]


def _domain_counts(
    constraint: SpreadConstraint,
    constraints: Iterable[SpreadConstraint],
    pod: BaselinePod,
    table: BaselineNodeTable,
    placed: Iterable[BaselinePod],
) -> dict[str, int]:
    """The number of pods in each domain of a constraint. Nodes that lack a label of one of the ``constraints`` are in no domain."""
    keys = {other.topology_key for other in constraints}
    domains = {
        position: labels[constraint.topology_key]
        for position, labels in enumerate(table.labels)
        if keys <= labels.keys() and _is_eligible(position, constraint, pod.shape, table)
    }
    counts = dict.fromkeys(domains.values(), 0)
    for other in placed:
        domain = domains.get(table.index.get(other.node, -1))
        if domain is not None and constraint.counts(other, pod.namespace):
            counts[domain] += 1
    return counts


def _is_eligible(position: int, constraint: SpreadConstraint, shape: Shape, table: BaselineNodeTable) -> bool:
    node = table.nodes[position]
    if constraint.heeds_affinity and not is_selected(node.name, table.labels[position], shape):
        return False
    return not constraint.heeds_taints or all(
        taint.effect == "PreferNoSchedule" or tolerates(shape.tolerations, taint) for taint in node.taints
    )


def spread_points(
    pod: BaselinePod, table: BaselineNodeTable, candidates: npt.NDArray[np.intp], placed: Iterable[BaselinePod]
) -> Scores | None:
    """The scores of the candidates by soft topology spread constraints; None without such constraints."""
    soft = [constraint for constraint in pod.spread if not constraint.hard]
    if not soft:
        return None
    others = list(placed)
    keys = {constraint.topology_key for constraint in soft}
    labelled = np.array([keys <= table.labels[position].keys() for position in candidates], bool)
    raw = np.zeros(len(candidates), np.float64)
    for constraint in soft:
        values = [table.labels[position].get(constraint.topology_key) for position in candidates]
        if constraint.topology_key == names.HOSTNAME:
            domains = int(labelled.sum())
            amounts = [
                sum(constraint.counts(other, pod.namespace) for other in table.pods[position].values())
                for position in candidates
            ]
        else:
            domains = len({value for value, has in zip(values, labelled, strict=True) if has})
            counts = _domain_counts(constraint, soft, pod, table, others)
            amounts = [counts.get(value or "", 0) for value in values]
        raw += np.array(amounts) * math.log(domains + 2) + constraint.max_skew - 1
    raw = np.floor(raw + 0.5)
    points = np.zeros(len(candidates), np.float64)
    if labelled.any():
        least, most = raw[labelled].min(), raw[labelled].max()
        points[labelled] = np.floor(100 * (most + least - raw[labelled]) / most) if most else 100
    return points


Scores = npt.NDArray[np.float64]


class ShapeScores:
    """The fitting nodes for one shape and their scores for resources, updated node by node.

    Most pods have the shape of the pod before them, and only one node has changed since.
    """

    def __init__(self, pod: BaselinePod, table: BaselineNodeTable) -> None:
        self._pod = pod
        self._table = table
        self._seen = -1
        self.fits: Mask = np.zeros(len(table), bool)
        self.scores: Scores = np.zeros(len(table), np.float64)

    def refresh(self) -> None:
        table, pod = self._table, self._pod
        changes = table.changes
        # For many changed nodes the array expressions are faster.
        if self._seen < 0 or len(changes) - self._seen > len(table) // 8:
            self.fits = table.allowed(pod.shape)[0] & table.fitting(pod.needs, table.free)
            self.scores = _resource_scores(pod, table)
        else:
            allowed = table.allowed(pod.shape)[0]
            for position in dict.fromkeys(changes[self._seen :]):
                self.fits[position] = allowed[position] and not table.lacking(position, pod.needs, table.free)
                self.scores[position] = _resource_score(pod, table, position)
        self._seen = len(changes)


def best_node(
    pod: BaselinePod, table: BaselineNodeTable, fits: Mask, resources: Scores, placed: Iterable[BaselinePod]
) -> int:
    """The position of the best node. ``fits`` has at least one node. ``resources``: the scores of all nodes for resources."""
    candidates = np.flatnonzero(fits)
    scores = resources[candidates]
    spread = spread_points(pod, table, candidates, placed)
    if spread is not None:
        scores += 2 * spread
    # Constraints of its own take the place of the default ones.
    counts = table.by_controller.get(pod.controller) if pod.controller and not pod.spread else None
    if counts is not None:
        own = counts[candidates]
        most = own.max()
        if most:
            # Whole points, as in kube-scheduler: fractions would break its ties.
            scores += 2 * np.floor((most - own) * 100 / most)
    if pod.shape.preferred:
        scores += 2 * _up_to_100(_preferred(pod, table, candidates))
    if table.soft_taints:
        bad = _soft_taints(pod, table, candidates)
        if bad.any():
            # Inverted: the node with the most untolerated taints gets 0.
            scores += 3 * (100 - _up_to_100(bad))
    points = affinity_points(pod, table, placed) if pod.shape.affinity or pod.shape.anti_affinity else None
    if points is not None:
        near = points[candidates]
        width = near.max() - near.min()
        if width:
            scores += 2 * np.floor((near - near.min()) * 100 / width)
    best = candidates[scores == scores.max()]
    # Of several, argmin gives the first by name.
    return int(best[int(np.argmin(table.count[best]))])


def _resource_scores(pod: BaselinePod, table: BaselineNodeTable) -> Scores:
    """The sum of the scores for least allocated and balanced allocation, over cpu and memory."""
    cpu, memory = scored_needs(pod)
    capacity = table.allocatable[:2]
    used = table.scored + np.array([[cpu], [memory]], np.int64)
    # A node may offer none of it.
    safe = np.maximum(capacity, 1)
    free = np.where(used > capacity, 0, (capacity - used) * 100 // safe)
    parts = np.minimum(used / safe, 1.0)
    return free.sum(axis=0) // 2 + np.floor((1 - np.abs(parts[0] - parts[1]) / 2) * 100)


def _resource_score(pod: BaselinePod, table: BaselineNodeTable, position: int) -> float:
    """As ``_resource_scores``, for one node."""
    free = 0
    parts = []
    for row, request in enumerate(scored_needs(pod)):
        capacity = int(table.allocatable[row, position])
        used = int(table.scored[row, position]) + request
        safe = max(capacity, 1)
        free += 0 if used > capacity else (capacity - used) * 100 // safe
        parts.append(min(used / safe, 1.0))
    return free // 2 + math.floor((1 - abs(parts[0] - parts[1]) / 2) * 100)


def _up_to_100(points: Scores) -> Scores:
    most = points.max()
    return np.floor(points * 100 / most) if most else points


def _preferred(pod: BaselinePod, table: BaselineNodeTable, candidates: npt.NDArray[np.intp]) -> Scores:
    points = np.zeros(len(candidates), np.float64)
    for place, position in enumerate(candidates):
        name, labels = table.names[position], table.labels[position]
        for term in pod.shape.preferred:
            if matches_term(name, labels, term.requirements, term.fields):
                points[place] += term.weight
    return points


def _soft_taints(pod: BaselinePod, table: BaselineNodeTable, candidates: npt.NDArray[np.intp]) -> Scores:
    return np.array(
        [
            sum(
                taint.effect == "PreferNoSchedule" and not tolerates(pod.shape.tolerations, taint)
                for taint in table.nodes[position].taints
            )
            for position in candidates
        ],
        np.float64,
    )


FEWEST_CANDIDATES = 100
"""kube-scheduler's default: preemption considers a tenth of the nodes, but at least this many."""


class NodePreemption(NamedTuple):
    """The pods to evict from one node."""

    node: str
    victims: list[BaselinePod]


def find_victims(
    pod: BaselinePod, table: BaselineNodeTable, free: Amounts, lowest: int, refused: Mask | None = None
) -> NodePreemption | None:
    """The node with the least costly victims; None if evictions don't let the pod fit anywhere.

    ``free``: without the capacity reserved for other nominated pods. ``lowest``: the lowest priority on any node. ``refused``: nodes on which
    evictions would not help.
    """
    if not pod.preempts or pod.priority <= lowest:
        return None
    allowed, _ = table.allowed(pod.shape)
    enough = max(FEWEST_CANDIDATES, len(table) // 10)
    best: tuple[tuple[int, int, int, float, str], NodePreemption] | None = None
    candidates = 0
    for position, name in enumerate(table.names):
        if not allowed[position] or (refused is not None and refused[position]):
            continue
        victims = _victims_on(position, pod, table, free)
        if not victims:
            continue
        highest = max(victim.priority for victim in victims)
        earliest = min(victim.created for victim in victims if victim.priority == highest)
        # DefaultPreemption's criteria. With the offset no priority is negative, so that more victims are never better.
        key = (highest, sum(victim.priority + 2**31 for victim in victims), len(victims), -earliest, name)
        if best is None or key < best[0]:
            best = (key, NodePreemption(name, victims))
        candidates += 1
        if candidates >= enough:
            break
    return best[1] if best else None


def _victims_on(position: int, pod: BaselinePod, table: BaselineNodeTable, free: Amounts) -> list[BaselinePod]:
    """The least important pods of a node without which ``pod`` fits; empty if all lower-priority pods are not enough."""
    lower = [
        other for other in table.pods[position].values() if other.priority < pod.priority and not other.terminating
    ]
    if not lower:
        return []
    room: dict[str, int] = {}
    for name, amount in pod.needs.items():
        # Evictions can't free a resource that no node has.
        row = table.rows.get(name)
        if row is None:
            return []
        room[name] = int(free[row, position]) - amount + sum(other.needs.get(name, 0) for other in lower)
    if min(room.values()) < 0 or _ports_taken(position, pod, table):
        return []
    victims = []
    # The most important pods, and of those the oldest, are spared first.
    for other in sorted(lower, key=lambda other: (-other.priority, other.created, other.uid)):
        if all(left >= other.needs.get(name, 0) for name, left in room.items()) and not pod.shape.ports:
            for name in room:
                room[name] -= other.needs.get(name, 0)
        else:
            victims.append(other)
    return victims


def _ports_taken(position: int, pod: BaselinePod, table: BaselineNodeTable) -> bool:
    """Whether pods that can't be evicted hold a host port that the pod requests."""
    held = {
        port[1:]
        for other in table.pods[position].values()
        if other.priority >= pod.priority
        for port in other.shape.ports
    }
    return any(port[1:] in held for port in pod.shape.ports)


COMPONENT = "default-scheduler"
_CLAIM = "PersistentVolumeClaim"
_DEVICE_KINDS = ("DeviceClass", "ResourceSlice", "ResourceClaim")
_KINDS = ("PriorityClass", "Node", _CLAIM, *VOLUME_KINDS, *_DEVICE_KINDS, "Pod")
NO_DEVICES = "cannot allocate all claims"


class Baseline:
    """Schedules the pods of ``scheduler_names`` as kube-scheduler would. Other pods on nodes only use capacity."""

    wake_at: float | None = None
    """The baseline never waits for a time."""

    def __init__(self, cluster: Cluster, scheduler_names: Iterable[str] = (DEFAULT_SCHEDULER_NAME,)) -> None:
        self._cluster = cluster
        self._scheduler_names = frozenset(scheduler_names)
        self._watch = cluster.watch(_KINDS)
        self._shapes = ShapeCache(sharing=False)
        self._needs: dict[Shape, dict[str, int]] = {}
        self._priorities = PriorityClasses()
        self._volumes = VolumeIndex()
        self._nodes: dict[str, Node] = {}
        self._placed: dict[str, BaselinePod] = {}
        self._waiting: dict[str, BaselinePod] = {}  # in order of arrival
        self._following: dict[str, None] = {}  # waiting pods that a pod placed elsewhere may let fit
        self._claiming: dict[str, None] = {}  # waiting pods that claim devices
        self._devices = ClaimAllocator(cluster)
        self._new: dict[str, None] = {}  # waiting pods that have not been tried yet
        self._exclusive: dict[str, BaselinePod] = {}
        self._table: BaselineNodeTable | None = None
        # Equal pods fail alike until the table changes, so one of them is tried.
        self._failed: dict[tuple[Shape, int], tuple[int, str]] = {}  # version of the table, and the reason
        self._scores: dict[Shape, ShapeScores] = {}
        self._nominated: dict[str, BaselinePod] = {}  # waiting pods for which victims are being evicted
        self._messages: dict[str, str] = {}
        self.cycles = 0

    def waiting(self) -> dict[str, str]:
        """Why each waiting pod fits nowhere, by UID."""
        return {uid: self._messages[uid] for uid in self._waiting if uid in self._messages}

    def close(self) -> None:
        self._watch.close()
        self._devices.close()

    def step(self) -> bool:
        """Process changes and try the pods that they may concern. Returns whether anything was written."""
        freed = self._process_events(self._watch.poll())
        candidates = self._waiting if freed else {uid: self._waiting[uid] for uid in self._new if uid in self._waiting}
        if not candidates:
            return False
        self.cycles += 1
        self._new = {}
        if self._table is None:
            self._table = BaselineNodeTable(self._nodes, self._placed.values())
            self._failed.clear()
            self._scores.clear()
        wrote = False
        # The order of kube-scheduler's PrioritySort.
        for pod in sorted(candidates.values(), key=lambda pod: (-pod.priority, pod.created)):
            wrote |= self._schedule(pod, self._table)
        return wrote

    # --- watch events -------------------------------------------------------------------------------------------------

    def _process_events(self, events: Iterable[WatchEvent]) -> bool:
        """Returns whether a change may let a waiting pod fit."""
        latest = latest_events(events, _KINDS)
        freed = False
        for event in latest["PriorityClass"].values():
            self._priorities.process_event(event)
        for kind in (_CLAIM, *VOLUME_KINDS):
            for event in latest[kind].values():
                freed |= self._volumes.process_object(kind, event.object, event.type == "DELETED")
        for event in latest["Node"].values():
            freed |= self._node(event)
        for uid, event in latest["Pod"].items():
            freed |= self._pod(uid, None if event.type == "DELETED" else event.object)
        if any(latest[kind] for kind in _DEVICE_KINDS):
            self._new.update(self._claiming)
        return freed

    def _node(self, event: WatchEvent) -> bool:
        name = name_of(event.object)
        before = self._nodes.get(name)
        if event.type == "DELETED":
            self._nodes.pop(name, None)
        else:
            self._nodes[name] = node_record(event.object, gpu_resources=(GPU_RESOURCE,))
        if before == self._nodes.get(name):
            return False
        self._table = None
        return True

    def _pod(self, uid: str, pod: Object | None) -> bool:
        if pod is None or is_ended(pod):
            self._drop(uid)
            return self._unplace(uid)
        shape = self._shapes.of(pod)
        needs = self._needs.get(shape)
        if needs is None:
            needs = self._needs[shape] = pod_needs(shape)
        new = baseline_pod(pod, shape, needs, self._priorities)
        if new.node:
            self._drop(uid)
            self._place(new)
            return False
        spec = pod["spec"]
        is_ours = (spec.get("schedulerName") or DEFAULT_SCHEDULER_NAME) in self._scheduler_names
        if not is_ours or spec.get("schedulingGates") or new.terminating:
            self._drop(uid)
            # The capacity reserved for it is free again.
            return bool(new.nominated)
        claims_devices = bool(spec.get("resourceClaims"))
        # The status of a pod names the claims that were made for it.
        if uid not in self._waiting or claims_devices:
            self._new[uid] = None
        self._waiting[uid] = new
        if claims_devices:
            self._claiming[uid] = None
        if new.spread or any(not term.weight for term in new.shape.affinity):
            self._following[uid] = None
        if new.nominated:
            self._nominated[uid] = new
        else:
            self._nominated.pop(uid, None)
        return False

    def _drop(self, uid: str) -> None:
        """Remove a pod that no longer waits."""
        for table in (self._waiting, self._following, self._claiming, self._new, self._messages, self._nominated):
            table.pop(uid, None)

    def _place(self, pod: BaselinePod) -> None:
        before = self._placed.get(pod.uid)
        self._placed[pod.uid] = pod
        if any(not term.weight for term in pod.shape.anti_affinity):
            self._exclusive[pod.uid] = pod
        if before is None:
            self._new.update(self._following)
        table = self._table
        if table is None:
            return
        if before is None:
            table.add(pod)
        elif (position := table.index.get(pod.node)) is not None:
            # The pod counts already; replace its state, which may be terminating now.
            table.pods[position][pod.uid] = pod

    def _unplace(self, uid: str) -> bool:
        pod = self._placed.pop(uid, None)
        self._exclusive.pop(uid, None)
        if pod is not None and self._table is not None:
            self._table.remove(pod)
        return pod is not None

    # --- one pod -----------------------------------------------------------------------------------------------------

    def _schedule(self, pod: BaselinePod, table: BaselineNodeTable) -> bool:
        claims = [ref for ref in referenced_objects(pod.object) if ref.kind == _CLAIM]
        volumes = self._volumes.limits(pod.namespace, [ref.name for ref in claims]) if claims else NO_LIMITS
        missing = [missing_message(ref) for ref in claims if not self._volumes.has_claim(ref.namespace, ref.name)]
        # Evictions would not help, so none are looked for.
        if blocked := (*missing, *volumes.blocked):
            return self._give_up(pod, f"0/{len(table)} nodes are available: {blocked[0]}.")
        failed = self._failed.get((pod.shape, pod.priority))
        # The result of affinity terms also depends on the pod's labels, which are not in the key, as that of its claims does.
        devices = bool(pod.object["spec"].get("resourceClaims"))
        has_terms = bool(
            pod.shape.affinity or pod.shape.anti_affinity or self._exclusive or claims or pod.spread or devices
        )
        # A nominated pod is tried each time, because its victims may have ended.
        if failed is not None and failed[0] == table.version and not pod.nominated and not has_terms:
            return self._give_up(pod, failed[1])
        free = self._free_for(pod, table)
        scores = self._shape_scores(pod, table)
        fits, refusals = self._fits(pod, table, free, scores)
        if volumes.terms:
            beyond = ~_reached(volumes.terms, table)
            fits = fits & ~beyond
            refusals = [*refusals, (beyond, "node(s) had volume node affinity conflict")]
        if devices and fits.any():
            lacking = self._without_devices(pod, table, fits)
            fits = fits & ~lacking
            refusals = [*refusals, (lacking, NO_DEVICES)]
        if fits.any():
            position = best_node(pod, table, fits, scores.scores, self._placed.values())
            return self._bind(pod, table.names[position])
        message = self._failure_message(pod, table, free, refusals)
        spread = [mask for mask, reason in refusals if reason in (SPREAD, SPREAD_LABEL)]
        refused = np.logical_or.reduce(spread) if spread else None
        preempted = not volumes.terms and not devices and self._preempt(pod, table, free, refused)
        if not preempted and not claims and not pod.spread and not devices:
            self._failed[pod.shape, pod.priority] = (table.version, message)
        return self._give_up(pod, message) or preempted

    def _without_devices(self, pod: BaselinePod, table: BaselineNodeTable, fits: Mask) -> Mask:
        """The nodes among those that fit on which the pod's claims can't be allocated."""
        positions = np.flatnonzero(fits)
        refused = self._devices.refusals(pod.object, [table.names[position] for position in positions])
        lacking = np.zeros(len(table), bool)
        lacking[[position for position in positions if table.names[position] in refused]] = True
        return lacking

    def _shape_scores(self, pod: BaselinePod, table: BaselineNodeTable) -> ShapeScores:
        scores = self._scores.get(pod.shape)
        if scores is None:
            scores = self._scores[pod.shape] = ShapeScores(pod, table)
        scores.refresh()
        return scores

    def _free_for(self, pod: BaselinePod, table: BaselineNodeTable) -> Amounts:
        """The free capacity without that reserved for nominated pods of equal or higher priority."""
        free = table.free
        for other in self._nominated.values():
            position = table.index.get(other.nominated)
            if position is None or other.uid == pod.uid or other.priority < pod.priority:
                continue
            free = free.copy() if free is table.free else free
            for name, amount in other.needs.items():
                row = table.rows.get(name)
                if row is not None:
                    free[row, position] -= amount
        return free

    def _fits(
        self, pod: BaselinePod, table: BaselineNodeTable, free: Amounts, scores: ShapeScores
    ) -> tuple[Mask, list[tuple[Mask, str]]]:
        fits = scores.fits
        # The scores are of the table's own free capacity.
        if free is not table.free:
            fits = table.allowed(pod.shape)[0] & table.fitting(pod.needs, free)
        if pod.shape.ports:
            fits = fits & ~table.port_conflicts(pod.shape)
        refusals = spread_refusals(pod, table, self._placed.values())
        if pod.shape.affinity or pod.shape.anti_affinity or self._exclusive:
            refusals += affinity_refusals(pod, table, self._placed.values(), self._exclusive)
        for refused, _ in refusals:
            fits = fits & ~refused
        return fits, refusals

    def _failure_message(
        self, pod: BaselinePod, table: BaselineNodeTable, free: Amounts, refusals: list[tuple[Mask, str]]
    ) -> str:
        """kube-scheduler's message: each node counts for the first plugin that refuses it."""
        if not len(table):
            return "no nodes available to schedule pods"
        counts: dict[str, int] = {}
        _, refused = table.allowed(pod.shape)
        conflicts = table.port_conflicts(pod.shape) if pod.shape.ports else np.zeros(len(table), bool)
        for position in range(len(table)):
            reasons = [refused[position]] if refused[position] else []
            if not reasons and conflicts[position]:
                reasons = ["node(s) didn't have free ports for the requested pod ports"]
            # In the order of kube-scheduler's filters: taints and affinity, ports, resources, other pods.
            reasons = reasons or table.lacking(position, pod.needs, free)
            reasons = reasons or [reason for mask, reason in refusals if mask[position]][:1]
            for reason in reasons:
                counts[reason] = counts.get(reason, 0) + 1
        parts = ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
        return f"0/{len(table)} nodes are available: {parts}."

    # --- writing -----------------------------------------------------------------------------------------------------

    def _bind(self, pod: BaselinePod, node: str) -> bool:
        if refused := self._devices.prepare([Binding(pod.object, node)]):
            return self._give_up(pod, f"allocating its claims failed: {refused[pod.uid]}", "SchedulerError")
        try:
            self._cluster.bind(pod.namespace, pod.name, node, uid=pod.uid)
        except NotFound:
            self._drop(pod.uid)
            return False
        except ApiError as error:
            self._devices.undo([pod.uid])
            # The next step tries again.
            self._new[pod.uid] = None
            return self._give_up(pod, f"binding rejected: {error}", "SchedulerError")
        text = f"Successfully assigned {pod.namespace}/{pod.name} to {node}"
        self._cluster.event(pod.object, "Normal", "Scheduled", text, COMPONENT)
        self._drop(pod.uid)
        # At once, because later pods of this step must see its place as taken.
        self._place(msgspec.structs.replace(pod, node=node, nominated=""))
        return True

    def _give_up(self, pod: BaselinePod, message: str, reason: str = "Unschedulable") -> bool:
        """Report why a pod waits. Returns whether its conditions changed."""
        self._messages[pod.uid] = message
        conditions = with_condition(conditions_of(pod.object), not_scheduled(message, reason), self._cluster.now())
        if conditions is None:
            return False
        self._cluster.event(pod.object, "Warning", "FailedScheduling", message, COMPONENT)
        self._patch_status(pod, {"conditions": conditions})
        return True

    def _patch_status(self, pod: BaselinePod, status: Object) -> None:
        try:
            self._cluster.patch(
                "Pod", pod.name, pod.namespace, {"metadata": {"uid": pod.uid}, "status": status}, "status"
            )
        except ApiError:
            return  # the pod is gone, or the next try writes it

    def _preempt(self, pod: BaselinePod, table: BaselineNodeTable, free: Amounts, refused: Mask | None) -> bool:
        nominated = table.index.get(pod.nominated) if pod.nominated else None
        if nominated is not None and any(
            other.terminating and other.priority < pod.priority for other in table.pods[nominated].values()
        ):
            return False  # victims are already ending there
        lowest = min((other.priority for other in self._placed.values()), default=pod.priority)
        preemption = find_victims(pod, table, free, lowest, refused)
        if preemption is None:
            return False
        for victim in preemption.victims:
            text = f"{COMPONENT}: preempting to accommodate a higher priority pod"
            try:
                self._cluster.evict(victim.namespace, victim.name, "PreemptionByScheduler", text, uid=victim.uid)
            except NotFound:
                continue
            except ApiError:
                return True  # the pod is tried again once the evicted victims are gone
            message = f"Preempted by pod {pod.uid} on node {preemption.node}"
            self._cluster.event(victim.object, "Normal", "Preempted", message, COMPONENT)
        self._patch_status(pod, {"nominatedNodeName": preemption.node})
        return True
