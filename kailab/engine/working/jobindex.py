"""Sorted jobs by queue: those that wait, and those that may be victims.

A change of one job moves one entry, so jobs are not sorted again in each cycle.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kailab.engine.working.jobclass import JobClass, class_of
from kailab.engine.working.state import Job

Entry = tuple[tuple[Any, ...], Job]
"""Keys end with the UID, so no two are equal and entries compare by key alone."""


class JobIndex:
    """Sorted (order key, job) entries by queue name, of the waiting jobs or of possible victims.

    ``instead``: an index of the same jobs in another order. A queue's jobs are then sorted when its list is first read,
    because most cycles take victims from few queues or none, and a policy is called for every job that is sorted.

    ``classes``: by queue and class, the same entries as in ``lists``, of waiting jobs only. Under None are jobs that have
    no class. ``delayed``: the waiting jobs that have a preemption delay.
    """

    def __init__(self, kind: str, instead: JobIndex | None = None) -> None:
        self._victims = kind == "victims"
        self._lists: dict[str, list[Entry]] = {}
        self._entries: dict[str, tuple[str, Entry, JobClass | None]] = {}
        self.classes: dict[str, dict[JobClass | None, list[Entry]]] = {}
        self.delayed: dict[str, Job] = {}
        # The lists of ``instead``, which stays as it is as long as this index is used.
        self._unordered: dict[str, list[Entry]] = {}
        # jobs changed since then; they are in the lists, if at all, by their keys at the time of the change
        self._changed: set[str] = set()
        if instead is not None:
            self._unordered = dict(instead.lists)

    @property
    def lists(self) -> Mapping[str, list[Entry]]:
        return _Lists(self) if self._unordered else self._lists

    @property
    def count(self) -> int:
        """How many jobs are in the lists."""
        return len(self._entries)

    def jobs(self) -> Iterator[Job]:
        """All jobs, queue by queue, in order."""
        return (job for entries in self.lists.values() for _, job in entries)

    def members(self, queue: str) -> Iterator[Job]:
        """The jobs of one queue in no particular order, without sorting."""
        yield from (job for _, job in self._lists.get(queue, ()))
        yield from self._left(queue)

    def _left(self, queue: str) -> Iterator[Job]:
        return (job for _, job in self._unordered.get(queue, ()) if job.uid not in self._changed)

    def order(self, queue: str) -> None:
        """Sort a queue's jobs if they are not sorted yet."""
        if queue in self._unordered:
            jobs = list(self._left(queue))
            del self._unordered[queue]
            self.fill(jobs)

    def of_class(self, job: Job) -> JobClass | None:
        """The class of a waiting job."""
        return self._entries[job.uid][2]

    def holds(self, queue: str) -> bool:
        return queue in self._lists or any(True for _ in self._left(queue))

    def names(self) -> list[str]:
        """The queues that have jobs."""
        return [queue for queue in {**self._lists, **self._unordered} if self.holds(queue)]

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
            _insert(self._lists.setdefault(queue, []), entry)
            self._entries[job.uid] = (queue, entry, self._class(queue, entry))

    def discard(self, uid: str) -> None:
        if self._unordered:
            self._changed.add(uid)
        known = self._entries.pop(uid, None)
        if known is None:
            return
        queue, entry, of_class = known
        entries = self._lists[queue]
        _remove(entries, entry)
        if not entries:
            del self._lists[queue]
        self._unclass(queue, entry, of_class)

    def _class(self, queue: str, entry: Entry) -> JobClass | None:
        """Enter a waiting job in its class, which is returned."""
        if self._victims:
            return None
        job = entry[1]
        of_class = class_of(job)
        entries = self.classes.setdefault(queue, {}).setdefault(of_class, [])
        if entries:
            of_class = self.of_class(entries[0][1])  # an equal one, so that all its jobs share it
        _insert(entries, entry)
        if job.record.preemption_delay > 0:
            self.delayed[job.uid] = job
        return of_class

    def _unclass(self, queue: str, entry: Entry, of_class: JobClass | None) -> None:
        if self._victims:
            return
        classes = self.classes[queue]
        entries = classes[of_class]
        _remove(entries, entry)
        if not entries:
            del classes[of_class]
            if not classes:
                del self.classes[queue]
        self.delayed.pop(entry[1].uid, None)

    def fill(self, jobs: Iterable[Job]) -> None:
        """Refresh many jobs at once, each queue's list in one pass."""
        jobs = list(jobs)
        # Rebuilding a list pays only for many jobs.
        if len(jobs) < 64:
            for job in jobs:
                self.refresh(job)
            return
        removed: dict[str, list[Entry]] = {}
        added: dict[str, list[Entry]] = {}
        for job in jobs:
            known = self._entries.pop(job.uid, None)
            if known is not None:
                removed.setdefault(known[0], []).append(known[1])
                self._unclass(*known)
            if self._belongs(job):
                queue = job.record.queue
                entry: Entry = (self._key_of(job), job)
                added.setdefault(queue, []).append(entry)
                self._entries[job.uid] = (queue, entry, self._class(queue, entry))
        for queue in removed | added:
            entries = _merged(self._lists.get(queue, []), removed.get(queue, []), added.get(queue, []))
            if entries:
                self._lists[queue] = entries
            else:
                self._lists.pop(queue, None)


class _Lists(Mapping[str, list[Entry]]):
    """The lists of an index with queues that are not sorted yet."""

    def __init__(self, index: JobIndex) -> None:
        self._index = index

    def __getitem__(self, queue: str) -> list[Entry]:
        self._index.order(queue)
        return self._index._lists[queue]

    def __contains__(self, queue: object) -> bool:
        return isinstance(queue, str) and self._index.holds(queue)

    def __iter__(self) -> Iterator[str]:
        return iter(self._index.names())

    def __len__(self) -> int:
        return len(self._index.names())


def _insert(entries: list[Entry], entry: Entry) -> None:
    # The job served last is often the last of all.
    if not entries or entries[-1] < entry:
        entries.append(entry)
    else:
        insort(entries, entry)


def _remove(entries: list[Entry], entry: Entry) -> None:
    # By the stored key, because the present one may differ. A served job is often the first.
    del entries[0 if entries[0] is entry else bisect_left(entries, entry)]


def _merged(entries: list[Entry], removed: list[Entry], added: list[Entry]) -> list[Entry]:
    """A sorted list with entries removed and added."""
    if 8 * (len(removed) + len(added)) > len(entries):
        gone = {id(entry) for entry in removed}
        return sorted([*(entry for entry in entries if id(entry) not in gone), *added])
    # Only the changed entries are searched; all others are copied without a comparison.
    indices = sorted(bisect_left(entries, entry) for entry in removed)
    entries = _pieces(entries, ((index, index + 1, None) for index in indices))
    return _pieces(entries, ((index := bisect_left(entries, new), index, new) for new in sorted(added)))


def _pieces(entries: list[Entry], cuts: Iterable[tuple[int, int, Entry | None]]) -> list[Entry]:
    """``entries`` with each cut (start, end, new) applied: that part removed and ``new`` inserted. Cuts are in order."""
    made: list[Entry] = []
    done = 0
    for start, end, new in cuts:
        made += entries[done:start]
        if new is not None:
            made.append(new)
        done = end
    made += entries[done:]
    return made
