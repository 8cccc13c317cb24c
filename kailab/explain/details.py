"""What is said of a subject beside its cause: what it is now, what the scheduler said of it, and who is ahead of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from kailab.engine.report.node_answers import NodeAnswer, node_answers
from kailab.engine.session import Session
from kailab.engine.snapshot.amounts import number
from kailab.engine.snapshot.records import Task
from kailab.engine.working.layout import GPUS
from kailab.errors import InputError
from kailab.evidence.canonical import as_plain_json
from kailab.evidence.entries import PendingReason, PodRow
from kailab.explain.causes.node_capacity import device_row
from kailab.explain.causes.node_facts import Ground
from kailab.explain.causes.question_context import cases
from kailab.explain.evictions import eviction_lines, evictions_told, workload_of
from kailab.explain.queues import policy_lines, saving_lines
from kailab.explain.serving_order import order_data, order_lines
from kailab.explain.subject import Standing, Subject, choice_of_subgroups, min_member
from kailab.lab.picture import group_of
from kailab.lab.wording import count, gpus, some
from kailab.model import labels
from kailab.model.labels import gpu_model
from kailab.model.objects import condition_of

if TYPE_CHECKING:
    from kailab.lab.lab import Lab


MOST_GROUPS = 3
"""PodGroups of which the scheduler's own words are told."""


def head(standing: Standing) -> str:
    """One line: what it is now."""
    subject = standing.subject
    if subject.kind == "Pod":
        return _pod_head(standing)
    numbers = _numbers(standing)
    if subject.kind == "PodGroup" and standing.object is not None:
        least = min_member(standing.object)
        queue = standing.object["spec"].get("queue") or "(none)"
        together = f"; {least} run together or none" if least > 1 else ""
        if choice := choice_of_subgroups(standing.object):
            needed, names = choice
            together = f"; {needed} of its {len(names)} subgroups ({some(names)}) {'starts' if needed == 1 else 'start'} whole, or none"
        return f"{subject.title} in queue {queue}: {numbers}{together}."
    return f"{subject.title}: {numbers}."


def _pod_head(standing: Standing) -> str:
    title = standing.subject.title
    row = standing.row
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


def _numbers(standing: Standing) -> str:
    running, waiting = len(standing.running), len(standing.waiting)
    wanted = max(standing.wanted, running + waiting)
    told = f"{running} of {count(wanted, 'pod')} running" if wanted else "no pods"
    if running:
        nodes = sorted({row.node for row in standing.running})
        told += f" (on {some(nodes)})"
    if waiting:
        told += f", {waiting} wait"
    if standing.leaving:
        told += f", {standing.leaving} {'leaves' if standing.leaving == 1 else 'leave'}"
    if standing.failed:
        told += f", {standing.failed} failed"
    if standing.absent and not standing.failure:
        told += f", {standing.absent} {'does' if standing.absent == 1 else 'do'} not exist"
    if standing.done:
        told += f", {standing.done} succeeded"
    return told


def told_lines(standing: Standing) -> Iterator[str]:
    """Always told: what a configured policy says of the first that waits, what a pod that leaves does, and evictions."""
    first = group_of(standing.waiting[0]) if standing.waiting else ""
    if (entry := standing.picture.pending.get(first)) is not None:
        yield from policy_lines(entry.numbers)
    row = standing.row
    if row is not None and row.phase == "Terminating":
        namespace, _, name = row.name.partition("/")
        yield from saving_lines(standing.lab.cluster.get("Pod", name, namespace))
    if standing.evictions:
        yield from evictions_told(standing.evictions, partial(workload_of, standing))


def said(standing: Standing) -> str:
    """The reason that the scheduler gave for the first that waits; empty where it gave none."""
    for row in standing.waiting[:1]:
        entry = standing.picture.pending.get(group_of(row)) if row.podgroup else None
        return _word(entry) if entry is not None else _without_decision(standing, row)
    return ""


def _word(entry: PendingReason) -> str:
    return f"{entry.reason}: {' '.join(entry.message.split())}"


def detail_lines(standing: Standing) -> Iterator[str]:
    """What else the scheduler said of what waits, and who is ahead of it; the last eviction in full."""
    picture = standing.picture
    groups = list(dict.fromkeys(group_of(row) for row in standing.waiting if row.podgroup))
    for place, full in enumerate(groups[:MOST_GROUPS]):
        entry = picture.pending.get(full)
        if entry is None:
            continue
        if place:
            yield f"The scheduler of {full.partition('/')[2]}: {_word(entry)}"
            yield from policy_lines(entry.numbers)
        if entry.fits:
            yield _fit_line(entry)
        for action, outcome in entry.tried:
            yield f"Tried {action}: {outcome}"
        yield from order_lines(picture, full)
    if standing.evictions:
        yield from eviction_lines(standing.evictions[-1])


