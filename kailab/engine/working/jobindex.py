"""Jobs by queue, kept in order: those that wait, and those that others may take from.

A change of one job moves one entry; nobody sorts all jobs again.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kailab.engine.working.state import Job

Entry = tuple[tuple[Any, ...], Job]
"""Keys end in the UID: no two are equal, and entries compare by them alone."""


class JobIndex:
    """Sorted (order key, job) entries by queue name, of the jobs that wait, or that others may take from. ``instead``: an index of the same jobs in
    another order. Those of a queue are put in this one when somebody looks at its list: most cycles take from few queues, or from none, and a policy is
    asked about every job that it puts in order."""

    def __init__(self, kind: str, instead: JobIndex | None = None) -> None:
        self._victims = kind == "victims"
        self._lists: dict[str, list[Entry]] = {}
        self._entries: dict[str, tuple[str, Entry]] = {}
        self._unordered: dict[str, list[Job]] = {}
        self._changed: set[str] = set()  # since then: in the lists, if at all, by their keys of that moment
        if instead is not None:
            self._unordered = {queue: [job for _, job in entries] for queue, entries in instead.lists.items()}

    @property
    def lists(self) -> Mapping[str, list[Entry]]:
        return _Lists(self) if self._unordered else self._lists

    def jobs(self) -> Iterator[Job]:
        """Queue by queue, in order."""
        return (job for entries in self.lists.values() for _, job in entries)

    def members(self, queue: str) -> Iterator[Job]:
        """Of one queue, in no order, which costs nothing to find out."""
        yield from (job for _, job in self._lists.get(queue, ()))
        yield from self._left(queue)

    def _left(self, queue: str) -> Iterator[Job]:
        return (job for job in self._unordered.get(queue, ()) if job.uid not in self._changed)

    def order(self, queue: str) -> None:
        """Put a queue's jobs in order, where they are not yet."""
        if queue in self._unordered:
            jobs = list(self._left(queue))
            del self._unordered[queue]
            self.fill(jobs)

    def holds(self, queue: str) -> bool:
        return queue in self._lists or any(True for _ in self._left(queue))

    def names(self) -> list[str]:
        """Of the queues that have any."""
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
            entries = self._lists.setdefault(queue, [])
            # Who was served last is often the last of all.
            if not entries or entries[-1] < entry:
                entries.append(entry)
            else:
                insort(entries, entry)
            self._entries[job.uid] = (queue, entry)

    def discard(self, uid: str) -> None:
        if self._unordered:
            self._changed.add(uid)
        found = self._entries.pop(uid, None)
        if found is None:
            return
        queue, entry = found
        entries = self._lists[queue]
        # By the key it was put in with, as its present one may be another. Who is served is often the first.
        del entries[0 if entries[0] is entry else bisect_left(entries, entry)]
        if not entries:
            del self._lists[queue]

    def fill(self, jobs: Iterable[Job]) -> None:
        """Refresh many at once, each queue's list in one go."""
        jobs = list(jobs)
        # A few are moved one by one: a list made anew pays only for many.
        if len(jobs) < 64:
            for job in jobs:
                self.refresh(job)
            return
        gone: dict[str, list[Entry]] = {}
        come: dict[str, list[Entry]] = {}
        for job in jobs:
            found = self._entries.pop(job.uid, None)
            if found is not None:
                gone.setdefault(found[0], []).append(found[1])
            if self._belongs(job):
                queue = job.record.queue
                entry: Entry = (self._key_of(job), job)
                come.setdefault(queue, []).append(entry)
                self._entries[job.uid] = (queue, entry)
        for queue in gone | come:
            entries = _merged(self._lists.get(queue, []), gone.get(queue, []), come.get(queue, []))
            if entries:
                self._lists[queue] = entries
            else:
                self._lists.pop(queue, None)


class _Lists(Mapping[str, list[Entry]]):
    """Of an index that has queues whose jobs are not in order yet."""

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


def _merged(entries: list[Entry], gone: list[Entry], come: list[Entry]) -> list[Entry]:
    """A sorted list without some of its entries, and with others."""
    if 8 * (len(gone) + len(come)) > len(entries):
        left = {id(entry) for entry in gone}
        return sorted([*(entry for entry in entries if id(entry) not in left), *come])
    # Only what changed is looked for; all between is copied as it stands, whose keys nobody asks for.
    places = sorted(bisect_left(entries, entry) for entry in gone)
    entries = _pieces(entries, ((place, place + 1, None) for place in places))
    return _pieces(entries, ((place := bisect_left(entries, new), place, new) for new in sorted(come)))


def _pieces(entries: list[Entry], cuts: Iterable[tuple[int, int, Entry | None]]) -> list[Entry]:
    """``entries``, where each cut (from, to, what) has that part left out and ``what`` in its place; cuts in order."""
    made: list[Entry] = []
    done = 0
    for start, end, new in cuts:
        made += entries[done:start]
        if new is not None:
            made.append(new)
        done = end
    made += entries[done:]
    return made
