"""Controllers of ReplicaSets, Deployments, StatefulSets and DaemonSets, and the names of their revisions.

A real controller names a revision by a hash of its own, and a template without some fields has a different hash here. Workloads that were
taken over from a cluster carry an annotation with the name of their template, so that an unchanged template is not rolled out again.
"""

from __future__ import annotations

import math
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from kailab.cluster.embedded.nodes.node_lifecycle import covers_taint, taints_of
from kailab.cluster.embedded.storage.store import safe_text
from kailab.cluster.protocol import WatchEvent
from kailab.cluster.selectors import Term
from kailab.errors import ApiError
from kailab.model.objects import (
    Object,
    annotations_of,
    as_owner_reference,
    is_active,
    is_ended,
    is_ready,
    is_terminating,
    labels_of,
    metadata_of,
    name_of,
    namespace_of,
    node_of,
    object_key,
    phase_of,
    spec_of,
    status_of,
    uid_of,
)
from kailab.model.quantities import parse_count
from kailab.workloads.controller import Controller, Reference, Workbench, with_metadata
from kailab.workloads.leader_worker_pods import add_worker_fields

TAKEN_OVER = "kailab.dev/revision-of"  # "<hash of the template here>=<the other controller's name>"
REVISION_LABEL = "controller-revision-hash"
TEMPLATE = "kailab.dev/template"
"""Annotation of an object that a controller makes: the hash of what its owner asked for. An object without it was made by another
controller, or taken in part: it counts as what its owner asks for now."""
_encode = msgspec.json.Encoder(order="sorted").encode


def template_hash(template: Object) -> str:
    """A short name for a pod template: equal templates, equal names."""
    # Keys are sorted, so that their order in a manifest does not matter.
    return safe_text(str(zlib.crc32(_encode(template))))


def ensure_object(
    bench: Workbench,
    owner: Object,
    kind: str,
    name: str,
    spec: Object,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
) -> Object | None:
    """Create the named object of an owner, or set these fields of its spec if the owner wants other fields than before. Changes that others
    made to the object stay until then. Returns None, and writes an event, if the cluster refuses it."""
    digest = template_hash(spec)
    current = bench.find(kind, (namespace_of(owner), name))
    if current is None:
        metadata = {"name": name, "labels": dict(labels), "annotations": {**annotations, TEMPLATE: digest}}
        return bench.create(owner, kind, {"kind": kind.partition(".")[0], "metadata": metadata, "spec": spec})
    known = annotations_of(current).get(TEMPLATE)
    if known == digest:
        return current
    if known is None:
        return bench.patch(kind, current, {"metadata": {"annotations": {TEMPLATE: digest}}})
    metadata = {**current["metadata"], "annotations": {**annotations_of(current), TEMPLATE: digest}}
    return bench.update(owner, kind, {**current, "metadata": metadata, "spec": {**current["spec"], **spec}})


def revision_of(owner: Object, digest: str, default: str) -> str:
    """The revision in labels of pods with the workload's template. ``digest``: of the template; ``default``: the name that it has here."""
    note = annotations_of(owner).get(TAKEN_OVER, "")
    known, _, name = note.partition("=")
    # The annotation is valid for one template; a new template gets a name of its own.
    return name if known == digest and name else default


def annotate_revision(owner: Object, name: str | None, field: str = "template") -> Object:
    """The workload with an annotation that pods of its present template have this revision name; unchanged without a name or a template.
    ``field``: the template's in its spec."""
    template = spec_of(owner).get(field)
    if not name or not isinstance(template, dict):
        return owner
    notes = {**annotations_of(owner), TAKEN_OVER: f"{template_hash(template)}={name}"}
    return {**owner, "metadata": {**owner["metadata"], "annotations": notes}}


def forget_template(obj: Object) -> Object:
    """An object that was taken in part, without the hash of the whole that its owner asked for."""
    notes = annotations_of(obj)
    if TEMPLATE not in notes:
        return obj
    kept = {key: value for key, value in notes.items() if key != TEMPLATE}
    return {**obj, "metadata": {**metadata_of(obj), "annotations": kept}}


def annotate_foreign_revision(owner: Object, pods: Iterable[Object]) -> Object:
    """A StatefulSet or DaemonSet of another controller, with the annotation of ``annotate_revision``; ``pods``: its pods."""
    # A DaemonSet has no such field.
    return annotate_revision(owner, status_of(owner).get("updateRevision") or most_carried(pods, REVISION_LABEL))


