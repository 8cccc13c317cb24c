"""The weighted score of a waiting job: four parts from 0 to 1, computed once at the beginning of a cycle.

==========  ============================================================================================================
priority    1 for the highest priority of all jobs that wait or run, 0 for the lowest, the levels between at equal
steps; 1
            if all have the same priority. Levels and not jobs are counted, so that many equal jobs change nothing.
waiting     seconds waited / ``full_wait``, at most 1. A job waits since its creation, last start or last eviction,
            whichever is the latest; one whose gang runs does not wait, even if it wants more pods.
efficiency  GPUs it wants next / GPUs of the fewest of the largest nodes that hold them: 1 if it fills nodes to the last
            GPU, 1/8 for one GPU of a node of eight. Work without GPUs wastes none: 1.
fairness    1 - GPUs its queue holds / its queue's fair share, at least 0: 1 for a team that has nothing. The same for
all
            jobs of a queue, so it decides between queues only (scope "cluster").
==========  ============================================================================================================

The score is the sum of the parts, each times its weight. Source: weighted queue draining in the lesson material (0.4
priority, 0.3 waiting time, 0.2 resource efficiency, 0.1 fairness between teams).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kailab.engine.policies.settings import WeightedOrder
from kailab.engine.snapshot.records import ACTIVE
from kailab.engine.working.layout import GPUS
from kailab.engine.working.state import Job

if TYPE_CHECKING:
    from kailab.engine.policies.session_contract import PolicySession


STEP = 1e-6


class Score(NamedTuple):
    """The parts before their weights, and the weighted sum, all rounded to a millionth (``STEP``)."""

    priority: float
    waiting: float
    efficiency: float
    fairness: float
    total: float


def has_its_turn(job: Job) -> bool:
    """True if its gang is placed, even if it wants more pods. A victim that a simulation evicts loses this state: it
    comes where it came before, so that a job that a policy has just let in is not evicted in the same cycle.
    """
    return job.active > 0 and job.elastic_state() > 0


def waiting_since(job: Job) -> float | None:
    """When its wait began; None if it does not wait to start. A job that ran and has no running pod left waits at least
    since its last start.
    """
    if job.used and job.gang_satisfied:
        return None
    moments = (job.record.created, job.last_start, job.last_evicted)
    return max(moment for moment in moments if moment is not None)


class Scores:
    """Scores of the jobs of one cycle, computed on first use."""

    def __init__(self, session: PolicySession, weights: WeightedOrder) -> None:
        self._session = session
        self._weights = weights
        levels = sorted({job.record.priority for job in session.jobs.values() if job.pending or job.used})
        steps = max(1, len(levels) - 1)
        self._levels = {value: rank / steps for rank, value in enumerate(levels)} if len(levels) > 1 else {}
        self._largest = int(session.table.allocatable[GPUS].max()) if len(session.table) else 0
        self._fairness: dict[str, float] = {}
        self._found: dict[str, Score] = {}

    def total(self, job: Job) -> float:
        """The present score: a job that was placed in this cycle waits no longer."""
        score = self.of(job)
        if score.waiting and has_its_turn(job):
            return round(score.total - score.waiting * self._weights.waiting, 6)
        return score.total

    def reached_at(self, job: Job, needed: float) -> float | None:
        """When a waiting job exceeds this score if nothing else changes, at the earliest when scores are computed
        again. None: never.
        """
        weights, holds = self._weights, self._weights.holds
        if holds is None or has_its_turn(job) or waiting_since(job) is None:
            return None
        # One step more than what is missing, because scores are rounded to a step.
        missing = (needed + STEP - self.total(job)) / weights.waiting
        if self.of(job).waiting + missing > 1.0:
            return None
        return self._session.now + max(missing * weights.full_wait, holds)

    def anew(self, job: Job, bereft: bool = False) -> float:
        """The best score it could have if its wait began now. ``bereft``: and if its queue held nothing."""
        score = self.of(job)
        total = score.total - score.waiting * self._weights.waiting
        # After an eviction it would want other tasks than now. The better score is taken: a job that evicts it must
        # come before it in the queue too, or the two would evict each other in turns.
        total += (max(score.efficiency, self._efficiency_of_start(job)) - score.efficiency) * self._weights.efficiency
        if bereft:
            total += (1.0 - score.fairness) * self._weights.fairness
        return round(total, 6)

    def of(self, job: Job) -> Score:
        """The score at the beginning of the cycle."""
        score = self._found.get(job.uid)
        if score is None:
            score = self._found[job.uid] = self._compute(job)
        return score

    def _compute(self, job: Job) -> Score:
        weights = self._weights
        since = waiting_since(job)
        waited = 0.0 if since is None else max(0.0, self._session.now - since)
        parts = (
            self._levels.get(job.record.priority, 1.0),
            min(1.0, waited / weights.full_wait) if weights.full_wait > 0 else float(waited > 0),
            self._efficiency(job),
            self._fair(job),
        )
        factors = (weights.priority, weights.waiting, weights.efficiency, weights.fairness)
        total = sum(part * factor for part, factor in zip(parts, factors, strict=True))
        # Rounded, so that float noise decides nothing and equal work has equal scores.
        rounded = [round(part, 6) for part in parts]
        return Score(rounded[0], rounded[1], rounded[2], rounded[3], round(total, 6))

    def _efficiency(self, job: Job) -> float:
        session = self._session
        wanted = session.wanted(job)[2]
        if not wanted:
            # A job that wants nothing more is judged by what it has, because it may be a victim.
            tasks = [task for task in job if ACTIVE[task.status]]
            wanted = session.wants(tasks, session.table.min_gpu_memory)[2]
        return self._filled(wanted)

    def _efficiency_of_start(self, job: Job) -> float:
        """The efficiency of the tasks that it would place first: its whole gang, or one task above it, whichever is
        better.
        """
        session = self._session
        gang = []
        for podset in job.podsets:
            gang += sorted(podset.tasks.values(), key=lambda task: task.key)[: podset.minimum]
        alone = max((session.wants([task], session.table.min_gpu_memory)[2] for task in job), default=0)
        return max(self._filled(session.wants(gang, session.table.min_gpu_memory)[2]), self._filled(alone))

    def _filled(self, wanted: int) -> float:
        if wanted <= 0 or self._largest <= 0:
            return 1.0
        nodes = -(-wanted // self._largest)
        return float(wanted / (nodes * self._largest))

    def _fair(self, job: Job) -> float:
        name = job.record.queue
        fairness = self._fairness.get(name)
        if fairness is None:
            queue = self._session.tree.get(name)
            fairness = 0.0
            if queue is not None:
                held, fair = queue.allocated[2], queue.fair[2]
                if fair > 0:
                    fairness = max(0.0, 1.0 - held / fair)
                else:
                    # A queue without a fair share counts as full with its first GPU.
                    fairness = 0.0 if held > 0 else 1.0
            self._fairness[name] = fairness
        return fairness
