"""What keeps pods from being made or looked at: gates, suspension, missing priority classes, claims and ConfigMaps, node pools."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kailab.cluster.protocol import Object
from kailab.explain.steps.edits import both, in_spec, labelled, of_pods, own_change
from kailab.explain.steps.nodechanges import some_of
from kailab.explain.steps.proposal import Disturbance, Proposal, Way, apply, patch
from kailab.explain.steps.setting import Setting, named
from kailab.lab.wording import some
from kailab.model import labels
from kailab.model.kind import field_of
from kailab.model.kinds import api_version_of
from kailab.model.validation.advice import pod_templates
from kailab.scheduler.reading.claims import claim_record
from kailab.scheduler.reading.podgroups import DEFAULT_PRIORITY, node_pool
from kailab.scheduler.reading.references import Reference, of_pod

_SUSPENDS = ("spec.suspend", "spec.runPolicy.suspend", "spec.rayClusterConfig.suspend")
_STORAGE = "10Gi"  # any size does: what counts is that the claim is there


def open_gates(setting: Setting) -> Iterator[Way]:
    """Take the scheduling gates from the pods, and from the template that makes more of them."""
    rows = [setting.pods[row.name] for row in setting.waiting if row.name in setting.pods]
    gated = [pod for pod in rows if pod["spec"].get("schedulingGates")]
    gates = sorted({gate["name"] for pod in gated for gate in pod["spec"]["schedulingGates"]})
    if gated:
        # Gates may be taken off pods that there are; the template alone would only help the next ones.
        changes = tuple(patch(pod, {"spec": {"schedulingGates": []}}) for pod in gated)
        do = f"Remove the scheduling gate {some(gates)} from {some([pod['metadata']['name'] for pod in gated])}"
        yield Way((Proposal(do, changes, Disturbance.OWN),))
    if all(work["kind"] == "Pod" for work in setting.works):
        return

    def edit(pod: Object) -> None:
        pod["spec"].pop("schedulingGates", None)

    yield Way.of(own_change(setting, f"Remove the scheduling gate {some(gates)}", of_pods(edit)))


def resume(setting: Setting) -> Iterator[Way]:
    """Let what is suspended go on: the workload itself, or what owns it."""
    own = setting.standing.object
    for work in [*setting.works, *([own] if own is not None and own not in setting.works else [])]:
        for path in _SUSPENDS:
            if field_of(work, path) is True:
                *above, last = path.split(".")
                change: dict[str, Any] = {last: False}
                for step in reversed(above):
                    change = {step: change}
                yield Way(
                    (Proposal(f"Resume {named(work)} (set {path} to false)", (patch(work, change),), Disturbance.OWN),)
                )


def make_priority_class(setting: Setting) -> Iterator[Way]:
    """The priority class that is named and not there; or one that is."""
    classes = {one["metadata"]["name"]: int(one.get("value") or 0) for one in setting.lab.cluster.list("PriorityClass")}
    named_classes = {name for work in (*setting.works, *setting.groups) for name in _classes(work)}
    missing = sorted(named_classes - classes.keys())
    if not missing:
        return
    made = [
        {"apiVersion": api_version_of("PriorityClass"), "kind": "PriorityClass", "metadata": {"name": name}, "value": DEFAULT_PRIORITY}
        for name in missing
    ]  # fmt: skip
    do = f"Make the priority class {some(missing)} with the value {DEFAULT_PRIORITY}"
    yield Way((Proposal(do, (apply(*made),), Disturbance.MADE),))
    usual = [
        name
        for name, value in sorted(classes.items(), key=lambda one: (one[1], one[0]))
        if not name.startswith("system-")
    ]
    # The lowest first: the least that changes who goes before whom.
    for name in usual[:2]:

        def spec(pod: Object, name: str = name) -> None:
            if pod["spec"].get("priorityClassName") in missing:
                pod["spec"]["priorityClassName"] = name

        def label(obj: Object, name: str = name) -> None:
            if any(one in missing for one in _classes(obj)):
                marks = [one for one in _labels(obj) if one.get(labels.PRIORITY_CLASS) in missing]
                for one in marks:
                    one[labels.PRIORITY_CLASS] = name

        do = f"Name the priority class {name}, which there is"
        yield Way.of(own_change(setting, do, both(of_pods(spec), label), in_spec(priorityClassName=name)))


def _classes(obj: Object) -> Iterator[str]:
    for one in _labels(obj):
        if one.get(labels.PRIORITY_CLASS):
            yield str(one[labels.PRIORITY_CLASS])
    for _, pod in pod_templates(obj):
        if pod["spec"].get("priorityClassName"):
            yield str(pod["spec"]["priorityClassName"])
    if obj["kind"] == "PodGroup" and obj["spec"].get("priorityClassName"):
        yield str(obj["spec"]["priorityClassName"])


def _labels(obj: Object) -> Iterator[dict[str, Any]]:
    for holder in (obj, *(pod for path, pod in pod_templates(obj) if path)):
        found = (holder.get("metadata") or {}).get("labels")
        if isinstance(found, dict):
            yield found


def make_references(setting: Setting) -> Iterator[Way]:
    """The claims and ConfigMaps that its pods use and that are not there."""
    wanted: dict[Reference, int] = {}
    for row in setting.waiting:
        for reference in of_pod(setting.pods[row.name]) if row.name in setting.pods else ():
            wanted[reference] = wanted.get(reference, 0) + 1
    there = {
        (kind, one["metadata"].get("namespace", ""), one["metadata"]["name"])
        for kind in {reference.kind for reference in wanted}
        for one in setting.lab.cluster.list(kind)
    }
    missing = sorted(reference for reference in wanted if tuple(reference) not in there)
    if missing:
        made = [_made(reference, wanted[reference]) for reference in missing]
        told = some([f"{one['kind']} {one['metadata']['name']}" for one in made])
        yield Way((Proposal(f"Make {told}", (apply(*made),), Disturbance.MADE),))


def _made(reference: Reference, pods: int) -> Object:
    obj: Object = {
        "apiVersion": "v1", "kind": reference.kind, "metadata": {"name": reference.name, "namespace": reference.namespace},
    }  # fmt: skip
    if reference.kind == "ConfigMap":
        return {**obj, "data": {}}
    mode = "ReadWriteOnce" if pods == 1 else "ReadWriteMany"
    return {**obj, "spec": {"accessModes": [mode], "resources": {"requests": {"storage": _STORAGE}}}}


def label_claims(setting: Setting) -> Iterator[Way]:
    """Give the claims of GPUs that its pods share the label of its queue."""
    queue = setting.named_queue
    used = {
        (pod["metadata"]["namespace"], one["resourceClaimName"])
        for row in setting.waiting
        if (pod := setting.pods.get(row.name)) is not None
        for one in pod["spec"].get("resourceClaims") or ()
        if one.get("resourceClaimName")
    }
    claims = [
        claim
        for claim in setting.lab.cluster.list("ResourceClaim")
        if (claim["metadata"]["namespace"], claim["metadata"]["name"]) in used
        and claim_record(claim).queue not in (None, queue)
    ]
    if claims and queue:
        change = {"metadata": {"labels": {labels.QUEUE: queue}}}
        do = f"Label ResourceClaim {some([one['metadata']['name'] for one in claims])} {labels.QUEUE}={queue}"
        yield Way((Proposal(do, tuple(patch(claim, change) for claim in claims), Disturbance.OWN),))


def leave_node_pool(setting: Setting) -> Iterator[Way]:
    """Take the label of a node pool that nobody serves from the work, from its queue, or from nodes."""

    def group(one: Object) -> dict[str, Any]:
        marked = labels.NODE_POOL in (one["metadata"].get("labels") or {})
        return {"metadata": {"labels": {labels.NODE_POOL: None}}} if marked else {}

    do = f"Remove its label {labels.NODE_POOL}"
    yield Way.of(own_change(setting, do, labelled(labels.NODE_POOL, None), group))
    remove = {"metadata": {"labels": {labels.NODE_POOL: None}}}
    away = [
        queue
        for name in setting.line
        if labels.NODE_POOL in ((queue := setting.queues[name])["metadata"].get("labels") or {})
    ]
    if away:
        names = some([one["metadata"]["name"] for one in away])
        do = f"Remove the label {labels.NODE_POOL} from queue {names}"
        yield Way((Proposal(do, tuple(patch(one, remove) for one in away), Disturbance.QUEUES),))
    nodes = [node for node in setting.nodes.values() if node_pool(node["metadata"]) != "default"]
    yield from some_of(
        nodes, f"Remove the label {labels.NODE_POOL} from node {{}}", lambda node: (patch(node, remove),)
    )