def most_carried(pods: Iterable[Object], label: str) -> str | None:
    """The value of a label that most pods carry; None if none does or most have no such label."""
    carried = Counter(labels_of(pod).get(label) for pod in pods)
    # By name if the numbers are equal, so that the result is always the same.
    return max(carried, key=lambda name: (carried[name], name or "")) if carried else None


def passed_on_annotations(owner: Object) -> dict[str, str]:
    """The annotations that a workload gives to the objects that run it."""
    # kubectl's copy of the applied object is large and belongs to the workload only.
    return {key: value for key, value in annotations_of(owner).items() if not key.startswith("kubectl.kubernetes.io/")}


# --- ReplicaSet: as many pods as it asks for; the least valuable are deleted first ------------------------------------


def surplus_pods(pods: list[Object], wanted: int) -> list[Object]:
    """The pods that are too many; deleted first: unplaced, pending, not ready, newest."""
    return sorted(pods, key=_surplus_order)[: max(len(pods) - wanted, 0)]


def _surplus_order(pod: Object) -> tuple[Any, ...]:
    # The order of Kubernetes' ActivePodsWithRanks, as far as a lab can tell pods apart.
    return (
        bool(node_of(pod)),
        {"Pending": 0, "Unknown": 1}.get(phase_of(pod), 2),
        is_ready(pod),
        -int(uid_of(pod)[-12:], 16),  # UIDs count up, so they order pods of one second
    )


class ReplicaSetController(Controller):
    ignores_own_writes = True

    def sync(self, owner: Object) -> None:
        if is_terminating(owner):
            return
        bench, spec = self._bench, owner["spec"]
        wanted = spec.get("replicas", 1)
        active = list(filter(is_active, bench.owned(owner, "Pod")))
        if len(active) > wanted:
            bench.delete("Pod", *surplus_pods(active, wanted))
            active = list(filter(is_active, bench.owned(owner, "Pod")))
        reference = as_owner_reference(owner)
        count = len(active)
        for _ in range(wanted - count):
            if bench.create_pod(owner, spec["template"], reference=reference) is None:
                break
            count += 1
        ready = sum(map(is_ready, active))
        self.set_status(
            owner,
            replicas=count,
            fullyLabeledReplicas=count,
            readyReplicas=ready,
            availableReplicas=ready,
            observedGeneration=metadata_of(owner)["generation"],
        )


# --- Deployment: one ReplicaSet per pod template, scaled up as older ones are scaled down -----------------------------

HASH = "pod-template-hash"
REVISION_ANNOTATION = "deployment.kubernetes.io/revision"


def count_or_percentage(value: Any, of: int, *, up: bool) -> int:
    """A count, or a percentage of ``of``, rounded up or down."""
    if isinstance(value, str) and value.endswith("%"):
        exact = of * int(value[:-1]) / 100
        return math.ceil(exact) if up else math.floor(exact)
    return int(value)


