"""Jobs by queue, kept in order: those that wait, and those that others may take from.

A change of one job moves one entry; nobody sorts all jobs again.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from typing import Any

from kailab.engine.working.state import Job

Entry = tuple[tuple[Any, ...], Job]
"""Keys end in the UID: no two are equal, and entries compare by them alone."""


class JobIndex:
    """Sorted (order key, job) entries by queue name, of the jobs that wait, or that others may take from. ``instead``: an index of the same jobs in
    another order. They are put in this one when somebody looks at the lists: most cycles evict nobody, and a policy is asked about every job."""

    def __init__(self, kind: str, instead: JobIndex | None = None) -> None:
        self._victims = kind == "victims"
        self._lists: dict[str, list[Entry]] = {}
        self._entries: dict[str, tuple[str, Entry]] = {}
        self._instead = instead
        self._changed: set[str] = set()  # refreshed before that: in the lists by their keys of that moment

    @property
    def lists(self) -> dict[str, list[Entry]]:
        if self._instead is not None:
            jobs = [job for job in self._instead.jobs() if job.uid not in self._changed]
            self._instead = None
            self.fill(jobs)
        return self._lists

    def jobs(self) -> Iterator[Job]:
        """Queue by queue, in order."""
        return (job for entries in self.lists.values() for _, job in entries)

    def _belongs(self, job: Job) -> bool:
        if self._victims:
            return job.record.preemptible and job.active > 0
        return job.pending > 0

    def _key_of(self, job: Job) -> tuple[Any, ...]:
        return job.victim_key() if self._victims else job.order_key()

    def refresh(self, job: Job) -> None:
        if self._instead is not None:
            self._changed.add(job.uid)
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
