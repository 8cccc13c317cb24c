"""Causes in the objects themselves: suspension, scheduling gates, missing pods, PodGroups, queues and priority classes, refused bindings.

Pods that the grouping has yet to act on have none of these causes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, ClassVar

from kailab.cluster.protocol import Object
from kailab.engine.relaxing.rules import PriorityGiven
from kailab.evidence.entries import PodRow
from kailab.evidence.wording import count, some
from kailab.explain.causes.refusal import INTERNAL, PlainRefusal, Refusal
from kailab.explain.causes.waiting_group import WaitingPodGroup
from kailab.explain.subject import PodsAtMoment, latest_event, min_member
from kailab.lab.answer import CauseCode, ObjectRef
from kailab.lab.inert_kinds import makes_no_pods, why_no_pods
from kailab.lab.owners import owned_by, owners_of
from kailab.model import labels
from kailab.model.kinds import KINDS
from kailab.model.labels import PRIORITY_CLASS, QUEUE
from kailab.model.objects import full_name, is_owned, name_of, parent_of, spec_of, status_of
from kailab.model.validation.advice import pod_templates
from kailab.scheduler.binding.bind_backoff import REFUSED, UNCONFIRMED
from kailab.scheduler.reading.podgroups import NON_PREEMPTIBLE_FROM, is_preemptible


def find_suspension(group: WaitingPodGroup) -> Iterable[Refusal]:
    """The workload, or one that it owns, is suspended."""
    if group.pods:
        return
    for obj in _with_owned(group):
        spec = obj.get("spec") or {}
        policy = spec.get("runPolicy")
        at = "spec.suspend" if spec.get("suspend") is True else ""
        if not at and isinstance(policy, dict) and policy.get("suspend") is True:
            at = "spec.runPolicy.suspend"
        if at:
            yield PlainRefusal.of(
                CauseCode.SUSPENDED,
                f"{obj['kind']} {obj['metadata']['name']} is suspended ({at} is true), so it has no pods.",
                (_ref(obj),),
                {"field": at},
            )
            return


def find_missing_priority_class(group: WaitingPodGroup) -> Iterable[Refusal]:
    """A priority class that does not exist. Pods that name it in their spec are refused. Work that names it by label gets the default
    priority, which is a cause only if another priority would let it run."""
    known = {priority_class["metadata"]["name"] for priority_class in group.lab.cluster.list("PriorityClass")}
    missing = _named_by_label(group, known) if group.pods else _named_by_template(group, "priorityClassName", known)
    if not missing or (group.pods and not _priority_would_help(group)):
        return
    what = (
        f"It names the priority class {missing}, which does not exist, so it counts as if it named none"
        if group.pods
        else f"Its pods name the priority class {missing}, which does not exist, so none of them is admitted"
    )
    yield PlainRefusal.of(
        CauseCode.PRIORITY_CLASS_MISSING,
        f"{what}.",
        (ObjectRef("PriorityClass", "", missing),),
        {"priorityClass": missing},
    )


def find_missing_runtime_class(group: WaitingPodGroup) -> Iterable[Refusal]:
    """A RuntimeClass that does not exist, for which the pods are refused. Pods that exist were admitted."""
    if group.pods:
        return
    known = set(map(name_of, group.lab.cluster.list("RuntimeClass")))
    if missing := _named_by_template(group, "runtimeClassName", known):
        yield PlainRefusal.of(
            CauseCode.RUNTIME_CLASS_MISSING,
            f"Its pods name the RuntimeClass {missing}, which does not exist, so none of them is admitted.",
            (ObjectRef("RuntimeClass", "", missing),),
            {"runtimeClass": missing},
        )


def _named_by_template(group: WaitingPodGroup, field: str, known: Container[str]) -> str:
    """The name in this field of a pod template, if it is not known; or ""."""
    for obj in _with_owned(group):
        for _, pod in pod_templates(obj):
            spec = pod.get("spec")
            name = spec.get(field) if isinstance(spec, dict) else None
            if name and name not in known:
                return str(name)
    return ""


def _named_by_label(group: WaitingPodGroup, known: Container[str]) -> str:
    pod = group.pod(group.pods[0])
    named = [
        ((obj["metadata"].get("labels") or {}).get(PRIORITY_CLASS)) for obj in (pod, *owners_of(group.lab.cluster, pod))
    ]
    if group.podgroup is not None:
        named.append(spec_of(group.podgroup).get("priorityClassName"))
    return next((str(name) for name in named if name and name not in known), "")


def _priority_would_help(group: WaitingPodGroup) -> bool:
    relaxed_cycles = group.relaxed_cycles
    if relaxed_cycles is None or relaxed_cycles().further:
        return False
    return any(relaxed_cycles(given).further for given in _priorities(group))


def _priorities(group: WaitingPodGroup) -> Iterator[PriorityGiven]:
    """The highest priorities that a class could give it. The value of the class also decides whether it is preemptible, unless the PodGroup
    says so itself."""
    highest = max((podgroup.priority for podgroup in group.moment.snapshot.podgroups), default=0) + 1
    spec = {} if group.podgroup is None else spec_of(group.podgroup)
    for value in (min(highest, NON_PREEMPTIBLE_FROM - 1), max(highest, NON_PREEMPTIBLE_FROM)):
        yield PriorityGiven(value, is_preemptible(spec, value))


def find_scheduling_gates(group: WaitingPodGroup) -> Iterable[Refusal]:
    """Pods of it have scheduling gates."""
    gated = {row.name: gates for row in group.pods if (gates := group.pod(row)["spec"].get("schedulingGates"))}
    if not gated:
        return
    names = sorted({gate["name"] for gates in gated.values() for gate in gates})
    whose = (
        f"{len(gated)} pods of it have"
        if len(gated) > 1
        else "It has"
        if group.subject.kind == "Pod"
        else "A pod of it has"
    )
    yield PlainRefusal.of(
        CauseCode.SCHEDULING_GATED,
        f"{whose} scheduling gates ({', '.join(names)}): the scheduler ignores such a pod until they are removed.",
        tuple(ObjectRef("Pod", *name.split("/", 1)) for name in gated),
        {"gates": names},
    )


def find_incomplete_gang(group: WaitingPodGroup) -> Iterable[Refusal]:
    """Fewer pods exist than must start together."""
    podgroup = group.podgroup
    if podgroup is None or group.state.runs:
        return
    every = group.picture.by_group.get(group.name, ())
    rows = [row for row in every if row.phase in ("Pending", "Running")]
    least = min_member(podgroup)
    if len(rows) < least:
        # Pods that have ended or are terminating exist too, so the sentence names them.
        others = Counter(row.phase for row in every if row.phase not in ("Pending", "Running"))
        yield GangIncomplete(
            podgroup=group.name,
            min_member=least,
            pods=len(rows),
            others=tuple(sorted(others.items())),
            why=_why_not(group) if group.state.absent else _what_leaves(group.state, listed="Terminating" in others),
            objects=(_ref(podgroup),),
        )


@dataclass(frozen=True, kw_only=True)
class GangIncomplete(Refusal):
    """``pods`` of a PodGroup exist, and ``min_member`` must start together. ``others``: its pods that do not count, by phase. ``why``: what
    kept the others from being made, where that is known."""

    FACTS: ClassVar[tuple[str, ...]] = ("min_member", "pods")
    code: CauseCode = CauseCode.GANG_INCOMPLETE
    podgroup: str
    min_member: int
    pods: int
    others: tuple[tuple[str, int], ...]
    why: str = field(default="", metadata=INTERNAL)

    @property
    def holds(self) -> bool:
        return self.pods < self.min_member

    @property
    def sentence(self) -> str:
        ended = "".join(f", beside {number} {_ENDED.get(phase, phase)}" for phase, number in self.others)
        exist = "exists" if self.pods == 1 else "exist"
        return f"{count(self.min_member, 'pod')} of PodGroup {self.podgroup} must start together, and {self.pods} {exist}{ended}{self.why}."


_ENDED = {"Failed": "failed", "Succeeded": "succeeded", "Terminating": "terminating"}


def find_failed_binding(group: WaitingPodGroup) -> Iterable[Refusal]:
    """The cluster refused the last binding of a pod, or did not answer.

    The pod and the last cycle say whether that is still so. Events outlive it, so only their text is used.
    """
    for row in group.pods:
        binding_state = _last_binding(group, row)
        if binding_state is None:
            continue
        text = _binding_message(group, row)
        refs = (ObjectRef("Pod", *row.name.split("/", 1)),)
        if binding_state == REFUSED:
            yield PlainRefusal.of(
                CauseCode.BIND_REFUSED,
                f"There was a place for it when it was last tried, and the cluster refused to bind pod {row.name}: {text}",
                refs,
            )
        else:
            yield PlainRefusal.of(
                CauseCode.BIND_RETRIED,
                f"There was a place for it when it was last tried, and the binding of pod {row.name} did not go through; that is no refusal, "
                f"and it is tried again. {text}",
                refs,
            )
        return


def _last_binding(group: WaitingPodGroup, row: PodRow) -> str | None:
    """``REFUSED`` or ``UNCONFIRMED`` if that is the pod's latest state; None otherwise."""
    if not group.picture.scheduler.reports_shares:
        # Its binder is another process that writes only events.
        latest = latest_event(group.lab, [group.pod(row)["metadata"]["uid"]])
        return REFUSED if latest is not None and latest.get("reason") == "FailedBinding" else None
    # The lab that tried the binding knows it; an opened copy has only what was written.
    words = [text for task in group.tasks if f"{task.namespace}/{task.name}" == row.name for text in task.shape.blocked]
    entry = group.entry
    if not words and entry is None:
        words = [{"BindingError": REFUSED, "BindingUnconfirmed": UNCONFIRMED}.get(row.reason, row.message)]
    elif not words and entry is not None:
        words = [reason for fit in entry.fits if fit.pod == row.name for reason, _ in fit.reasons]
    return next((kind for kind in (REFUSED, UNCONFIRMED) if any(kind in text for text in words)), None)


