"""Proposals about work: scale down, suspend or delete other work; resume the subject and create what it names; or wait."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

from kailab.cluster.base_objects import priority_class, runtime_class
from kailab.cluster.protocol import Object
from kailab.engine.relaxing.rules import Relaxation, WaitingWithdrawn
from kailab.evidence.entries import PodRow
from kailab.evidence.wording import count, elapsed, gpus, some
from kailab.explain.causes.queue_order import IN_FRONT
from kailab.explain.forecast import forecast
from kailab.explain.steps.node_steps import node_subsets
from kailab.explain.steps.proposals import (
    ChangeData,
    Disturbance,
    ObjectsAfterChanges,
    Proposal,
    ProposalFamily,
    all_edits,
    apply_change,
    delete_change,
    edit_of_pods,
    own_change,
    patch_change,
    set_label,
    spec_patch,
)
from kailab.explain.steps.question_context import QuestionContext, kind_and_name, object_path
from kailab.explain.subject import latest_event
from kailab.lab.owners import owned_by, refused_pods
from kailab.model import labels
from kailab.model.kind import field_of
from kailab.model.kinds import KINDS, kind_key
from kailab.model.objects import name_of, namespace_of, spec_of, status_of, uid_of
from kailab.model.pod_resources import format_amount, parsed
from kailab.model.validation.advice import pod_templates
from kailab.scheduler.reading.claims import claim_record
from kailab.scheduler.reading.podgroups import DEFAULT_PODGROUP_PRIORITY, node_pool
from kailab.scheduler.reading.references import ObjectReference, referenced_objects

SINGLE_WORKLOADS = 6
"""Workloads that are each tried alone."""
SCALE_STEPS = 64
"""Numbers of pods that are tried to scale a workload down."""
_EXCEEDED = re.compile(r"exceeded quota: (?P<quota>[^,\s]+), requested: (?P<requested>.+?), used: ")
"""In an API server's words."""
_PLURAL = {"waits": "wait", "is served": "are served"}


def make_room(context: QuestionContext) -> Iterator[ProposalFamily]:
    """Scale down or delete one other workload, as little as is enough; else delete several."""
    workloads = sorted(context.others.values(), key=lambda workload: _order(context, workload))
    for obj, rows in workloads[:SINGLE_WORKLOADS]:
        yield ProposalFamily(tuple(_less_of(obj, rows)), grows=True)
    if len(workloads) > 1:
        several = [_gone(workloads[:number]) for number in range(2, min(len(workloads), 64) + 1)]
        yield ProposalFamily(tuple(several), grows=True, last=True)


def withdraw_work_in_front(context: QuestionContext) -> Iterator[ProposalFamily]:
    """Suspend or delete the waiting work by which its queue is ranked (see ``causes.queue_order``)."""
    works = _in_front(context)
    if not 0 < len(works) <= SINGLE_WORKLOADS:
        return
    own = [obj for obj in works if obj in context.works]
    if context.subject.kind == "Queue" and len(own) == len(works):
        # It disturbs nobody but the subject, and is undone by the same field.
        if (changes := _suspensions(works)) is not None:
            names, verb = some([kind_and_name(obj) for obj in works]), "waits" if len(works) == 1 else "wait"
            words = f"Suspend {names}, which {verb} before the rest of its work"
            yield ProposalFamily((Proposal(words, changes, Disturbance.OWN, _withdrawn(context, works)),))
    else:
        yield ProposalFamily.of(_withdrawals(context, works, "waits", Disturbance.FRONT))


def withdraw_work_ahead(context: QuestionContext) -> Iterator[ProposalFamily]:
    """Suspend or delete waiting work that is served before it."""
    for obj in context.ahead[:SINGLE_WORKLOADS]:
        if [obj] != _in_front(context):
            yield ProposalFamily.of(_withdrawals(context, [obj], "is served", Disturbance.LINE))


def _in_front(context: QuestionContext) -> list[Object]:
    groups = {
        (ref.namespace, ref.name)
        for cause in context.causes
        if IN_FRONT in cause.facts
        for ref in cause.objects
        if ref.kind == "PodGroup"
    }
    # Of a queue, its own work may stand before the rest of it.
    works = [*context.ahead, *(context.works if context.subject.kind == "Queue" else ())]
    return [obj for obj in works if groups & context.groups_of(obj)]


