"""The comparison of two outcomes: what runs, is pending, has moved, was evicted and for whom, and the amounts of queues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from kailab.evidence.entries import MOVING
from kailab.evidence.shares import QueueAmounts
from kailab.lab.wording import count
from kailab.model import markup
from kailab.whatif.outcome import Eviction, Outcome, Workload, WorkloadState, queue_data

_NONE = WorkloadState("")


@dataclass(frozen=True)
class WorkloadChange:
    """One workload in both outcomes; None if it does not exist there. ``evicted``: its pods that are evicted only with the change."""

    workload: Workload
    before: WorkloadState | None
    after: WorkloadState | None
    evicted: tuple[Eviction, ...] = ()

    @property
    def queue(self) -> str:
        return (self.after or self.before or _NONE).queue

    @property
    def gained(self) -> int:
        """How many more pods run; negative: fewer."""
        return (self.after or _NONE).running - (self.before or _NONE).running

    @property
    def moved(self) -> int:
        """Pods that run in both outcomes, on other nodes."""
        if self.before is None or self.after is None:
            return 0
        # Compare numbers by node, because replaced pods have other names.
        stay = (Counter(self.before.nodes) & Counter(self.after.nodes)).total()
        return min(self.before.running, self.after.running) - stay

    @property
    def what(self) -> tuple[str, ...]:
        """``new``, ``gone``, ``runs`` (more pods than before), ``waits`` (more are pending), ``done`` (more have ended), ``moved``,
        ``evicted``; nothing if the outcomes are equal."""
        before, after = self.before or _NONE, self.after or _NONE
        found = {
            "new": self.before is None,
            "gone": self.after is None,
            "runs": after.running > before.running,
            "waits": after.waiting > before.waiting,
            "done": after.done > before.done,
            "moved": self.moved > 0,
            "evicted": bool(self.evicted),
        }
        return tuple(name for name, holds in found.items() if holds)

    @property
    def same(self) -> bool:
        return self.before == self.after and not self.evicted

    def data(self) -> dict[str, Any]:
        return {
            **self.workload.data(),
            "queue": self.queue,
            "what": list(self.what),
            "before": self.before.data() if self.before else None,
            "after": self.after.data() if self.after else None,
            "moved": self.moved,
            "evicted": [eviction.data() for eviction in self.evicted],
        }


@dataclass(frozen=True)
class QueueChange:
    """One queue in both outcomes; None if it does not exist there."""

    name: str
    before: QueueAmounts | None
    after: QueueAmounts | None

    @property
    def same(self) -> bool:
        return self.before == self.after

    def data(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "before": queue_data(self.before) if self.before else None,
            "after": queue_data(self.after) if self.after else None,
        }


@dataclass(frozen=True)
class Comparison:
    """``before``: the lab left alone; ``after``: with the change; both at the same time."""

    before: Outcome
    after: Outcome

    @cached_property
    def all_workloads(self) -> tuple[WorkloadChange, ...]:
        """By queue, then by name."""
        evicted: dict[Workload, list[Eviction]] = {}
        anyhow = set(self.before.evictions)
        for eviction in self.after.evictions:
            # Only evictions that do not happen without the change count.
            if eviction not in anyhow:
                evicted.setdefault(eviction.workload, []).append(eviction)
        there = {**self.before.workloads, **self.after.workloads} | dict.fromkeys(evicted)
        changes = (
            WorkloadChange(
                workload,
                self.before.workloads.get(workload),
                self.after.workloads.get(workload),
                tuple(evicted.get(workload, ())),
            )
            for workload in there
        )
        return tuple(sorted(changes, key=lambda change: (change.queue, change.workload)))

    @cached_property
    def workloads(self) -> tuple[WorkloadChange, ...]:
        """Workloads that end differently."""
        return tuple(change for change in self.all_workloads if not change.same)

    @cached_property
    def all_queues(self) -> tuple[QueueChange, ...]:
        names = sorted({*self.before.queues, *self.after.queues})
        return tuple(QueueChange(name, self.before.queues.get(name), self.after.queues.get(name)) for name in names)

    @cached_property
    def queues(self) -> tuple[QueueChange, ...]:
        """Queues that end differently."""
        return tuple(change for change in self.all_queues if not change.same)

    @property
    def evicted(self) -> tuple[Eviction, ...]:
        return tuple(eviction for change in self.all_workloads for eviction in change.evicted)

    def summary(self) -> str:
        """One line."""
        more = sum(max(0, change.gained) for change in self.workloads)
        fewer = sum(max(0, -change.gained) for change in self.workloads)
        moved = sum(change.moved for change in self.workloads)
        parts = [
            f"{more} more run" if more else "",
            f"{fewer} fewer run" if fewer else "",
            f"{moved} elsewhere" if moved else "",
            f"{evicted} evicted" if (evicted := sum(eviction.action != MOVING for eviction in self.evicted)) else "",
        ]
        pods = ", ".join(part for part in parts if part)
        alike = len(self.all_workloads) - len(self.workloads)
        if not self.workloads and not self.queues:
            return "no workload and no queue changes"
        return f"pods: {pods or 'as before'}; {count(len(self.workloads), 'workload')} changed, {alike} as before"

    def _repr_html_(self) -> str:
        return self.html_table("What changes")

    def html_table(self, caption: str) -> str:
        """The workloads that end differently, as a table for notebooks."""
        rows = (
            (
                str(change.workload), change.queue, ", ".join(change.what),
                change.before.running if change.before else "", change.after.running if change.after else "",
                len(change.evicted),
            )
            for change in self.workloads
        )  # fmt: skip
        columns = ("workload", "queue", "what", "ran", "runs", "evicted")
        return markup.html_table(f"{caption}: {self.summary()}", columns, rows)

    def data(self) -> dict[str, Any]:
        """The differences, for programs."""
        return {
            "summary": self.summary(),
            "workloads": [change.data() for change in self.workloads],
            "queues": [change.data() for change in self.queues],
        }


def changed_workloads(comparisons: Sequence[Comparison]) -> list[Workload]:
    """Workloads that end differently in some comparison, by queue, then by name."""
    found = {change.workload: change.queue for comparison in comparisons for change in comparison.workloads}
    return sorted(found, key=lambda workload: (found[workload], workload))
