"""Measures a set-up: it is prepared once and run several times; the fastest run counts, and the outcome must be the expected one.

There are two times. *actions* lasts from the first action to the last, like KAI's published times (around ``Execute``); *cycle* is the whole
``run_cycle``, with fair share before the actions and the report of pending work after them. Like KAI's times, neither includes the creation of the
working set, which kailab updates record by record.

Times are processor time of this thread. The engine does not wait and has one thread, so they equal wall-clock time on an idle machine and do not
depend on other load.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from benchmarks.engine.cluster import NOW
from benchmarks.engine.setups import CONFIG, CycleOutcome, Setup, VictimOrderSetup
from benchmarks.lab_runs.measured import WrongOutcome
from kailab.engine.cycle import run_cycle
from kailab.engine.decisions import Decisions
from kailab.engine.queueing.jobqueue import JobQueue
from kailab.engine.queueing.victims import held_by
from kailab.engine.session import Session
from kailab.engine.working.queues import Amounts, WQueue
from kailab.engine.working.state import Job
from kailab.engine.working.workingset import WorkingSet
from kailab.lab.garbage import collector_off

ENOUGH = 2.0
"""Seconds after which no further run starts, once there were ``LEAST`` runs."""
LEAST, MOST = 2, 30


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of processor time of the fastest run. ``runs``: number of runs."""

    name: str
    actions: float
    cycle: float
    runs: int
    outcome: CycleOutcome | None


def prepare(setup: Setup | VictimOrderSetup) -> WorkingSet:
    """The working set with up-to-date indexes, as in a running scheduler when a cycle begins."""
    working = setup.build()
    _ = working.table, working.tree
    working.settle_indexes()
    return working


def decide(setup: Setup, working: WorkingSet) -> tuple[float, float, Decisions]:
    """Run one cycle. Returns the seconds of its actions, those of the whole cycle, and the decisions."""
    marks: list[tuple[str, float]] = []
    begun = time.thread_time()
    decisions = run_cycle(working, setup.config, NOW, lambda phase: marks.append((phase, time.thread_time())))
    ended = time.thread_time()
    at = dict(marks)
    return at["report"] - at[setup.config.actions[0]], ended - begun, decisions


class _Age:
    """A victim order in which the youngest queue gives up its jobs first."""

    def first(self, left: WQueue, right: WQueue, left_job: Job, right_job: Job) -> int:
        return -1 if left.record.created > right.record.created else 1

    def taken(self, queue: WQueue, amounts: Amounts, sign: int) -> None:
        pass  # the order depends only on the age of queues


def order_victims(setup: VictimOrderSetup, working: WorkingSet) -> tuple[float, int]:
    """Sort all victims and take them out. Returns the seconds and the number of victims."""
    session = Session(working, CONFIG, NOW)
    try:
        begun = time.thread_time()
        queue: JobQueue[Job] = JobQueue(session.tree, held=held_by, precedence=_Age() if setup.by_age else None)
        for leaf in session.tree.leaves:
            queue.load(leaf, session.victims.lists.get(leaf.name, []), lambda job: True)
        taken = 0
        while not queue.empty:
            queue.pop()
            taken += 1
        return time.thread_time() - begun, taken
    finally:
        session.close()


def measure(setup: Setup | VictimOrderSetup, enough: float = ENOUGH) -> Timing:
    """Measure a set-up. Raises WrongOutcome if a run does not end with the expected outcome."""
    working = prepare(setup)
    actions = cycle = float("inf")
    runs, spent = 0, 0.0
    outcome: CycleOutcome | None = None
    with collector_off():
        while runs < LEAST or (spent < enough and runs < MOST):
            if isinstance(setup, VictimOrderSetup):
                seconds, taken = order_victims(setup, working)
                whole = seconds
                _require(setup, setup.victims == taken, setup.victims, taken)
            else:
                seconds, whole, decisions = decide(setup, working)
                outcome = CycleOutcome.of(decisions)
                _require(setup, setup.expected.admits(outcome), setup.expected, outcome)
            actions, cycle = min(actions, seconds), min(cycle, whole)
            runs, spent = runs + 1, spent + whole
    return Timing(setup.name, actions, cycle, runs, outcome)


def _require(setup: Setup | VictimOrderSetup, right: bool, wanted: object, seen: object) -> None:
    if not right:
        raise WrongOutcome(f"{setup.name} ended with {seen}; expected: {wanted}")