def _withdrawals(
    context: QuestionContext, works: Sequence[Object], verb: str, disturbance: Disturbance
) -> Iterator[Proposal]:
    """``disturbance``: of works without running pods."""
    names = some([kind_and_name(obj) for obj in works])
    which = f"which {verb if len(works) == 1 else _PLURAL[verb]} before it"
    runs = sum(len(context.others[object_path(obj)][1]) for obj in works if object_path(obj) in context.others)
    if runs:
        which += f", and end {count(runs, 'pod')} that {'runs' if runs == 1 else 'run'}"
    # Workloads with running pods lose these too, so the engine's relaxation of waiting pods does not stand for them.
    seen = None if runs else _withdrawn(context, works)
    if runs and len(works) == 1 and (scaled := _scaled_to_what_runs(context, works[0], disturbance)) is not None:
        yield scaled
    if runs:
        disturbance = Disturbance.OTHERS
    if (changes := _suspensions(works)) is not None:
        yield Proposal(f"Suspend {names}, {which}", changes, disturbance, seen)
    yield Proposal(f"Delete {names}, {which}", tuple(map(delete_change, works)), disturbance, seen)


def _scaled_to_what_runs(context: QuestionContext, obj: Object, disturbance: Disturbance) -> Proposal | None:
    known, replicas = KINDS.get(kind_key(obj)), obj.get("spec", {}).get("replicas")
    running = len(context.others[object_path(obj)][1])
    if known is None or not known.scalable or not isinstance(replicas, int) or not 0 < running < replicas:
        return None

    def words(after: ObjectsAfterChanges) -> str:
        return f"Scale {kind_and_name(obj)} down from {replicas} to {after.of(obj)['spec']['replicas']}, so that none of it waits"

    return Proposal(words, (patch_change(obj, {"spec": {"replicas": running}}),), disturbance)


def _withdrawn(context: QuestionContext, works: Sequence[Object]) -> Relaxation:
    groups = {name for obj in works for name in context.groups_of(obj)}
    uids = [context.picture.podgroups[name]["metadata"]["uid"] for name in groups if name in context.picture.podgroups]
    return WaitingWithdrawn(tuple(sorted(uids)))


def _suspensions(works: Sequence[Object]) -> tuple[ChangeData, ...] | None:
    """The patches that suspend them; None if one can't be suspended."""
    changes = [change for obj in works if (change := suspension(obj)) is not None]
    return tuple(changes) if len(changes) == len(works) else None


def suspension(obj: Object) -> ChangeData | None:
    """The patch that suspends a workload; None if its kind can't be, or it already is."""
    kind = KINDS.get(kind_key(obj))
    path = kind.suspended_by if kind is not None else ""
    if not path or field_of(obj, f"spec.{path}"):
        return None
    change: object = True
    for name in reversed(path.split(".")):
        change = {name: change}
    return patch_change(obj, {"spec": change})


def _order(context: QuestionContext, workload: tuple[Object, list[PodRow]]) -> tuple[bool, bool, int, str]:
    """The order in which other workloads are tried: those for which it was evicted, then those on its nodes or in its queue; of these the
    smallest that holds enough."""
    obj, rows = workload
    held = sum(row.milli_gpus for row in rows)
    enough = held >= context.asked.gpu
    groups = {row.podgroup for row in rows}
    near = bool(groups & context.holders) or any(row.queue in context.line for row in rows)
    beneficiary = obj["metadata"]["name"] in context.beneficiaries
    return not beneficiary, not near, held if enough else 10**12 - held, kind_and_name(obj)


