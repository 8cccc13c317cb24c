"""What a victim job gives up next: single surplus pods, then everything it has.

Source: KAI's podgroup_info eviction order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from typing import Any

from kailab.engine.queueing.order import member_key
from kailab.engine.snapshot.records import ACTIVE, ALLOCATED
from kailab.engine.working.queues import Amounts
from kailab.engine.working.state import Job, Member, WPodSet, WSubGroup, WTask


class Victim:
    """A job without the tasks that have been taken already. Tasks that are last in order go first."""

    __slots__ = ("job", "remaining")

    def __init__(self, job: Job, remaining: dict[WPodSet, list[WTask]] | None = None) -> None:
        self.job = job
        if remaining is None:
            remaining = {}
            for podset in job.root.podsets:
                # Only tasks with a place or a promise can be taken.
                active = [task for task in podset.tasks.values() if ACTIVE[task.status]]
                active.sort(key=lambda task: task.key)
                remaining[podset] = active
        self.remaining = remaining

    @property
    def count(self) -> int:
        return sum(len(tasks) for tasks in self.remaining.values())

    def key(self) -> tuple[Any, ...]:
        # As Job.elastic_state, but for the remaining tasks: without its surplus a job ranks like one at its minimum.
        state = 1
        for podset, tasks in self.remaining.items():
            if len(tasks) < podset.minimum:
                state = 0
                break
            if len(tasks) > podset.minimum:
                state = 2
        # Victims are taken from the end of the serving order: the smallest key is evicted last.
        if self.job.ranking is not None:
            return self.job.ranking.victim_key(self.job, state)
        record = self.job.record
        return (-record.priority, state, record.created, record.uid)

    def held(self) -> Amounts:
        # Without promises, which KAI's AllocatedVector does not contain.
        return _sum(task for tasks in self.remaining.values() for task in tasks if ALLOCATED[task.status])

    def next(self) -> list[WTask]:
        """The tasks that go next. They stay in the view until ``drop``."""
        # Surplus goes first, because the gang runs on without it. The core goes only as a whole, because fewer pods
        # than the minimum cannot run.
        return self._surplus(self.job.root) or self._all(self.job.root)

    def drop(self, tasks: list[WTask]) -> None:
        for task in tasks:
            assert task.podset is not None
            self.remaining[task.podset].remove(task)

    def without(self, uids: Set[str]) -> Victim:
        return Victim(
            self.job, {podset: [t for t in tasks if t.uid not in uids] for podset, tasks in self.remaining.items()}
        )

    # Counts within this view

    def _counts(self, member: Member) -> tuple[int, int]:
        if isinstance(member, WPodSet):
            return len(self.remaining[member]), member.minimum
        return sum(1 for child in member.members if self._satisfied(child)), member.needed

    def _satisfied(self, member: Member) -> bool:
        placed, needed = self._counts(member)
        return placed >= needed

    def _has_surplus(self, member: Member) -> bool:
        placed, needed = self._counts(member)
        if placed > needed:
            return True
        return not isinstance(member, WPodSet) and any(self._has_surplus(child) for child in member.members)

    def _last_first(self, group: WSubGroup) -> Sequence[Member]:
        if len(group.members) == 1:
            return group.members
        by_name = self.job.by_name
        return sorted(group.members, key=lambda member: member_key(member, self._counts(member), by_name), reverse=True)

    def _surplus(self, member: Member) -> list[WTask]:
        placed, needed = self._counts(member)
        if isinstance(member, WPodSet):
            return self.remaining[member][-1:] if placed > needed else []
        # Nothing here is satisfied, so there is no surplus.
        if placed == 0:
            return []
        order = self._last_first(member)
        # KAI's phases (collectElasticEvictionFromSubGroupSet): first pods beyond a minimum anywhere below, then a whole
        # member beyond the number needed. What remains, ``next`` takes as a whole.
        if self._has_surplus(member):
            for child in order:
                tasks = self._surplus(child)
                if tasks:
                    return tasks
        if needed < placed:
            for child in order:
                tasks = self._all(child)
                if tasks:
                    return tasks
        return []

    def _all(self, member: Member) -> list[WTask]:
        # The last in order come first, as for surplus.
        return [task for podset in member.podsets for task in reversed(self.remaining[podset])]


def held_by(job: Job) -> Amounts:
    """The requests of a job's allocated tasks, summed up."""
    cpu = memory = gpus = 0
    for task in job.tasks.values():
        if ALLOCATED[task.status]:
            quota = task.info.quota
            cpu += quota[0]
            memory += quota[1]
            gpus += quota[2]
    return cpu, memory, gpus


def _sum(tasks: Iterable[WTask]) -> Amounts:
    cpu = memory = gpus = 0
    for task in tasks:
        quota = task.info.quota
        cpu += quota[0]
        memory += quota[1]
        gpus += quota[2]
    return cpu, memory, gpus
