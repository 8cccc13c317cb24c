"""The record of one cycle with names, and a bounded history of cycles for explanations."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import msgspec

from kailab.engine.config import EngineConfig
from kailab.engine.decisions import Decisions, Evict, Pending
from kailab.engine.snapshot.changes import Changes
from kailab.scheduler.mirror import Mirror

MOST_REMEMBERED = 1_000
"""The most decisions that a history keeps, over all its cycles."""


class RefusedDecision(msgspec.Struct, frozen=True, kw_only=True):
    """A decision that the cluster refused. The next cycle tries again. ``verb``: bind or evict."""

    verb: str
    task: str
    message: str


class CycleRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One cycle. ``number`` counts from 1. ``tasks`` and ``podgroups``: UID -> ``namespace/name`` of everything in the decisions.
    ``failures``: the decisions that the cluster refused. ``config``: the engine's configuration of this cycle, with past usage and
    promises. ``changes``: of the records since the previous cycle, if the scheduler follows them; from these ``engine.cycle.decide`` makes
    the same decisions."""

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
    """``namespace/name`` of the tasks and of the PodGroups in the decisions, by UID."""
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
    """The latest cycle, and older ones up to ``most`` decisions."""

    def __init__(self, most: int = MOST_REMEMBERED) -> None:
        self._most = most
        self._records: deque[CycleRecord] = deque()
        self._size = 0
        self._pending: dict[str, Pending] = {}

    def carry_on(self, other: CycleHistory) -> None:
        """Take over the state of another history."""
        # ``_pending`` needs no copy: each cycle replaces it as a whole.
        self._records, self._size, self._pending = other._records.copy(), other._size, other._pending

    def add(self, record: CycleRecord) -> None:
        self._records.append(record)
        self._size += record.size
        # The latest record always stays: explanations read it.
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
        """Why a PodGroup (by UID) is pending, as of the latest cycle; None if it is not."""
        return self._pending.get(podgroup)

    def evictions(self, podgroup: str) -> list[tuple[CycleRecord, Evict]]:
        """The evictions of a PodGroup's pods (by UID) in this history, newest first."""
        return [
            (record, evict)
            for record in reversed(self._records)
            for evict in record.decisions.evictions
            if evict.podgroup == podgroup
        ]
