"""Whether work runs, will run, or never will: found by taking all other work away and letting a day pass, in the engine."""

from __future__ import annotations

from collections.abc import Container, Iterable

from msgspec import structs

from kailab.engine.config import EngineConfig
from kailab.engine.cycle import decide
from kailab.engine.snapshot.records import ResourceClaim, Status, Task
from kailab.engine.snapshot.snapshot import Snapshot
from kailab.evidence.standing import condition
from kailab.lab.explain.answer import Verdict
from kailab.lab.explain.cause import Cause, Code
from kailab.lab.explain.subject import Standing
from kailab.lab.picture import group_of
from kailab.model.times import parse_time

DAY = 86_400.0
CYCLES = 50
"""Of one trial, at most: a queue may be tried one job at a time."""


def runs_alone(snapshot: Snapshot, config: EngineConfig, now: float, keep: Container[str]) -> bool:
    """Whether all tasks of these PodGroups (UIDs) get a place once all others are gone."""
    left = alone(snapshot, keep)
    config = structs.replace(config, promised=(), refused=frozenset())
    for _ in range(CYCLES):
        if not any(task.status in (Status.PENDING, Status.GATED) for task in left.tasks):
            return True
        decided = decide(left, config, now)
        if not decided.binds:
            return False
        placed = {bind.task: bind for bind in decided.binds}
        left = structs.replace(
            left,
            tasks=tuple(
                structs.replace(task, status=Status.RUNNING, node=bind.node, gpu_groups=bind.gpu_groups)
                if (bind := placed.get(task.uid))
                else task
                for task in left.tasks
            ),
        )
    return False


def alone(snapshot: Snapshot, keep: Container[str]) -> Snapshot:
    """The same cluster with no work but these PodGroups (UIDs)."""
    tasks = tuple(task for task in snapshot.tasks if task.podgroup in keep)
    claims = _claims(snapshot, tasks)
    return structs.replace(
        snapshot, tasks=tasks, podgroups=tuple(one for one in snapshot.podgroups if one.uid in keep), claims=claims
    )


def _claims(snapshot: Snapshot, tasks: Iterable[Task]) -> tuple[ResourceClaim, ...]:
    named = {claim for task in tasks for claim in task.shape.claims}
    return tuple(claim for claim in snapshot.claims if claim.name in named)


def verdict_of(standing: Standing, first: Cause | None) -> Verdict:
    """``first``: the first cause of what waits."""
    if standing.runs:
        return Verdict.RUNNING
    if not_whole_since_evicted(standing):
        return Verdict.GONE
    if standing.running and not standing.waiting:
        return Verdict.RUNNING
    if not standing.pods or standing.missing:
        return _without_pods(standing, first)
    return Verdict.LATER if _runs_alone(standing) else Verdict.NEVER


def not_whole_since_evicted(standing: Standing) -> bool:
    """Whether pods of it were evicted, and fewer have come to run since."""
    if not standing.evictions or standing.runs:
        return False
    last = standing.evictions[-1].t
    lost = sum(entry.t >= last for entry in standing.evictions)
    at = last + standing.lab.opened
    return sum(_placed_at(standing, row.name) > at for row in standing.running) < lost


def _placed_at(standing: Standing, name: str) -> float:
    """When a pod was given its node; 0 where it is not told."""
    namespace, _, bare = name.partition("/")
    scheduled = condition(standing.lab.cluster.get("Pod", bare, namespace), "PodScheduled") or {}
    at = scheduled.get("lastTransitionTime")
    return parse_time(at) if at else 0.0


def _without_pods(standing: Standing, first: Cause | None) -> Verdict:
    """Pods that nobody has made: time brings them where a clock makes them, or a controller that holds back."""
    obj = standing.object
    if obj is None or first is None or first.code != Code.PODS_NOT_CREATED:
        return Verdict.NEVER
    if obj["kind"] == "CronJob":
        return Verdict.LATER
    return Verdict.LATER if standing.wanted and obj["kind"] == "Job" else Verdict.NEVER


def _runs_alone(standing: Standing) -> bool:
    keep = kept(standing)
    known = {task.uid for task in standing.moment.snapshot.tasks}
    if any(uid not in known for uid in _uids(standing)):
        return False  # nobody considers it, whatever else goes
    snapshot, config, now = standing.moment
    return any(runs_alone(snapshot, config, at, keep) for at in (now, now + DAY))


def kept(standing: Standing) -> frozenset[str]:
    """The PodGroups (UIDs) that stay where all other work goes: those of the subject, and of the workload that it is part of."""
    groups = {group_of(row) for row in standing.pods if row.podgroup}
    return frozenset(
        group["metadata"]["uid"]
        for (namespace, name), group in standing.picture.podgroups.items()
        if f"{namespace}/{name}" in groups
    )


def _uids(standing: Standing) -> list[str]:
    waiting = {row.name for row in standing.waiting}
    return [
        pod["metadata"]["uid"]
        for pod in standing.picture.pods
        if f"{pod['metadata'].get('namespace', '')}/{pod['metadata']['name']}" in waiting
    ]
