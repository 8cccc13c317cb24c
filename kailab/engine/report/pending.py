"""What is told about jobs that got no place: the code, a sentence, and per node what was missing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from msgspec import structs

from kailab.engine.decisions import Numbers, Pending, PendingCode, QueueState, TaskFit
from kailab.engine.ledger import FailedAttempt, queue_state
from kailab.engine.placing import fit
from kailab.engine.report.node_filter import FilterStage, NodeRule, filter_nodes
from kailab.engine.report.serving import serving_positions
from kailab.engine.session import Session
from kailab.engine.snapshot.amounts import moment_text, number
from kailab.engine.snapshot.records import Status
from kailab.engine.working.layout import CPU, GPUS, MEMORY, PODS
from kailab.engine.working.nodes import NodeTable
from kailab.engine.working.state import Job, ShapeInfo, WTask

Reasons = tuple[tuple[str, int], ...]


class KeptOff(NamedTuple):
    """What keeps a shape off the nodes, each node under one reason; of it in words: why no node may ever take it, else the taints."""

    reasons: Reasons
    never: str = ""
    taints: str = ""


Fits = dict[int, KeptOff]
"""By id of a ShapeInfo."""


def queue_states(session: Session) -> tuple[QueueState, ...]:
    """Where every queue stands, by name."""
    return tuple(queue_state(queue) for _, queue in sorted(session.tree.queues.items()))


def pending_jobs(session: Session) -> list[Pending]:
    """Every PodGroup with tasks that wait, in the order of the working set's jobs by creation."""
    jobs = {job.uid: job for job in session.waiting.jobs()}
    # Tasks of no subgroup are counted nowhere, so the index of those that wait does not have these jobs.
    for job in session.jobs.values():
        if job.lost and any(task.status == Status.PENDING for task in job.lost.values()):
            jobs[job.uid] = job
    # Their tasks are leaving in thought, and so no longer among those that wait.
    for uid in session.ledger.robbed:
        jobs[uid] = session.jobs[uid]
    fits: Fits = {}
    found = []
    for job in sorted(jobs.values(), key=lambda job: (job.record.created, job.uid)):
        pending = _pending(session, job, fits) if _is_told(session, job) else None
        if pending is not None:
            found.append(pending)
    # Jobs of which nothing waits any more but for a promised place: told apart, as nothing is wrong with them.
    promised = {pipeline.podgroup for pipeline in session.ledger.pipelines.values() if not pipeline.moved}
    known = {pending.podgroup for pending in found}
    for uid in sorted(promised - known):
        job = session.jobs[uid]
        waiting = [task for task in sorted(job, key=_order) if task.status == Status.PIPELINED]
        found.append(
            Pending(
                podgroup=uid,
                queue=job.record.queue,
                code=PendingCode.WAITING,
                message="a place is promised; it is taken once the pods that leave it are gone",
                tasks=tuple(task.uid for task in waiting),
                amounts=tuple(session.asking(task) for task in waiting),
            )
        )
    return _with_turns(session, found) if session.config.tell_turns else found


def _is_told(session: Session, job: Job) -> bool:
    return session.has_turn(job) and (session.until is None or job.uid in session.until)


def _with_turns(session: Session, found: list[Pending]) -> list[Pending]:
    order = {turn.podgroup: turn for turn in serving_positions(session, session.ledger.heirs)}
    return [structs.replace(pending, turn=order.get(pending.podgroup)) for pending in found]


