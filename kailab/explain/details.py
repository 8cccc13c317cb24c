"""What an answer says beside its causes: the subject's state, the scheduler's reasons, its place in the serving order, and data."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from kailab.evidence.canonical import as_plain_json
from kailab.evidence.entries import PendingReason, PodRow
from kailab.evidence.wording import count, gpus, some
from kailab.explain.evictions import eviction_lines, eviction_summary, podgroup_workload
from kailab.explain.model_shortages import shortage_data, shortages_of_subject
from kailab.explain.queues import policy_lines, saving_lines
from kailab.explain.serving_order import order_data, order_lines
from kailab.explain.subject import PodsAtMoment, choice_of_subgroups, min_member
from kailab.lab.picture import group_of
from kailab.model import labels
from kailab.model.objects import condition_of, spec_of

MOST_GROUPS = 3
"""PodGroups for which the scheduler's own words are shown."""


def headline(state: PodsAtMoment) -> str:
    """One line with the state of the subject."""
    subject = state.subject
    if subject.kind == "Pod":
        return _pod_head(state)
    numbers = _numbers(state)
    if subject.kind == "PodGroup" and state.object is not None:
        least = min_member(state.object)
        queue = spec_of(state.object).get("queue") or "(none)"
        together = f"; {least} run together or none" if least > 1 else ""
        if choice := choice_of_subgroups(state.object):
            needed, names = choice
            together = f"; {needed} of its {len(names)} subgroups ({some(names)}) {'starts' if needed == 1 else 'start'} whole, or none"
        return f"{subject.title} in queue {queue}: {numbers}{together}."
    return f"{subject.title}: {numbers}."


def _pod_head(state: PodsAtMoment) -> str:
    title = state.subject.title
    row = state.row
    if row is None:
        return f"{title} is gone."
    where = f", queue {row.queue}" if row.queue else ", no queue"
    if row.phase == "Terminating":
        return f"{title}: leaving {row.node or 'without having run'}."
    if row.node:
        return f"{title}: {row.phase} on {row.node}, {gpus(row.milli_gpus)}{where}."
    if row.phase != "Pending":
        return f"{title}: {row.phase}."
    return f"{title}: Pending, wants {gpus(row.milli_gpus)}{where}."


def _numbers(state: PodsAtMoment) -> str:
    running, waiting = len(state.running), len(state.waiting)
    wanted = max(state.wanted, running + waiting)
    text = f"{running} of {count(wanted, 'pod')} running" if wanted else "no pods"
    if running:
        nodes = sorted({row.node for row in state.running})
        text += f" (on {some(nodes)})"
    if waiting:
        text += f", {waiting} wait"
    if state.leaving:
        text += f", {state.leaving} {'leaves' if state.leaving == 1 else 'leave'}"
    if state.failed:
        text += f", {state.failed} failed"
    if state.absent and not state.failure:
        text += f", {state.absent} {'does' if state.absent == 1 else 'do'} not exist"
    if state.done:
        text += f", {state.done} succeeded"
    return text


def note_lines(state: PodsAtMoment) -> Iterator[str]:
    """Lines of every answer: a configured policy's view of the first waiting group, a terminating pod's saving, and evictions."""
    first = group_of(state.waiting[0]) if state.waiting else ""
    if (entry := state.picture.pending.get(first)) is not None:
        yield from policy_lines(entry.numbers)
    row = state.row
    if row is not None and row.phase == "Terminating":
        namespace, _, name = row.name.partition("/")
        yield from saving_lines(state.lab.cluster.get("Pod", name, namespace))
    if state.evictions:
        yield from eviction_summary(state.evictions, partial(podgroup_workload, state))


def scheduler_reason(state: PodsAtMoment) -> str:
    """The scheduler's reason for the first waiting pod; empty if there is none."""
    for row in state.waiting[:1]:
        entry = state.picture.pending.get(group_of(row)) if row.podgroup else None
        return entry.text if entry is not None else _reason_of_pod(state, row)
    return ""