def _binding_message(group: WaitingPodGroup, row: PodRow) -> str:
    uid = group.pod(row)["metadata"]["uid"]
    event = latest_event(group.lab, [uid], "FailedBinding")
    return str(event.get("message", "")) if event is not None else row.message


def find_missing_pods(group: WaitingPodGroup) -> Iterable[Refusal]:
    """Its pods do not exist."""
    obj = group.state.object
    leaving = group.state.leaving if group.state.missing else 0
    if group.pods or obj is None or not (group.state.absent or leaving or not group.state.wanted):
        return
    spec = obj.get("spec") or {}
    name = f"{obj['kind']} {obj['metadata']['name']}"
    known = KINDS.get(group.subject.kind)
    if not group.state.is_counted and (known is None or known.controller is None):
        yield PlainRefusal.of(
            CauseCode.NO_CONTROLLER, f"{_nobody_makes_them(group)}.", (_ref(obj),), {"kind": obj["kind"]}
        )
        return
    if obj["kind"] == "CronJob":
        last = (obj.get("status") or {}).get("lastScheduleTime")
        then = f"the last was made at {last}" if last else "none was made yet"
        text = f"{name} makes a Job by its schedule ({spec.get('schedule', '')}), and none is due now; {then}."
    elif spec.get("replicas") == 0:
        text = f"{name} is scaled to 0 replicas, so it has no pods."
    elif not group.state.is_counted and not group.state.wanted:
        text = f"{name} has no pods{_why_not(group) or ', and how many it wants is not known'}."
    elif obj["kind"] == "DaemonSet" and "desiredNumberScheduled" not in (obj.get("status") or {}):
        text = f"{name} has no pods yet: its controller has not counted the nodes that it is for."
    elif not group.state.wanted:
        text = f"{name} wants no pods."
    elif obj["kind"] == "Pod" and not is_owned(obj):
        text = f"{name} is being deleted, and nothing makes it again."
    else:
        existing = group.state.wanted - group.state.absent - leaving
        exist = "1 of them exists" if existing == 1 else f"{max(0, existing) or 'none'} of them exist"
        left = _what_leaves(group.state) if leaving else ""
        text = f"{name} wants {count(group.state.wanted, 'pod')}, and {exist}{left}{_why_not(group)}."
    yield PlainRefusal.of(CauseCode.PODS_NOT_CREATED, text, (_ref(obj),), {"wanted": group.state.wanted})