def _fit_line(entry: PendingReason) -> str:
    fit = entry.fits[0]
    reasons = "; ".join(f"{number} {reason}" for reason, number in fit.reasons)
    return f"Nodes: of {fit.nodes}, none takes {fit.pod.partition('/')[2]}: {reasons}."


def _without_decision(standing: Standing, row: PodRow) -> str:
    namespace, _, name = row.name.partition("/")
    pod = standing.lab.cluster.get("Pod", name, namespace)
    if pod["spec"].get("schedulingGates"):
        return ""
    scheduled = condition_of(pod, "PodScheduled")
    theirs = pod["spec"].get("schedulerName", labels.DEFAULT_SCHEDULER_NAME)
    if scheduled and scheduled.get("message"):
        return f"{scheduled.get('reason', '')}: {scheduled['message']}"
    if not row.podgroup and theirs == labels.SCHEDULER_NAME:
        return "No PodGroup was made for it yet; it has not been considered."
    ours = f" kailab's own scheduler takes pods that say schedulerName: {labels.SCHEDULER_NAME}."
    return f"Its scheduler is {theirs}, which has not considered it.{'' if row.podgroup else ours}"


def facts(standing: Standing) -> dict[str, Any]:
    """Of a pod its row, of a PodGroup its pods, of a workload its PodGroups; each with what the scheduler said of it."""
    kind, picture = standing.subject.kind, standing.picture
    if kind == "Pod":
        return _pod_facts(standing)
    if kind == "PodGroup":
        return _group_facts(standing, f"{standing.subject.namespace}/{standing.subject.name}")
    if kind == "Queue":
        return {}
    groups = dict.fromkeys(group_of(row) for row in standing.pods if row.podgroup)
    known = [full for full in groups if tuple(full.split("/", 1)) in picture.podgroups]
    return {
        "podgroups": [{"name": full, **_group_facts(standing, full)} for full in known],
        "evictions": as_plain_json(standing.evictions),
    }


def _pod_facts(standing: Standing) -> dict[str, Any]:
    row, picture = standing.row, standing.picture
    gone = {"eviction": as_plain_json(standing.evictions[-1])} if standing.evictions else {}
    if row is None:
        return {"phase": "Gone", **gone}
    waits = row.phase == "Pending" and not row.node
    entry = picture.pending.get(group_of(row)) if waits and row.podgroup else None
    order = order_data(picture, group_of(row)) if entry else {"ahead": []}
    return {**as_plain_json(row), **gone, **({"pending": as_plain_json(entry), **order} if waits else {})}


def _group_facts(standing: Standing, full: str) -> dict[str, Any]:
    picture = standing.picture
    namespace, _, name = full.partition("/")
    group = picture.podgroups.get((namespace, name))
    if group is None:
        return {"evictions": as_plain_json(standing.evictions)}
    return {
        "queue": group["spec"].get("queue", ""),
        "min_member": group["spec"].get("minMember", 1),
        "pods": as_plain_json(picture.by_group.get(full, [])),
        "pending": as_plain_json(picture.pending.get(full)),
        **order_data(picture, full),
    }


def model_lines(standing: Standing) -> Iterator[str]:
    """One line at most, of the first that waits: where less is free of the models that it may use than it wants, and others are free."""
    for case in cases(standing):
        ground = case.ground
        if ground is None or not ground.next:
            continue
        row, wanted = device_row(ground)
        if row == GPUS and wanted:
            yield from _line(ground, wanted)
        return


def _line(ground: Ground, wanted: int) -> Iterator[str]:
    table = ground.table
    models = [gpu_model(labels) for labels in table.labels]
    usable = ground.usable(ground.next) & (table.allocatable[GPUS] > 0)
    own = {models[int(i)] for i in np.flatnonzero(usable)} - {""}
    if not own:
        return
    free = sum(table.unheld_gpus(int(i)) for i in np.flatnonzero(usable))
    others: dict[str, int] = {}
    for i in np.flatnonzero(table.available & ~usable):
        if models[i] and models[i] not in own and (unheld := table.unheld_gpus(int(i))) > 0:
            others[models[i]] = others.get(models[i], 0) + unheld
    if free >= wanted or not others:
        return
    total = int(table.allocatable[GPUS][usable].sum())
    held = f"all {gpus(total)}" if not free else f"{number((total - free) / 1000)} of {gpus(total)}"
    told = some(
        [f"{model} ({gpus(amount)})" for model, amount in sorted(others.items(), key=lambda one: (-one[1], one[0]))]
    )
    yield f"Of {some(sorted(own))}, which it may use, {held} are held; of other models there are free: {told}."


