"""What became of each job over several clusters: where it was sent, on which way, and what came of it there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kailab.replay import tables
from kailab.replay.accounts import ReplayedJob, UnbalancedGpuTime
from kailab.replay.clusters.sites import ClusterSites, Dataset
from kailab.replay.job import TraceJob
from kailab.replay.run import CompletedReplay, job_name


@dataclass(kw_only=True)
class JobJourney:
    """What became of a job. ``arrived``: at the dispatcher. ``at``: the name of its cluster, empty while it stays with the dispatcher. ``work``: there, None on its
    way. ``sent``: how often; ``taken_back``: how often after it had waited somewhere, of so many
    ``looks`` at it there. ``moved_to``, ``cost``: bytes moved for it to each cluster, and their price. ``way``: seconds on the last way. ``expected``: seconds from the last
    sending until it begins, as the policy was told; None where it did not ask. ``left``: when it was sent last."""

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
    left: int = 0
    expected: float | None = None
    latency: float = 0.0

    @property
    def moved(self) -> int:
        return sum(self.moved_to.values())

    @property
    def name(self) -> str:
        """In the lab: another for each cluster that it was sent to, so that none meets its own traces."""
        name = job_name(self.number)
        return name if self.sent <= 1 else f"{name}-{self.sent}"


@dataclass(frozen=True, kw_only=True)
class DispatchedReplay:
    """What came of it. ``journeys``: of all jobs that arrived, in that order. ``clusters``: name -> what came of its part. ``cut``: when it would have
    been cut off; who would have arrived then has not."""

    sites: ClusterSites
    journeys: Sequence[JobJourney]
    clusters: dict[str, CompletedReplay]
    began: int
    ended: int
    cut: int


# Over all clusters no job is lost and none is in two places: held against each other after every replay over several clusters.


def conservation_faults(found: DispatchedReplay) -> list[str]:
    """What does not come out; nothing where all does."""
    told = []
    trace, shift = found.sites.trace.jobs, found.began - found.sites.trace.jobs[0].arrival
    numbers = [one.number for one in found.journeys]
    arrived = sum(job.arrival + shift <= found.ended and job.arrival + shift < found.cut for job in trace)
    if numbers != list(range(arrived)):
        told.append(
            f"{arrived} jobs of the trace have arrived; the dispatcher knows {len(numbers)}, {len(set(numbers))} of them once"
        )
    places: dict[int, list[str]] = {}
    for name, replayed in found.clusters.items():
        for work in replayed.accounts.works.values():
            places.setdefault(id(work.job), []).append(name)
    for one in found.journeys:
        own = places.pop(id(one.job), [])
        expected = [] if one.work is None else [one.at]
        if own != expected:
            told.append(
                f"{one.job.name} is in {', '.join(own) or 'no cluster'}; expected {', '.join(expected) or 'none'}"
            )
        elif one.work is not None and found.clusters[one.at].accounts.works.get(one.name) is not one.work:
            told.append(f"{one.job.name} is another job in {one.at}")
    if places:
        told.append(f"{len(places)} jobs are in clusters that the dispatcher has not sent there")
    submitted = sum(one.job.demand for one in found.journeys)
    inside = sum(replayed.accounts.submitted for replayed in found.clusters.values())
    outside = sum(one.job.demand for one in found.journeys if one.work is None)
    if submitted != inside + outside:
        told.append(f"{submitted} milli-GPU-seconds arrived, which is not {inside} in clusters + {outside} elsewhere")
    return told


def check_conservation(found: DispatchedReplay) -> None:
    """Raises Unbalanced."""
    if told := conservation_faults(found):
        raise UnbalancedGpuTime(f"jobs do not balance over the clusters: {'; '.join(told[:5])}")


# A replay over several clusters as tables for programs: the rows of a replay on one, and where each job was.

JOBS = (
    "name", "team", "home", "cluster", "queue", "line", "gpu_milli", "run_seconds", "arrived", "sent", "way", "began", "ended", "waited", "times_sent",
    "taken_back", "dataset", "moved_bytes", "expected_wait", "evictions", "lost_gpu_milli_seconds",
)  # fmt: skip
TIMELINE = ("cluster", *tables.TIMELINE)


def job_rows(found: DispatchedReplay) -> Iterable[tuple[Any, ...]]:
    """In the order of arrival. Times are seconds after the first arrival; None where it did not come to that. ``sent``: to the cluster where it is; ``way``: seconds on the
    way there."""
    zero = found.began
    of_team = found.sites.sites[0].queues.of_team
    for one in found.journeys:
        job, work = one.job, one.work
        began = None if work is None or work.began is None else work.began - zero
        ended = None if work is None or work.ended is None else work.ended - zero
        expected = None if one.expected is None or one.expected == float("inf") else round(one.expected)
        yield (
            job.name, job.team, one.home, one.at or None, of_team[job.team] if work is None else work.queue, job.line, job.milli, job.seconds, one.arrived - zero,
            one.left - zero if one.at else None, one.way if one.at else None, began, ended,
            None if began is None else began + zero - one.arrived, one.sent, one.taken_back,
            None if one.data is None else one.data.name, one.moved, expected,
            0 if work is None else work.evictions, 0 if work is None else work.lost,
        )  # fmt: skip


def timeline_rows(found: DispatchedReplay) -> Iterable[tuple[Any, ...]]:
    """Cluster by cluster, in the order of their file."""
    for name, replayed in found.clusters.items():
        for row in tables.timeline_rows(replayed):
            yield (name, *row)
