"""Time that passes: how long until it runs, found by letting time pass on a copy of the lab."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from itertools import islice
from typing import Any

from kailab.cluster.embedded import EmbeddedCluster
from kailab.cluster.protocol import Object
from kailab.engine.relaxing.rules import Relaxation, WaitingWithdrawn
from kailab.errors import KailabError
from kailab.evidence.entries import PodRow
from kailab.explain.causes.queue_order import IN_FRONT
from kailab.explain.steps.node_steps import some_of
from kailab.explain.steps.proposals import (
    After,
    Change,
    Disturbance,
    Proposal,
    Way,
    apply,
    both,
    delete,
    in_spec,
    labelled,
    of_pods,
    own_change,
    patch,
)
from kailab.explain.steps.setting import Setting, named, title
from kailab.lab.fork import fork
from kailab.lab.wording import count, elapsed, gpus, some
from kailab.model import labels
from kailab.model.kind import field_of
from kailab.model.kinds import KINDS, api_version_of, kind_key
from kailab.model.validation.advice import pod_templates
from kailab.scheduler.reading.claims import claim_record
from kailab.scheduler.reading.podgroups import DEFAULT_PODGROUP_PRIORITY, node_pool
from kailab.scheduler.reading.references import ObjectReference, referenced_objects

SUSPENDED_BY: Mapping[str, str] = {
    **dict.fromkeys(("Job", "JobSet", "TrainJob", "RayJob"), "suspend"),
    **dict.fromkeys(("PyTorchJob", "TFJob", "XGBoostJob", "JAXJob", "PaddleJob", "MPIJob"), "runPolicy.suspend"),
}
"""Kind key -> the field below ``spec`` that holds a workload of it back."""

SINGLE = 6
"""Workloads that are tried each by itself."""
LEVELS = 64
"""Numbers of pods by which a workload is scaled down that are tried."""
_PLURAL = {"waits": "wait", "is served": "are served"}


def make_room(setting: Setting) -> Iterator[Way]:
    """One workload scaled down or deleted, the least that is enough; else several."""
    workloads = sorted(setting.others.values(), key=lambda one: _order(setting, one))
    for obj, rows in workloads[:SINGLE]:
        yield Way(tuple(_less_of(obj, rows)), grows=True)
    if len(workloads) > 1:
        several = [_gone(workloads[:number]) for number in range(2, min(len(workloads), 64) + 1)]
        yield Way(tuple(several), grows=True, last=True)


def withdraw_what_stands_in_front(setting: Setting) -> Iterator[Way]:
    """Suspend, or else delete, what waits and by which its queue is ranked (see ``causes.queue_line``)."""
    works = _in_front(setting)
    if 0 < len(works) <= SINGLE:
        yield Way.of(_withdrawals(setting, works, "waits"))


def send_away_who_waits(setting: Setting) -> Iterator[Way]:
    """Suspend or delete what is served before it and waits, and what was evicted for."""
    for obj in setting.ahead[:SINGLE]:
        if [obj] != _in_front(setting):
            yield Way.of(_withdrawals(setting, [obj], "is served"))


def _in_front(setting: Setting) -> list[Object]:
    groups = {
        (one.namespace, one.name)
        for cause in setting.causes
        if IN_FRONT in cause.facts
        for one in cause.objects
        if one.kind == "PodGroup"
    }
    return [obj for obj in setting.ahead if groups & setting.groups_of(obj)]


def _withdrawals(setting: Setting, works: Sequence[Object], stands: str) -> Iterator[Proposal]:
    names = some([named(obj) for obj in works])
    which = f"which {stands if len(works) == 1 else _PLURAL[stands]} before it"
    runs = sum(len(setting.others[title(obj)][1]) for obj in works if title(obj) in setting.others)
    if runs:
        which += f", and end {count(runs, 'pod')} that {'runs' if runs == 1 else 'run'}"
    # Who has pods that run loses these too, so that the engine is not asked about those that wait alone.
    disturbance, seen = (Disturbance.OTHERS, None) if runs else (Disturbance.LINE, _withdrawn(setting, works))
    if runs and len(works) == 1 and (scaled := _scaled_to_what_runs(setting, works[0])) is not None:
        yield scaled
    suspended = [suspension(obj) for obj in works]
    if all(change is not None for change in suspended):
        changes = tuple(change for change in suspended if change is not None)
        yield Proposal(f"Suspend {names}, {which}", changes, disturbance, seen)
    yield Proposal(f"Delete {names}, {which}", tuple(map(delete, works)), disturbance, seen)


def _scaled_to_what_runs(setting: Setting, obj: Object) -> Proposal | None:
    known, replicas = KINDS.get(kind_key(obj)), obj.get("spec", {}).get("replicas")
    running = len(setting.others[title(obj)][1])
    if known is None or not known.scalable or not isinstance(replicas, int) or not 0 < running < replicas:
        return None

    def words(after: After) -> str:
        return (
            f"Scale {named(obj)} down from {replicas} to {after.of(obj)['spec']['replicas']}, so that none of it waits"
        )

    return Proposal(words, (patch(obj, {"spec": {"replicas": running}}),), Disturbance.LINE)


def _withdrawn(setting: Setting, works: Sequence[Object]) -> Relaxation:
    groups = {name for obj in works for name in setting.groups_of(obj)}
    uids = [setting.picture.podgroups[name]["metadata"]["uid"] for name in groups if name in setting.picture.podgroups]
    return WaitingWithdrawn(tuple(sorted(uids)))


def suspension(obj: Object) -> Change | None:
    """None for a kind that can't be suspended, and for what is suspended already."""
    path = SUSPENDED_BY.get(kind_key(obj))
    if path is None or field_of(obj, f"spec.{path}"):
        return None
    change: object = True
    for name in reversed(path.split(".")):
        change = {name: change}
    return patch(obj, {"spec": change})