def _pending(session: Session, job: Job, fits: Fits) -> Pending | None:
    tasks = sorted((task for task in job if _waits(task)), key=_order)
    lost = sorted((task for task in job.lost.values() if task.status == Status.PENDING), key=_order)
    if not tasks and not lost:
        return None
    failure = _failure(session, job, tasks, lost)
    reported: tuple[TaskFit, ...] = ()
    if failure.code == PendingCode.POD_SCHEDULING_ERRORS and tasks:
        # Of a gang the task at which placing stopped; the others found room.
        task = next((task for task in tasks if task.uid == failure.task), tasks[0])
        kept_off = _kept_off(session, task, fits)
        failure = failure._replace(message=_told_with(task, kept_off, failure.message))
        reported = (TaskFit(task=task.uid, nodes=len(session.table), reasons=kept_off.reasons),)
    numbers: Numbers = {**failure.numbers} if failure.numbers else {}
    if session.ranking is not None:
        numbers.update(session.ranking.numbers(job))
    return Pending(
        podgroup=job.uid,
        queue=job.record.queue,
        code=failure.code,
        message=failure.message,
        tasks=tuple(task.uid for task in (*tasks, *lost)),
        amounts=tuple(session.asking(task) for task in (*tasks, *lost)),
        fits=reported,
        queue_context=failure.queue,
        numbers=numbers,
        tried=tuple(session.ledger.tried.get(job.uid, ())),
    )


def _waits(task: WTask) -> bool:
    """Also if a place that it was given in this cycle was taken from it again."""
    robbed = task.status == Status.RELEASING and task.record.status == Status.PENDING
    return task.status == Status.PENDING or robbed


def _order(task: WTask) -> tuple[int | float | str, ...]:
    return task.key


def _failure(session: Session, job: Job, tasks: list[WTask], lost: list[WTask]) -> FailedAttempt:
    # What a user has to change comes first. What this cycle ran into is told only of work that could run at all.
    queue = session.tree.queues.get(job.record.queue)
    name = job.record.queue
    if queue is None:
        text = f"queue {name} does not exist" if name else "the workload names no queue"
        return FailedAttempt(PendingCode.QUEUE_DOES_NOT_EXIST, text, name)
    if queue.orphan:
        parent = queue.record.parent
        return FailedAttempt(
            PendingCode.QUEUE_DOES_NOT_EXIST,
            f"queue {name} hangs in the air: its parent {parent} leads to no root",
            name,
        )
    if not queue.leaf:
        children = ", ".join(sorted(child.name for child in queue.children))
        return FailedAttempt(
            PendingCode.UNSCHEDULABLE,
            f"queue {name} has child queues ({children}); only leaf queues run workloads",
            name,
        )
    if not tasks and lost:
        subgroup = lost[0].record.subgroup
        return FailedAttempt(
            PendingCode.POD_SCHEDULING_ERRORS, f"the pod names subgroup {subgroup}, which its PodGroup has not"
        )
    if not job.root.ready:
        return _not_ready(job)
    until = session.ledger.delayed.get(job.uid)
    failure = session.ledger.failures.get(job.uid)
    kept = next((kept for kept in session.ledger.kept if kept.podgroup == job.uid), None)
    if failure is not None and kept is not None:
        since = f" from {moment_text(kept.at)} on" if kept.at > session.now else ""
        numbers: Numbers = {**(failure.numbers or {}), "kept_for": job.uid, "kept_from": kept.at}
        return failure._replace(message=f"{failure.message}; a place is kept for it{since}", numbers=numbers)
    if until is not None:
        rest = until - session.now
        return FailedAttempt(
            PendingCode.PREEMPTION_DELAY,
            f"no free room, and for another {number(rest)} s the workload may not have others evicted "
            f"(preemption delay of {number(job.record.preemption_delay)} s)",
            numbers={"until": until},
        )
    if failure is not None:
        return failure
    robber = session.jobs.get(session.ledger.robbed.get(job.uid, ""))
    if robber is not None:
        other = f"{robber.record.namespace}/{robber.record.name}"
        return FailedAttempt(
            PendingCode.POD_SCHEDULING_ERRORS, f"there was room, and it went to {other} in the same cycle"
        )
    return FailedAttempt(PendingCode.POD_SCHEDULING_ERRORS, "no node has room")


def _not_ready(job: Job) -> FailedAttempt:
    for podset in job.podsets.values():
        have = podset.alive - podset.gated
        if have < podset.minimum:
            where = f" in subgroup {podset.name}" if len(job.podsets) > 1 else ""
            gated = f", {podset.gated} of them gated" if podset.gated else ""
            return FailedAttempt(
                PendingCode.NOT_READY,
                f"the gang needs {podset.minimum} pods{where}; {podset.alive} exist{gated}",
                numbers={"pods": have, "minimum": podset.minimum},
            )
    return FailedAttempt(PendingCode.NOT_READY, "too few subgroups have their minimum of pods")


