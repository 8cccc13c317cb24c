"""What one cycle decided, with names, and a bounded memory of past cycles for explanations."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import msgspec

from kailab.engine.config import EngineConfig
from kailab.engine.decisions import Decisions, Evict, Pending
from kailab.engine.snapshot.changes import Changes
from kailab.scheduler.mirror import Mirror

MOST_REMEMBERED = 1_000
"""Decisions kept in all, over however many cycles."""


class RefusedDecision(msgspec.Struct, frozen=True, kw_only=True):
    """A decision that the cluster refused; it is tried again in the next cycle. ``verb``: bind or evict."""

    verb: str
    task: str
    message: str


class CycleRecord(msgspec.Struct, frozen=True, kw_only=True):
    """``number`` counts the cycles that ran, from 1. ``tasks`` and ``podgroups``: UID -> ``namespace/name`` of all
    that the decisions speak of. ``failures``: what could not be carried out. ``config``: what the engine was told beside the
    records, with past use and what the cycles before left behind. ``changes``: of the records since the cycle before, where
    the scheduler was told to follow them; ``engine.cycle.decide`` takes the same decisions from these."""

    number: int
    now: float
    decisions: Decisions
    config: EngineConfig
    changes: Changes | None = None
    tasks: dict[str, str] = {}
    podgroups: dict[str, str] = {}
    failures: tuple[RefusedDecision, ...] = ()

    @property
    def size(self) -> int:
        decisions = self.decisions
        lists = (decisions.binds, decisions.pipelines, decisions.evictions, decisions.pending)
        return 1 + sum(len(entries) for entries in lists)


def name_decisions(decisions: Decisions, mirror: Mirror) -> tuple[dict[str, str], dict[str, str]]:
    """Names of tasks and PodGroups in the decisions, as the mirror knows them now."""
    tasks: dict[str, str] = {}
    groups: dict[str, str] = {}
    for entries in (decisions.binds, decisions.pipelines, decisions.evictions):
        for entry in entries:
            tasks[entry.task] = mirror.pod_name(entry.task)
            groups[entry.podgroup] = mirror.podgroup_name(entry.podgroup)
    for evict in decisions.evictions:
        if evict.beneficiary:
            groups[evict.beneficiary] = mirror.podgroup_name(evict.beneficiary)
    for pending in decisions.pending:
        groups[pending.podgroup] = mirror.podgroup_name(pending.podgroup)
        for task in pending.tasks:
            tasks[task] = mirror.pod_name(task)
    for uid in (*decisions.stale, *decisions.started):
        groups[uid] = mirror.podgroup_name(uid)
    return tasks, groups


class CycleHistory:
    """The latest cycle in full, and older ones as long as they fit in memory."""

    def __init__(self, most: int = MOST_REMEMBERED) -> None:
        self._most = most
        self._records: deque[CycleRecord] = deque()
        self._size = 0
        self._pending: dict[str, Pending] = {}

    def carry_on(self, other: CycleHistory) -> None:
        """Remember what another remembers."""
        # What is pending is not copied: each cycle replaces it as a whole.
        self._records, self._size, self._pending = other._records.copy(), other._size, other._pending

    def add(self, record: CycleRecord) -> None:
        self._records.append(record)
        self._size += record.size
        # The latest stays however large it is: explanations are made from it.
        while self._size > self._most and len(self._records) > 1:
            self._size -= self._records.popleft().size
        self._pending = {entry.podgroup: entry for entry in record.decisions.pending}

    def __iter__(self) -> Iterator[CycleRecord]:
        """Oldest first."""
        return iter(self._records)

    def __len__(self) -> int:
        return len(self._records)

    @property
    def latest(self) -> CycleRecord | None:
        return self._records[-1] if self._records else None

    def pending(self, podgroup: str) -> Pending | None:
        """Why a PodGroup (by UID) waits, as of the latest cycle; None if it does not."""
        return self._pending.get(podgroup)

    def evictions(self, podgroup: str) -> list[tuple[CycleRecord, Evict]]:
        """Remembered evictions of a PodGroup's pods (by UID), newest first."""
        return [
            (record, evict)
            for record in reversed(self._records)
            for evict in record.decisions.evictions
            if evict.podgroup == podgroup
        ]
