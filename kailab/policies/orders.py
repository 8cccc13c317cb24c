"""Orders of jobs and victims from published schedulers.

They replace KAI's order within a queue. KAI's rules still decide which jobs may evict which, so an order that preempts
in its source (Tiresias) preempts here only if priorities or quotas allow it.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from kailab.engine.policies.contract import JobOrder, VictimOrder
from kailab.engine.policies.views import JobView
from kailab.engine.snapshot.records import GPU


class Fifo(JobOrder, frozen=True):
    """First come, first served, regardless of priority. A job that does not fit does not block those behind it."""

    lasting: ClassVar[bool] = True

    def key(self, job: JobView) -> float:
        return job.group.created


class SmallestJob(JobOrder, frozen=True):
    """The fewest GPUs first."""

    lasting: ClassVar[bool] = True

    def key(self, job: JobView) -> float:
        return job.wants.gpu


class ShortestJob(JobOrder, frozen=True):
    """Shortest job first, by the longest expected run time of its pods (annotation ``kailab.dev/expected-seconds``).
    Jobs without one come last.
    """

    lasting: ClassVar[bool] = True

    def key(self, job: JobView) -> float:
        seconds = [task.expected_seconds for task in job.tasks if task.expected_seconds is not None]
        return max(seconds) if seconds else float("inf")


class Tiresias(JobOrder, frozen=True):
    """Discretised two-dimensional least attained service: ``thresholds`` in GPU-seconds divide jobs into bands by the
    GPU time they have used. The lowest band is served first; within a band first come, first served.

    The GPU time is that of the present run, or of an evicted job's last run. Source: Gu et al., "Tiresias: A GPU
    Cluster Manager for Distributed Deep Learning", NSDI 2019, section 3.3 (the thresholds are those of its
    artifact's two queues).
    """

    refresh: ClassVar[float | None] = 60.0
    lasting: ClassVar[bool] = True
    thresholds: tuple[Annotated[float, Meta(gt=0)], ...] = (3250.0,)

    def key(self, job: JobView) -> tuple[float, float]:
        used = attained(job)
        return float(sum(used >= bound for bound in self.thresholds)), job.group.created


class MostAttained(VictimOrder, frozen=True):
    """Least attained service as an order of victims: the job with the most GPU time goes first. Source: as
    ``Tiresias``.
    """

    def cost(self, job: JobView) -> float:
        return -attained(job)


def attained(job: JobView) -> float:
    """GPU-seconds of the job's present run, or of its last."""
    start, evicted = job.group.last_start, job.group.last_evicted
    if start is None:
        return 0.0
    if job.waiting_since is None:
        return (job.now - start) * job.holds.gpu / GPU
    return max(0.0, evicted - start) * job.wants.gpu / GPU if evicted is not None else 0.0
