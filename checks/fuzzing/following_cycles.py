"""Runs cycles of which the engine says that they surely decide nothing (``engine.following``), and holds it to that.

Nodes, jobs and queues of a crowded random cluster change between cycles, and what a cycle binds comes at once, in part, or
together with something else.
"""

from __future__ import annotations

import random
from typing import Any

from msgspec import structs

from checks.case_input import ACTIVE, NOW, CaseInput
from kailab.engine.config import EngineConfig
from kailab.engine.cycle import run_cycle
from kailab.engine.decisions import Decisions
from kailab.engine.following import foresee_binds, nothing_follows
from kailab.engine.policies.settings import PolicyChoice
from kailab.engine.snapshot.records import GPU, Status, SubGroup
from kailab.engine.snapshot.snapshot import IDENTITY, Snapshot
from kailab.engine.working.workingset import WorkingSet
from kailab.scheduler.settings.policies import with_policies

SECONDS = 1.0
_LATER = (0.0, 0.0, 1.0, 7.0, 50.0)
"""Seconds until the next cycle would run."""
_LEAST_ATTAINED = PolicyChoice(name="tiresias", parameters={"thresholds": (2.0, 5.0, 20.0)})
"""With bands that jobs leave while a cluster is followed."""
CONFIGS: tuple[dict[str, Any], ...] = (
    {},
    {"max_consolidation_victims": -1},
    {"reclaim_min_runtime": 5.0, "preempt_min_runtime": 3.0},
    {"job_order_policy": PolicyChoice(name="fifo")},
    {"job_order_policy": _LEAST_ATTAINED},
    {"job_order_policy": _LEAST_ATTAINED, "victim_order_policy": PolicyChoice(name="most-attained")},
    {"victim_order_policy": PolicyChoice(name="most-attained"), "max_consolidation_victims": -1},
    {"reservation_policy": PolicyChoice(name="backfill")},
)


class FollowedOtherwise(Exception):
    """A cycle decided something that surely decides nothing."""


def follow(case_input: CaseInput, seed: int, cycles: int) -> int:
    """Run so many cycles on a changing cluster. Returns of how many the engine knew that they decide nothing. Raises
    FollowedOtherwise.
    """
    chance = random.Random(seed)
    # Three of four clusters are such that the engine may know it.
    if chance.random() < 0.75:
        case_input = _simple(case_input)
    cluster = _Followed(case_input, chance)
    config = with_policies(structs.replace(case_input.config, **chance.choice(CONFIGS)))
    known = 0
    for number in range(cycles):
        if nothing_follows(cluster.working, config):
            known += 1
            now = cluster.now + chance.choice(_LATER)
            _check(run_cycle(cluster.working, config, now, reasons=False), number, config)
        decisions = run_cycle(cluster.working, config, cluster.now, reasons=False)
        foresee_binds(cluster.working, config, decisions)
        config = structs.replace(config, promised=decisions.heirs)
        cluster.carry_out(decisions)
        if not decisions.changed or chance.random() < 0.2:
            cluster.change()
    return known


def _simple(case_input: CaseInput) -> CaseInput:
    """The cluster without topologies, rules between pods and GPU memory, and with one configuration in which state decides."""
    groups = tuple(
        structs.replace(group, root=_unconfined(group.root), preemption_delay=0.0) for group in case_input.podgroups
    )
    tasks = tuple(
        structs.replace(task, shape=structs.replace(task.shape, affinity=(), anti_affinity=(), claims=()))
        for task in case_input.tasks
        if not task.shape.gpu.by_memory
    )
    config = EngineConfig(actions=case_input.config.actions)
    return structs.replace(case_input, podgroups=groups, tasks=tasks, topologies=(), claims=(), config=config)


def _unconfined(group: SubGroup) -> SubGroup:
    podsets = tuple(structs.replace(podset, constraint=None) for podset in group.podsets)
    return structs.replace(group, groups=tuple(map(_unconfined, group.groups)), podsets=podsets, constraint=None)


