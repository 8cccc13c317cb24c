"""Replay a trace in one lab: submit each job at its arrival and advance virtual time from event to event.

The lab's own controllers, grouping and scheduler make all decisions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from typing import Any

from kailab.errors import InputError
from kailab.lab import Lab
from kailab.lab.garbage import collector_off
from kailab.lab.settle import CYCLE_SECONDS
from kailab.model.callbacks import Progress
from kailab.replay.accounts import GpuTimeBalance, ReplayAccounts, UnstartedJobs, balance_at, unstarted_jobs
from kailab.replay.costs import gpus_by_model
from kailab.replay.fleets import counted_gpus, has_mig
from kailab.replay.job import LONGEST
from kailab.replay.plan import ReplayPlan as Plan
from kailab.replay.policies import workload_mix
from kailab.replay.resume_file import ResumeFile
from kailab.replay.sampling import Fairness, FairnessSampler, Fragmentation, FragmentationSampler, MetricsSampler
from kailab.replay.services import ServedReplicas
from kailab.replay.session import ReplaySession
from kailab.scheduler.observers import DecidingScheduler, Observer
from kailab.scheduler.status.reporting import GroupReason

SAMPLES = 300
"""Number of fragmentation and metric samples from the first arrival to the last."""


@dataclass(frozen=True, kw_only=True)
class CompletedReplay:
    """The result of a replay.

    ``began`` and ``ended``: seconds on the lab's clock; the first job arrived at ``began``. ``gpus``: GPUs of the
    fleet. ``cycles``: number of scheduling cycles. ``unbegun``: why jobs never began. ``opened``: the lab's clock when
    it was opened. ``meter``: None without metrics. ``served``: by inference services.
    """

    plan: Plan
    accounts: ReplayAccounts
    balance: GpuTimeBalance
    began: int
    ended: int
    last_arrival: int
    gpus: int
    cycles: int
    fairness: Fairness
    fragmentation: Fragmentation | None
    unbegun: Sequence[UnstartedJobs] = ()
    opened: float = 0.0
    meter: MetricsSampler | None = None
    served: Sequence[ServedReplicas] = ()

    @property
    def faults(self) -> list[str]:
        """Why the figures are invalid: GPU time does not balance. Empty for a sound replay."""
        return self.balance.faults


def replay(
    plan: Plan, progress: Progress = lambda step, done, total: None, resume_file: ResumeFile | None = None
) -> CompletedReplay:
    """Replay a plan.

    ``progress``: called with a description, the number of completed jobs and the number of all jobs. ``resume_file``: saves
    the replay and resumes a saved one. The result may have ``faults``. Raises InputError, StateError.
    """
    with collector_off():
        saved = None if resume_file is None else resume_file.load()
        if saved is not None:
            assert isinstance(saved, _Run)
            with saved.lab:
                return saved.resume(plan, progress, resume_file)
        with open_replay_lab(plan) as replay_lab:
            return _Run(replay_lab, progress, resume_file).run()


class ReasonsAtEnd(Observer):
    """Makes the scheduler say why work waits only at the end, and write neither that nor the status of queues and PodGroups, because
    nothing reads them. Not used if the replay is recorded or metrics are sampled.
    """

    def __init__(self) -> None:
        self._scheduler: DecidingScheduler | None = None

    def on_begin(self, scheduler: DecidingScheduler) -> None:
        self._scheduler = scheduler
        scheduler.reasons_when_asked()

    def reasons(self) -> Mapping[str, GroupReason]:
        """Why work waits, by PodGroup (UID); empty if PodGroups say it themselves."""
        return {} if self._scheduler is None else self._scheduler.reasons()


class ReplayLab:
    """The lab of a plan with its session, accounts and samplers."""

    def __init__(
        self,
        plan: Plan,
        lab: Lab,
        fairness: FairnessSampler,
        fragmentation: FragmentationSampler,
        reasons: ReasonsAtEnd,
    ) -> None:
        self.plan = plan
        self._reasons = reasons
        self._meter = None if plan.metered is None else MetricsSampler(plan.metered or _interval(plan))
        self._fairness, self._fragmentation = fairness, fragmentation
        self.accounts = ReplayAccounts(plan.progress, endless=plan.endless)
        self.session = ReplaySession(lab, plan.queues, self.accounts, plan.fleet.largest_node, plan.speeds)
        self.session.check_priorities(plan.trace)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the plan; it is supplied again on resume."""
        return {**self.__dict__, "plan": None}

    def sample_if_due(self, *, resting: bool) -> None:
        """Take the samples that are due. ``resting``: True if the state holds until the next timer, False if only
        until the next cycle."""
        timer = self.session.cluster.next_timer()
        until = self.session.lab.now + CYCLE_SECONDS
        if resting:
            until = inf if timer is None else timer
        self._fragmentation.sample_if_due(self.session.lab.now, until)
        if self._meter is not None:
            self._meter.sample_if_due(self.session.lab, until)

    def replayed(self, began: int, last_arrival: int) -> CompletedReplay:
        """The result up to now."""
        lab = self.session.lab
        ended = self.session.now
        self.accounts.note(ended)
        self._fragmentation.sample()
        if self._meter is not None:
            self._meter.sample(lab)
        return CompletedReplay(
            plan=self.plan,
            accounts=self.accounts,
            balance=balance_at(self.accounts, ended),
            began=began,
            ended=ended,
            last_arrival=last_arrival,
            gpus=counted_gpus(self.plan.fleet, self.plan.trace),
            cycles=lab.log.cycle,
            fairness=self._fairness.fairness(ended, self.accounts.used_by_queue(ended)),
            fragmentation=self._fragmentation.summary(),
            unbegun=unstarted_jobs(self.session.cluster, self.accounts, self._reasons.reasons()),
            opened=lab.opened,
            meter=self._meter,
            served=self.session.served,
        )


