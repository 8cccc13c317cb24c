"""The smallest cluster that still fails, by delta debugging: leave out, simplify, and keep what still fails.

Whole workloads go first, then nodes, queues and single pods, each kind in halves, quarters and so on down to single ones
(ddmin); then one feature after another. It goes round until nothing more can go. No chance is involved: the same cluster
and the same test shrink to the same one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

from msgspec.structs import replace

from checks.invariants import check
from checks.opening import NOW, Opening
from kailab.engine.config import EngineConfig
from kailab.engine.decisions import Decisions
from kailab.engine.snapshot.records import GpuRequest, PodGroup, Queue, Shape, Share, SubGroup, Task

Fails = Callable[[Opening], bool]

CORE = 1_000
FREE = Share(quota=-1, limit=-1, weight=1.0)
NOTHING = Decisions(now=NOW)


def shrink(opening: Opening, fails: Fails, most_tries: int = 3_000) -> Opening:
    """A cluster, no larger, for which ``fails`` still holds. ``opening`` itself must fail.

    Only sound clusters are tried: nothing given out twice at the start. ``most_tries`` bounds the calls of ``fails``.
    """
    budget = _Budget(fails, most_tries)
    while True:
        before = opening
        opening = _drop(opening, budget, [group.uid for group in opening.podgroups], without_podgroups)
        opening = _drop(opening, budget, [node.name for node in opening.nodes], without_nodes)
        opening = _drop(opening, budget, [queue.name for queue in opening.queues], without_queues)
        opening = _drop(opening, budget, [task.uid for task in opening.tasks], without_tasks)
        opening = _simplify(opening, budget)
        if opening == before or not budget.left:
            return opening


class _Budget:
    def __init__(self, fails: Fails, tries: int) -> None:
        self._fails = fails
        self.left = tries

    def fails(self, opening: Opening) -> bool:
        if not self.left or check(opening, {task.uid: task for task in opening.tasks}, NOTHING):
            return False
        self.left -= 1
        return self._fails(opening)


def _drop(
    opening: Opening, budget: _Budget, names: list[str], without: Callable[[Opening, Collection[str]], Opening]
) -> Opening:
    """Leave out as many of the named as can go, in ever smaller pieces."""
    size = len(names)
    while size and budget.left:
        rest: list[str] = []
        for start in range(0, len(names), size):
            piece = names[start : start + size]
            smaller = without(opening, set(piece))
            if smaller != opening and budget.fails(smaller):
                opening = smaller
            else:
                rest += piece
        names, size = rest, size // 2
    return opening


def without_podgroups(opening: Opening, uids: Collection[str]) -> Opening:
    return replace(
        opening,
        podgroups=[group for group in opening.podgroups if group.uid not in uids],
        tasks=[task for task in opening.tasks if task.podgroup not in uids],
    )


def without_nodes(opening: Opening, names: Collection[str]) -> Opening:
    """The pods on them go too."""
    gone = {task.uid for task in opening.tasks if task.node in names}
    return without_tasks(replace(opening, nodes=[node for node in opening.nodes if node.name not in names]), gone)


def without_queues(opening: Opening, names: Collection[str]) -> Opening:
    """Their workloads go too; queues below them move up to what was above."""
    parents = {queue.name: queue.parent for queue in opening.queues}

    def above(name: str) -> str:
        while name in names:
            name = parents[name]
        return name

    queues = [replace(queue, parent=above(queue.parent)) for queue in opening.queues if queue.name not in names]
    gone = {group.uid for group in opening.podgroups if group.queue in names}
    return without_podgroups(replace(opening, queues=queues), gone)


def without_tasks(opening: Opening, uids: Collection[str]) -> Opening:
    """Minimums shrink with what is left, workloads without pods go."""
    tasks = [task for task in opening.tasks if task.uid not in uids]
    counts: dict[str, dict[str, int]] = {}
    for task in tasks:
        of_group = counts.setdefault(task.podgroup, {})
        of_group[task.subgroup] = of_group.get(task.subgroup, 0) + 1
    groups = [
        replace(group, root=_capped(group.root, counts[group.uid]))
        for group in opening.podgroups
        if group.uid in counts
    ]
    return replace(opening, podgroups=groups, tasks=tasks)


def _capped(group: SubGroup, counts: dict[str, int]) -> SubGroup:
    podsets = tuple(
        replace(podset, min_available=min(podset.min_available, counts[podset.name]))
        for podset in group.podsets
        if podset.name in counts
    )
    groups = [_capped(inner, counts) for inner in group.groups]
    kept = tuple(inner for inner in groups if inner.podsets or inner.groups)
    members = len(podsets) + len(kept)
    minimum = None if group.min_members is None else min(group.min_members, members)
    return replace(group, podsets=podsets, groups=kept, min_members=minimum)


def _simplify(opening: Opening, budget: _Budget) -> Opening:
    """One feature after the other, each by itself; what was taken stays taken."""
    for index in range(len(opening.nodes)):
        opening = _field(opening, budget, "nodes", index, {"pods": 110, "extended": (), "cpu": 64 * CORE})
    for index in range(len(opening.queues)):
        plain: dict[str, Any] = {
            "priority": 100, "cpu": FREE, "memory": FREE, "reclaim_min_runtime": None, "preempt_min_runtime": None,
        }  # fmt: skip
        opening = _field(opening, budget, "queues", index, plain)
        for simpler in _simpler_shares(opening.queues[index]):
            opening = _try(opening, budget, "queues", index, simpler(opening.queues[index]))
    for index in range(len(opening.podgroups)):
        plain = {"preemption_delay": 0.0, "staleness_grace": None, "stale_since": None, "last_start": None}
        opening = _field(opening, budget, "podgroups", index, plain)
        opening = _field(opening, budget, "podgroups", index, {"priority": 50})
        for root in _simpler_roots(opening.podgroups[index]):
            opening = _try(opening, budget, "podgroups", index, root)
        opening = _simpler_tasks(opening, budget, opening.podgroups[index].uid)
    for name in EngineConfig.__struct_fields__:
        config = replace(opening.config, **{name: getattr(EngineConfig(), name)})
        smaller = replace(opening, config=config)
        if smaller != opening and budget.fails(smaller):
            opening = smaller
    if opening.topologies:
        smaller = replace(opening, topologies=())
        if budget.fails(smaller):
            opening = smaller
    return opening


def _field(opening: Opening, budget: _Budget, kind: str, index: int, plain: dict[str, Any]) -> Opening:
    for name, value in plain.items():
        record = getattr(opening, kind)[index]
        opening = _try(opening, budget, kind, index, replace(record, **{name: value}))
    return opening


def _try(opening: Opening, budget: _Budget, kind: str, index: int, record: Any) -> Opening:
    records = list(getattr(opening, kind))
    if record == records[index]:
        return opening
    records[index] = record
    changed: dict[str, Any] = {kind: records}
    smaller = replace(opening, **changed)
    return smaller if budget.fails(smaller) else opening


def _simpler_shares(queue: Queue) -> Iterator[Callable[[Queue], Queue]]:
    def with_gpu(**fields: Any) -> Callable[[Queue], Queue]:
        return lambda queue: replace(queue, gpu=replace(queue.gpu, **fields))

    yield with_gpu(limit=-1)
    yield with_gpu(weight=1.0)
    yield with_gpu(quota=-1)
    if queue.gpu.quota > 0:
        yield with_gpu(quota=0)


def _simpler_roots(group: PodGroup) -> Iterator[PodGroup]:
    root = group.root
    yield replace(group, root=_unconstrained(root))
    yield replace(group, root=replace(_unconstrained(root), min_members=None))


def _unconstrained(group: SubGroup) -> SubGroup:
    return replace(
        group,
        constraint=None,
        podsets=tuple(replace(podset, constraint=None) for podset in group.podsets),
        groups=tuple(_unconstrained(inner) for inner in group.groups),
    )


def _simpler_tasks(opening: Opening, budget: _Budget, uid: str) -> Opening:
    """All pods of a workload alike, and plainer."""

    def changed(change: Callable[[Task], Task]) -> Opening:
        return replace(opening, tasks=[change(task) if task.podgroup == uid else task for task in opening.tasks])

    def reshaped(**fields: Any) -> Callable[[Task], Task]:
        return lambda task: replace(task, shape=replace(task.shape, **fields))

    plain = Shape()
    changes: list[Callable[[Task], Task]] = [
        lambda task: replace(task, priority=None),
        reshaped(affinity=plain.affinity, anti_affinity=plain.anti_affinity, labels=(), namespace=""),
        reshaped(terms=()),
        reshaped(cpu=CORE),
        lambda task: replace(task, shape=replace(task.shape, gpu=GpuRequest(devices=1)), gpu_groups=(), accepted=None),
    ]
    for change in changes:
        smaller = changed(change)
        if smaller != opening and budget.fails(smaller):
            opening = smaller
    return opening