SHOWN = 20
"""Rows of a table where not everything is asked for."""
HEADERS = ("NODES", "RULE", "ANSWER", "WHICH")


@dataclass(frozen=True)
class NodesOfPods:
    """What all nodes say to ``pods``, which are alike; in full names. ``node``: where the first of them runs; empty while it waits.
    ``nodes``: how many there are. ``group``: what the scheduler says of the group that waits."""

    pods: tuple[str, ...]
    node: str
    nodes: int
    answers: tuple[NodeAnswer, ...]
    group: str = ""

    def head(self) -> list[str]:
        """Above the table."""
        whose = f"Pod {self.pods[0]}"
        like = f", and {len(self.pods) - 1} more like it" if len(self.pods) > 1 else ""
        taking = sum(len(one.nodes) for one in self.answers if one.rule is None and self.node not in one.nodes)
        if self.node:
            told = f"runs on {self.node}; of the other {count(self.nodes - 1, 'node')} {taking or 'none'} would take it now"
        else:
            told = f"waits; by itself {taking or 'none'} of {count(self.nodes, 'node')} would take it now"
        lines = [f"{whose}{like}: {told}."]
        if self.group:
            lines.append(f"Its group: {self.group}.")
        return lines

    def rows(self, everything: bool = False) -> Iterator[tuple[str, str, str, str]]:
        """As in ``HEADERS``."""
        shown = self.answers if everything else self.answers[:SHOWN]
        for one in shown:
            names = ", ".join(one.nodes) if everything else some(one.nodes)
            yield str(len(one.nodes)), str(one.rule) if one.rule else "-", one.text, names
        rest = self.answers[len(shown) :]
        if rest:
            yield str(sum(len(one.nodes) for one in rest)), "...", f"{len(rest)} more answers (--all)", ""

    def data(self) -> dict[str, Any]:
        """For programs. Amounts in engine units: CPU in millicores, memory in bytes, GPUs in thousandths."""
        return {
            "pods": list(self.pods),
            "node": self.node,
            "nodes": self.nodes,
            "group": self.group,
            "answers": [
                {"takes": one.rule is None, "rule": str(one.rule or ""), **msgspec.to_builtins(one)}
                for one in self.answers
            ],
        }


def about_nodes(lab: Lab, kind: str, name: str, namespace: str = "default") -> list[NodesOfPods]:
    """``kind``: a kind key. Nothing is tried or changed. Raises NotFound, and InputError for what has no pods that kailab's scheduler
    would place."""
    subject = Subject.of(lab, kind, name, namespace)
    if subject.kind == "Queue":
        raise InputError("a queue is not placed on nodes; --nodes expects a pod, a podgroup or a workload")
    standing = subject.standing(lab)
    if not standing.picture.scheduler.knows_queues:
        raise InputError(
            f"--nodes asks the filters of KAI's rules, and {standing.picture.scheduler.name} decides here by others"
        )
    found = list(_asked(standing))
    if not found:
        raise InputError(
            f"{subject.title} has no pods that the scheduler would place: see `kailab explain` without --nodes"
        )
    return found


def _asked(standing: Standing) -> Iterator[NodesOfPods]:
    tasks = {f"{task.namespace}/{task.name}": task for own in standing.tasks.values() for task in own}
    alike: dict[tuple[Any, ...], list[tuple[PodRow, Task]]] = {}
    for row in (*standing.waiting, *standing.running):
        task = tasks.get(row.name)
        record = standing.records.get(task.podgroup) if task is not None else None
        if task is not None and record is not None:
            alike.setdefault((bool(row.node), id(task.shape), record.root), []).append((row, task))
    trials = standing.trials
    for same in alike.values():
        row, task = same[0]
        session = Session(trials.working, trials.config, trials.now)
        try:
            answers = node_answers(session, trials.working.tasks[task.uid])
        finally:
            session.close()
        pending = () if row.node else trials.about(task.podgroup)().pending
        yield NodesOfPods(
            pods=tuple(one.name for one, _ in same),
            node=row.node,
            nodes=len(trials.working.table),
            answers=answers,
            group=pending[0].message if pending else "",
        )