class DeploymentController(Controller):
    def sync(self, owner: Object) -> None:
        if is_terminating(owner):
            return
        bench, spec = self._bench, owner["spec"]
        sets = bench.owned(owner, "ReplicaSet")
        digest = template_hash(spec["template"])
        # A Deployment reproduced from evidence has only a part of its template, and an annotation with the hash of the whole.
        digest = revision_of(owner, digest, digest)
        name = f"{name_of(owner)}-{digest}"
        current = _current(owner, name, sets)
        older = [rs for rs in sets if rs is not current]
        if not spec.get("paused"):
            recreate = (spec.get("strategy") or {}).get("type") == "Recreate"
            waiting = recreate and self._wind_down(older)
            if current is None and not waiting:
                current = self._create(
                    owner, name, digest, sets, 0 if older and not recreate else spec.get("replicas", 1)
                )
            if current is not None:
                current = self._renumber(current, older)
            if current is not None and not recreate:
                self._roll(owner, current, older)
            elif current is not None:
                self._scale(current, spec.get("replicas", 1))
            self._forget(owner, older)
        elif current is not None and not older:
            self._scale(current, spec.get("replicas", 1))
        self._report(owner, name)

    def _create(self, owner: Object, name: str, digest: str, sets: list[Object], replicas: int) -> Object | None:
        spec = owner["spec"]
        template = spec["template"]
        labelled = with_metadata(template, {HASH: digest})
        selector = spec["selector"]
        selector = {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), HASH: digest}}
        notes = passed_on_annotations(owner)
        revision = str(1 + max((_revision(rs) for rs in sets), default=0))
        return self._bench.create(owner, "ReplicaSet", {
            "metadata": {"name": name, "labels": labels_of(labelled), "annotations": {**notes, REVISION_ANNOTATION: revision}},
            "spec": {"replicas": replicas, "selector": selector, "template": labelled},
        })  # fmt: skip

    def _renumber(self, current: Object, older: list[Object]) -> Object:
        """If a template is used again, its ReplicaSet becomes the newest revision."""
        newest = max((_revision(rs) for rs in older), default=0)
        if _revision(current) <= newest:
            current = self._bench.patch(
                "ReplicaSet", current, {"metadata": {"annotations": {REVISION_ANNOTATION: str(newest + 1)}}}
            )
        return current

    def _scale(self, replica_set: Object, replicas: int) -> None:
        if replica_set["spec"].get("replicas") != replicas:
            self._bench.patch("ReplicaSet", replica_set, {"spec": {"replicas": replicas}})

    def _wind_down(self, older: list[Object]) -> bool:
        """Scale the older ReplicaSets to 0. Returns True while they have pods."""
        for rs in older:
            self._scale(rs, 0)
        return any(self._bench.owned(rs, "Pod") for rs in older)

    def _roll(self, owner: Object, current: Object, older: list[Object]) -> None:
        spec = owner["spec"]
        wanted = spec.get("replicas", 1)
        alive = [rs for rs in older if rs["spec"].get("replicas", 0) or status_of(rs).get("replicas", 0)]
        if not alive:
            self._scale(current, wanted)
            return
        rolling = (spec.get("strategy") or {}).get("rollingUpdate") or {}
        surge = count_or_percentage(rolling.get("maxSurge", "25%"), wanted, up=True)
        missing = count_or_percentage(rolling.get("maxUnavailable", "25%"), wanted, up=False)
        # As in Kubernetes' ResolveFenceposts: both percentages of few replicas may round to 0, and then nothing could ever move.
        if surge == missing == 0:
            missing = 1
        there = current["spec"]["replicas"]
        total = there + sum(rs["spec"].get("replicas", 0) for rs in alive)
        if there > wanted:
            self._scale(current, wanted)
        elif there < wanted and total < wanted + surge:
            there = min(wanted, there + wanted + surge - total)
            # One change in each sync: the status must count the new pods before older sets may shrink.
            self._scale(current, there)
            return
        ready_now = status_of(current).get("availableReplicas", 0)
        # The number of ready pods must not fall below this.
        least = wanted - missing
        removable = sum(rs["spec"].get("replicas", 0) for rs in alive) - max(0, least - ready_now)
        # New pods that are not ready yet do not count.
        not_ready = there - min(ready_now, there)
        removable = min(removable, total - least - not_ready)
        for rs in alive:  # pods that do not run can go
            idle = rs["spec"].get("replicas", 0) - status_of(rs).get("availableReplicas", 0)
            cut = min(max(idle, 0), max(removable, 0))
            if cut:
                removable -= cut
                self._scale(rs, rs["spec"]["replicas"] - cut)
                return
        for rs in alive:
            cut = min(rs["spec"].get("replicas", 0), max(removable, 0))
            if cut:
                removable -= cut
                self._scale(rs, rs["spec"]["replicas"] - cut)

    def _forget(self, owner: Object, older: list[Object]) -> None:
        idle = [rs for rs in older if not rs["spec"].get("replicas") and not status_of(rs).get("replicas")]
        excess = len(idle) - owner["spec"].get("revisionHistoryLimit", 10)
        self._bench.delete("ReplicaSet", *sorted(idle, key=_revision)[: max(excess, 0)])

    def _report(self, owner: Object, name: str) -> None:
        bench = self._bench
        wanted = owner["spec"].get("replicas", 1)
        sets = bench.owned(owner, "ReplicaSet")
        current = _current(owner, name, sets)
        if current is not None:
            name = name_of(current)
            revision = annotations_of(current).get(REVISION_ANNOTATION, "")
            owner = bench.patch(self.kind, owner, {"metadata": {"annotations": {REVISION_ANNOTATION: revision}}})
        totals = {
            field: sum(status_of(rs).get(field, 0) for rs in sets)
            for field in ("replicas", "readyReplicas", "availableReplicas")
        }
        updated = status_of(current).get("replicas", 0) if current else 0
        updated_ready = status_of(current).get("availableReplicas", 0) if current else 0
        rolling = (owner["spec"].get("strategy") or {}).get("rollingUpdate") or {}
        missing = count_or_percentage(rolling.get("maxUnavailable", "25%"), wanted, up=False)
        available = totals["availableReplicas"] >= wanted - missing
        reason = "MinimumReplicasAvailable" if available else "MinimumReplicasUnavailable"
        message = f"Deployment {'has' if available else 'does not have'} minimum availability."
        done = updated_ready == wanted and totals["replicas"] == wanted
        progress = "has successfully progressed." if done else "is progressing."
        self.set_status(
            owner,
            ("Available", available, reason, message),
            (
                "Progressing",
                True,
                "NewReplicaSetAvailable" if done else "ReplicaSetUpdated",
                f'ReplicaSet "{name}" {progress}',
            ),
            **totals,
            updatedReplicas=updated,
            unavailableReplicas=max(wanted - totals["availableReplicas"], 0) or None,
            observedGeneration=metadata_of(owner)["generation"],
        )


