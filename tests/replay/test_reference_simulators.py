"""A replay begins and ends each job when a simulator of the rule does, of fewer than a hundred lines, where placement can't matter.

All GPUs are on one node. ``RUNS=200 ./py -m pytest tests/replay/test_reference_simulators.py`` draws more traces.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from kailab.fleet.fleet import Fleet, Pool
from kailab.replay.job import TraceJob
from kailab.replay.plan import ReplayPlan
from kailab.replay.policies import NamedPolicy, with_replay_policies
from kailab.replay.queues import one_queue
from kailab.replay.run import replay
from kailab.replay.trace import Trace
from tests.replay import reference_simulators as reference

GPUS = 8
NODE = Pool(name="n", count=1, cpu="640", memory="4Ti", gpus=GPUS, gpu_model="A100", gpu_memory_mib=81_920)
EVERY_SECOND = f"{Path(__file__).parent / 'every_second.py'}:EverySecond"
RUNS = int(os.environ.get("RUNS", "4"))


class Rule(NamedTuple):
    """``policies``: as ``--policy``. ``sizes``: GPUs of a job. ``gaps``: seconds between two arrivals. ``tick``: seconds
    after which the rule is asked although nothing happened; 0: never."""

    policies: Sequence[NamedPolicy]
    reference: reference.Rule
    sizes: Sequence[int] = (1, 1, 2, 3, 4, 8)
    gaps: Sequence[int] = (0, 0, 1, 5, 20, 60)
    tick: int = 0


RULES = {
    "first come, first served": Rule(["fifo"], reference.fifo),
    "strict first come, first served": Rule(["strict-fifo"], reference.strict_fifo),
    "shortest job first": Rule(["shortest-job"], reference.shortest),
    "EASY": Rule(["fifo", "backfill"], reference.easy),
    # Jobs of one size, of which it is clear who has to go; nobody comes while a pod leaves, which takes a second.
    "shortest remaining time first": Rule(
        ["shortest-remaining", "longest-remaining"], reference.srtf, sizes=(2,), gaps=(0, 3, 5, 20, 60)
    ),
    "least attained service": Rule(
        [{"policy": EVERY_SECOND, "parameters": {"thresholds": [reference.BAND]}}, "most-attained"],
        reference.las,
        sizes=(2,),
        gaps=(0, 3, 5, 20, 60),
        tick=1,
    ),
}


@pytest.mark.parametrize("seed", range(RUNS))
@pytest.mark.parametrize("rule", RULES.values(), ids=list(RULES))
def test_each_job_begins_and_ends_as_by_the_rule(rule: Rule, seed: int) -> None:
    chance = random.Random(seed)
    jobs, at = [], 0
    for number in range(25):
        at += chance.choice(rule.gaps)
        seconds, gpus = chance.choice((1, 2, 7, 30, 60, 200)), chance.choice(rule.sizes)
        jobs.append(TraceJob(name=str(number), arrival=at, seconds=seconds, gpus=gpus, line=number))
    runs = [reference.Run(int(job.name), job.arrival, job.seconds, job.gpus) for job in jobs]
    assert _replayed(jobs, rule) == reference.simulate(runs, GPUS, rule.reference, rule.tick)


def test_the_first_cycle_with_a_successor_knows_its_remaining_time() -> None:
    # 3 evicts 0, which is gone in the second in which 1 ends: 0 then needs 100 s more, less than 2, and all of it 200 s.
    arriving = [(0, 200), (0, 100), (60, 150), (99, 5)]
    jobs = [
        TraceJob(name=str(number), arrival=at, seconds=seconds, gpus=GPUS // 2, line=number)
        for number, (at, seconds) in enumerate(arriving)
    ]
    ran = _replayed(jobs, RULES["shortest remaining time first"])
    assert ran == {0: (0, 200), 1: (0, 100), 2: (105, 255), 3: (100, 105)}


def _replayed(jobs: list[TraceJob], rule: Rule) -> dict[int, tuple[int, int]]:
    """Job number -> (first start, end), as ``reference.simulate`` returns them."""
    trace = Trace(file="drawn", form="csv", jobs=jobs)
    fleet = Fleet(name="one", pools=(NODE,))
    config = with_replay_policies(None, rule.policies, trace, fleet)
    # Work is saved each second, and a restart takes no time: as the rules assume.
    plan = ReplayPlan(trace=trace, fleet=fleet, queues=one_queue(trace), config=config, checkpoint=1, restart=0)
    done = replay(plan)
    zero = done.began - jobs[0].arrival
    return {int(work.job.name): (work.began - zero, work.ended - zero) for work in done.accounts.works.values()}
