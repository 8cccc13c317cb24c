"""A trace replayed: its jobs are applied when they came, and virtual time goes from one thing that happens to the next.

The lab decides as ever: its controllers, grouping and scheduler. Here is no clock of its own and no order of jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from typing import Any

from kailab.lab import Lab
from kailab.lab.garbage import collector_off
from kailab.lab.settle import CYCLE_SECONDS
from kailab.replay.balance import Balance, balance
from kailab.replay.costing import gpus_by_model
from kailab.replay.fragmented import Fragmentation, FragmentSamples
from kailab.replay.job import LONGEST
from kailab.replay.keeping import Keeper
from kailab.replay.metering import Meter
from kailab.replay.plan import Plan
from kailab.replay.policies import workload
from kailab.replay.standing import Fairness, Standings
from kailab.replay.staying import Stay
from kailab.replay.unbegun import Unbegun, unbegun
from kailab.replay.work import Accounts

Progress = Callable[[str, int, int], None]
SAMPLES = 300
"""Looks at how fragmented the GPUs are, and at metrics, from the first arrival to the last."""


@dataclass(frozen=True, kw_only=True)
class Replayed:
    """What came of it. ``began`` and ``ended``: seconds on the lab's clock; the first job arrived when it began. ``gpus``: of the fleet.
    ``cycles``: that the scheduler ran. ``unbegun``: why jobs never began. ``opened``: the lab, on its clock; ``meter``: None where nobody asked for metrics."""

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
    unbegun: Sequence[Unbegun] = ()
    opened: float = 0.0
    meter: Meter | None = None


def replay(plan: Plan, progress: Progress = lambda what, done, total: None, keeper: Keeper | None = None) -> Replayed:
    """Carry it out. ``progress``: told what is done, how many jobs of how many. ``keeper``: it is kept there as it goes on, and goes on
    from what is kept there. Raises InputError, StateError."""
    with collector_off():
        kept = None if keeper is None else keeper.found()
        if kept is not None:
            assert isinstance(kept, _Run)
            with kept.lab:
                return kept.go_on(plan, progress, keeper)
        with opened(plan) as one:
            return _Run(one, progress, keeper).run()


class Replaying:
    """A plan's lab, and what is watched in it while jobs are in it."""

    def __init__(self, plan: Plan, lab: Lab, standings: Standings, samples: FragmentSamples) -> None:
        self.plan = plan
        self._meter = None if plan.metered is None else Meter(plan.metered or _interval(plan))
        self._standings, self._samples = standings, samples
        self.accounts = Accounts(plan.checkpoint, endless=plan.endless)
        self.stay = Stay(lab, plan.queues, self.accounts, plan.fleet.largest_node)
        self.stay.check_priorities(plan.trace)

    def __getstate__(self) -> dict[str, Any]:
        """To be kept. The plan is given anew."""
        return {**self.__dict__, "plan": None}

    def look(self, *, resting: bool) -> None:
        """Take in what is told over time. ``resting``: it holds until the next timer falls due; else until the next cycle."""
        timer = self.stay.cluster.next_timer()
        until = self.stay.lab.now + CYCLE_SECONDS
        if resting:
            until = inf if timer is None else timer
        self._samples.look(self.stay.lab.now, until)
        if self._meter is not None:
            self._meter.look(self.stay.lab, until)

    def replayed(self, began: int, last_arrival: int) -> Replayed:
        """What came of it up to now."""
        lab = self.stay.lab
        ended = self.stay.now
        self.accounts.note(ended)
        self._samples.take()
        if self._meter is not None:
            self._meter.take(lab)
        return Replayed(
            plan=self.plan,
            accounts=self.accounts,
            balance=balance(self.accounts, ended),
            began=began,
            ended=ended,
            last_arrival=last_arrival,
            gpus=self.plan.fleet.summary().gpus,
            cycles=lab.log.cycle,
            fairness=self._standings.fairness(ended),
            fragmentation=self._samples.summary(),
            unbegun=unbegun(self.stay.cluster, self.accounts),
            opened=lab.opened,
            meter=self._meter,
        )


