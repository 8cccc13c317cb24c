"""Orders of jobs and victims from published schedulers.

They replace KAI's order within a queue. KAI's rules still decide which jobs may evict which, by priorities and quotas,
except with an order that ``preempts``: a waiting job may then evict the preemptible jobs of its queue that come after it.
An order whose ``head_blocks`` starts no job before those in front of it. ``kailab.scheduler`` reads both.
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


class StrictFifo(Fifo, frozen=True):
    """First come, first served, strictly: no job of a queue starts before those that came earlier, even if it would fit.

    Source: the FCFS baseline of Mu'alem and Feitelson, IEEE TPDS 12(6), 2001.
    """

    head_blocks: ClassVar[bool] = True


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


class ShortestRemaining(JobOrder, frozen=True):
    """The shortest remaining time first, with preemption: a waiting job may evict the running jobs of its queue that
    need longer. The remaining time is the longest of its pods' (annotation ``kailab.dev/expected-seconds``), less the
    time since its start. Jobs without one come last. Of equal jobs a running one stays.

    Source: Schrage, "A Proof of the Optimality of the Shortest Remaining Processing Time Discipline", Operations
    Research 16(3), 1968; the baseline SRTF of Tiresias, NSDI 2019.
    """

    preempts: ClassVar[bool] = True

    def key(self, job: JobView) -> tuple[float, float, float]:
        return remaining(job), float(running_since(job) is None), job.group.created


class Tiresias(JobOrder, frozen=True):
    """Discretised two-dimensional least attained service: ``thresholds`` in GPU-seconds divide jobs into bands by the
    GPU time they have used. The lowest band is served first; within a band first come, first served.

    The GPU time is that of all runs of a job, as far as its pods declare those of the pods that they replace (annotation
    ``kailab.dev/ran-seconds``); else that of the present or the last run. Source: Gu et al., "Tiresias: A GPU
    Cluster Manager for Distributed Deep Learning", NSDI 2019, section 3.3 (the thresholds are those of its
    artifact's two queues).
    """

    refresh: ClassVar[float | None] = 60.0
    lasting: ClassVar[bool] = True
    thresholds: tuple[Annotated[float, Meta(gt=0)], ...] = (3250.0,)

    def key(self, job: JobView) -> tuple[float, ...]:
        used = attained(job)
        return float(sum(used >= bound for bound in self.thresholds)), job.group.created


class LeastAttained(Tiresias, frozen=True):
    """Discretised least attained service that preempts by its own order, as Tiresias does: a waiting job may evict the
    running jobs of its queue that are in a higher band. Within a band running jobs stay, and others are first come, first
    served.

    Source: as ``Tiresias``; section 3.3 keeps the jobs of a band in the order in which they started.
    """

    preempts: ClassVar[bool] = True

    def key(self, job: JobView) -> tuple[float, ...]:
        band, created = Tiresias.key(self, job)
        return band, float(running_since(job) is None), created


class LongestRemaining(VictimOrder, frozen=True):
    """The job that needs longest goes first. Source: as ``ShortestRemaining``."""

    def cost(self, job: JobView) -> float:
        return -remaining(job)


class MostAttained(VictimOrder, frozen=True):
    """Least attained service as an order of victims: the job with the most GPU time goes first. Source: as
    ``Tiresias``.
    """

    def cost(self, job: JobView) -> float:
        return -attained(job)


def running_since(job: JobView) -> float | None:
    """When the present run of a job began; None for a job that waits. It is known also of a running job whose view is
    that of an eviction now, which holds nothing.
    """
    start, evicted = job.group.last_start, job.group.last_evicted
    return None if start is None or (evicted is not None and evicted >= start) else start


def remaining(job: JobView) -> float:
    """Seconds until the job ends if it goes on, or starts, now; infinite for a job that declares no run time."""
    seconds = [task.expected_seconds for task in job.tasks if task.expected_seconds is not None]
    start = running_since(job)
    left = max(seconds) if seconds else float("inf")
    return left if start is None else max(0.0, left - (job.now - start))


def attained(job: JobView) -> float:
    """GPU-seconds of all runs of a job."""
    earlier = sum(task.ran_seconds * task.shape.gpu.most_gpus for task in job.tasks) / GPU
    start, evicted = job.group.last_start, job.group.last_evicted
    if start is None:
        return earlier
    if running_since(job) is not None:
        return earlier + (job.now - start) * (job.holds.gpu or job.wants.gpu) / GPU
    # Pods that do not declare earlier runs replace others all the same: the last run is known from the PodGroup.
    return earlier or (max(0.0, evicted - start) * job.wants.gpu / GPU if evicted is not None else 0.0)
