"""Quota, use and borrowing of queues, in GPUs or another resource.

Amounts are milli-GPU (millicores, bytes); -1 as quota or limit means unlimited. A GPU does not show whose quota it uses, so who borrows from whom is
calculated: level by level, borrowers in order of name use the unused quota of the sibling that has most. What siblings can't cover comes from the
parent's siblings, and at last from capacity that is no queue's quota.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from kailab.cluster.protocol import Object
from kailab.engine.decisions import QueueShare, QueueState, beyond_quota
from kailab.evidence.entries import PodRow
from kailab.model.objects import name_of, parent_of, share_of, spec_of
from kailab.model.quantities import queue_gpu

UNLIMITED = -1
NOBODY = ""  # the lender of capacity outside all quotas


@dataclass(frozen=True)
class QueueAmounts:
    """One queue in one resource. ``fair_share``: None if no scheduler calculated one."""

    name: str
    parent: str = ""
    priority: int = 100
    quota: int = 0
    limit: int = 0
    allocated: int = 0
    requested: int = 0
    non_preemptible: int = 0
    fair_share: float | None = None

    @property
    def borrowed(self) -> int:
        """The amount held beyond the quota."""
        return beyond_quota(self.allocated, self.quota)

    @property
    def unused(self) -> int:
        """The part of the quota that the queue does not use itself."""
        return 0 if self.quota == UNLIMITED else max(0, self.quota - self.allocated)

    @property
    def waiting(self) -> int:
        """The amount requested and not held."""
        return max(0, self.requested - self.allocated)

    @property
    def entitled_to(self) -> int:
        """The requested amount within quota and limit."""
        return min((self.requested, *(bound for bound in (self.quota, self.limit) if bound != UNLIMITED)))

    @property
    def due(self) -> float:
        """The amount that the queue should hold: its fair share as far as requested; without a fair share, ``entitled_to``."""
        return self.entitled_to if self.fair_share is None else min(self.fair_share, self.requested)

    @property
    def starving(self) -> bool:
        return self.due > self.allocated


@dataclass
class QueueTreeShares:
    """The amounts of all queues at one moment."""

    queues: dict[str, QueueAmounts]
    _ledgers: dict[str, dict[tuple[str, str], int]] = field(default_factory=dict)

    @classmethod
    def counted(
        cls, states: Iterable[QueueState], fair: bool = True, resource: Literal["gpu", "cpu", "memory"] = "gpu"
    ) -> QueueTreeShares:
        """The amounts as the engine counts them. ``fair``: the scheduler under test calculates fair shares."""
        standings = {}
        for state in states:
            share: QueueShare = getattr(state, resource)
            standings[state.name] = QueueAmounts(
                name=state.name,
                parent=state.parent,
                priority=state.priority,
                quota=share.quota,
                limit=share.limit,
                allocated=share.allocated,
                requested=share.requested,
                non_preemptible=share.non_preemptible,
                fair_share=share.fair_share if fair else None,
            )
        return cls(standings)

    @classmethod
    def observed(cls, queues: Iterable[Object], pods: Iterable[PodRow]) -> QueueTreeShares:
        """The amounts from Queue objects and pod rows, for schedulers without queues: pods count for the queue that they name."""
        by_name = {name_of(queue): queue for queue in queues}
        held, requested = dict.fromkeys(by_name, 0), dict.fromkeys(by_name, 0)
        parents = {name: parent_of(queue) for name, queue in by_name.items()}
        for pod in pods:
            if pod.phase not in ("Pending", "Running"):
                continue
            # A queue's amount includes the queues below it.
            for name in queue_ancestry(pod.queue, parents):
                requested[name] += pod.milli_gpus
                held[name] += pod.milli_gpus if pod.holds else 0
        standings = {}
        for name, queue in by_name.items():
            gpu = share_of(queue)
            standings[name] = QueueAmounts(
                name=name,
                parent=parents[name],
                priority=spec_of(queue).get("priority", 100),
                quota=queue_gpu(gpu.get("quota", 0)),
                limit=queue_gpu(gpu.get("limit", 0)),
                allocated=held[name],
                requested=requested[name],
            )
        return cls(standings)

    def __contains__(self, name: str) -> bool:
        return name in self.queues

    def __getitem__(self, name: str) -> QueueAmounts:
        return self.queues[name]

    def children(self, name: str) -> list[QueueAmounts]:
        """Direct children in order of name; the children of "" are the roots."""
        return sorted((queue for queue in self.queues.values() if self._level(queue) == name), key=lambda q: q.name)

    def lenders(self, name: str) -> list[tuple[str, int]]:
        """From whom a queue borrows: (queue, milli-GPU), with ``NOBODY`` for capacity outside all quotas."""
        queue = self.queues.get(name)
        if queue is None:
            return []  # the queue was deleted
        return [
            (lender, amount)
            for (borrower, lender), amount in self._ledger(self._level(queue)).items()
            if borrower == name
        ]

    def unused_beside(self, name: str) -> list[tuple[str, int]]:
        """Queues whose unused quota a borrowing queue can use: its siblings, then the siblings of its ancestors as far as needed; most unused first, as (queue,
        unused milli-GPU). The scheduler decides who can reclaim what."""
        result: list[tuple[str, int]] = []
        need = self.queues[name].borrowed if name in self.queues else 0
        for level in queue_ancestry(name, {queue.name: queue.parent for queue in self.queues.values()}):
            if need <= 0:
                break
            siblings = [queue for queue in self.children(self._level(self.queues[level])) if queue.name != level]
            unused = [(queue.name, queue.unused) for queue in siblings if queue.unused]
            result += sorted(unused, key=lambda item: (-item[1], item[0]))
            need -= sum(amount for _, amount in unused)
        return result

    def borrowers(self, name: str) -> list[tuple[str, int]]:
        """The siblings that borrow a queue's unused quota: (queue, milli-GPU)."""
        if name not in self.queues:
            return []  # the queue was deleted
        level = self._level(self.queues[name])
        return [(borrower, amount) for (borrower, lender), amount in self._ledger(level).items() if lender == name]

    def lent(self, name: str) -> int:
        """Milli-GPU of a queue's quota that siblings borrow now."""
        return sum(amount for _, amount in self.borrowers(name))

    def _level(self, queue: QueueAmounts) -> str:
        return queue.parent if queue.parent in self.queues else ""

    def _ledger(self, level: str) -> dict[tuple[str, str], int]:
        """(borrower, lender) -> milli-GPU among the children of one queue. Lenders of the parent and ``NOBODY`` cover what siblings can't."""
        if level in self._ledgers:
            return self._ledgers[level]
        self._ledgers[level] = {}  # ends a cycle of parents
        siblings = self.children(level)
        unused = {q.name: q.unused for q in sorted(siblings, key=lambda q: (-q.unused, q.name))}
        beyond = dict(self.lenders(level)) if level else {}
        # What the parent borrows from ``NOBODY`` is booked below, as the need that remains.
        beyond.pop(NOBODY, None)
        ledger: dict[tuple[str, str], int] = {}
        for borrower in siblings:
            need = borrower.borrowed
            for pool in (unused, beyond):
                for lender, left in pool.items():
                    if (amount := min(need, left)) > 0:
                        ledger[borrower.name, lender] = amount
                        pool[lender] -= amount
                        need -= amount
            if need:
                ledger[borrower.name, NOBODY] = need
        self._ledgers[level] = ledger
        return ledger


def queue_ancestry(name: str, parents: Mapping[str, str]) -> list[str]:
    """A queue and its ancestors, from itself up. Ends at an unknown parent or a cycle."""
    line: list[str] = []
    while name in parents and name not in line:
        line.append(name)
        name = parents[name]
    return line