def _current(owner: Object, name: str, sets: list[Object]) -> Object | None:
    """The ReplicaSet of the present template: by the name that it gets here, else (if another controller made it) the oldest one with this
    template."""
    named = next((rs for rs in sets if name_of(rs) == name), None)
    if named is not None:
        return named
    # The set's template differs by the hash label only (Kubernetes' EqualIgnoreHash).
    template = _without_hash(owner["spec"]["template"])
    return next((rs for rs in sets if _without_hash(rs["spec"]["template"]) == template), None)


def _without_hash(template: Object) -> Object:
    meta = template.get("metadata") or {}
    labels = {key: value for key, value in (meta.get("labels") or {}).items() if key != HASH}
    kept = {key: value for key, value in meta.items() if value is not None and key != "labels"}
    return {**template, "metadata": {**kept, "labels": labels}}


def _revision(replica_set: Object) -> int:
    return parse_count(annotations_of(replica_set).get(REVISION_ANNOTATION, "0"))


# --- StatefulSet: numbered pods with stable names, started one after the other or all at once -------------------------


class StatefulSetController(Controller):
    def sync(self, owner: Object) -> None:
        if is_terminating(owner):
            return
        bench, spec = self._bench, owner["spec"]
        digest = template_hash(spec["template"])
        revision = revision_of(owner, digest, f"{name_of(owner)}-{digest}")
        start = (spec.get("ordinals") or {}).get("start", 0)
        wanted = range(start, start + spec.get("replicas", 1))
        parallel = spec.get("podManagementPolicy", "OrderedReady") == "Parallel"
        self._arrange(owner, wanted, revision, parallel)
        alive = list(filter(is_active, bench.owned(owner, "Pod")))
        current = sum(labels_of(pod).get(REVISION_LABEL) == revision for pod in alive)
        ready = sum(map(is_ready, alive))
        self.set_status(
            owner,
            replicas=len(alive),
            readyReplicas=ready,
            availableReplicas=ready,
            currentReplicas=current,
            updatedReplicas=current,
            currentRevision=revision,
            updateRevision=revision,
            collisionCount=0,
            observedGeneration=metadata_of(owner)["generation"],
        )

    def _arrange(self, owner: Object, wanted: range, revision: str, parallel: bool) -> None:
        bench = self._bench
        # The name of an ended pod can be used again once it is gone.
        bench.delete("Pod", *filter(is_ended, bench.owned(owner, "Pod")))
        there = {_ordinal(owner, pod): pod for pod in bench.owned(owner, "Pod")}
        waiting = False
        for ordinal in wanted:
            pod = there.get(ordinal)
            if pod is None:
                self._create(owner, ordinal, revision)
            # OrderedReady: no other pod is made or deleted before this one is ready.
            if not parallel and (pod is None or not is_active(pod) or not is_ready(pod)):
                waiting = True
                break
        if waiting:
            return
        # The highest first, so that the remaining numbers have no gap.
        surplus = sorted((ordinal for ordinal in there if ordinal not in wanted), reverse=True)
        for ordinal in surplus:
            bench.delete("Pod", there[ordinal])
            if not parallel:
                return
        self._update(owner, wanted, there, revision)

    def _update(self, owner: Object, wanted: range, there: dict[int, Object], revision: str) -> None:
        """Replace pods of an older template, from the highest number down, one at a time."""
        strategy = owner["spec"].get("updateStrategy") or {}
        if strategy.get("type", "RollingUpdate") != "RollingUpdate":
            return
        partition = (strategy.get("rollingUpdate") or {}).get("partition", 0)
        for ordinal in reversed(wanted):
            pod = there.get(ordinal)
            # One replacement at a time: the previous one must be back.
            if pod is None or not is_active(pod):
                return
            if ordinal >= partition and labels_of(pod).get(REVISION_LABEL) != revision:
                self._bench.delete("Pod", pod)
                return
            if not is_ready(pod):
                return

    def _create(self, owner: Object, ordinal: int, revision: str) -> None:
        bench, spec = self._bench, owner["spec"]
        name = f"{name_of(owner)}-{ordinal}"
        labels = {
            "statefulset.kubernetes.io/pod-name": name,
            "apps.kubernetes.io/pod-index": str(ordinal),
            REVISION_LABEL: revision,
        }
        changes: dict[str, Any] = {"hostname": name}
        if spec.get("serviceName"):
            changes["subdomain"] = spec["serviceName"]
        if claims := spec.get("volumeClaimTemplates"):
            try:
                changes["volumes"] = self._volumes(owner, claims, name)
            except ApiError as error:
                bench.record_refusal(owner, "PersistentVolumeClaim", error)
                return
        bench.create_pod(
            owner,
            spec["template"],
            name=name,
            labels=labels,
            spec=changes,
            reference=as_owner_reference(owner),
            webhook=add_worker_fields,
        )

    def _volumes(self, owner: Object, claims: list[Object], pod: str) -> list[Object]:
        """The pod's volumes; missing claims are made. Claims outlive the pods."""
        cluster, namespace = self._bench.cluster, namespace_of(owner)
        volumes = list(owner["spec"]["template"]["spec"].get("volumes") or ())
        for claim in claims:
            inner = name_of(claim)
            name = f"{inner}-{pod}"
            if self._bench.find("PersistentVolumeClaim", (namespace, name)) is None:
                cluster.create({
                    "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                    "metadata": {"name": name, "namespace": namespace, "labels": dict(labels_of(claim))},
                    "spec": claim.get("spec") or {},
                })  # fmt: skip
                # No volumes are provisioned here, and an unbound claim would keep the pod pending.
                cluster.patch("PersistentVolumeClaim", name, namespace, {"status": {"phase": "Bound"}}, "status")
            volumes = [volume for volume in volumes if volume["name"] != inner]
            volumes.append({"name": inner, "persistentVolumeClaim": {"claimName": name}})
        return volumes


