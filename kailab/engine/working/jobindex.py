"""Jobs by queue, kept in order: those that wait, and those that others may take from.

A change of one job moves one entry; nobody sorts all jobs again.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from typing import Any

from kailab.engine.working.state import Job

Entry = tuple[tuple[Any, ...], Job]


class JobIndex:
    """Sorted (order key, job) entries by queue name, of the jobs that wait, or that others may take from."""

    def __init__(self, kind: str) -> None:
        self._victims = kind == "victims"
        self.lists: dict[str, list[Entry]] = {}
        self._entries: dict[str, tuple[str, Entry]] = {}

    def _belongs(self, job: Job) -> bool:
        if self._victims:
            return job.record.preemptible and job.active > 0
        return job.pending > 0

    def _key_of(self, job: Job) -> tuple[Any, ...]:
        return job.victim_key() if self._victims else job.order_key()

    def refresh(self, job: Job) -> None:
        self.discard(job.uid)
        if self._belongs(job):
            queue = job.record.queue
            entry: Entry = (self._key_of(job), job)
            insort(self.lists.setdefault(queue, []), entry, key=_key)
            self._entries[job.uid] = (queue, entry)

    def discard(self, uid: str) -> None:
        found = self._entries.pop(uid, None)
        if found is None:
            return
        queue, entry = found
        entries = self.lists[queue]
        # By the key it was put in with, as its present one may be another. Keys end in the UID, so they are unique.
        del entries[bisect_left(entries, entry[0], key=_key)]
        if not entries:
            del self.lists[queue]

    def fill(self, jobs: Iterable[Job]) -> None:
        """Refresh many at once: one sort a queue."""
        jobs = list(jobs)
        # A few are moved one by one; sorting whole lists pays only for many.
        if len(jobs) < 64:
            for job in jobs:
                self.refresh(job)
            return
        gone = {job.uid for job in jobs}
        # Lists that lose an entry have to be settled too, though no job may be added to them.
        touched = {self._entries.pop(uid)[0] for uid in gone if uid in self._entries}
        for queue in touched:
            self.lists[queue] = [entry for entry in self.lists[queue] if entry[1].uid not in gone]
        for job in jobs:
            if self._belongs(job):
                queue = job.record.queue
                entry: Entry = (self._key_of(job), job)
                self.lists.setdefault(queue, []).append(entry)
                self._entries[job.uid] = (queue, entry)
                touched.add(queue)
        for queue in touched:
            if self.lists.get(queue):
                self.lists[queue].sort(key=_key)
            else:
                self.lists.pop(queue, None)


def _key(entry: Entry) -> tuple[Any, ...]:
    return entry[0]
