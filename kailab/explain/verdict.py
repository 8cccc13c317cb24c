"""Whether work runs, will run, or never will: found by taking all other work away and letting a day pass, in the engine."""

from __future__ import annotations

from collections.abc import Set
from functools import partial

from msgspec import structs

from kailab.engine.config import EngineConfig
from kailab.engine.cycle import decide, repeat_cycle
from kailab.engine.decisions import Decisions
from kailab.engine.relaxing.relaxed_cycles import RelaxedCycles
from kailab.engine.relaxing.rules import OthersGone, Relaxation
from kailab.engine.snapshot.records import Status
from kailab.engine.snapshot.snapshot import Snapshot
from kailab.evidence.entries import PodRow
from kailab.explain.answer import Cause, Code, Verdict
from kailab.explain.subject import Standing
from kailab.lab import subjects
from kailab.lab.owners import top_of
from kailab.lab.picture import group_of
from kailab.model.kinds import kind_key
from kailab.model.objects import condition_of
from kailab.model.times import parse_time

DAY = 86_400.0
_STANDS = (Code.SUSPENDED, Code.BIND_REFUSED)
"""Causes of which neither the going of others nor time takes any away."""
CYCLES = 50
"""Of one trial, at most: a queue may be tried one job at a time."""


def runs_alone(left: RelaxedCycles, now: float, tasks: Set[str]) -> bool:
    """Whether all of these tasks get a place from ``now`` on, cycle by cycle. ``left``: of the cluster from which the others are gone."""
    # Promises and refused binds are of a cluster in which the others are.
    config = structs.replace(left.config, promised=(), refused=frozenset())
    snapshot, waiting = left.snapshot, set(tasks)
    for _ in range(CYCLES):
        config, decisions = repeat_cycle(partial(_decide_at, snapshot, now), config)
        config = structs.replace(config, promised=decisions.heirs)
        placed = {bind.task: bind for bind in decisions.binds}
        waiting -= placed.keys()
        if not waiting or not placed:
            return not waiting
        # Who was placed runs now, and the next cycle goes on from there.
        snapshot = structs.replace(
            snapshot,
            tasks=tuple(
                structs.replace(task, status=Status.RUNNING, node=bind.node, gpu_groups=bind.gpu_groups)
                if (bind := placed.get(task.uid))
                else task
                for task in snapshot.tasks
            ),
        )
    return False


def _decide_at(snapshot: Snapshot, now: float, config: EngineConfig) -> Decisions:
    return decide(snapshot, config, now)


def verdict_of(standing: Standing, first: Cause | None) -> Verdict | None:
    """``first``: the first cause of what waits. None where somebody else decides."""
    if standing.runs:
        return Verdict.RUNNING
    # Before all that would call it running or waiting: that it was whole once says more.
    if not_whole_since_evicted(standing):
        return Verdict.GONE
    # Fewer than it wants, but nobody waits: whoever makes its pods has not made more.
    if standing.running and not standing.waiting:
        return Verdict.RUNNING
    if first is not None and first.code in _STANDS:
        return Verdict.NEVER
    if first is not None and first.code == Code.OTHER_SCHEDULER:
        return Verdict.NEVER if first.facts["nobody"] else None
    if first is not None and first.code == Code.NO_CONTROLLER:
        return None  # what its operator would make nobody knows here
    if first is not None and first.code == Code.BIND_RETRIED:
        return Verdict.LATER  # it is tried again, whatever became of it
    if not standing.waiting or (first is not None and first.code == Code.PODS_NOT_CREATED):
        if first is not None and first.code == Code.PRIORITY_CLASS_MISSING:
            return Verdict.NEVER  # its controller tries on, and each pod of it is refused
        return _without_pods(standing)
    return Verdict.LATER if could_run(standing) else Verdict.NEVER


def not_whole_since_evicted(standing: Standing) -> bool:
    """Whether pods of it were evicted, and fewer have come to run since."""
    if not standing.evictions or standing.runs:
        return False
    last = standing.evictions[-1].t
    lost = sum(entry.t >= last for entry in standing.evictions)
    at = last + standing.lab.opened
    return sum(_placed_at(standing, row.name) > at for row in standing.placed) < lost


def _placed_at(standing: Standing, name: str) -> float:
    """When a pod was given its node; 0 where it is not told."""
    namespace, _, bare = name.partition("/")
    scheduled = condition_of(standing.lab.cluster.get("Pod", bare, namespace), "PodScheduled") or {}
    at = scheduled.get("lastTransitionTime")
    return parse_time(at) if at else 0.0


def _without_pods(standing: Standing) -> Verdict:
    """Pods that nobody has made: time brings them where a clock makes them, or a controller that holds back."""
    obj = standing.object
    if standing.leaving and not standing.absent:
        return Verdict.LATER  # what comes in place of those that leave comes once they have left
    waits = obj is not None and (obj["kind"] == "CronJob" or (obj["kind"] == "Job" and standing.wanted))
    return Verdict.LATER if waits else Verdict.NEVER


def could_run(standing: Standing, *relaxations: Relaxation) -> bool:
    """Whether its pods that wait all get places where other work has gone, now or a day later, with these made."""
    pods = standing.picture.pods_by_name
    tasks = {pods[row.name]["metadata"]["uid"] for row in standing.waiting}
    if not tasks <= {task.uid for task in standing.moment.snapshot.tasks}:
        return False  # nobody considers it, whatever else goes
    left = standing.trials.about(*sorted(kept(standing))).after(OthersGone(), *relaxations)
    if relaxations:
        tasks &= {task.uid for task in left.snapshot.tasks}
    # A day is longer than delays, graces and protections usually are.
    return any(runs_alone(left, at, tasks) for at in (left.now, left.now + DAY))


def kept(standing: Standing) -> frozenset[str]:
    """The PodGroups (UIDs) that stay where all other work goes: those of the subject, and of the workload that it is part of."""
    rows = _of_its_workload(standing) or standing.pods
    groups = {group_of(row) for row in rows if row.podgroup}
    return frozenset(
        group["metadata"]["uid"]
        for (namespace, name), group in standing.picture.podgroups.items()
        if f"{namespace}/{name}" in groups
    )


def _of_its_workload(standing: Standing) -> list[PodRow]:
    """All pods of the workload that a pod, or the pods of a PodGroup, are part of; none where they are part of none."""
    if standing.subject.kind not in ("Pod", "PodGroup") or not standing.pods:
        return []
    namespace, _, name = standing.pods[0].name.partition("/")
    pod = standing.lab.cluster.get("Pod", name, namespace)
    top = top_of(standing.lab, pod)
    if top is pod:
        return []
    return subjects.workload(standing.lab, kind_key(top), top["metadata"]["name"], namespace).pods(standing.picture)