def _interval(plan: Plan) -> int:
    """Seconds between two looks of ``SAMPLES``."""
    jobs = plan.trace.jobs
    return max(1, (jobs[-1].arrival - jobs[0].arrival) // SAMPLES)


@contextmanager
def opened(plan: Plan) -> Iterator[Replaying]:
    """The lab of a plan with its queues, before its first job. Raises InputError."""
    if plan.prices is not None:
        plan.prices.check(gpus_by_model(plan.fleet))
    standings = Standings()
    samples = FragmentSamples(workload(plan.trace, plan.fleet), _interval(plan), plan.fleet.summary().gpus)
    observers = (*plan.observers, standings, samples)
    with Lab.open(plan.fleet, config=plan.config, observers=observers) as lab:
        yield Replaying(plan, lab, standings, samples)


class _Run:
    """All jobs of the trace in one lab, each as it arrives."""

    def __init__(self, one: Replaying, progress: Progress, keeper: Keeper | None) -> None:
        self._one = one
        self._stay, self._accounts = one.stay, one.accounts
        self._progress, self._keeper = progress, keeper
        self._jobs = one.plan.trace.jobs
        self._next = 0
        self._began = one.stay.now
        self._shift = self._began - self._jobs[0].arrival

    def __getstate__(self) -> dict[str, Any]:
        """To be kept. What the plan has is given anew, and whom to tell."""
        return {**self.__dict__, "_jobs": None, "_progress": None, "_keeper": None}

    @property
    def lab(self) -> Lab:
        return self._stay.lab

    @property
    def _end(self) -> int:
        """When it is cut off."""
        lasting = self._one.plan.lasting
        return self._began + (LONGEST if lasting is None else lasting)

    def run(self) -> Replayed:
        self._accounts.pass_to(self._began)
        self._await_arrivals()
        return self._to_the_end(rested=False)

    def go_on(self, plan: Plan, progress: Progress, keeper: Keeper | None) -> Replayed:
        """From where it was kept."""
        self._one.plan, self._jobs = plan, plan.trace.jobs
        self._progress, self._keeper = progress, keeper
        return self._to_the_end(rested=True)

    def _to_the_end(self, *, rested: bool) -> Replayed:
        plan, stay = self._one.plan, self._stay
        left = self._end - stay.now
        try:
            for resting in stay.moments(left, rested=rested):
                self._one.look(resting=resting)
                self._progress("replaying", self._next - len(self._accounts.unfinished), len(self._jobs))
                if plan.lasting is None and self._over():
                    break
                if resting and self._keeper is not None:
                    self._keeper.look(self)
        finally:
            stay.close()
        return self._one.replayed(self._began, self._jobs[-1].arrival + self._shift)

    # --- arrivals ----------------------------------------------------------------------------------------------------

    def _await_arrivals(self) -> None:
        """One timer, for the next arrival: a trace may have more jobs than a clock should hold timers."""
        if self._next < len(self._jobs):
            at = self._jobs[self._next].arrival + self._shift
            # Who comes as it is cut off has no time in it.
            if at < self._end:
                self._stay.cluster.call_at(at, self._arrive, prompt=False)

    def _arrive(self) -> None:
        now = self._stay.now
        self._accounts.pass_to(now)
        while self._next < len(self._jobs) and self._jobs[self._next].arrival + self._shift <= now:
            self._stay.submit(job_name(self._next), self._jobs[self._next])
            self._next += 1
        self._accounts.note(now)
        self._await_arrivals()

    # --- the end -----------------------------------------------------------------------------------------------------

    def _over(self) -> bool:
        """All have arrived, and nothing that waits can ever start: whoever could end has ended."""
        if self._next < len(self._jobs):
            return False
        return not self._accounts.unfinished or self._stay.still


def job_name(number: int) -> str:
    """In the lab, of the trace's job of that number in the order of arrival."""
    return f"job-{number:07}"
