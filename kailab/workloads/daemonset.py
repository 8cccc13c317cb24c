"""DaemonSet: one pod on every node that may take it. The pods name their node by affinity; a scheduler binds them."""

from __future__ import annotations

import re
from typing import Any

from kailab.cluster.protocol import Object, WatchEvent
from kailab.cluster.selectors import Term
from kailab.workloads.bench import Reference, Workbench, is_active, is_ended, is_ready, owner_reference
from kailab.workloads.controller import Controller
from kailab.workloads.revisions import revision_of, template_hash

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
        """The DaemonSets to look at after a change of a node: all, if it changed in what decides where pods may go."""
        node = event.object
        name = node["metadata"]["name"]
        # Only labels and taints. A node's status changes all the time, and decides nothing here.
        facts = None
        if event.type != "DELETED":
            facts = (node["metadata"].get("labels"), (node.get("spec") or {}).get("taints"))
        if self._nodes.get(name) == facts:
            return {}
        self._nodes[name] = facts
        found = self._bench.cluster.list(self.kind)
        return {(self.kind, (ds["metadata"]["namespace"], ds["metadata"]["name"])): None for ds in found}

    def sync(self, owner: Object) -> None:
        if "deletionTimestamp" in owner["metadata"]:
            return
        bench, spec = self._bench, owner["spec"]
        digest = template_hash(spec["template"])
        revision = revision_of(owner, digest, digest)
        fitting = [node["metadata"]["name"] for node in bench.cluster.list("Node") if may_run(spec["template"], node)]
        wanted = dict.fromkeys(fitting)
        there: dict[str, Object] = {}
        for pod in bench.owned(owner, "Pod"):
            node = node_of(pod)
            if is_ended(pod) or (is_active(pod) and (node not in wanted or node in there)):
                bench.delete("Pod", pod)
            else:
                # Also one that is leaving: its place is taken once it is gone.
                there[node] = pod
        reference = owner_reference(owner)
        for node in fitting:
            if node not in there:
                bench.create_pod(
                    owner,
                    spec["template"],
                    reference=reference,
                    labels={"controller-revision-hash": revision, "pod-template-generation": "1"},
                    spec=_pinned(spec["template"]["spec"], node),
                )
        self._update(owner, there, revision)
        pods = [pod for pod in bench.owned(owner, "Pod") if is_active(pod)]
        ready = sum(map(is_ready, pods))
        bench.set_status(
            self.kind,
            owner,
            desiredNumberScheduled=len(fitting),
            currentNumberScheduled=len(pods),
            numberReady=ready,
            numberAvailable=ready,
            numberUnavailable=(len(fitting) - ready) or None,
            numberMisscheduled=0,
            updatedNumberScheduled=sum(
                p["metadata"]["labels"].get("controller-revision-hash") == revision for p in pods
            ),
            observedGeneration=owner["metadata"]["generation"],
        )

    def _update(self, owner: Object, there: dict[str, Object], revision: str) -> None:
        """Replace pods of an older template one at a time, once the rest are ready."""
        if (owner["spec"].get("updateStrategy") or {}).get("type", "RollingUpdate") != "RollingUpdate":
            return
        old = [p for p in there.values() if p["metadata"]["labels"].get("controller-revision-hash") != revision]
        # Who is not ready costs nobody anything, so all of these go at once.
        idle = [pod for pod in old if is_active(pod) and not is_ready(pod)]
        for pod in idle:
            self._bench.delete("Pod", pod)
        if not idle and old and all(is_active(pod) and is_ready(pod) for pod in there.values()):
            self._bench.delete("Pod", old[0])


def node_of(pod: Object) -> str:
    """The node a daemon pod is on, or meant for."""
    if name := pod["spec"].get("nodeName"):
        return str(name)
    affinity = ((pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or {}
    for term in affinity.get("nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            return str(field["values"][0])
    return ""


def may_run(template: Object, node: Object) -> bool:
    """Whether the template's selector, required affinity and tolerations let it onto the node."""
    spec, labels = template["spec"], node["metadata"].get("labels") or {}
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    if required and not any(_term_holds(term, labels) for term in required.get("nodeSelectorTerms") or ()):
        return False
    tolerations = [*(spec.get("tolerations") or ()), *_ADDED_TOLERATIONS]
    taints = (node.get("spec") or {}).get("taints") or ()
    return all(
        taint.get("effect") == "PreferNoSchedule" or any(_tolerates(t, taint) for t in tolerations) for taint in taints
    )


def _term_holds(term: Object, labels: dict[str, str]) -> bool:
    for wish in term.get("matchExpressions") or ():
        operator, values = wish["operator"], list(wish.get("values") or ())
        # Both sides must be whole numbers. A label that is none makes the term false, not the object wrong.
        if operator in ("Gt", "Lt"):
            value = labels.get(wish["key"], "")
            if not (_INTEGER.fullmatch(value) and len(values) == 1 and _INTEGER.fullmatch(values[0])):
                return False
            if not (int(value) > int(values[0]) if operator == "Gt" else int(value) < int(values[0])):
                return False
        elif not Term(wish["key"], operator, frozenset(values)).holds(labels):
            return False
    return True


def _tolerates(toleration: dict[str, Any], taint: dict[str, Any]) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    if toleration.get("operator") == "Exists":
        return True
    return bool(toleration.get("key")) and toleration.get("value", "") == taint.get("value", "")


def _pinned(spec: Object, node: str) -> dict[str, Any]:
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    affinity = spec.get("affinity") or {}
    node_affinity = affinity.get("nodeAffinity") or {}
    required = node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    # Terms are alternatives, so each of them has to name the node.
    terms = [{**term, "matchFields": [field]} for term in required.get("nodeSelectorTerms") or [{}]]
    pinned = {**node_affinity, "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {
        "affinity": {**affinity, "nodeAffinity": pinned},
        "tolerations": [*(spec.get("tolerations") or ()), *_ADDED_TOLERATIONS],
    }