def _what_leaves(state: PodsAtMoment, *, listed: bool = False) -> str:
    """The terminating pods, unless they are ``listed`` already, and what keeps them from ending; empty if there is nothing to say."""
    leaving = state.leaving
    text = f"; {count(leaving, 'pod')} of it still {'terminates' if leaving == 1 else 'terminate'}"
    if not leaving or listed:
        text = ""
    if nodes := state.held_up:
        text += f" on {some(nodes)}, which {'is' if len(nodes) == 1 else 'are'} not ready, so that they do not end"
    return text


def _why_not(group: WaitingPodGroup) -> str:
    """The API server's message when it last refused them, with the time; else that of the owner's condition or status."""
    event = latest_event(group.lab, [obj["metadata"]["uid"] for obj in _with_owned(group)], "FailedCreate")
    if event is not None:
        return f": when that was last tried ({event.get('lastTimestamp', '')}): {event.get('message', '')}"
    messages = (
        str(condition.get("message") or "")
        for condition in _conditions(group.state.object)
        if condition.get("type") == "Failed"
    )
    # Argo's Workflow says it beside its phase.
    told = [*filter(None, messages)] or [str(status_of(group.state.object or {}).get("message") or "")]
    return "".join(f": {text}" for text in filter(None, told))


def _conditions(obj: Object | None) -> Iterable[Mapping[str, Any]]:
    return ((obj or {}).get("status") or {}).get("conditions") or ()


