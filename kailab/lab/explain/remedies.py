"""What would let a waiting pod group run: a sentence per reason code, with this lab's own numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kailab.engine.decisions import Code
from kailab.engine.snapshot.amounts import quantity_text
from kailab.engine.working.queues import NAMES, QueueResource
from kailab.evidence.entries import PodRow, Reason
from kailab.lab.explain.explanation import count, gpus, some
from kailab.lab.picture import Picture


class Case:
    """A PodGroup that waits, and its surroundings."""

    def __init__(self, picture: Picture, entry: Reason, pods: list[PodRow]) -> None:
        self.picture = picture
        self.entry = entry
        self.pods = pods
        self.waiting = [row for row in pods if not row.node and row.phase == "Pending"]
        self.queue = entry.queue

    @property
    def wanted(self) -> int:
        """Milli-GPU that its waiting pods ask for."""
        return sum(row.milli_gpus for row in self.waiting)


def remedy(case: Case) -> str:
    """Empty where nothing better than the reason itself can be said."""
    tell = _REMEDIES.get(case.entry.reason)
    return tell(case) if tell else ""


class Tight(NamedTuple):
    """The queue rule that does not let the group start as things stand, by the engine: amounts of ``resource``."""

    queue: str
    resource: QueueResource
    bound: int
    held: int
    wanted: int

    def said(self, amount: int) -> str:
        return gpus(amount) if self.resource == "GPU" else quantity_text(NAMES.index(self.resource), amount)


def _tight(case: Case) -> Tight | None:
    turn = case.picture.turns.get(case.entry.podgroup)
    if turn is None or turn.refused != case.entry.reason:
        return None
    numbers = turn.numbers
    resource = numbers["resource"]
    wanted = case.wanted if resource == "GPU" else _asked(case, resource)
    return Tight(turn.queue_context, resource, int(numbers["bound"]), numbers["allocated"], wanted)


def _asked(case: Case, resource: QueueResource) -> int:
    """By all pods that wait, as the decision tells it; by those that would be placed next where there is none."""
    told = [amounts.cpu if resource == "CPU" else amounts.memory for amounts in case.entry.amounts]
    return sum(told) or case.picture.turns[case.entry.podgroup].numbers["requested"]


def _over_quota(case: Case) -> str:
    tight = _tight(case)
    ways = (
        "made preemptible (label priorityClassName: train, or kai.scheduler/preemptibility: preemptible) it may borrow"
    )
    if tight is None:
        return f"Non-preemptible work runs inside the quota only; {ways}."
    need = tight.held + tight.wanted
    return (
        f"Non-preemptible work runs inside the quota only: {tight.queue} has {tight.said(tight.bound)}, of which "
        f"{tight.said(tight.held)} are taken by such work. It would run with a quota of {tight.said(need)}, or when "
        f"{tight.said(need - tight.bound)} of that work end; {ways}."
    )


def _over_limit(case: Case) -> str:
    tight = _tight(case)
    if tight is None:
        return "It would run with a higher limit, or when other work of the queue ends."
    need = tight.held + tight.wanted
    if tight.bound == 0:
        return (
            f"{tight.queue} has a limit of 0, so nothing in it runs. It would run with spec.resources."
            f"{tight.resource.lower()}.limit of at least {tight.said(need)}, or -1 for none."
        )
    return (
        f"A limit holds however idle the cluster is: {tight.queue} may have {tight.said(tight.bound)} and holds "
        f"{tight.said(tight.held)}. It would run with a limit of {tight.said(need)}, or when "
        f"{tight.said(need - tight.bound)} of its work end."
    )


def _no_queue(case: Case) -> str:
    known = _leaves(case)
    if not case.queue or case.queue in case.picture.shares:
        return f"Label it kai.scheduler/queue with the name of a leaf queue.{known}"
    return f"Create queue {case.queue}, or label it with one that exists.{known}"


def _leaves(case: Case) -> str:
    shares = case.picture.shares
    leaves = sorted(name for name in shares.queues if not shares.children(name))
    return f" Leaf queues there are: {some(leaves, 6)}." if leaves else " There are no queues yet."


def _delay(case: Case) -> str:
    numbers = case.entry.numbers
    if "until" not in numbers:
        when = "once its preemption delay has run out"
    else:
        when = f"in {max(0.0, numbers['until'] - case.picture.now):.4g} s"
    return f"It may evict others {when}; until then it starts only on free GPUs."


def _not_ready(case: Case) -> str:
    return (
        f"It has {count(len(case.pods), 'pod')}; a gang is considered once as many pods as its minMember exist. "
        "Create the missing pods, or lower minMember (kai.scheduler/batch-min-member)."
    )


def _waiting_for_room(case: Case) -> str:
    nodes = sorted(
        {
            promise.node
            for promise in (case.picture.log.last.pipelines if case.picture.log.last else ())
            if case.picture.log.names.of(promise.podgroup).name == case.entry.podgroup
        }
    )
    place = f" on {some(nodes)}" if nodes else ""
    return f"A place{place} is promised to it: it starts when the pods leaving there are gone."


def _no_room(case: Case) -> str:
    if case.queue in case.picture.shares and case.picture.shares.children(case.queue):
        return f"Label it kai.scheduler/queue with a leaf queue.{_leaves(case)}"
    free = [room.free for room in case.picture.present.room.values()]
    total, largest = sum(free), max(free, default=0)
    biggest = max((row.milli_gpus for row in case.waiting), default=0)
    whole = max((case.picture.accounts.offered(node) for node in case.picture.nodes.values()), default=0)
    if biggest > whole:
        return f"No node of this fleet has {gpus(biggest)} (the largest has {gpus(whole)})."
    if case.wanted > total:
        return (
            f"It asks for {gpus(case.wanted)}, {gpus(total)} are free: it would run when "
            f"{gpus(case.wanted - total)} more become free where it may run."
        )
    if biggest > largest:
        return (
            f"{gpus(total)} are free, but at most {gpus(largest)} on one node; it would run when one node has "
            f"{gpus(biggest)} free."
        )
    return ""


_REMEDIES: dict[str, Callable[[Case], str]] = {
    Code.NON_PREEMPTIBLE_OVER_QUOTA: _over_quota,
    Code.OVER_LIMIT: _over_limit,
    Code.QUEUE_DOES_NOT_EXIST: _no_queue,
    Code.PREEMPTION_DELAY: _delay,
    Code.NOT_READY: _not_ready,
    Code.WAITING: _waiting_for_room,
    Code.POD_SCHEDULING_ERRORS: _no_room,
    Code.UNSCHEDULABLE: _no_room,
}
