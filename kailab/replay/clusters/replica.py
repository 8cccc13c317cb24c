"""One cluster as the dispatcher sees it: its lab, the jobs on their way to it, and an estimate of when it has room for
a job.

The estimate assumes that jobs begin in order of arrival, that none overtakes another, and that GPUs are one pool
without nodes, quotas and evictions.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator
from math import inf
from typing import Any, NamedTuple

from kailab.engine.policies.dispatching import ClusterView
from kailab.replay.accounts import PodLifetime, ReplayAccounts, ReplayedJob
from kailab.replay.clusters.feasibility import JobFeasibility
from kailab.replay.clusters.queue_bounds import QueueBounds, QueueHoldings
from kailab.replay.clusters.sites import ClusterSite, Transfer
from kailab.replay.costs import gpus_by_model
from kailab.replay.job import WHOLE, TraceJob
from kailab.replay.manifests import pods_of
from kailab.replay.run import ReplayLab

PendingDemand = tuple[int, float, float]
"""Milli-GPU, the seconds for which they are needed, and in how many seconds at the earliest: 0 for a job that is there."""


def seconds_until_room(
    free: int, running: Iterable[tuple[float, int]], before: Iterable[PendingDemand], wanted: int
) -> float:
    """Seconds until ``wanted`` milli-GPU are free; 0 if nothing is wanted.

    ``running``: (seconds until its end, milli-GPU) of each pod. ``before``: demand of jobs that begin earlier.

    >>> seconds_until_room(1000, [(60, 1000), (90, 2000)], [(2000, 100, 0)], 1000)
    90.0
    >>> seconds_until_room(2000, [], [(2000, 100, 30)], 1000)
    130.0
    """
    if not wanted:
        return 0.0
    ends = list(running)
    heapq.heapify(ends)
    at = 0.0
    for milli, seconds, earliest in (*before, (wanted, inf, 0.0)):
        at = max(at, earliest)
        while free < milli:
            if not ends:
                return inf
            end, freed = heapq.heappop(ends)
            at = max(at, end)
            free += freed
        free -= milli
        heapq.heappush(ends, (at + seconds, milli))
    return float(at)


def may_take(job: TraceJob, models: Collection[str]) -> bool:
    """True if the job may run on one of ``models`` and so competes for them; an empty list means any model."""
    return not models or not job.models or any(model in models for model in job.models)


def seconds_left(accounts: ReplayAccounts, work: ReplayedJob, life: PodLifetime, now: int) -> float:
    """Seconds until a bound pod ends."""
    if accounts.endless:
        return inf
    before = work.saved.get(life.index, 0) + accounts.ran(work, life, now)
    return accounts.progress.duration(work.job.seconds - before, before, restarted=False)


class _GpuDemand(NamedTuple):
    """Supply and demand of the GPUs of some models now, in milli-GPU; see ``seconds_until_room``."""

    free: int
    waiting: int
    running: list[tuple[float, int]]
    before: list[PendingDemand]


class JobInTransfer(NamedTuple):
    """A job on its way to a cluster, where it and its data ``land`` at this moment."""

    job: TraceJob
    lands: int


class _WaitingJob(NamedTuple):
    """A waiting job with ``missing`` pods that run for ``seconds`` once they start, in ``way`` seconds at the earliest."""

    name: str
    job: TraceJob
    missing: int
    pods: int
    seconds: float
    way: float = 0.0

    @property
    def wanted(self) -> PendingDemand:
        return self.job.milli // self.pods * self.missing, self.seconds, self.way


class _WaitingLine(NamedTuple):
    """The jobs that wait for GPUs now, in order.

    ``held_back``: names of jobs whose queue does not let them begin, so that they block nobody. ``queues``: holdings if
    all others had begun.
    """

    held_back: set[str]
    queues: QueueHoldings


class ClusterReplica:
    """One cluster of the replay.

    ``coming``: jobs on their way here, by name. ``never_begins``: names of jobs that were sent here although they can never
    begin; they block nobody.
    """

    def __init__(self, site: ClusterSite, replay_lab: ReplayLab) -> None:
        self.site = site
        self.name = site.name
        self.replay_lab = replay_lab
        self.session = replay_lab.session
        self.accounts = replay_lab.accounts
        self.coming: dict[str, JobInTransfer] = {}
        self.never_begins: set[str] = set()
        self._models = gpus_by_model(site.plan.fleet)
        self._prices: dict[tuple[str, ...], float | None] = {}
        self._bounds, self._beginning = self._asked_of(site)
        self._lines: dict[int, _WaitingLine] = {}
        self._stands: dict[tuple[tuple[str, ...], int], _GpuDemand] = {}
        self._held: dict[str, int] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what derives from the site; it is supplied again on resume."""
        return {**self.__dict__, "site": None, "_bounds": None, "_beginning": None, "_lines": {}, "_stands": {}}

    def restore(self, site: ClusterSite) -> None:
        """Supply the site again after a resume."""
        self.site = site
        self.replay_lab.plan = site.plan
        self._bounds, self._beginning = self._asked_of(site)

    def forget(self) -> None:
        """Drop cached estimates after a change."""
        self._lines.clear()
        self._stands.clear()
        self._held.clear()

    def fits(self, job: TraceJob) -> bool:
        """True if the dispatcher could ever send the job here."""
        within = self.site.limit is None or job.milli <= self.site.limit * WHOLE
        return within and self.could_begin(job)

    def could_begin(self, job: TraceJob) -> bool:
        """True if the job could begin here in an empty cluster without the site's limit."""
        return self._beginning.possible(job)

    def takes(self, job: TraceJob) -> bool:
        """True if the dispatcher may send the job here now: the jobs here stay within the site's limit."""
        if self.site.limit is None:
            return True
        demand = sum(work.job.milli for name, work in self.accounts.unfinished.items() if name not in self.never_begins)
        demand += sum(job_on_way.milli for job_on_way in self._expected())
        return demand + job.milli <= self.site.limit * WHOLE

    def view(
        self, job: TraceJob, home: str, latency: float, transfer: Transfer, own: ReplayedJob | None = None
    ) -> ClusterView:
        """The cluster as the policy sees it for this job. ``own``: the job in this cluster if it already waits here."""
        models = job.models
        by = self._last_in_front(self.session.now + (0 if own is not None else transfer.seconds))
        line = self._in_line(by) if own is None else self._lined_up(by, own)
        demand = self._standing(models, by) if own is None else self._stand(models, line, by, own)
        pods = self._pods(job)
        allowed = line.queues.takes(job, pods, pods)
        return ClusterView(
            self.name,
            home=self.name == home,
            gpus=float(self._gpus(models)),
            free=demand.free / WHOLE,
            waiting=demand.waiting / WHOLE,
            price=self._price(models),
            latency=latency,
            move_bytes=transfer.moved,
            move_cost=transfer.cost,
            way=0 if own is not None else transfer.seconds,
            allowed=allowed,
            room_in=lambda: max(
                seconds_until_room(demand.free, demand.running, demand.before, job.milli),
                0.0 if allowed else self._room_in_queue(job, line, by, own),
            ),
        )

    def holds(self, team: str) -> int:
        """Milli-GPU that a team's queue holds now, or that jobs sent here will need."""
        if not self._held:
            of_team = self.site.queues.of_team
            for name, work in self.accounts.unfinished.items():
                held = len(work.lives) if name in self.never_begins else work.pods - work.done
                self._held[work.queue] = self._held.get(work.queue, 0) + held * work.milli
            for job in self._expected():
                self._held[of_team[job.team]] = self._held.get(of_team[job.team], 0) + job.milli
        return self._held.get(self.site.queues.of_team[team], 0)

    def _last_in_front(self, at: int) -> int:
        """When the last of the jobs on their way lands that is in front of a job that lands ``at``; 0 without one. Jobs
        that land later stand behind it: their data keep no GPU free until then.
        """
        return max((coming.lands for coming in self.coming.values() if coming.lands <= at), default=0)

    def _standing(self, models: tuple[str, ...], by: int) -> _GpuDemand:
        demand = self._stands.get((models, by))
        if demand is None:
            demand = self._stands[models, by] = self._stand(models, self._in_line(by), by)
        return demand

    def _stand(
        self, models: tuple[str, ...], line: _WaitingLine, by: int, until: ReplayedJob | None = None
    ) -> _GpuDemand:
        running = [
            (seconds_left(self.accounts, work, life, self.session.now), work.milli)
            for work, life in self.accounts.live()
            if not models or life.model in models
        ]
        before = [
            waiting_job.wanted
            for waiting_job in self._waiting(by, until)
            if waiting_job.name not in line.held_back and may_take(waiting_job.job, models)
        ]
        return _GpuDemand(
            free=WHOLE * self._gpus(models) - sum(milli for _, milli in running),
            waiting=sum(milli for milli, _, _ in before),
            running=running,
            before=before,
        )

    def _in_line(self, by: int) -> _WaitingLine:
        line = self._lines.get(by)
        if line is None:
            line = self._lines[by] = self._lined_up(by)
        return line

    def _lined_up(self, by: int, until: ReplayedJob | None = None) -> _WaitingLine:
        """The waiting jobs that arrived before ``until``, or land ``by`` then."""
        queues, held_back = self._bounds.holding(), set()
        for work in self.accounts.unfinished.values():
            queues.hold(work.job, len(work.lives), work.pods)
        for waiting_job in self._waiting(by, until):
            if queues.takes(waiting_job.job, waiting_job.missing, waiting_job.pods):
                queues.hold(waiting_job.job, waiting_job.missing, waiting_job.pods)
            else:
                held_back.add(waiting_job.name)
        return _WaitingLine(held_back, queues)

    def _waiting(self, by: int, until: ReplayedJob | None = None) -> Iterator[_WaitingJob]:
        """Waiting jobs that could ever begin, by arrival, and then those on their way that land ``by`` then."""
        for work in self.accounts.unfinished.values():
            if work is until:
                return
            missing = work.pods - work.done - len(work.lives)
            if missing and work.name not in self.never_begins:
                seconds = inf if self.accounts.endless else work.job.seconds
                yield _WaitingJob(work.name, work.job, missing, work.pods, seconds)
        if until is None:
            now = self.session.now
            for name, (job, lands) in sorted(self.coming.items(), key=lambda item: item[1].lands):
                if name not in self.never_begins and lands <= by:
                    pods = self._pods(job)
                    seconds = inf if self.accounts.endless else job.seconds
                    yield _WaitingJob(name, job, pods, pods, seconds, max(0, lands - now))

    def _room_in_queue(self, job: TraceJob, line: _WaitingLine, by: int, until: ReplayedJob | None) -> float:
        """Seconds until the job fits under the limits of its queues, given what runs and waits in the queues that share
        each limit."""
        longest = 0.0
        for limit, queues in line.queues.limits(job):
            running = [
                (seconds_left(self.accounts, work, life, self.session.now), work.milli)
                for work, life in self.accounts.live()
                if work.queue in queues
            ]
            before = [
                waiting_job.wanted
                for waiting_job in self._waiting(by, until)
                if self._bounds.queue_of(waiting_job.job) in queues
            ]
            free = limit - sum(milli for _, milli in running)
            longest = max(longest, seconds_until_room(free, running, before, job.milli))
        return longest

    def _pods(self, job: TraceJob) -> int:
        return pods_of(job, self.site.plan.fleet.largest_node)

    def _expected(self) -> list[TraceJob]:
        """Jobs on their way here that could begin."""
        return [coming.job for name, coming in self.coming.items() if name not in self.never_begins]

    def _asked_of(self, site: ClusterSite) -> tuple[QueueBounds, JobFeasibility]:
        bounds = QueueBounds(site.plan, self.session.cluster.list("PriorityClass"))
        return bounds, JobFeasibility(site.plan, bounds)

    def _gpus(self, models: tuple[str, ...]) -> int:
        return sum(gpus for model, gpus in self._models.items() if not models or model in models)

    def _price(self, models: tuple[str, ...]) -> float | None:
        """The mean price of the GPUs that the job may run on."""
        prices, gpus = self.site.prices, self._gpus(models)
        if prices is None or not gpus:
            return None
        if models not in self._prices:
            own = {model: number for model, number in self._models.items() if not models or model in models}
            self._prices[models] = sum(prices.of(model).per_hour * number for model, number in own.items()) / gpus
        return self._prices[models]