def _ordinal(owner: Object, pod: Object) -> int:
    return parse_count(name_of(pod)[len(name_of(owner)) + 1 :], -1)


# --- DaemonSet: one pod on each node that may run it, bound by a scheduler to the node that its affinity names --------

_INTEGER = re.compile(r"-?[0-9]{1,18}", re.ASCII)
# What Kubernetes' DaemonSet controller gives to each of its pods (AddOrUpdateDaemonPodTolerations).
_ADDED_TOLERATIONS: tuple[dict[str, str], ...] = tuple(
    {"key": f"node.kubernetes.io/{name}", "operator": "Exists", "effect": effect}
    for name, effect in (
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    )
)


class DaemonSetController(Controller):
    def __init__(self, bench: Workbench, kind: str) -> None:
        super().__init__(bench, kind)
        self._nodes: dict[str, Any] = {}

    def concerned(self, event: WatchEvent) -> dict[Reference, None]:
        """All DaemonSets, if a node changed in a way that affects where pods may run."""
        node = event.object
        # Only labels and taints matter here. A node's status changes all the time.
        facts = None if event.type == "DELETED" else (labels_of(node), taints_of(node))
        if self._nodes.get(name_of(node)) == facts:
            return {}
        self._nodes[name_of(node)] = facts
        return {(self.kind, object_key(owner)): None for owner in self._bench.cluster.list(self.kind)}

    def sync(self, owner: Object) -> None:
        if is_terminating(owner):
            return
        bench, spec = self._bench, owner["spec"]
        digest = template_hash(spec["template"])
        revision = revision_of(owner, digest, digest)
        fitting = [name_of(node) for node in bench.cluster.list("Node") if may_run(spec["template"], node)]
        wanted = dict.fromkeys(fitting)
        there: dict[str, Object] = {}
        for pod in bench.owned(owner, "Pod"):
            node = node_of_daemon_pod(pod)
            if is_ended(pod) or (is_active(pod) and (node not in wanted or node in there)):
                bench.delete("Pod", pod)
            else:
                # A leaving pod counts too: it is replaced once it is gone.
                there[node] = pod
        reference = as_owner_reference(owner)
        for node in fitting:
            if node not in there:
                bench.create_pod(
                    owner,
                    spec["template"],
                    reference=reference,
                    labels={REVISION_LABEL: revision, "pod-template-generation": "1"},
                    spec=_pinned(spec["template"]["spec"], node),
                )
        self._update(owner, there, revision)
        pods = list(filter(is_active, bench.owned(owner, "Pod")))
        ready = sum(map(is_ready, pods))
        self.set_status(
            owner,
            desiredNumberScheduled=len(fitting),
            currentNumberScheduled=len(pods),
            numberReady=ready,
            numberAvailable=ready,
            numberUnavailable=(len(fitting) - ready) or None,
            numberMisscheduled=0,
            updatedNumberScheduled=sum(labels_of(pod).get(REVISION_LABEL) == revision for pod in pods),
            observedGeneration=metadata_of(owner)["generation"],
        )

    def _update(self, owner: Object, there: dict[str, Object], revision: str) -> None:
        """Replace pods of an older template one at a time, once the others are ready."""
        if (owner["spec"].get("updateStrategy") or {}).get("type", "RollingUpdate") != "RollingUpdate":
            return
        old = [pod for pod in there.values() if labels_of(pod).get(REVISION_LABEL) != revision]
        # Pods that are not ready can all go at once.
        idle = [pod for pod in old if is_active(pod) and not is_ready(pod)]
        self._bench.delete("Pod", *idle)
        if not idle and old and all(is_active(pod) and is_ready(pod) for pod in there.values()):
            self._bench.delete("Pod", old[0])


