"""Comparison of jobs by how hard they are to place.

Two jobs are comparable if equally many of their tasks obey the same rules (selectors, affinity, tolerations, topology,
pod priority ...). Of these, a job with more pods left to place, or with larger ones, is not easier. Source: KAI's
MinimalJobRepresentatives.

KAI also compares pods without GPUs, with shares and with whole devices with each other, by their amounts alone. A failed
search for a whole device then rules out one for a share with more CPU, which has more victims to choose from. So these
kinds are compared with each other only if KAI's faults are imitated.
"""

from __future__ import annotations

from typing import Any

from kailab.engine.snapshot.records import ACTIVE, Status
from kailab.engine.working.state import Job, Member, ShapeInfo

Size = tuple[int, int, int, int, int]


def placement_rules(info: ShapeInfo, across_kinds: bool = False) -> tuple[Any, ...]:
    """All parts of a shape that restrict where it may go, but not its amounts. ``across_kinds``: without the kind of
    GPU request, except for MIG instances and claims, which KAI counts as resources of their own.
    """
    shape = info.shape
    gpu = shape.gpu
    kind = () if across_kinds else (gpu.by_memory, gpu.shared, info.cpu_only)
    return (
        shape.selector, shape.terms, shape.tolerations, shape.affinity, shape.anti_affinity, shape.ports, shape.claims,
        shape.blocked, shape.labels, gpu.by_profile, bool(gpu.claimed), kind,
    )  # fmt: skip


def signature(job: Job, across_kinds: bool = False) -> tuple[Any, ...]:
    # Plain dicts: most jobs have one pod, and making a Counter costs more than counting it.
    parts: dict[tuple[Any, ...], int] = {}
    for podset in job.podsets:
        waiting: dict[tuple[ShapeInfo, tuple[str, int | None]], int] = {}
        for task in podset.tasks.values():
            # The state at the beginning of the cycle, because KAI computes a signature once, when it takes its snapshot.
            if not ACTIVE[task.record.status]:
                alike = task.info, task.record.pod_priority
                waiting[alike] = waiting.get(alike, 0) + 1
        if not waiting:
            continue
        chain = []
        member: Member | None = podset
        while member is not None:
            # Constraints of the groups above apply to the pods too.
            chain.append(member.constraint)
            member = member.parent
        pods: dict[tuple[Any, ...], int] = {}
        for (info, priority), count in waiting.items():
            rules = placement_rules(info, across_kinds), priority
            pods[rules] = pods.get(rules, 0) + count
        part = tuple(chain), frozenset(pods.items())
        parts[part] = parts.get(part, 0) + 1
    # Without names, so that equal jobs with differently named subgroups are comparable.
    return (frozenset(parts.items()),)


def sizes(job: Job, across_kinds: bool = False) -> list[Size]:
    """What each pending task wants, smallest first. ``across_kinds``: without GPU memory and the number of devices, as
    KAI compares amounts of GPU only.
    """
    result: list[Size] = []
    for task in job:
        if task.status == Status.PENDING:
            info = task.info
            gpu = info.shape.gpu
            cpu, memory, gpus = info.quota
            result.append(
                (gpus, cpu, memory, 0, 0) if across_kinds else (gpus, cpu, memory, gpu.memory_mib, gpu.devices)
            )
    return sorted(result)


def kind_of_job(job: Job) -> tuple[Any, ...] | None:
    """A cheap key for jobs of one task: equal keys mean equal signature and sizes. None for other jobs."""
    if len(job.tasks) != 1 or len(job.podsets) != 1:
        return None
    (task,) = job.tasks.values()
    podset = task.podset
    if podset is None or podset.parent is not job.root:
        return None
    record = task.record
    return task.info, record.pod_priority, task.status, record.status, podset.constraint, job.root.constraint


class Representatives:
    """The easiest job that failed, per signature. ``across_kinds``: see ``placement_rules``."""

    def __init__(self, across_kinds: bool = False) -> None:
        self._across_kinds = across_kinds
        self._failed: dict[tuple[Any, ...], list[Size]] = {}

    def easier(self, job: Job) -> bool:
        """True if the job is worth a try: easier to place than what failed, or not comparable to it."""
        failed = self._failed.get(signature(job, self._across_kinds))
        if failed is None:
            return True
        mine = sizes(job, self._across_kinds)
        if not mine or not failed:
            return False
        # KAI's jobEasierToScheduleComparison: fewer pods, or a smaller one at the same position.
        if len(failed) > len(mine):
            return True
        return any(_less_equal(own, known) and own != known for own, known in zip(mine, failed, strict=False))

    def add(self, job: Job) -> None:
        key, mine = signature(job, self._across_kinds), sizes(job, self._across_kinds)
        known = self._failed.get(key)
        # Only a job that is no larger in any pod replaces the known one, which otherwise excludes more.
        if known is not None and not (
            mine and known and len(mine) <= len(known) and all(map(_less_equal, mine, known))
        ):
            return
        self._failed[key] = mine


def _less_equal(left: Size, right: Size) -> bool:
    return all(a <= b for a, b in zip(left, right, strict=True))
