"""A trace replayed: its jobs are applied when they came, and virtual time goes from one thing that happens to the next.

The lab decides as ever: its controllers, grouping and scheduler. Here is no clock of its own and no order of jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kailab.cluster.embedded import EmbeddedCluster
from kailab.engine.config import EngineConfig
from kailab.errors import InputError
from kailab.fleet import Fleet
from kailab.lab import Lab
from kailab.lab.garbage import collector_off
from kailab.model.prices import Prices
from kailab.replay.balance import Balance, balance
from kailab.replay.costing import gpus_by_model
from kailab.replay.following import PodFollower
from kailab.replay.fragmented import Fragmentation, FragmentSamples
from kailab.replay.job import TraceJob
from kailab.replay.manifests import job_object, pods_of
from kailab.replay.policies import workload
from kailab.replay.queues import Queues
from kailab.replay.standing import Fairness, Standings
from kailab.replay.trace import Trace
from kailab.replay.work import Accounts, Work
from kailab.scheduler import SchedulerSettings
from kailab.scheduler.observers import Observer

Progress = Callable[[str, int, int], None]
SAMPLES = 300
"""Looks at how fragmented the GPUs are, from the first arrival to the last."""
LONGEST = 10**9
"""Seconds of virtual time after which a replay is given up: some thirty years."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is replayed, and how. ``lasting``: seconds after the first arrival at which it is cut off; None: until nothing more can happen.
    ``checkpoint``: see ``Accounts``. ``endless``: jobs arrive and do not end. ``config``: as ``Lab.open`` takes it. ``prices``: by
    which its cost and energy are told."""

    trace: Trace
    fleet: Fleet
    queues: Queues
    config: EngineConfig | SchedulerSettings | Mapping[str, Any] | str | None = None
    lasting: int | None = None
    checkpoint: int | None = None
    endless: bool = False
    prices: Prices | None = None
    observers: Sequence[Observer] = field(default_factory=tuple)


@dataclass(frozen=True, kw_only=True)
class Replayed:
    """What came of it. ``began`` and ``ended``: seconds on the lab's clock; the first job arrived when it began. ``gpus``: of the fleet.
    ``cycles``: that the scheduler ran."""

    plan: Plan
    accounts: Accounts
    balance: Balance
    began: int
    ended: int
    last_arrival: int
    gpus: int
    cycles: int
    fairness: Fairness
    fragmentation: Fragmentation | None


def replay(plan: Plan, progress: Progress = lambda what, done, total: None) -> Replayed:
    """Carry it out. ``progress``: told what is done, how many jobs of how many. Raises InputError."""
    jobs = plan.trace.jobs
    if plan.prices is not None:
        plan.prices.check(gpus_by_model(plan.fleet))
    standings = Standings()
    interval = max(1, (jobs[-1].arrival - jobs[0].arrival) // SAMPLES)
    samples = FragmentSamples(workload(plan.trace, plan.fleet), interval, plan.fleet.summary().gpus)
    observers = (*plan.observers, standings, samples)
    with collector_off(), Lab.open(plan.fleet, config=plan.config, observers=observers) as lab:
        return _Run(lab, plan, progress, standings, samples).run()


class _Run:
    def __init__(
        self, lab: Lab, plan: Plan, progress: Progress, standings: Standings, samples: FragmentSamples
    ) -> None:
        cluster = lab.cluster
        assert isinstance(cluster, EmbeddedCluster)
        self._lab = lab
        self._plan = plan
        self._progress = progress
        self._standings, self._samples = standings, samples
        self._cluster = cluster
        self._accounts = Accounts(plan.checkpoint, endless=plan.endless)
        self._largest = plan.fleet.largest_node
        self._jobs = plan.trace.jobs
        self._next = 0

    def run(self) -> Replayed:
        plan, lab = self._plan, self._lab
        self._check_priorities()
        lab.apply(list(plan.queues.objects))
        lab.settle()
        follower = PodFollower(self._cluster, self._accounts)
        began = int(lab.now)
        self._shift = began - self._jobs[0].arrival
        self._accounts.pass_to(began)
        self._await_arrivals()
        lasting = LONGEST if plan.lasting is None else plan.lasting
        try:
            for _ in lab.moments(lasting):
                follower.look()
                self._progress("replaying", self._next - len(self._accounts.unfinished), len(self._jobs))
                if plan.lasting is None and self._over():
                    break
            follower.look()
        finally:
            follower.close()
        ended = int(lab.now)
        accounts = self._accounts
        accounts.note(ended)
        self._samples.look()
        return Replayed(
            plan=plan,
            accounts=accounts,
            balance=balance(accounts, ended),
            began=began,
            ended=ended,
            last_arrival=self._jobs[-1].arrival + self._shift,
            gpus=plan.fleet.summary().gpus,
            cycles=lab.log.cycle,
            fairness=self._standings.fairness(ended),
            fragmentation=self._samples.summary(),
        )

    # --- arrivals ----------------------------------------------------------------------------------------------------

    def _await_arrivals(self) -> None:
        """One timer, for the next arrival: a trace may have more jobs than a clock should hold timers."""
        if self._next < len(self._jobs):
            at = self._jobs[self._next].arrival + self._shift
            self._cluster.call_at(at, self._arrive, prompt=False)

    def _arrive(self) -> None:
        now = int(self._cluster.now())
        self._accounts.pass_to(now)
        for job in self._arriving(now):
            name, queue = f"job-{self._next:07}", self._plan.queues.of_team[job.team]
            pods = pods_of(job, self._largest)
            self._next += 1
            self._accounts.arrive(Work(name, job, queue, pods, now))
            self._cluster.create(job_object(name, job, queue, pods, endless=self._plan.endless))
        self._accounts.note(now)
        self._await_arrivals()

    def _arriving(self, now: int) -> Iterator[TraceJob]:
        while self._next < len(self._jobs) and self._jobs[self._next].arrival + self._shift <= now:
            yield self._jobs[self._next]

    # --- the end -----------------------------------------------------------------------------------------------------

    def _over(self) -> bool:
        """All have arrived, and nothing that waits can ever start: whoever could end has ended."""
        if self._next < len(self._jobs):
            return False
        if not self._accounts.unfinished:
            return True
        # With a timer ahead something is still to happen, if only a Job that makes a pod again.
        return self._cluster.next_timer() is None and not self._lab_moves()

    def _lab_moves(self) -> bool:
        return self._cluster.next_prompt() is not None

    def _check_priorities(self) -> None:
        known = {one["metadata"]["name"] for one in self._cluster.list("PriorityClass")}
        for job in self._jobs:
            if job.priority and job.priority not in known:
                raise InputError(
                    f"no PriorityClass is called {job.priority!r:.80}; there are: {', '.join(sorted(known))}",
                    self._plan.trace.where(job.line),
                )