def node_of_daemon_pod(pod: Object) -> str:
    """The node that a daemon pod is on, or is meant for."""
    if name := node_of(pod):
        return name
    for term in _required_affinity(pod["spec"]).get("nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            return str(field["values"][0])
    return ""


def may_run(template: Object, node: Object) -> bool:
    """Whether the template's node name, selector, required affinity and tolerations allow the node. Source: Kubernetes'
    NodeShouldRunDaemonPod.
    """
    spec, labels = template["spec"], labels_of(node)
    if spec.get("nodeName", name_of(node)) not in ("", name_of(node)):
        return False
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    required = _required_affinity(spec)
    if required and not any(_term_holds(term, node) for term in required.get("nodeSelectorTerms") or ()):
        return False
    tolerations = [*(spec.get("tolerations") or ()), *_ADDED_TOLERATIONS]
    return all(
        taint.get("effect") == "PreferNoSchedule" or any(covers_taint(t, taint) for t in tolerations)
        for taint in taints_of(node)
    )


def _required_affinity(spec: Object) -> Object:
    node_affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    return node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}


def _term_holds(term: Object, node: Object) -> bool:
    # A node has no other field than metadata.name to select by, and one value a requirement.
    for field in term.get("matchFields") or ():
        if (field["operator"] == "In") != (name_of(node) in (field.get("values") or ())):
            return False
    labels = labels_of(node)
    for wish in term.get("matchExpressions") or ():
        operator, values = wish["operator"], list(wish.get("values") or ())
        # A label that is no whole number makes the term false; it is no error of the object.
        if operator in ("Gt", "Lt"):
            value = labels.get(wish["key"], "")
            if not (_INTEGER.fullmatch(value) and len(values) == 1 and _INTEGER.fullmatch(values[0])):
                return False
            if not (int(value) > int(values[0]) if operator == "Gt" else int(value) < int(values[0])):
                return False
        elif not Term(wish["key"], operator, frozenset(values)).holds(labels):
            return False
    return True


def _pinned(spec: Object, node: str) -> dict[str, Any]:
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    affinity = spec.get("affinity") or {}
    # Terms are alternatives, so each must name the node.
    terms = [{**term, "matchFields": [field]} for term in _required_affinity(spec).get("nodeSelectorTerms") or [{}]]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {
        "affinity": {**affinity, "nodeAffinity": {**(affinity.get("nodeAffinity") or {}), **required}},
        "tolerations": [*(spec.get("tolerations") or ()), *_ADDED_TOLERATIONS],
    }
