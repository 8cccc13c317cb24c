"""The queue tree of a cycle: what each queue holds, requests and is due, in all three resources.

Amounts are lists ``[CPU millicores, memory bytes, milli-GPU]``. An unlimited quota or limit is ``inf``. What a leaf
holds counts for all its ancestors. Source: KAI's proportion plugin (resource_share).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from typing import Literal

from kailab.engine.snapshot.records import UNLIMITED, Queue

CPU, MEMORY, GPU = 0, 1, 2
RESOURCES = (CPU, MEMORY, GPU)
QueueResource = Literal["CPU", "Memory", "GPU"]
NAMES: tuple[QueueResource, ...] = ("CPU", "Memory", "GPU")

Amounts = tuple[int, int, int]


def _bound(value: float) -> float:
    return inf if value == UNLIMITED else value


class WQueue:
    """One queue. ``path`` is the queue and its ancestors, up to the root."""

    __slots__ = (
        "allocatable",
        "allocated",
        "children",
        "fair",
        "limit",
        "name",
        "non_preemptible",
        "orphan",
        "parent",
        "path",
        "quota",
        "record",
        "request",
        "weight",
    )

    def __init__(self, record: Queue) -> None:
        self.record = record
        self.name = record.name
        self.parent: WQueue | None = None
        self.children: list[WQueue] = []
        self.path: list[WQueue] = [self]
        self.orphan = False
        shares = (record.cpu, record.memory, record.gpu)
        self.quota = [_bound(share.quota) for share in shares]
        self.limit = [_bound(share.limit) for share in shares]
        self.weight = [share.weight for share in shares]
        self.fair: list[float] = [0, 0, 0]
        self.allocatable: list[float] = [0, 0, 0]
        self.allocated = [0, 0, 0]
        self.non_preemptible = [0, 0, 0]
        self.request = [0, 0, 0]

    @property
    def leaf(self) -> bool:
        return not self.children

    def set_fair_share(self, fair: Sequence[float]) -> None:
        """Set the fair share, and ``allocatable``, which the queue may fill before others come first: the larger of
        quota and fair share, up to the limit; with an unlimited quota, the limit.
        """
        self.fair = list(fair)
        self.allocatable = [
            self.limit[r] if self.quota[r] == inf else min(self.limit[r], max(self.quota[r], fair[r]))
            for r in RESOURCES
        ]

    def over_fair_share(self) -> bool:
        """True if the queue holds more than its fair share in every resource."""
        fair, allocated = self.fair, self.allocated
        return fair[0] < allocated[0] and fair[1] < allocated[1] and fair[2] < allocated[2]

    def within_quota_with(self, amounts: Amounts) -> bool:
        quota, allocated = self.quota, self.allocated
        return (
            allocated[0] + amounts[0] <= quota[0]
            and allocated[1] + amounts[1] <= quota[1]
            and allocated[2] + amounts[2] <= quota[2]
        )

    def dominant_share(self, totals: list[float], extra: Amounts = (0, 0, 0)) -> float:
        """The largest of the three ratios of held (plus ``extra``) to allocatable. If nothing is allocatable, the
        amount counts a thousandfold.
        """
        dominant = 0.0
        allocatable, allocated = self.allocatable, self.allocated
        for r in RESOURCES:
            share = allocatable[r]
            # An unbounded queue is compared with the whole cluster.
            if share == inf:
                share = totals[r]
            held = allocated[r] + extra[r]
            value = held / share if share else held * 1000.0 * _UNIT[r]
            if value > dominant:
                dominant = value
        return dominant

    def __repr__(self) -> str:
        return f"<queue {self.name}>"


# If nothing is allocatable, KAI multiplies GPU devices, millicores and bytes by 1000; here GPUs are milli-GPU.
_UNIT = (1.0, 1.0, 0.001)


class QueueTree:
    """All queues of a cluster. Queues whose parent is missing, or that form a cycle, are orphans and run nothing."""

    def __init__(self, records: Iterable[Queue]) -> None:
        self.queues = {record.name: WQueue(record) for record in records}
        self.roots: list[WQueue] = []
        for queue in self.queues.values():
            parent_name = queue.record.parent
            if not parent_name:
                self.roots.append(queue)
                continue
            parent = self.queues.get(parent_name)
            # A queue with a missing parent has no siblings to be compared with.
            if parent is None:
                queue.orphan = True
            else:
                queue.parent = parent
                parent.children.append(queue)
        for queue in self.queues.values():
            seen = {queue.name}
            ancestor = queue.parent
            # Parents may form a cycle, which is followed once.
            while ancestor is not None and ancestor.name not in seen:
                queue.path.append(ancestor)
                seen.add(ancestor.name)
                if ancestor.orphan:
                    queue.orphan = True
                ancestor = ancestor.parent
            if ancestor is not None:
                queue.orphan = True  # a cycle
        self.totals: list[float] = [0, 0, 0]
        # Leaves that may run work, oldest first: the order in which searches begin.
        self.leaves = sorted(
            (queue for queue in self.queues.values() if queue.leaf and not queue.orphan),
            key=lambda queue: (queue.record.created, queue.record.uid, queue.name),
        )

    def get(self, name: str) -> WQueue | None:
        return self.queues.get(name)

    def diverging_ancestors(self, left: WQueue, right: WQueue) -> tuple[WQueue, WQueue]:
        """The ancestors of two queues at the level where their paths part: siblings, or the same queue."""
        first, second = left, right
        # From the root down. If one queue is an ancestor of the other, the shorter path ends the loop at the same
        # queue.
        for first, second in zip(reversed(left.path), reversed(right.path), strict=False):
            if first is not second:
                break
        return first, second