def _check(decisions: Decisions, number: int, config: EngineConfig) -> None:
    expected = Decisions(now=decisions.now, queues=decisions.queues)
    if decisions != expected:
        raise FollowedOtherwise(f"cycle {number} decides {decisions!r:.2000}; expected nothing, with {config!r:.500}")


class _Followed:
    """A working set that lives through all cycles, and its time."""

    def __init__(self, case_input: CaseInput, chance: random.Random) -> None:
        self.working = WorkingSet.of(Snapshot(**{kind: getattr(case_input, kind) for kind in IDENTITY}))
        self.now = NOW
        self._chance = chance

    def carry_out(self, decisions: Decisions) -> None:
        """Let a second pass, in which binds and evictions come; now and then a bind does not."""
        working, chance = self.working, self._chance
        for evict in decisions.evictions:
            task = working.tasks[evict.task].record
            working.set_task(structs.replace(task, status=Status.PENDING, node="", gpu_groups=(), numa_zones=()))
        failed = chance.random() < 0.05
        for number, bind in enumerate(decisions.binds):
            if failed and number == 0:
                continue
            task = working.tasks[bind.task].record
            status = chance.choice((Status.BOUND, Status.RUNNING))
            working.set_task(
                structs.replace(
                    task, status=status, node=bind.node, gpu_groups=bind.gpu_groups, numa_zones=bind.numa_zones
                )
            )
            if status == Status.BOUND and chance.random() < 0.5:
                working.set_task(structs.replace(working.tasks[bind.task].record, status=Status.RUNNING))
        for uid in decisions.started:
            working.set_podgroup(structs.replace(working.jobs[uid].record, last_start=self.now))
        self.now += SECONDS

    def change(self) -> None:
        chance = self._chance
        chance.choice((self._end, self._end, self._end, self._grow, self._cordon, self._requota))()

    def _end(self) -> None:
        running = [
            uid
            for uid, job in self.working.jobs.items()
            if job.tasks and all(task.record.status in ACTIVE for task in job.tasks.values())
        ]
        if not running:
            return
        uid = self._chance.choice(sorted(running))
        tasks = list(self.working.jobs[uid].tasks.values())
        for task in tasks:
            self.working.set_task(structs.replace(task.record, status=Status.SUCCEEDED))
        # The PodGroup may go before its pods, as on a cluster.
        if self._chance.random() < 0.5:
            self.working.remove_podgroup(uid)
        for task in tasks:
            self.working.remove_task(task.uid)
        self.working.remove_podgroup(uid)

    def _grow(self) -> None:
        """One more job like another one waits."""
        if not self.working.jobs:
            return
        like = self.working.jobs[self._chance.choice(sorted(self.working.jobs))]
        name = f"{like.uid}-{self.now:g}"
        if any(task.record.shape.claims for task in like.tasks.values()):
            return
        self.working.set_podgroup(
            structs.replace(like.record, uid=name, name=name, created=self.now, last_start=None, stale_since=None)
        )
        for task in list(like.tasks.values()):
            record = structs.replace(
                task.record, uid=f"{task.uid}-{self.now:g}", name=name, podgroup=name, status=Status.PENDING, node="",
                gpu_groups=(), numa_zones=(), accepted=None, created=self.now,
            )  # fmt: skip
            self.working.set_task(record)

    def _cordon(self) -> None:
        node = self._chance.choice(list(self.working.nodes.values()))
        self.working.set_node(structs.replace(node, unavailable="" if node.unavailable else "cordoned"))

    def _requota(self) -> None:
        queue = self._chance.choice(list(self.working.queues.values()))
        gpu = structs.replace(queue.gpu, quota=self._chance.choice((-1, 0, GPU, 4 * GPU)))
        self.working.set_queue(structs.replace(queue, gpu=gpu))