def _less_of(obj: Object, rows: Sequence[PodRow]) -> Iterator[Proposal]:
    known = KINDS.get(kind_key(obj))
    replicas = obj.get("spec", {}).get("replicas")
    if known is not None and known.scalable and isinstance(replicas, int) and replicas > 1:
        apart = -(-replicas // SCALE_STEPS)
        for fewer in range(1, replicas, apart):
            change = patch_change(obj, {"spec": {"replicas": replicas - fewer}})
            yield Proposal(lambda after: _scaled(obj, after.of(obj)), (change,), Disturbance.OTHERS)
    held = gpus(sum(row.milli_gpus for row in rows))
    yield Proposal(f"Delete {kind_and_name(obj)}, which holds {held}", (delete_change(obj),), Disturbance.OTHERS)


def _scaled(before: Object, after: Object) -> str:
    was, left = before["spec"]["replicas"], after["spec"]["replicas"]
    return f"Scale {kind_and_name(before)} down from {was} to {left}, which ends {count(was - left, 'pod')} of it"


def _gone(workloads: Sequence[tuple[Object, list[PodRow]]]) -> Proposal:
    changes: list[ChangeData] = [delete_change(obj) for obj, _ in workloads]
    names = some([kind_and_name(obj) for obj, _ in workloads])
    return Proposal(f"Delete {names}", tuple(changes), Disturbance.OTHERS)


_SUSPEND_FIELDS = ("spec.suspend", "spec.runPolicy.suspend", "spec.rayClusterConfig.suspend")
_STORAGE = "10Gi"  # any size will do


def open_gates(context: QuestionContext) -> Iterator[ProposalFamily]:
    """Remove scheduling gates from the pods, and from their template."""
    rows = [context.pods[row.name] for row in context.waiting if row.name in context.pods]
    gated = [pod for pod in rows if pod["spec"].get("schedulingGates")]
    gates = sorted({gate["name"] for pod in gated for gate in pod["spec"]["schedulingGates"]})
    if gated:
        # Gates may be removed from existing pods; the template alone would only help later ones.
        changes = tuple(patch_change(pod, {"spec": {"schedulingGates": []}}) for pod in gated)
        do = f"Remove the scheduling gate {some(gates)} from {some([pod['metadata']['name'] for pod in gated])}"
        yield ProposalFamily((Proposal(do, changes, Disturbance.OWN),))
    if all(work["kind"] == "Pod" for work in context.works):
        return

    def edit(pod: Object) -> None:
        pod["spec"].pop("schedulingGates", None)

    # Pods that do not exist yet are made with the gates of the template.
    templates = [pod for work in context.works for _, pod in pod_templates(work)]
    gates = sorted({gate["name"] for pod in (*gated, *templates) for gate in pod["spec"].get("schedulingGates") or ()})
    yield ProposalFamily.of(own_change(context, f"Remove the scheduling gate {some(gates)}", edit_of_pods(edit)))


def resume_suspended(context: QuestionContext) -> Iterator[ProposalFamily]:
    """Resume the suspended workload or its owner."""
    own = context.state.object
    for work in [*context.works, *([own] if own is not None and own not in context.works else [])]:
        for path in _SUSPEND_FIELDS:
            if field_of(work, path) is True:
                *above, last = path.split(".")
                change: dict[str, Any] = {last: False}
                for step in reversed(above):
                    change = {step: change}
                yield ProposalFamily(
                    (
                        Proposal(
                            f"Resume {kind_and_name(work)} (set {path} to false)",
                            (patch_change(work, change),),
                            Disturbance.OWN,
                        ),
                    )
                )


def raise_resource_quota(context: QuestionContext) -> Iterator[ProposalFamily]:
    """Raise the ResourceQuotas for which the API server refuses pods of the work, to what all refused pods need. Those of other work count
    too, because they may be made first."""
    own = [context.state.object, *context.works]
    uids = {uid_of(work) for work in own if work is not None}
    refused = [each for each in refused_pods(context.lab.cluster) if namespace_of(each[0]) == context.subject.namespace]
    if uids.isdisjoint(uid_of(work) for work, _ in refused):
        return
    asked: dict[str, dict[str, Fraction]] = {}
    for work, missing in refused:
        for quota_name, amounts in _refusals(context, work).items():
            asked.setdefault(quota_name, {})
            # A refusal names only what is exceeded already; the number of pods may be next.
            for name, amount in parsed({"pods": "1", "count/pods": "1", **amounts}).items():
                asked[quota_name][name] = asked[quota_name].get(name, Fraction(0)) + missing * amount
    changes: list[ChangeData] = []
    raised: list[tuple[Object, list[str]]] = []
    for quota in context.lab.cluster.list("ResourceQuota", context.subject.namespace):
        bounds, used = parsed(spec_of(quota).get("hard") or {}), parsed(status_of(quota).get("used") or {})
        more = asked.get(name_of(quota), {})
        wanted = {name: used.get(name, Fraction(0)) + more[name] for name in bounds.keys() & more.keys()}
        hard = {name: format_amount(name, amount) for name, amount in sorted(wanted.items()) if amount > bounds[name]}
        if hard:
            changes.append(patch_change(quota, {"spec": {"hard": hard}}))
            raised.append((quota, list(hard)))
    if not changes:
        return

    def words(after: ObjectsAfterChanges) -> str:
        parts = []
        for quota, names in raised:
            now, then = spec_of(quota)["hard"], spec_of(after.of(quota))["hard"]
            amounts = ", ".join(f"{name} {then[name]} (now {now[name]})" for name in names)
            parts.append(f"Raise what ResourceQuota {name_of(quota)} allows: {amounts}")
        return "; ".join(parts)

    yield ProposalFamily((Proposal(words, tuple(changes), Disturbance.QUEUES),))


def _refusals(context: QuestionContext, work: Object) -> dict[str, dict[str, str]]:
    """ResourceQuota -> the amounts of a pod of the work that it last refused."""
    owners = [work, *owned_by(context.lab.cluster, work)]
    event = latest_event(context.lab, [uid_of(owner) for owner in owners], "FailedCreate")
    message = "" if event is None else str(event.get("message", ""))
    return {refusal["quota"]: _amounts(refusal["requested"]) for refusal in _EXCEEDED.finditer(message)}


def _amounts(text: str) -> dict[str, str]:
    """``a=1,b=2Gi`` as a mapping."""
    return {name: amount for name, _, amount in (part.strip().partition("=") for part in text.split(","))}


def make_priority_class(context: QuestionContext) -> Iterator[ProposalFamily]:
    """Create the missing priority class, or name an existing one."""
    classes = {
        known["metadata"]["name"]: int(known.get("value") or 0) for known in context.lab.cluster.list("PriorityClass")
    }
    named_classes = {name for work in (*context.works, *context.groups) for name in _classes(work)}
    missing = sorted(named_classes - classes.keys())
    if not missing:
        return
    made = [priority_class(name, DEFAULT_PODGROUP_PRIORITY) for name in missing]
    do = f"Make the priority class {some(missing)} with the value {DEFAULT_PODGROUP_PRIORITY}"
    yield ProposalFamily((Proposal(do, (apply_change(*made),), Disturbance.MADE),))
    usual = [
        name
        for name, value in sorted(classes.items(), key=lambda entry: (entry[1], entry[0]))
        if not name.startswith("system-")
    ]
    # The lowest first, as it changes the serving order least.
    for name in usual[:2]:

        def spec(pod: Object, name: str = name) -> None:
            if pod["spec"].get("priorityClassName") in missing:
                pod["spec"]["priorityClassName"] = name

        def label(obj: Object, name: str = name) -> None:
            if any(class_name in missing for class_name in _classes(obj)):
                for dangling in [marks for marks in _labels(obj) if marks.get(labels.PRIORITY_CLASS) in missing]:
                    dangling[labels.PRIORITY_CLASS] = name

        do = f"Use the existing priority class {name}"
        yield ProposalFamily.of(
            own_change(context, do, all_edits(edit_of_pods(spec), label), spec_patch(priorityClassName=name))
        )


def make_runtime_class(context: QuestionContext) -> Iterator[ProposalFamily]:
    """Create the missing RuntimeClass, or name none."""
    there = {known["metadata"]["name"] for known in context.lab.cluster.list("RuntimeClass")}
    named = {
        str(name)
        for work in context.works
        for _, pod in pod_templates(work)
        if (name := pod["spec"].get("runtimeClassName"))
    }
    missing = sorted(named - there)
    if not missing:
        return
    made = map(runtime_class, missing)
    yield ProposalFamily(
        (Proposal(f"Make the RuntimeClass {some(missing)}", (apply_change(*made),), Disturbance.MADE),)
    )

    def without(pod: Object) -> None:
        if pod["spec"].get("runtimeClassName") in missing:
            del pod["spec"]["runtimeClassName"]

    yield ProposalFamily.of(own_change(context, "Name no RuntimeClass", edit_of_pods(without)))


def _classes(obj: Object) -> Iterator[str]:
    for marks in _labels(obj):
        if marks.get(labels.PRIORITY_CLASS):
            yield str(marks[labels.PRIORITY_CLASS])
    for _, pod in pod_templates(obj):
        if pod["spec"].get("priorityClassName"):
            yield str(pod["spec"]["priorityClassName"])
    if obj["kind"] == "PodGroup" and obj["spec"].get("priorityClassName"):
        yield str(obj["spec"]["priorityClassName"])


def _labels(obj: Object) -> Iterator[dict[str, Any]]:
    for holder in (obj, *(pod for path, pod in pod_templates(obj) if path)):
        marks = (holder.get("metadata") or {}).get("labels")
        if isinstance(marks, dict):
            yield marks


def make_references(context: QuestionContext) -> Iterator[ProposalFamily]:
    """Create the claims and ConfigMaps that its pods use and that do not exist."""
    wanted: dict[ObjectReference, int] = {}
    for row in context.waiting:
        for reference in referenced_objects(context.pods[row.name]) if row.name in context.pods else ():
            wanted[reference] = wanted.get(reference, 0) + 1
    existing = {
        (kind, stored["metadata"].get("namespace", ""), stored["metadata"]["name"])
        for kind in {reference.kind for reference in wanted}
        for stored in context.lab.cluster.list(kind)
    }
    missing = sorted(reference for reference in wanted if tuple(reference) not in existing)
    if missing:
        made = [_made(reference, wanted[reference]) for reference in missing]
        names = some([f"{manifest['kind']} {manifest['metadata']['name']}" for manifest in made])
        yield ProposalFamily((Proposal(f"Make {names}", (apply_change(*made),), Disturbance.MADE),))


def _made(reference: ObjectReference, pods: int) -> Object:
    obj: Object = {
        "apiVersion": "v1", "kind": reference.kind, "metadata": {"name": reference.name, "namespace": reference.namespace},
    }  # fmt: skip
    if reference.kind == "ConfigMap":
        return {**obj, "data": {}}
    mode = "ReadWriteOnce" if pods == 1 else "ReadWriteMany"
    return {**obj, "spec": {"accessModes": [mode], "resources": {"requests": {"storage": _STORAGE}}}}


def label_claims(context: QuestionContext) -> Iterator[ProposalFamily]:
    """Label the GPU claims that its pods share with its queue."""
    queue = context.named_queue
    used = {
        (pod["metadata"]["namespace"], entry["resourceClaimName"])
        for row in context.waiting
        if (pod := context.pods.get(row.name)) is not None
        for entry in pod["spec"].get("resourceClaims") or ()
        if entry.get("resourceClaimName")
    }
    claims = [
        claim
        for claim in context.lab.cluster.list("ResourceClaim")
        if (claim["metadata"]["namespace"], claim["metadata"]["name"]) in used
        and claim_record(claim).queue not in (None, queue)
    ]
    if claims and queue:
        change = {"metadata": {"labels": {labels.QUEUE: queue}}}
        do = f"Label ResourceClaim {some([claim['metadata']['name'] for claim in claims])} {labels.QUEUE}={queue}"
        yield ProposalFamily((Proposal(do, tuple(patch_change(claim, change) for claim in claims), Disturbance.OWN),))


def leave_node_pool(context: QuestionContext) -> Iterator[ProposalFamily]:
    """Remove the label of a node pool that is not served from the work, its queue or nodes."""

    def group(podgroup: Object) -> dict[str, Any]:
        marked = labels.NODE_POOL in (podgroup["metadata"].get("labels") or {})
        return {"metadata": {"labels": {labels.NODE_POOL: None}}} if marked else {}

    do = f"Remove its label {labels.NODE_POOL}"
    yield ProposalFamily.of(own_change(context, do, set_label(labels.NODE_POOL, None), group))
    remove = {"metadata": {"labels": {labels.NODE_POOL: None}}}
    queues = [
        queue
        for name in context.line
        if labels.NODE_POOL in ((queue := context.queues[name])["metadata"].get("labels") or {})
    ]
    if queues:
        names = some([queue["metadata"]["name"] for queue in queues])
        do = f"Remove the label {labels.NODE_POOL} from queue {names}"
        yield ProposalFamily(
            (Proposal(do, tuple(patch_change(queue, remove) for queue in queues), Disturbance.QUEUES),)
        )
    nodes = [node for node in context.nodes.values() if node_pool(node["metadata"]) != "default"]
    yield from node_subsets(
        nodes, f"Remove the label {labels.NODE_POOL} from node {{}}", lambda node: (patch_change(node, remove),)
    )


def wait(context: QuestionContext) -> Iterator[ProposalFamily]:
    """Wait until the subject runs, if time alone lets it: delays, minimum runtimes, run times and schedules end."""
    if context.never:
        return
    ahead = context.forecast or forecast(context.state, context.budget)
    if ahead is not None and ahead.seconds:
        changes = ({"advance": ahead.seconds},)
        yield ProposalFamily((Proposal(f"Wait {elapsed(ahead.seconds)}", changes, Disturbance.WAITING),))
