"""Orders of jobs, and of victims, after published schedulers. They come in the place of KAI's order within a queue; who may evict whom stays KAI's
rule, so an order that preempts in its source (Tiresias) does so here only where priorities or quotas let it."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from kailab.engine.policies.contract import JobOrder, VictimOrder
from kailab.engine.policies.views import JobView
from kailab.engine.snapshot.records import GPU


class Fifo(JobOrder, frozen=True):
    """First come, first served: by arrival, whatever the priority. A job that does not fit holds up nobody behind it."""

    def key(self, job: JobView) -> float:
        return job.group.created


class SmallestJob(JobOrder, frozen=True):
    """The fewest GPUs first."""

    def key(self, job: JobView) -> float:
        return job.wants.gpu


class ShortestJob(JobOrder, frozen=True):
    """Shortest job first, by the run time that the longest of its pods is expected to have (annotation ``kailab.dev/expected-seconds``). Jobs that tell
    none come last."""

    def key(self, job: JobView) -> float:
        told = [task.expected_seconds for task in job.tasks if task.expected_seconds is not None]
        return max(told) if told else float("inf")


class Tiresias(JobOrder, frozen=True):
    """Discretised two-dimensional least attained service: jobs are in queues by the GPU time that they had, bounded by ``thresholds`` in GPU-seconds,
    the one with the least first; within a queue first come, first served.

    Counted is what the present run had, or of an evicted job the last one. Source: Gu et al., "Tiresias: A GPU Cluster Manager for Distributed Deep Learning",
    NSDI 2019, section 3.3 (the thresholds are those of its artifact's two queues)."""

    refresh: ClassVar[float | None] = 60.0
    thresholds: tuple[Annotated[float, Meta(gt=0)], ...] = (3250.0,)

    def key(self, job: JobView) -> tuple[float, float]:
        had = attained(job)
        return float(sum(had >= bound for bound in self.thresholds)), job.group.created


class MostAttained(VictimOrder, frozen=True):
    """Least attained service as a choice of victims: who had the most GPU time goes first. Source: as ``Tiresias``."""

    def cost(self, job: JobView) -> float:
        return -attained(job)


def attained(job: JobView) -> float:
    """GPU-seconds of its present run, or of its last."""
    start, gone = job.group.last_start, job.group.last_evicted
    if start is None:
        return 0.0
    if job.waiting_since is None:
        return (job.now - start) * job.holds.gpu / GPU
    return max(0.0, gone - start) * job.wants.gpu / GPU if gone is not None else 0.0
