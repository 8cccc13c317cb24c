"""Causes that stand in the objects themselves: suspended, gated, refused, incomplete, or no pods at all."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from typing import Any

from kailab.cluster.protocol import Object
from kailab.engine.relaxing.queue_rules import MadePreemptible, PriorityGiven
from kailab.lab.explain.cause import Cause, Code, Ref
from kailab.lab.explain.causes.case import Case
from kailab.lab.explain.wanted import min_member
from kailab.lab.owners import owned_by, owners_of
from kailab.lab.wording import count
from kailab.model.labels import PRIORITY_CLASS
from kailab.model.validation.hints import pod_templates


def suspended(case: Case) -> Iterable[Cause]:
    """The workload, or one that it owns, is suspended."""
    if case.pods:
        return
    for obj in _line(case):
        spec = obj.get("spec") or {}
        policy = spec.get("runPolicy")
        at = "spec.suspend" if spec.get("suspend") is True else ""
        if not at and isinstance(policy, dict) and policy.get("suspend") is True:
            at = "spec.runPolicy.suspend"
        if at:
            yield Cause(
                Code.SUSPENDED,
                f"{obj['kind']} {obj['metadata']['name']} is suspended ({at} is true), so it has no pods.",
                (_ref(obj),),
                {"field": at},
            )
            return


def priority_class(case: Case) -> Iterable[Cause]:
    """A priority class that there is not: pods that name it in their spec are refused; work that names it by label counts as if it
    named none, which is the cause where another priority would let it run."""
    known = {one["metadata"]["name"] for one in case.lab.cluster.list("PriorityClass")}
    found = _named_by_label(case, known) if case.pods else _named_by_template(case, known)
    if not found or (case.pods and not _priority_would_help(case)):
        return
    what = (
        f"It names the priority class {found}, which there is not, so it counts as if it named none"
        if case.pods
        else f"Its pods name the priority class {found}, which there is not, so none of them is admitted"
    )
    yield Cause(Code.PRIORITY_CLASS_MISSING, f"{what}.", (Ref("PriorityClass", "", found),), {"priorityClass": found})


def _named_by_template(case: Case, known: Container[str]) -> str:
    for obj in _line(case):
        for _, pod in pod_templates(obj):
            spec = pod.get("spec")
            name = spec.get("priorityClassName") if isinstance(spec, dict) else None
            if name and name not in known:
                return str(name)
    return ""


def _named_by_label(case: Case, known: Container[str]) -> str:
    pod = case.pod(case.pods[0])
    named = [((obj["metadata"].get("labels") or {}).get(PRIORITY_CLASS)) for obj in (pod, *owners_of(case.lab, pod))]
    if case.podgroup is not None:
        named.append(case.podgroup["spec"].get("priorityClassName"))
    return next((str(name) for name in named if name and name not in known), "")


def _priority_would_help(case: Case) -> bool:
    trials = case.trials
    if trials is None or trials().further:
        return False
    highest = PriorityGiven(max((one.priority for one in case.moment.snapshot.podgroups), default=0) + 1)
    ways = ((highest,), (MadePreemptible(),), (highest, MadePreemptible()))
    return any(trials(*way).further for way in ways)


def gated(case: Case) -> Iterable[Cause]:
    """Pods with scheduling gates."""
    found = {row.name: gates for row in case.pods if (gates := case.pod(row)["spec"].get("schedulingGates"))}
    if not found:
        return
    names = sorted({gate["name"] for gates in found.values() for gate in gates})
    whose = (
        f"{len(found)} pods of it have"
        if len(found) > 1
        else "It has"
        if case.subject.kind == "Pod"
        else "A pod of it has"
    )
    yield Cause(
        Code.SCHEDULING_GATED,
        f"{whose} scheduling gates ({', '.join(names)}): nobody considers such a pod until they are taken away.",
        tuple(Ref("Pod", *name.split("/", 1)) for name in found),
        {"gates": names},
    )


def incomplete(case: Case) -> Iterable[Cause]:
    """Fewer pods exist than must start together."""
    group = case.podgroup
    if group is None or case.standing.runs:
        return
    rows = [row for row in case.picture.by_group.get(case.group, ()) if row.phase in ("Pending", "Running")]
    least = min_member(group)
    if len(rows) < least:
        yield Cause(
            Code.GANG_INCOMPLETE,
            f"{least} pods of PodGroup {case.group} must start together, and {len(rows)} exist.",
            (_ref(group),),
            {"minMember": least, "pods": len(rows)},
        )


def refused(case: Case) -> Iterable[Cause]:
    """A place was found, and the cluster refuses the binding."""
    waiting = {case.pod(row)["metadata"]["uid"]: row.name for row in case.pods}
    for event in case.standing.refused_bindings:
        about = event.get("involvedObject") or {}
        if about.get("uid") in waiting:
            name = waiting[about["uid"]]
            yield Cause(
                Code.BIND_REFUSED,
                f"There is a place for it, and the cluster refuses to bind pod {name}: {event.get('message', '')}",
                (Ref("Pod", *name.split("/", 1)),),
            )
            return


def not_created(case: Case) -> Iterable[Cause]:
    """Nothing makes its pods."""
    obj = case.standing.object
    if case.pods or obj is None or not (case.standing.missing or not case.standing.wanted):
        return
    spec = obj.get("spec") or {}
    name = f"{obj['kind']} {obj['metadata']['name']}"
    if obj["kind"] == "CronJob":
        last = (obj.get("status") or {}).get("lastScheduleTime")
        then = f"the last was made at {last}" if last else "none was made yet"
        text = f"{name} makes a Job by its schedule ({spec.get('schedule', '')}), and none is due now; {then}."
    elif spec.get("replicas") == 0:
        text = f"{name} is scaled to 0 replicas, so it has no pods."
    elif not case.standing.wanted:
        text = f"{name} wants no pods."
    else:
        there = len(case.standing.pods)
        text = (
            f"{name} wants {count(case.standing.wanted, 'pod')}, and {there or 'none'} of them exist{_why_not(case)}."
        )
    yield Cause(Code.PODS_NOT_CREATED, text, (_ref(obj),), {"wanted": case.standing.wanted})


def _why_not(case: Case) -> str:
    """What the API server said where it refused them."""
    uids = {obj["metadata"]["uid"] for obj in _line(case)}
    for event in reversed(case.lab.cluster.list("Event")):
        if event.get("reason") == "FailedCreate" and (event.get("involvedObject") or {}).get("uid") in uids:
            return f": {event.get('message', '')}"
    return ""


def _line(case: Case) -> Iterator[Object]:
    """The subject and what it owns, directly or through others, but pods."""
    obj = case.standing.object
    if obj is not None and obj["kind"] not in ("Pod", "PodGroup", "Queue"):
        yield obj
        yield from owned_by(case.lab, obj)


def _ref(obj: Any) -> Ref:
    return Ref(obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
