"""Decides cycles both ways: with the reasons of all waiting jobs, which tries every job, and without, which leaves out
what surely does nothing. Both must decide the same.

Random clusters are *crowded* for this: each waiting job gets equal ones behind it, because jobs are left out by what was
decided for equal jobs.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from msgspec import structs

from checks.case_input import CaseInput
from checks.fuzzing.areas import SMALL, seeded
from checks.fuzzing.between_cycles import violations_of_changes
from checks.fuzzing.following_cycles import FollowedOtherwise, follow
from checks.fuzzing.fuzz import Tell
from checks.report import Report, Result
from kailab.engine.config import EngineConfig
from kailab.engine.cycle import run_cycle
from kailab.engine.decisions import Decisions
from kailab.engine.snapshot.records import UNLIMITED, ResourceShare, Shape, Status, Task
from kailab.engine.working.workingset import WorkingSet

MOST_COPIES = 6
MOST_CYCLES = 8
FOLLOWED_CYCLES = 30


class DecidedOtherwise(Exception):
    """The two ways differ. The message names the field of ``Decisions`` and both values."""


def decide_both_ways(working: WorkingSet, config: EngineConfig, now: float) -> Decisions:
    """``run_cycle``. Raises DecidedOtherwise."""
    full = run_cycle(working, config, now)
    short = run_cycle(working, config, now, reasons=False)
    for field in Decisions.__struct_fields__:
        mine, theirs = getattr(short, field), getattr(full, field)
        if field != "pending" and mine != theirs:
            raise DecidedOtherwise(f"{field}: without reasons {mine!r:.2000}, with reasons {theirs!r:.2000}")
    return full


def crowded(case_input: CaseInput, seed: int) -> CaseInput:
    """The cluster with up to ``MOST_COPIES`` copies of each job of which all tasks wait, some created earlier.

    Half of the clusters get one level of queues that are compared by GPUs alone, and no rules between pods, as replays
    have them; a quarter keeps its tree of queues, without such rules. Jobs are left out in both.
    """
    chance = random.Random(seed)
    kind = chance.random()
    if kind < 0.75:
        case_input = _without_pod_rules(case_input)
    if kind < 0.5:
        case_input = _one_level(case_input)
    of_group: dict[str, list[Task]] = {}
    for task in case_input.tasks:
        of_group.setdefault(task.podgroup, []).append(task)
    groups, tasks = list(case_input.podgroups), list(case_input.tasks)
    for group in case_input.podgroups:
        members = of_group.get(group.uid, ())
        if not members or any(task.status != Status.PENDING or task.shape.claims for task in members):
            continue
        for number in range(chance.randint(0, MOST_COPIES)):
            name = f"-copy-{number}"
            created = group.created + chance.choice((-1.0, 0.0, 1.0)) * number
            groups.append(structs.replace(group, uid=group.uid + name, name=group.name + name, created=created))
            tasks += [
                structs.replace(task, uid=task.uid + name, name=task.name + name, podgroup=group.uid + name)
                for task in members
            ]
    return structs.replace(case_input, podgroups=tuple(groups), tasks=tuple(tasks))


def _one_level(case_input: CaseInput) -> CaseInput:
    parents = {queue.parent for queue in case_input.queues}
    boundless = ResourceShare(quota=UNLIMITED, limit=UNLIMITED)
    queues = tuple(
        structs.replace(queue, parent="", cpu=boundless, memory=boundless)
        for queue in case_input.queues
        if queue.name not in parents
    )
    return structs.replace(case_input, queues=queues)


def _without_pod_rules(case_input: CaseInput) -> CaseInput:
    shapes: dict[Shape, Shape] = {}
    tasks = tuple(
        structs.replace(
            task, shape=shapes.setdefault(task.shape, structs.replace(task.shape, affinity=(), anti_affinity=()))
        )
        for task in case_input.tasks
    )
    return structs.replace(case_input, tasks=tasks)


def run_seed_both_ways(seed: int, area: str = SMALL, changes: int = 5) -> Result:
    """Settle the crowded cluster of a seed, and again after each of so many changes, deciding each cycle both ways. Then hold
    the engine to the cycles of which it says that they decide nothing.
    """
    differences: tuple[str, ...] = ()
    cluster = crowded(seeded(seed, area), seed)
    try:
        violations_of_changes(cluster, seed, changes, decide_both_ways, MOST_CYCLES)
        follow(cluster, seed, cycles=FOLLOWED_CYCLES)
    except (DecidedOtherwise, FollowedOtherwise) as difference:
        differences = (str(difference),)
    return Result(id=f"{area}/{seed}", suite=area, differences=differences)


def run_seeds_both_ways(seeds: Sequence[int], areas: Sequence[str], changes: int, tell: Tell | None = None) -> Report:
    """``run_seed_both_ways`` for each area and seed. ``tell``: see ``fuzz.run_seeds``."""
    report = Report("cycles decided both ways")
    for area in areas:
        for seed in seeds:
            report.results.append(run_seed_both_ways(seed, area, changes))
            if tell is not None:
                tell("cycles decided both ways", len(report.results), len(areas) * len(seeds))
    return report
