"""Reference simulators of scheduling rules on a pool of GPUs, of which each is a loop over the rule's own definition.

Time is in whole seconds. All jobs are known by arrival; a rule is asked at each second in which a job arrives, ends or
has been evicted. An evicted job is gone a second later, which is when its GPUs are free, and keeps its work.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

LEAVING = 1
"""Seconds from an eviction until the pod has gone."""


@dataclass
class Run:
    """One job: its place in the trace, and what became of it."""

    number: int
    arrival: int
    seconds: int
    gpus: int
    left: int = field(init=False)
    since: int | None = None  # start of the present run
    began: int | None = None
    ended: int | None = None

    def __post_init__(self) -> None:
        self.left = self.seconds

    def attained(self, now: int) -> int:
        """GPU-seconds of all runs; saves cost nothing, so all that is not left has run."""
        return (self.seconds - self.remaining(now)) * self.gpus

    def remaining(self, now: int) -> int:
        return self.left if self.since is None else self.left - (now - self.since)


Rule = Callable[[int, list[Run], list[Run], int], tuple[list[Run], list[Run]]]
"""(now, waiting by arrival, running, free GPUs) -> (jobs to start, jobs to evict)."""


def simulate(jobs: Sequence[Run], gpus: int, rule: Rule, tick: int = 0) -> dict[int, tuple[int, int]]:
    """Job number -> (first start, end). ``tick``: the rule is also asked this many seconds after it was; 0: not."""
    waiting: list[Run] = []
    running: list[Run] = []
    leaving: list[tuple[int, Run]] = []
    coming = sorted(jobs, key=lambda job: (job.arrival, job.number))
    now = 0
    while coming or waiting or running or leaving:
        moments = [job.arrival for job in coming[:1]] + [at for at, _ in leaving]
        moments += [job.since + job.left for job in running if job.since is not None]
        moments += [now + tick] if tick and running else []
        now = max(now, min(moments))
        for job in [job for job in running if job.remaining(now) <= 0]:
            running.remove(job)
            job.ended = now
            if job.since == now:
                # It had only to start again, because it was evicted in its last second.
                leaving.append((now + LEAVING, job))
        for entry in [entry for entry in leaving if entry[0] <= now]:
            leaving.remove(entry)
            waiting += [entry[1]] if entry[1].ended is None else []
        while coming and coming[0].arrival <= now:
            waiting.append(coming.pop(0))
        waiting.sort(key=lambda job: (job.arrival, job.number))
        free = gpus - sum(job.gpus for job in running) - sum(job.gpus for _, job in leaving)
        start, evict = rule(now, list(waiting), list(running), free)
        for job in start:
            waiting.remove(job)
            running.append(job)
            job.since, job.began = now, now if job.began is None else job.began
        for job in evict:
            running.remove(job)
            # It works until it has gone, unless it ends before.
            job.left, job.since = max(0, job.remaining(now + LEAVING)), None
            leaving.append((now + LEAVING, job))
    return {job.number: (job.began, job.ended) for job in jobs}  # type: ignore[misc]


def fifo(now: int, waiting: list[Run], running: list[Run], free: int) -> tuple[list[Run], list[Run]]:
    """By arrival; a job that does not fit delays nobody."""
    start = []
    for job in waiting:
        if job.gpus <= free:
            free -= job.gpus
            start.append(job)
    return start, []


def strict_fifo(now: int, waiting: list[Run], running: list[Run], free: int) -> tuple[list[Run], list[Run]]:
    """By arrival; nobody starts before the first that does not fit."""
    start = []
    for job in waiting:
        if job.gpus > free:
            break
        free -= job.gpus
        start.append(job)
    return start, []


def shortest(now: int, waiting: list[Run], running: list[Run], free: int) -> tuple[list[Run], list[Run]]:
    """The shortest first, without preemption; a job that does not fit delays nobody."""
    return fifo(now, sorted(waiting, key=lambda job: job.seconds), running, free)


def easy(now: int, waiting: list[Run], running: list[Run], free: int) -> tuple[list[Run], list[Run]]:
    """EASY: the first job without room has a reservation; those behind start if they do not delay it."""
    start, _ = strict_fifo(now, waiting, running, free)
    free -= sum(job.gpus for job in start)
    rest = waiting[len(start) :]
    if not rest:
        return start, []
    head, *rest = rest
    freed: dict[int, int] = {}
    for job in [*running, *start]:
        end = now + (job.left if job in start else job.remaining(now))
        freed[end] = freed.get(end, 0) + job.gpus
    shadow, room = now, free
    for end in sorted(freed):
        shadow, room = end, room + freed[end]
        if room >= head.gpus:
            break
    extra = room - head.gpus
    for job in rest:
        if job.gpus > free:
            continue
        if now + job.left > shadow:
            if job.gpus > extra:
                continue
            extra -= job.gpus
        free -= job.gpus
        start.append(job)
    return start, []


def _preemptive(order: list[Run], waiting: list[Run], free: int) -> tuple[list[Run], list[Run]]:
    """The GPUs go to the first jobs of ``order``, which has those that run, too. For jobs of one size."""
    size = order[0].gpus if order else 1
    running = [job for job in order if job not in waiting]
    leaving_or_free = free + sum(job.gpus for job in running)
    served = order[: leaving_or_free // size]
    start = [job for job in served if job in waiting][: free // size]
    # Whoever is to be served and has no room gets that of a job that is not, once this has gone.
    lacking = sum(job in waiting for job in served) - len(start)
    return start, [job for job in running if job not in served][-lacking:] if lacking else []


def srtf(now: int, waiting: list[Run], running: list[Run], free: int) -> tuple[list[Run], list[Run]]:
    """The shortest remaining time first, with preemption. Of equal jobs a running one is first."""
    order = sorted(
        [*running, *waiting], key=lambda job: (job.remaining(now), job.since is None, job.arrival, job.number)
    )
    return _preemptive(order, waiting, free)


BAND = 60
"""GPU-seconds that divide the two bands of ``las``."""


def las(now: int, waiting: list[Run], running: list[Run], free: int) -> tuple[list[Run], list[Run]]:
    """The band with the least attained service first, with preemption; in a band those that run, then by arrival. The
    running job with the most attained service has to go first."""

    def place(job: Run) -> tuple[float, ...]:
        if job.since is None:
            return job.attained(now) >= BAND, 1, job.arrival, job.number
        return job.attained(now) >= BAND, 0, job.attained(now), job.since

    return _preemptive(sorted([*running, *waiting], key=place), waiting, free)