def _order(setting: Setting, one: tuple[Object, list[PodRow]]) -> tuple[bool, bool, int, str]:
    """Whatever it was evicted for first, then who holds something where it may run, or in its queue; of those who holds least, but
    enough."""
    obj, rows = one
    held = sum(row.milli_gpus for row in rows)
    enough = held >= setting.asked.gpu
    groups = {row.podgroup for row in rows}
    near = bool(groups & setting.holders) or any(row.queue in setting.line for row in rows)
    beneficiary = obj["metadata"]["name"] in setting.beneficiaries
    return not beneficiary, not near, held if enough else 10**12 - held, named(obj)


def _less_of(obj: Object, rows: Sequence[PodRow]) -> Iterator[Proposal]:
    known = KINDS.get(kind_key(obj))
    replicas = obj.get("spec", {}).get("replicas")
    if known is not None and known.scalable and isinstance(replicas, int) and replicas > 1:
        apart = -(-replicas // LEVELS)
        for fewer in range(1, replicas, apart):
            change = patch(obj, {"spec": {"replicas": replicas - fewer}})
            yield Proposal(lambda after: _scaled(obj, after.of(obj)), (change,), Disturbance.OTHERS)
    held = gpus(sum(row.milli_gpus for row in rows))
    yield Proposal(f"Delete {named(obj)}, which holds {held}", (delete(obj),), Disturbance.OTHERS)


def _scaled(before: Object, after: Object) -> str:
    was, left = before["spec"]["replicas"], after["spec"]["replicas"]
    return f"Scale {named(before)} down from {was} to {left}, which ends {count(was - left, 'pod')} of it"


def _gone(workloads: Sequence[tuple[Object, list[PodRow]]]) -> Proposal:
    changes: list[Change] = [delete(obj) for obj, _ in workloads]
    names = some([named(obj) for obj, _ in workloads])
    return Proposal(f"Delete {names}", tuple(changes), Disturbance.OTHERS)


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
        {"apiVersion": api_version_of("PriorityClass"), "kind": "PriorityClass", "metadata": {"name": name}, "value": DEFAULT_PODGROUP_PRIORITY}
        for name in missing
    ]  # fmt: skip
    do = f"Make the priority class {some(missing)} with the value {DEFAULT_PODGROUP_PRIORITY}"
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
    wanted: dict[ObjectReference, int] = {}
    for row in setting.waiting:
        for reference in referenced_objects(setting.pods[row.name]) if row.name in setting.pods else ():
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


def _made(reference: ObjectReference, pods: int) -> Object:
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


HORIZON = 25 * 3600.0
"""Seconds that are looked ahead: what happens every day is in it."""
MOMENTS = 60
"""Moments at which something changes that are looked at, in a small lab."""
AFFORDABLE = 12_000
"""Pods that are looked at for it in all."""


def wait(setting: Setting) -> Iterator[Way]:
    """Let pass the time after which the subject runs, if that is known: delays, protections, run times, a schedule."""
    if not _anything_due(setting):
        return
    moments = max(3, min(MOMENTS, AFFORDABLE // max(1, len(setting.picture.pods))))
    with closing(fork(setting.lab)) as copy:
        begun = copy.now
        seconds: float | None = None
        try:
            copy.settle_if_changed()
            for _ in islice(copy.moments(HORIZON), moments):
                if setting.subject.runs(copy):
                    seconds = math.ceil(copy.now - begun)
                    break
        except KailabError:
            return
    if seconds:
        changes = ({"advance": seconds},)
        yield Way((Proposal(f"Wait {elapsed(seconds)}", changes, Disturbance.WAITING),))


def _anything_due(setting: Setting) -> bool:
    """Whether anything happens by itself: a timer of the cluster, or a time at which the next cycle decides differently."""
    cluster = setting.lab.cluster
    if not isinstance(cluster, EmbeddedCluster) or cluster.next_timer() is not None:
        return True
    uids = [uid for group in setting.podgroups if (uid := group["metadata"]["uid"]) in setting.standing.records]
    return setting.standing.trials.about(*uids)().decisions.wake_at is not None
