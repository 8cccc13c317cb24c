"""Where queues stand in GPUs, or in another resource: what each owns, holds and asks for, and who lives on whose unused quota.

Amounts are milli-GPU (millicores, bytes); -1 as quota or limit is unlimited. GPUs carry no owner's mark, so who borrows from whom
is bookkeeping: level by level, borrowers in order of name take from the lender with the most unused quota
first; what siblings can't cover comes through the parent, from the parent's siblings, and last from capacity
that is nobody's quota."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from kailab.cluster.protocol import Object
from kailab.engine.decisions import QueueShare, QueueState, beyond_quota
from kailab.evidence.entries import PodRow
from kailab.model.quantities import queue_gpu

UNLIMITED = -1
NOBODY = ""  # the lender of capacity that is no queue's quota


@dataclass(frozen=True)
class QueueAmounts:
    """One queue in one resource. ``fair_share`` is None where no scheduler has worked one out."""

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
        """Held beyond the quota."""
        return beyond_quota(self.allocated, self.quota)

    @property
    def unused(self) -> int:
        """Quota that it does not use itself."""
        return 0 if self.quota == UNLIMITED else max(0, self.quota - self.allocated)

    @property
    def waiting(self) -> int:
        """Asked for and not held."""
        return max(0, self.requested - self.allocated)

    @property
    def entitled_to(self) -> int:
        """What it asks for within its quota and limit."""
        return min((self.requested, *(bound for bound in (self.quota, self.limit) if bound != UNLIMITED)))

    @property
    def due(self) -> float:
        """What it should hold now: its fair share as far as it asks for it; where none is worked out, what it is entitled to."""
        return self.entitled_to if self.fair_share is None else min(self.fair_share, self.requested)

    @property
    def starving(self) -> bool:
        return self.due > self.allocated


@dataclass
class QueueTreeShares:
    """The queue tree at one moment."""

    queues: dict[str, QueueAmounts]
    _ledgers: dict[str, dict[tuple[str, str], int]] = field(default_factory=dict)

    @classmethod
    def counted(
        cls, states: Iterable[QueueState], fair: bool = True, resource: Literal["gpu", "cpu", "memory"] = "gpu"
    ) -> QueueTreeShares:
        """As the engine counts them. ``fair``: whether the scheduler under test gives them the share that it works out."""
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
        """From Queue objects and pod rows: under a scheduler that knows neither queues nor
        PodGroups, pods count for the queue that they name."""
        specs = {queue["metadata"]["name"]: queue["spec"] for queue in queues}
        held, asked = dict.fromkeys(specs, 0), dict.fromkeys(specs, 0)
        parents = {name: spec.get("parentQueue", "") for name, spec in specs.items()}
        for pod in pods:
            if pod.phase not in ("Pending", "Running"):
                continue
            # A queue holds what the queues below it hold.
            for name in queue_ancestry(pod.queue, parents):
                asked[name] += pod.milli_gpus
                held[name] += pod.milli_gpus if pod.holds else 0
        standings = {}
        for name, spec in specs.items():
            gpu = (spec.get("resources") or {}).get("gpu") or {}
            standings[name] = QueueAmounts(
                name=name,
                parent=spec.get("parentQueue", ""),
                priority=spec.get("priority", 100),
                quota=queue_gpu(gpu.get("quota", 0)),
                limit=queue_gpu(gpu.get("limit", 0)),
                allocated=held[name],
                requested=asked[name],
            )
        return cls(standings)

    def __contains__(self, name: str) -> bool:
        return name in self.queues

    def __getitem__(self, name: str) -> QueueAmounts:
        return self.queues[name]

    def children(self, name: str) -> list[QueueAmounts]:
        """Direct children in order of name; those of "" are the roots."""
        return sorted((queue for queue in self.queues.values() if self._level(queue) == name), key=lambda q: q.name)

    def lenders(self, name: str) -> list[tuple[str, int]]:
        """Whose unused quota a queue lives on: (queue, milli-GPU), ``NOBODY`` for capacity that is no queue's quota."""
        queue = self.queues.get(name)
        if queue is None:
            return []  # it is gone
        return [
            (lender, amount)
            for (borrower, lender), amount in self._ledger(self._level(queue)).items()
            if borrower == name
        ]

    def unused_beside(self, name: str) -> list[tuple[str, int]]:
        """Queues that leave quota unused where one holds more than its own: its siblings, and where theirs do not cover it those beside its
        ancestors; the most unused first. (queue, unused quota in milli-GPU.) Who may take what back is the scheduler's to say."""
        found: list[tuple[str, int]] = []
        need = self.queues[name].borrowed if name in self.queues else 0
        for level in queue_ancestry(name, {queue.name: queue.parent for queue in self.queues.values()}):
            if need <= 0:
                break
            beside = [queue for queue in self.children(self._level(self.queues[level])) if queue.name != level]
            unused = [(queue.name, queue.unused) for queue in beside if queue.unused]
            found += sorted(unused, key=lambda one: (-one[1], one[0]))
            need -= sum(amount for _, amount in unused)
        return found

    def borrowers(self, name: str) -> list[tuple[str, int]]:
        """Which siblings live on a queue's unused quota: (queue, milli-GPU)."""
        if name not in self.queues:
            return []  # it is gone
        level = self._level(self.queues[name])
        return [(borrower, amount) for (borrower, lender), amount in self._ledger(level).items() if lender == name]

    def lent(self, name: str) -> int:
        """Milli-GPU of its quota that siblings use now."""
        return sum(amount for _, amount in self.borrowers(name))

    def _level(self, queue: QueueAmounts) -> str:
        return queue.parent if queue.parent in self.queues else ""

    def _ledger(self, level: str) -> dict[tuple[str, str], int]:
        """(borrower, lender) -> milli-GPU among the children of one queue; ``NOBODY`` and lenders of the
        parent's level cover what siblings can't."""
        if level in self._ledgers:
            return self._ledgers[level]
        self._ledgers[level] = {}  # parents in a ring come back here
        siblings = self.children(level)
        unused = {q.name: q.unused for q in sorted(siblings, key=lambda q: (-q.unused, q.name))}
        beyond = dict(self.lenders(level)) if level else {}
        # What the parent has of nobody's is nobody's here, too: it is left over below.
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
    """A queue and its ancestors, from itself up; ends where a parent is unknown or comes round again."""
    line: list[str] = []
    while name in parents and name not in line:
        line.append(name)
        name = parents[name]
    return line
