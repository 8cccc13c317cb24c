"""The pods that are evicted, moved, deleted or suspended for a change or for new work, by workload, with the GPUs that this frees."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from kailab.errors import InputError, NotFound
from kailab.evidence.entries import MOVING, PodRow
from kailab.evidence.wording import count, gpu_amount, gpus, some
from kailab.explain.subject import SubjectRef
from kailab.lab.answer import Step
from kailab.lab.change import Change, Delete, Patch
from kailab.lab.lab import Lab
from kailab.lab.picture import Picture
from kailab.model.multimap import multimap
from kailab.whatif.outcome import Eviction, Workload, WorkloadOwners

DELETED, SUSPENDED = "delete", "suspend"
"""Actions of a step; those of the scheduler have its names."""


@dataclass(frozen=True)
class Loss:
    """Pods of one workload that one action evicts or moves for another workload, or that a step deletes or suspends. ``gpus``: milli-GPU that
    they free. ``nodes``: node -> milli-GPU that becomes free there."""

    workload: Workload
    queue: str
    action: str
    beneficiary: Workload | None
    pods: tuple[str, ...]
    gpus: int
    nodes: dict[str, int]

    def lines(self) -> Iterable[str]:
        """One line with the GPUs that become free, and one with the names of all pods, unless the whole workload is deleted or suspended."""
        outcome = {MOVING: "moved to other nodes", DELETED: "deleted", SUSPENDED: "suspended"}.get(
            self.action, "evicted"
        )
        whom = f" for {self.beneficiary}" if self.beneficiary else ""
        how = f" ({self.action})" if self.action not in ("", DELETED, SUSPENDED) else ""
        freed = some([f"{node} ({gpu_amount(milli)})" for node, milli in self.nodes.items()])
        frees = f"; frees {gpus(self.gpus)} on {freed}" if self.gpus else ""
        yield f"{count(len(self.pods), 'pod')} of {self.workload} ({self.queue or 'no queue'}) {outcome}{whom}{how}{frees}"
        if self.action not in (DELETED, SUSPENDED):
            yield f"  {', '.join(pod.partition('/')[2] or pod for pod in self.pods)}"

    def data(self) -> dict[str, Any]:
        return {
            **self.workload.data(),
            "queue": self.queue,
            "action": self.action,
            "beneficiary": self.beneficiary.data() if self.beneficiary else None,
            "moved": self.action == MOVING,
            "pods": list(self.pods),
            "frees_gpus": self.gpus / 1000,
            "nodes": {node: milli / 1000 for node, milli in self.nodes.items()},
        }


def group_losses(evictions: Iterable[Eviction]) -> tuple[Loss, ...]:
    """Evictions by workload, action and beneficiary, those that free most first."""
    groups = multimap(((each.workload, each.queue, each.action, each.beneficiary), each) for each in evictions)
    losses = []
    for (workload, queue, action, beneficiary), own in groups.items():
        nodes: dict[str, int] = {}
        for eviction in own:
            nodes[eviction.node] = nodes.get(eviction.node, 0) + eviction.gpus
        losses.append(
            Loss(
                workload=workload,
                queue=queue,
                action=action,
                beneficiary=beneficiary,
                pods=tuple(eviction.pod for eviction in own),
                gpus=sum(eviction.gpus for eviction in own),
                nodes=dict(sorted(nodes.items())),
            )
        )
    return tuple(sorted(losses, key=lambda loss: (-loss.gpus, loss.workload, loss.action)))


def losses_of_step(lab: Lab, step: Step) -> tuple[Loss, ...]:
    """The losses of a step: pods of workloads that the step itself deletes or suspends, and pods that are evicted once it is carried out.
    Their amounts are those of the lab now."""
    picture, owners = lab.picture(), WorkloadOwners(lab)
    gone: dict[str, str] = {}
    for change in map(Change.read, step.changes):
        action = _removal(change)
        if action:
            for row in _pods_of(lab, picture, change):
                gone[row.name] = action
    for pod in step.outcome.evicted if step.outcome is not None else ():
        gone.setdefault(pod, "")
    return group_losses(
        Eviction(row.name, owners.of(row.name, row.owner), row.queue, row.node, gone[row.name], None, row.milli_gpus)
        for row in picture.rows
        if row.name in gone
    )


def _removal(change: Change) -> str:
    match change:
        case Delete():
            return DELETED
        case Patch(patch={"spec": {"suspend": True}}):
            return SUSPENDED
    return ""


def _pods_of(lab: Lab, picture: Picture, change: Change) -> Iterator[PodRow]:
    """The pods on nodes of the workload that a change removes; none if the object has no pods."""
    if not isinstance(change, Delete | Patch):
        return
    try:
        pods = SubjectRef.of(lab, change.kind, change.name, change.namespace).state(lab, picture).pods
    except (InputError, NotFound):
        return
    if change.kind != "Queue":
        yield from (row for row in pods if row.node)