def _nobody_makes_them(group: WaitingPodGroup) -> str:
    """Why nothing creates its pods. In a shared cluster an operator may do so."""
    kind = (group.state.object or {}).get("kind", group.subject.kind)
    if not makes_no_pods(group.subject.kind):
        return f"A {kind} has no pods of its own: other work refers to it"
    if group.lab.venue.exclusive:
        return f"{why_no_pods(group.subject.kind)}, so whether it would run is not known here"
    return f"It has no pods, and kailab does not know how many its operator makes for a {kind}, nor when"


def _with_owned(group: WaitingPodGroup) -> Iterator[Object]:
    """The subject and all objects that it owns, directly or not, without pods."""
    obj = group.state.object
    if obj is not None and obj["kind"] not in ("Pod", "PodGroup", "Queue"):
        yield obj
        yield from owned_by(group.lab.cluster, obj)


def _ref(obj: Any) -> ObjectRef:
    return ObjectRef(obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"])


def find_missing_podgroup(group: WaitingPodGroup) -> Iterable[Refusal]:
    """Its pods have no PodGroup: they name another scheduler, can't be grouped, or name a PodGroup that does not exist. One cause at most."""
    if not group.pods or not group.picture.scheduler.knows_queues:
        return
    row = group.pods[0]
    ref = (ObjectRef("Pod", *row.name.split("/", 1)),)
    # Checked first, as a pod keeps its PodGroup annotation whatever its scheduler is.
    if not group.is_ours:
        ours = group.picture.scheduler.scheduler_name
        theirs = group.scheduler_name
        nobody = f", and no scheduler here places pods of {theirs}" if group.is_nobodys else ""
        yield PlainRefusal.of(
            CauseCode.OTHER_SCHEDULER,
            f"{_it(group)} spec.schedulerName {theirs}, so {ours} ignores it{nobody}.",
            ref,
            {"schedulerName": theirs, "expected": ours, "nobody": group.is_nobodys},
        )
    elif group.podgroup is not None:
        return
    elif row.podgroup and not group.has_owner:
        yield PlainRefusal.of(
            CauseCode.POD_GROUP_MISSING,
            f"{_it(group)} the annotation {labels.POD_GROUP}: {row.podgroup}, and there is no PodGroup {group.name}: "
            f"{count(len(group.pods), 'pod')} {'waits' if len(group.pods) == 1 else 'wait'} until it is made.",
            (ObjectRef("PodGroup", *group.name.split("/", 1)), *ref),
            {"podgroup": group.name},
        )
    elif group.grouping_error:
        yield PlainRefusal.of(
            CauseCode.GROUPING_FAILED,
            f"It can't be grouped, so it has no PodGroup and is not considered: {group.grouping_error.rstrip('.')}.",
            ref,
            {"error": group.grouping_error},
        )
    elif group.grouping is None and group.is_grouping_known:
        yield PlainRefusal.of(
            CauseCode.POD_GROUP_MISSING,
            f"It, or an owner of it, has the annotation {labels.SKIP_PODGROUPER}: true, so no PodGroup is made for it, and it names none "
            f"({labels.POD_GROUP}).",
            ref,
            {"podgroup": ""},
        )


def _it(group: WaitingPodGroup) -> str:
    return "It has" if group.subject.kind == "Pod" else "A pod of it has"


def find_unusable_queue(group: WaitingPodGroup) -> Iterable[Refusal]:
    """Its queue does not exist, has child queues, or is below no root. One cause at most, and none for pods that are in no queue because
    another scheduler places them or they can't be grouped."""
    if not group.pods or not group.picture.scheduler.knows_queues or not group.is_ours:
        return
    if group.podgroup is None and group.grouping is None:
        return
    queues = {queue["metadata"]["name"]: parent_of(queue) for queue in group.lab.cluster.list("Queue")}
    name = group.queue
    leaves = sorted(set(queues) - set(queues.values()))
    if name not in queues:
        if not name and group.podgroup is not None:
            yield PlainRefusal.of(
                CauseCode.QUEUE_LABEL_MISSING,
                f"PodGroup {full_name(group.podgroup)} names no queue (its spec.queue is empty).{_known_leaves(leaves)}",
                (_ref(group.podgroup),),
                {"field": "spec.queue", "leaves": leaves},
            )
            return
        yield _missing(name, leaves, named=_names_it(group, name))
        return
    children = sorted(child for child, parent in queues.items() if parent == name)
    if children:
        yield PlainRefusal.of(
            CauseCode.QUEUE_NOT_LEAF,
            f"Its queue {name} has child queues ({some(children, 4)}); only queues without children run work.",
            (ObjectRef("Queue", "", name),),
            {"queue": name, "children": children},
        )
        return
    line = [name]
    while parent := queues.get(line[-1]):
        if parent not in queues or parent in line:
            what = "which does not exist" if parent not in queues else "which is below itself"
            yield PlainRefusal.of(
                CauseCode.QUEUE_PARENT_MISSING,
                f"Its queue {name} exists, but the parent of {line[-1]} is {parent}, {what}: nothing runs in a queue that "
                "leads to no root.",
                (ObjectRef("Queue", "", line[-1]), ObjectRef("Queue", "", parent)),
                {"queue": name, "below": line[-1], "parent": parent},
            )
            return
        line.append(parent)


def _names_it(group: WaitingPodGroup, name: str) -> bool:
    """Whether the pod, an owner or the PodGroup names the queue itself."""
    pod = group.pod(group.pods[0])
    owners = (group.podgroup, pod, *owners_of(group.lab.cluster, pod))
    return any(name in ((obj or {}).get("metadata", {}).get("labels") or {}).values() for obj in owners)


def _known_leaves(leaves: list[str]) -> str:
    return f" The leaf queues are: {some(leaves, 6)}." if leaves else " There are no queues yet."


def _missing(name: str, leaves: list[str], *, named: bool) -> Refusal:
    known = _known_leaves(leaves)
    if not name or (name == labels.DEFAULT_QUEUE and not named):
        return PlainRefusal.of(
            CauseCode.QUEUE_LABEL_MISSING,
            f"It has no label {QUEUE}, so it counts for {labels.DEFAULT_QUEUE}, which does not exist.{known}",
            (),
            {"label": QUEUE, "leaves": leaves},
        )
    close = get_close_matches(name, leaves, 1)
    meant = f" Did you mean {close[0]}?" if close else known
    return PlainRefusal.of(
        CauseCode.QUEUE_MISSING,
        f"It names the queue {name}, which does not exist.{meant}",
        (ObjectRef("Queue", "", name),),
        {"queue": name, "close": close, "leaves": leaves},
    )