def detail_lines(state: PodsAtMoment) -> Iterator[str]:
    """The lines of the full text: further reasons of the scheduler, who is ahead, and the last eviction in full."""
    picture = state.picture
    groups = list(dict.fromkeys(group_of(row) for row in state.waiting if row.podgroup))
    for index, full in enumerate(groups[:MOST_GROUPS]):
        entry = picture.pending.get(full)
        if entry is None:
            continue
        if index:
            yield f"The scheduler of {full.partition('/')[2]}: {entry.text}"
            yield from policy_lines(entry.numbers)
        if entry.fits:
            yield _fit_line(entry)
        for action, outcome in entry.tried:
            yield f"Tried {action}: {outcome}"
        yield from order_lines(picture, full)
    if state.evictions:
        yield from eviction_lines(state.evictions[-1])


def _fit_line(entry: PendingReason) -> str:
    fit = entry.fits[0]
    reasons = "; ".join(f"{number} {reason}" for reason, number in fit.reasons)
    return f"Nodes: of {fit.nodes}, none takes {fit.pod.partition('/')[2]}: {reasons}."


def _reason_of_pod(state: PodsAtMoment, row: PodRow) -> str:
    namespace, _, name = row.name.partition("/")
    pod = state.lab.cluster.get("Pod", name, namespace)
    if pod["spec"].get("schedulingGates"):
        return ""
    scheduled = condition_of(pod, "PodScheduled")
    theirs = pod["spec"].get("schedulerName", labels.DEFAULT_SCHEDULER_NAME)
    if scheduled and scheduled.get("message"):
        return f"{scheduled.get('reason', '')}: {scheduled['message']}"
    if not row.podgroup and theirs == labels.SCHEDULER_NAME:
        return "It has no PodGroup yet, so the scheduler has not considered it."
    ours = f" kailab's own scheduler takes pods with schedulerName: {labels.SCHEDULER_NAME}."
    return f"Its scheduler is {theirs}, which has not considered it.{'' if row.podgroup else ours}"


def facts(state: PodsAtMoment) -> dict[str, Any]:
    """Data for programs: a pod's row, a PodGroup's pods or a workload's PodGroups, with the scheduler's reasons."""
    if state.subject.kind == "Queue":
        return {}
    return {**_facts_of_kind(state), **(shortage_data(shortages_of_subject(state)) if state.waiting else {})}


def _facts_of_kind(state: PodsAtMoment) -> dict[str, Any]:
    kind, picture = state.subject.kind, state.picture
    if kind == "Pod":
        return _pod_facts(state)
    if kind == "PodGroup":
        return _group_facts(state, f"{state.subject.namespace}/{state.subject.name}")
    groups = dict.fromkeys(group_of(row) for row in state.pods if row.podgroup)
    known = [full for full in groups if tuple(full.split("/", 1)) in picture.podgroups]
    return {
        "podgroups": [{"name": full, **_group_facts(state, full)} for full in known],
        "evictions": as_plain_json(state.evictions),
    }


def _pod_facts(state: PodsAtMoment) -> dict[str, Any]:
    row, picture = state.row, state.picture
    gone = {"eviction": as_plain_json(state.evictions[-1])} if state.evictions else {}
    if row is None:
        return {"phase": "Gone", **gone}
    waits = row.phase == "Pending" and not row.node
    entry = picture.pending.get(group_of(row)) if waits and row.podgroup else None
    order = order_data(picture, group_of(row)) if entry else {"ahead": []}
    return {**as_plain_json(row), **gone, **({"pending": as_plain_json(entry), **order} if waits else {})}


def _group_facts(state: PodsAtMoment, full: str) -> dict[str, Any]:
    picture = state.picture
    namespace, _, name = full.partition("/")
    group = picture.podgroups.get((namespace, name))
    if group is None:
        return {"evictions": as_plain_json(state.evictions)}
    return {
        "queue": spec_of(group).get("queue", ""),
        "min_member": spec_of(group).get("minMember", 1),
        "pods": as_plain_json(picture.by_group.get(full, [])),
        "pending": as_plain_json(picture.pending.get(full)),
        **order_data(picture, full),
    }