def _interval(plan: Plan) -> int:
    """Seconds between two samples."""
    jobs = plan.trace.jobs
    return max(1, (jobs[-1].arrival - jobs[0].arrival) // SAMPLES)


@contextmanager
def open_replay_lab(plan: Plan) -> Iterator[ReplayLab]:
    """Open the lab of a plan with its queues, before its first job. Raises InputError."""
    if plan.prices is not None:
        if plan.services:
            raise InputError("prices: GPUs of services are in no account of jobs; expected no prices with services")
        if has_mig(plan.trace):
            raise InputError(
                "prices are of whole GPUs, and jobs of the trace ask for MIG instances; expected no prices"
            )
        plan.prices.check(gpus_by_model(plan.fleet))
    fairness = FairnessSampler()
    kinds = workload_mix(plan.trace, plan.fleet)
    # Without a kind of pods that could use a free device nothing is a fragment.
    fragmentation = FragmentationSampler(kinds, _interval(plan), plan.fleet.summary().gpus if kinds else 0)
    reasons = ReasonsAtEnd()
    observers = (*plan.observers, fairness, fragmentation)
    if not plan.observers and plan.metered is None:
        observers = (*observers, reasons)
    with Lab.open(plan.fleet, config=plan.config, observers=observers) as lab:
        yield ReplayLab(plan, lab, fairness, fragmentation, reasons)


class _Run:
    """Submits all jobs of the trace to one lab as they arrive."""

    def __init__(self, replay_lab: ReplayLab, progress: Progress, resume_file: ResumeFile | None) -> None:
        self._replay_lab = replay_lab
        self._session, self._accounts = replay_lab.session, replay_lab.accounts
        self._progress, self._resume_file = progress, resume_file
        self._jobs = replay_lab.plan.trace.jobs
        self._next = 0
        self._began = replay_lab.session.now
        self._shift = self._began - self._jobs[0].arrival

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the trace, the progress callback and the resume file; they are supplied again on resume."""
        return {**self.__dict__, "_jobs": None, "_progress": None, "_resume_file": None}

    @property
    def lab(self) -> Lab:
        return self._session.lab

    @property
    def _end(self) -> int:
        """When the replay is cut off."""
        lasting = self._replay_lab.plan.lasting
        return self._began + (LONGEST if lasting is None else lasting)

    def run(self) -> CompletedReplay:
        self._accounts.pass_to(self._began)
        self._session.expect(self._replay_lab.plan.failures, self._began)
        self._session.serve(self._replay_lab.plan.services, self._shift)
        self._await_arrivals()
        return self._run_to_end(rested=False)

    def resume(self, plan: Plan, progress: Progress, resume_file: ResumeFile | None) -> CompletedReplay:
        """Resume a saved replay."""
        self._replay_lab.plan, self._jobs = plan, plan.trace.jobs
        self._progress, self._resume_file = progress, resume_file
        return self._run_to_end(rested=True)

    def _run_to_end(self, *, rested: bool) -> CompletedReplay:
        plan, session = self._replay_lab.plan, self._session
        left = self._end - session.now
        try:
            for resting in session.moments(left, rested=rested):
                self._replay_lab.sample_if_due(resting=resting)
                self._progress("replaying", self._next - len(self._accounts.unfinished), len(self._jobs))
                if plan.lasting is None and self._is_complete():
                    break
                if resting and self._resume_file is not None:
                    self._resume_file.save_if_due(self)
        finally:
            session.close()
        return self._replay_lab.replayed(self._began, self._jobs[-1].arrival + self._shift)

    # --- arrivals ----------------------------------------------------------------------------------------------------

    def _await_arrivals(self) -> None:
        """Set one timer for the next arrival: a trace may have more jobs than the clock should hold timers."""
        if self._next < len(self._jobs):
            at = self._jobs[self._next].arrival + self._shift
            # A job that arrives at the cut-off would have no time to run.
            if at < self._end:
                self._session.cluster.call_at(at, self._arrive, prompt=False)

    def _arrive(self) -> None:
        now = self._session.now
        self._accounts.pass_to(now)
        while self._next < len(self._jobs) and self._jobs[self._next].arrival + self._shift <= now:
            self._session.submit(job_name(self._next), self._jobs[self._next], now)
            self._next += 1
        self._accounts.note(now)
        self._await_arrivals()

    # --- end ---------------------------------------------------------------------------------------------------------

    def _is_complete(self) -> bool:
        """True if all jobs have arrived, and either all have finished or nothing more happens by itself."""
        if self._next < len(self._jobs):
            return False
        return not self._accounts.unfinished or self._session.still


def job_name(number: int) -> str:
    """The lab's name of the job with this number in order of arrival."""
    return f"job-{number:07}"