def _kept_off(session: Session, task: WTask, fits: Fits) -> KeptOff:
    info = task.info
    # Claims are looked at for each task, as they depend on its queue; all else is the same for equal shapes.
    refused = (
        session.table.claims.refusal(task.uid, info.shape, task.job.record.queue)
        if task.job and info.shape.claims
        else None
    )
    # No room that is freed would help, wherever it is.
    if refused is not None:
        return KeptOff(((refused.why, len(session.table)),), never=refused.why)
    found = fits.get(id(info))
    if found is None:
        found = fits[id(info)] = _weighed(session, info, _reasons(session, info))
    return found


def _weighed(session: Session, info: ShapeInfo, reasons: Reasons) -> KeptOff:
    """Reasons, with what on the nodes no freed room would change: all of it where no node is open at all, else the taints."""
    if not session.config.predicates:
        return KeptOff(reasons)
    # Every node is ruled out by what amounts don't change, so no room that is freed would help.
    if info.shape.blocked or not fit.static_mask(session.table, info, session.working.table_version).any():
        counted = ", ".join(f"{number} {reason}" for reason, number in reasons) or "there are no nodes"
        return KeptOff(reasons, never=counted)
    return KeptOff(
        reasons,
        taints="".join(f"; {number} {reason}" for reason, number in reasons if reason.startswith(fit.UNTOLERATED)),
    )


def _told_with(task: WTask, kept_off: KeptOff, message: str) -> str:
    """A failure's sentence, with what no freed room would change."""
    if kept_off.never:
        return f"no node may take pod {task.record.namespace}/{task.record.name}: {kept_off.never}"
    return message + kept_off.taints


def _reasons(session: Session, info: ShapeInfo) -> tuple[tuple[str, int], ...]:
    """Each node under the first thing that keeps the shape off it."""
    table, shape = session.table, info.shape
    if shape.blocked:
        return tuple((reason, len(table)) for reason in shape.blocked)
    sieve = filter_nodes(table, info)
    counts: dict[str, int] = {}
    for stage in sieve.stages:
        for reason, count in _told(table, info, stage):
            counts[reason] = counts.get(reason, 0) + count
    # Rules that look at more than the shape are not counted one by one here; ``node_answers`` tells them.
    left = int(sieve.open.sum())
    if left:
        counts["kept off by other pods, by topology, or by the rest of its gang"] = left
    return tuple(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


_KIND = "node has another kind of GPU (MIG, whole, or for claims)"
_RULES = {
    NodeRule.SELECTOR: "node does not match the pod's node selector or affinity",
    NodeRule.GPU_MEMORY: _KIND,
    NodeRule.GPU_KIND: _KIND,
    NodeRule.CAPACITY: "node never had enough {resource}",
    NodeRule.FREE: "not enough {resource} free",
    NodeRule.SHARE: "no GPU with a large enough share free",
    NodeRule.NUMA: "node can't align the pod's resources to NUMA zones as its policy demands",
}
_RESOURCES = {CPU: "CPU", MEMORY: "memory", GPUS: "GPUs", PODS: "pod slots"}


def _told(table: NodeTable, info: ShapeInfo, stage: FilterStage) -> Iterable[tuple[str, int]]:
    """What is said of the nodes of one stage, and of how many."""
    sentence = _RULES.get(stage.rule)
    if sentence is not None:
        resource = _RESOURCES.get(stage.row) or table.layout.names[stage.row]
        yield sentence.format(resource=resource), int(stage.refused.sum())
        return
    # What is said differs from node to node: which taint, why it takes nothing, what of a claim is missing.
    for i in np.flatnonzero(stage.refused):
        if stage.rule == NodeRule.UNAVAILABLE:
            yield table.nodes[i].unavailable, 1
        elif stage.rule == NodeRule.TAINT:
            taint = fit.untolerated(info.shape, table.nodes[i].taints)
            assert taint is not None
            yield fit.untolerated_reason(taint), 1
        else:
            yield table.claims.lacking(info.shape, int(i)) or "", 1
