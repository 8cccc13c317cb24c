"""The journey of each job over several clusters: where it was sent and what happened there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kailab.model.multimap import multimap
from kailab.replay import tables
from kailab.replay.accounts import ReplayedJob
from kailab.replay.clusters.sites import ClusterSites, Dataset
from kailab.replay.job import TraceJob
from kailab.replay.run import CompletedReplay, job_name


@dataclass(kw_only=True)
class JobJourney:
    """The journey of one job.

    ``arrived``: at the dispatcher. ``at``: name of its cluster, empty while it is with the dispatcher. ``work``: the
    job there, None during transfer. ``sent``: how often it was sent; ``taken_back``: how often it was withdrawn, in
    ``looks`` re-checks at its present cluster. ``moved_to``, ``cost``: bytes moved for it to each cluster, and their
    price. ``way``: seconds of the last transfer. ``sent_at``: when it was last sent. ``expected``: the waiting time in
    seconds that the policy was given then; None if it did not ask.
    """

    number: int
    job: TraceJob
    home: str
    data: Dataset | None
    arrived: int
    at: str = ""
    work: ReplayedJob | None = None
    sent: int = 0
    taken_back: int = 0
    looks: int = 0
    moved_to: dict[str, int] = field(default_factory=dict)
    cost: float = 0.0
    way: int = 0
    sent_at: int = 0
    expected: float | None = None
    latency: float = 0.0

    @property
    def moved(self) -> int:
        return sum(self.moved_to.values())

    @property
    def name(self) -> str:
        """Its name in a lab. Each cluster that it is sent to gets a new name, so that it never meets its own traces."""
        base = job_name(self.number)
        return base if self.sent <= 1 else f"{base}-{self.sent}"


@dataclass(frozen=True, kw_only=True)
class DispatchedReplay:
    """The result of a replay over several clusters.

    ``journeys``: of all jobs that arrived, by arrival. ``clusters``: the result of each cluster by name. ``cut``: when
    the replay is cut off; jobs that arrive then are not included.
    """

    sites: ClusterSites
    journeys: Sequence[JobJourney]
    clusters: dict[str, CompletedReplay]
    began: int
    ended: int
    cut: int

    @property
    def faults(self) -> list[str]:
        """Why the figures are invalid: a job was lost or is in two clusters, or a cluster's GPU time does not balance."""
        inside = [f"{name}: {fault}" for name, replayed in self.clusters.items() for fault in replayed.faults]
        return [*conservation_faults(self)[:5], *inside]


def conservation_faults(replay: DispatchedReplay) -> list[str]:
    """Check that no job is lost and none is in two clusters. Returns the faults."""
    faults = []
    trace, shift = replay.sites.trace.jobs, replay.began - replay.sites.trace.jobs[0].arrival
    numbers = [journey.number for journey in replay.journeys]
    arrived = sum(job.arrival + shift <= replay.ended and job.arrival + shift < replay.cut for job in trace)
    if numbers != list(range(arrived)):
        faults.append(
            f"{arrived} jobs of the trace have arrived; the dispatcher knows {len(numbers)}, {len(set(numbers))} of them different"
        )
    places = multimap(
        (id(work.job), name) for name, replayed in replay.clusters.items() for work in replayed.accounts.works.values()
    )
    for journey in replay.journeys:
        present = places.pop(id(journey.job), [])
        expected = [] if journey.work is None else [journey.at]
        if present != expected:
            faults.append(
                f"{journey.job.name} is in {', '.join(present) or 'no cluster'}; expected {', '.join(expected) or 'none'}"
            )
        elif (
            journey.work is not None
            and replay.clusters[journey.at].accounts.works.get(journey.name) is not journey.work
        ):
            faults.append(f"{journey.job.name} is another job in {journey.at}")
    if places:
        faults.append(f"{len(places)} jobs are in clusters to which the dispatcher did not send them")
    submitted = sum(journey.job.demand for journey in replay.journeys)
    inside = sum(replayed.accounts.submitted for replayed in replay.clusters.values())
    outside = sum(journey.job.demand for journey in replay.journeys if journey.work is None)
    if submitted != inside + outside:
        faults.append(f"{submitted} milli-GPU-seconds arrived, which is not {inside} in clusters + {outside} elsewhere")
    return faults


JOBS = (
    "name", "team", "home", "cluster", "queue", "line", "gpu_milli", "run_seconds", "arrived", "sent", "way", "began", "ended", "waited", "times_sent",
    "taken_back", "dataset", "moved_bytes", "expected_wait", "evictions", "lost_gpu_milli_seconds",
)  # fmt: skip
TIMELINE = ("cluster", *tables.TIMELINE)


def dispatched_job_rows(replay: DispatchedReplay) -> Iterable[tuple[Any, ...]]:
    """One row for each job, by arrival.

    Times are seconds after the first arrival, or None. ``sent``: when it was sent to its present cluster; ``way``:
    seconds of that transfer.
    """
    zero = replay.began
    of_team = replay.sites.sites[0].queues.of_team
    for journey in replay.journeys:
        job, work = journey.job, journey.work
        began = None if work is None or work.began is None else work.began - zero
        ended = None if work is None or work.ended is None else work.ended - zero
        expected = None if journey.expected is None or journey.expected == float("inf") else round(journey.expected)
        yield (
            job.name, job.team, journey.home, journey.at or None, of_team[job.team] if work is None else work.queue, job.line, job.milli, job.seconds, journey.arrived - zero,
            journey.sent_at - zero if journey.at else None, journey.way if journey.at else None, began, ended,
            None if began is None else began + zero - journey.arrived, journey.sent, journey.taken_back,
            None if journey.data is None else journey.data.name, journey.moved, expected,
            0 if work is None else work.evictions, 0 if work is None else work.lost,
        )  # fmt: skip


def cluster_timeline_rows(replay: DispatchedReplay) -> Iterable[tuple[Any, ...]]:
    """The timeline of each cluster, in the order of the file."""
    for name, replayed in replay.clusters.items():
        for row in tables.timeline_rows(replayed):
            yield (name, *row)
