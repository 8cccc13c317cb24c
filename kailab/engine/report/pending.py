"""The reasons of jobs that got no place: the code, a sentence, and what was missing per node."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from msgspec import structs

from kailab.engine.decisions import Numbers, Pending, PendingCode, QueueState, TaskFit
from kailab.engine.ledger import FailedAttempt, queue_state
from kailab.engine.placing import fit
from kailab.engine.queueing.capacity import refuses
from kailab.engine.queueing.order import tasks_to_allocate
from kailab.engine.report.node_filter import FilterStage, NodeRule, filter_nodes
from kailab.engine.report.serving import serving_positions
from kailab.engine.session import Session
from kailab.engine.snapshot.amounts import format_thousandths, moment_text
from kailab.engine.snapshot.records import Status
from kailab.engine.working.layout import CPU, GPUS, MEMORY, PODS
from kailab.engine.working.nodes import NodeTable
from kailab.engine.working.state import Job, ShapeInfo, WTask

Reasons = tuple[tuple[str, int], ...]


class NodeRefusals(NamedTuple):
    """What keeps a shape off the nodes, one reason per node. ``never``: why no node may ever take it; ``taints``: if
    some may, the taints of the others, as text.
    """

    reasons: Reasons
    never: str = ""
    taints: str = ""


Fits = dict[int, NodeRefusals]
"""By id of a ShapeInfo."""
_NO_NUMBERS: Numbers = {}
_QUEUE_RULES = (PendingCode.OVER_LIMIT, PendingCode.NON_PREEMPTIBLE_OVER_QUOTA)


def queue_states(session: Session) -> tuple[QueueState, ...]:
    """The balance of every queue, by name."""
    return tuple(queue_state(queue) for _, queue in sorted(session.tree.queues.items()))


def pending_jobs(session: Session) -> list[Pending]:
    """Every PodGroup with waiting tasks, by creation time."""
    jobs = {job.uid: job for job in session.waiting.jobs()}
    # Tasks that name an unknown subgroup are counted nowhere, so the index of waiting jobs does not contain these jobs.
    for job in session.jobs.values():
        if job.unassigned_tasks and any(task.status == Status.PENDING for task in job.unassigned_tasks.values()):
            jobs[job.uid] = job
    # The tasks of these jobs are provisionally leaving, and so not among the waiting ones.
    for uid in session.ledger.robbed:
        jobs[uid] = session.jobs[uid]
    fits: Fits = {}
    result = []
    for job in sorted(jobs.values(), key=lambda job: (job.record.created, job.uid)):
        session.check_cancelled()
        pending = _pending(session, job, fits) if _is_reported(session, job) else None
        if pending is not None:
            result.append(pending)
    # Jobs that wait only for promised places come separately, because nothing is wrong with them.
    promised = {pipeline.podgroup for pipeline in session.ledger.pipelines.values() if not pipeline.moved}
    known = {pending.podgroup for pending in result}
    for uid in sorted(promised - known):
        job = session.jobs[uid]
        waiting = [task for task in sorted(job, key=_order) if task.status == Status.PIPELINED]
        result.append(
            Pending(
                podgroup=uid,
                queue=job.record.queue,
                code=PendingCode.PIPELINED,
                message="a place is promised; it is taken once the pods that leave it are gone",
                tasks=tuple(task.uid for task in waiting),
                amounts=tuple(session.requested_amounts(task) for task in waiting),
            )
        )
    return _with_turns(session, result) if session.config.tell_turns else result


def _is_reported(session: Session, job: Job) -> bool:
    return session.has_turn(job) and (session.until is None or job.uid in session.until)


def _with_turns(session: Session, pending_jobs: list[Pending]) -> list[Pending]:
    order = {turn.podgroup: turn for turn in serving_positions(session, session.ledger.heirs)}
    return [structs.replace(pending, turn=order.get(pending.podgroup)) for pending in pending_jobs]


def _pending(session: Session, job: Job, fits: Fits) -> Pending | None:
    tasks = sorted((task for task in job if _waits(task)), key=_order)
    unassigned = sorted((task for task in job.unassigned_tasks.values() if task.status == Status.PENDING), key=_order)
    if not tasks and not unassigned:
        return None
    failure = _failure(session, job, tasks, unassigned)
    reported: tuple[TaskFit, ...] = ()
    if failure.code == PendingCode.POD_SCHEDULING_ERRORS and tasks:
        # In a gang, the task at which placing stopped; the others found room.
        task = next((task for task in tasks if task.uid == failure.task), tasks[0])
        kept_off = _kept_off(session, task, fits)
        failure = failure._replace(message=_with_node_reasons(task, kept_off, failure.message))
        reported = (TaskFit(task=task.uid, nodes=len(session.table), reasons=kept_off.reasons),)
    numbers = failure.numbers or _NO_NUMBERS
    if session.ranking is not None:
        numbers = {**numbers, **session.ranking.numbers(job)}
    return Pending(
        podgroup=job.uid,
        queue=job.record.queue,
        code=failure.code,
        message=failure.message,
        tasks=tuple(task.uid for task in (*tasks, *unassigned)),
        amounts=tuple(session.requested_amounts(task) for task in (*tasks, *unassigned)),
        fits=reported,
        queue_context=failure.queue,
        numbers=numbers,
        tried=tuple(session.ledger.tried.get(job.uid, ())),
    )


def _waits(task: WTask) -> bool:
    """True if the task waits, also after it lost a place that it was given in this cycle."""
    robbed = task.status == Status.RELEASING and task.record.status == Status.PENDING
    return task.status == Status.PENDING or robbed


def _order(task: WTask) -> tuple[int | float | str, ...]:
    return task.key


def _failure(session: Session, job: Job, tasks: list[WTask], unassigned: list[WTask]) -> FailedAttempt:
    # What a user has to change comes first. What happened in this cycle matters only to jobs that could run at all.
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
    if not tasks and unassigned:
        subgroup = unassigned[0].record.subgroup
        return FailedAttempt(
            PendingCode.POD_SCHEDULING_ERRORS, f"the pod names subgroup {subgroup}, which its PodGroup has not"
        )
    if not job.root.ready:
        return _not_ready(job)
    until = session.ledger.delayed.get(job.uid)
    failure = session.ledger.failures.get(job.uid)
    reserved = next((reserved for reserved in session.ledger.kept if reserved.podgroup == job.uid), None)
    if failure is not None and reserved is not None:
        since = f" from {moment_text(reserved.at)} on" if reserved.at > session.now else ""
        numbers: Numbers = {**(failure.numbers or {}), "kept_for": job.uid, "kept_from": reserved.at}
        return failure._replace(message=f"{failure.message}; a place is kept for it{since}", numbers=numbers)
    # A rule of its queue refuses it whatever room there is, so the end of the delay would not help.
    if until is not None and (failure is None or failure.code not in _QUEUE_RULES):
        rest = until - session.now
        return FailedAttempt(
            PendingCode.PREEMPTION_DELAY,
            f"no free room, and for another {format_thousandths(rest)} s the workload may not have others evicted "
            f"(preemption delay of {format_thousandths(job.record.preemption_delay)} s)",
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
    # Allocate did not try it, for example because of its queue depth, and the rules of its queue would have refused it.
    refusal = refuses(
        queue, session.wants(tasks_to_allocate(job), session.table.max_gpu_memory), job.record.preemptible
    )
    if refusal is not None:
        return FailedAttempt(refusal.code, refusal.message, refusal.queue, refusal.numbers)
    return FailedAttempt(PendingCode.POD_SCHEDULING_ERRORS, "no node has room")


def _not_ready(job: Job) -> FailedAttempt:
    for podset in job.podsets:
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


def _kept_off(session: Session, task: WTask, fits: Fits) -> NodeRefusals:
    info = task.info
    # Claims are checked for each task, because they depend on its queue; all else is equal for equal shapes.
    refused = (
        session.table.claims.refusal(task.uid, info.shape, task.job.record.queue)
        if task.job and info.shape.claims
        else None
    )
    # Freeing room would help nowhere.
    if refused is not None:
        return NodeRefusals(((refused.why, len(session.table)),), never=refused.why)
    kept_off = fits.get(id(info))
    if kept_off is None:
        kept_off = fits[id(info)] = _with_permanent_reasons(session, info, _reasons(session, info))
    return kept_off


def _with_permanent_reasons(session: Session, info: ShapeInfo, reasons: Reasons) -> NodeRefusals:
    """Add the reasons that freeing room would not change: all reasons if no node is open at all, else the taints."""
    if not session.config.predicates:
        return NodeRefusals(reasons)
    # Rules other than amounts exclude every node, so freeing room would not help.
    if info.shape.blocked or not fit.static_mask(session.table, info, session.working.table_version).any():
        counted = ", ".join(f"{number} {reason}" for reason, number in reasons) or "there are no nodes"
        return NodeRefusals(reasons, never=counted)
    return NodeRefusals(
        reasons,
        taints="".join(f"; {number} {reason}" for reason, number in reasons if reason.startswith(fit.UNTOLERATED)),
    )


def _with_node_reasons(task: WTask, kept_off: NodeRefusals, message: str) -> str:
    """The message of a failure with the reasons that freeing room would not change."""
    if kept_off.never:
        return f"no node may take pod {task.record.namespace}/{task.record.name}: {kept_off.never}"
    return message + kept_off.taints


def _reasons(session: Session, info: ShapeInfo) -> tuple[tuple[str, int], ...]:
    """The first rule that refuses the shape, counted over all nodes."""
    table, shape = session.table, info.shape
    if shape.blocked:
        return tuple((reason, len(table)) for reason in shape.blocked)
    node_filter = filter_nodes(table, info)
    counts: dict[str, int] = {}
    for stage in node_filter.stages:
        for reason, count in _stage_reasons(table, info, stage):
            counts[reason] = counts.get(reason, 0) + count
    # Rules about more than the shape are not counted here; ``node_answers`` reports them.
    left = int(node_filter.open.sum())
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


def _stage_reasons(table: NodeTable, info: ShapeInfo, stage: FilterStage) -> Iterable[tuple[str, int]]:
    """The reasons of one stage, each with a number of nodes."""
    sentence = _RULES.get(stage.rule)
    if sentence is not None:
        resource = _RESOURCES.get(stage.row) or table.layout.names[stage.row]
        yield sentence.format(resource=resource), int(stage.refused.sum())
        return
    # The reason differs from node to node: the taint, the node's state, what the claim lacks.
    for i in np.flatnonzero(stage.refused):
        if stage.rule == NodeRule.UNAVAILABLE:
            yield table.nodes[i].unavailable, 1
        elif stage.rule == NodeRule.TAINT:
            taint = fit.untolerated(info.shape, table.nodes[i].taints)
            assert taint is not None
            yield fit.untolerated_reason(taint), 1
        else:
            yield table.claims.lacking(info.shape, int(i)) or "", 1
