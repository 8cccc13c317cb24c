"""Timing one set-up: prepared once, run several times, the fastest counts, and the outcome has to be right.

Two times are taken. *actions* is from the first action to the last, as KAI's published figures are (the stop-watch around
``Execute``); *cycle* is all of ``run_cycle``: fair share before them, and after them the account of what stays pending.
Like KAI's figures, neither holds the making of the working set, which here is kept up to date record by record.

Seconds are those the processor spent on this thread. The engine waits for nothing and has one thread, so on an idle
machine they are the seconds that pass; on a busy one they stay what they are.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from benchmarks.engine.cluster import NOW
from benchmarks.engine.setups import CONFIG, Outcome, Setup, VictimOrder
from kailab.engine.cycle import run_cycle
from kailab.engine.decisions import Decisions
from kailab.engine.queueing.jobqueue import JobQueue
from kailab.engine.queueing.victims import held_by
from kailab.engine.session import Session
from kailab.engine.working.queues import Amounts, WQueue
from kailab.engine.working.state import Job
from kailab.engine.working.workingset import WorkingSet
from kailab.errors import KailabError
from kailab.lab.garbage import collector_off

ENOUGH = 2.0
"""Seconds after which no further run is begun, if there were ``LEAST`` of them."""
LEAST, MOST = 2, 30


class WrongOutcome(KailabError):
    """The engine did not do what the set-up demands: its time means nothing."""

    exit_code = 1


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of processor time, of the fastest run each. ``runs``: how many there were."""

    name: str
    actions: float
    cycle: float
    runs: int
    outcome: Outcome | None


def prepare(setup: Setup | VictimOrder) -> WorkingSet:
    """The working set as a running scheduler has it when a cycle begins: its indexes up to date."""
    working = setup.build()
    _ = working.table, working.tree
    working.settle_indexes()
    return working


def decide(setup: Setup, working: WorkingSet) -> tuple[float, float, Decisions]:
    """One cycle: seconds of its actions, of all of it, and what it decided."""
    marks: list[tuple[str, float]] = []
    begun = time.thread_time()
    decisions = run_cycle(working, setup.config, NOW, lambda phase: marks.append((phase, time.thread_time())))
    ended = time.thread_time()
    at = dict(marks)
    return at["report"] - at[setup.config.actions[0]], ended - begun, decisions


class _Age:
    """The youngest queue gives up its jobs first."""

    def first(self, left: WQueue, right: WQueue, left_job: Job, right_job: Job) -> int:
        return -1 if left.record.created > right.record.created else 1

    def taken(self, queue: WQueue, amounts: Amounts, sign: int) -> None:
        pass  # what is gone makes no queue older


def order_victims(setup: VictimOrder, working: WorkingSet) -> tuple[float, int]:
    """Seconds of putting all victims in order and taking them out, and how many came."""
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


def measure(setup: Setup | VictimOrder, enough: float = ENOUGH) -> Timing:
    """Raises WrongOutcome if any run does not end as it has to."""
    working = prepare(setup)
    actions = cycle = float("inf")
    runs, spent = 0, 0.0
    outcome: Outcome | None = None
    with collector_off():
        while runs < LEAST or (spent < enough and runs < MOST):
            if isinstance(setup, VictimOrder):
                seconds, taken = order_victims(setup, working)
                whole = seconds
                _require(setup, setup.victims == taken, setup.victims, taken)
            else:
                seconds, whole, decisions = decide(setup, working)
                outcome = Outcome.of(decisions)
                _require(setup, setup.expected.admits(outcome), setup.expected, outcome)
            actions, cycle = min(actions, seconds), min(cycle, whole)
            runs, spent = runs + 1, spent + whole
    return Timing(setup.name, actions, cycle, runs, outcome)


def _require(setup: Setup | VictimOrder, right: bool, wanted: object, seen: object) -> None:
    if not right:
        raise WrongOutcome(f"{setup.name} ended with {seen}; expected: {wanted}")
