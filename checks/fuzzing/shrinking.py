"""Finds the smallest cluster that still fails, by delta debugging: leave out, simplify, and keep what still fails.

Whole workloads go first, then nodes, queues and single pods, each kind in halves, quarters and so on down to single
ones (ddmin); then one feature after another. This repeats until nothing more can go. The result depends only on the
cluster and the test.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

from msgspec.structs import replace

from checks.case_input import NOW, CaseInput
from checks.invariants import check
from kailab.engine.config import EngineConfig
from kailab.engine.decisions import Decisions
from kailab.engine.snapshot.gpu_requests import WholeGpus
from kailab.engine.snapshot.records import PodGroup, Queue, ResourceShare, Shape, SubGroup, Task

Fails = Callable[[CaseInput], bool]

CORE = 1_000
FREE = ResourceShare(quota=-1, limit=-1, weight=1.0)
NOTHING = Decisions(now=NOW)


def shrink(case_input: CaseInput, fails: Fails, most_tries: int = 3_000) -> CaseInput:
    """A smaller cluster for which ``fails`` still holds. It must hold for ``case_input``.

    Only valid clusters are tried: nothing is given out twice at the start. ``most_tries`` bounds the calls of
    ``fails``.
    """
    budget = _Budget(fails, most_tries)
    while True:
        before = case_input
        case_input = _drop(case_input, budget, [group.uid for group in case_input.podgroups], without_podgroups)
        case_input = _drop(case_input, budget, [node.name for node in case_input.nodes], without_nodes)
        case_input = _drop(case_input, budget, [queue.name for queue in case_input.queues], without_queues)
        case_input = _drop(case_input, budget, [task.uid for task in case_input.tasks], without_tasks)
        case_input = _simplify(case_input, budget)
        if case_input == before or not budget.left:
            return case_input


class _Budget:
    def __init__(self, fails: Fails, tries: int) -> None:
        self._fails = fails
        self.left = tries

    def fails(self, case_input: CaseInput) -> bool:
        if not self.left or check(case_input, {task.uid: task for task in case_input.tasks}, NOTHING):
            return False
        self.left -= 1
        return self._fails(case_input)


def _drop(
    case_input: CaseInput, budget: _Budget, names: list[str], without: Callable[[CaseInput, Collection[str]], CaseInput]
) -> CaseInput:
    """Leave out as many of the named objects as possible, in ever smaller pieces."""
    size = len(names)
    while size and budget.left:
        rest: list[str] = []
        for start in range(0, len(names), size):
            piece = names[start : start + size]
            smaller = without(case_input, set(piece))
            if smaller != case_input and budget.fails(smaller):
                case_input = smaller
            else:
                rest += piece
        names, size = rest, size // 2
    return case_input


def without_podgroups(case_input: CaseInput, uids: Collection[str]) -> CaseInput:
    return replace(
        case_input,
        podgroups=[group for group in case_input.podgroups if group.uid not in uids],
        tasks=[task for task in case_input.tasks if task.podgroup not in uids],
    )


def without_nodes(case_input: CaseInput, names: Collection[str]) -> CaseInput:
    """Without these nodes and the pods on them."""
    removed = {task.uid for task in case_input.tasks if task.node in names}
    return without_tasks(
        replace(case_input, nodes=[node for node in case_input.nodes if node.name not in names]), removed
    )


def without_queues(case_input: CaseInput, names: Collection[str]) -> CaseInput:
    """Without these queues and their workloads. Queues below them move up."""
    parents = {queue.name: queue.parent for queue in case_input.queues}

    def above(name: str) -> str:
        while name in names:
            name = parents[name]
        return name

    queues = [replace(queue, parent=above(queue.parent)) for queue in case_input.queues if queue.name not in names]
    removed = {group.uid for group in case_input.podgroups if group.queue in names}
    return without_podgroups(replace(case_input, queues=queues), removed)


def without_tasks(case_input: CaseInput, uids: Collection[str]) -> CaseInput:
    """Without these tasks. Minimums shrink accordingly, and workloads without pods are removed."""
    tasks = [task for task in case_input.tasks if task.uid not in uids]
    counts: dict[str, dict[str, int]] = {}
    for task in tasks:
        of_group = counts.setdefault(task.podgroup, {})
        of_group[task.subgroup] = of_group.get(task.subgroup, 0) + 1
    groups = [
        replace(group, root=_capped(group.root, counts[group.uid]))
        for group in case_input.podgroups
        if group.uid in counts
    ]
    return replace(case_input, podgroups=groups, tasks=tasks)


def _capped(group: SubGroup, counts: dict[str, int]) -> SubGroup:
    podsets = tuple(
        replace(podset, min_available=min(podset.min_available, counts[podset.name]))
        for podset in group.podsets
        if podset.name in counts
    )
    groups = [_capped(inner, counts) for inner in group.groups]
    nonempty = tuple(inner for inner in groups if inner.podsets or inner.groups)
    members = len(podsets) + len(nonempty)
    minimum = None if group.min_members is None else min(group.min_members, members)
    return replace(group, podsets=podsets, groups=nonempty, min_members=minimum)


def _simplify(case_input: CaseInput, budget: _Budget) -> CaseInput:
    """Simplify one feature after another; each success is kept."""
    for index in range(len(case_input.nodes)):
        case_input = _field(case_input, budget, "nodes", index, {"pods": 110, "extended": (), "cpu": 64 * CORE})
    for index in range(len(case_input.queues)):
        plain: dict[str, Any] = {
            "priority": 100, "cpu": FREE, "memory": FREE, "reclaim_min_runtime": None, "preempt_min_runtime": None,
        }  # fmt: skip
        case_input = _field(case_input, budget, "queues", index, plain)
        for simpler in _simpler_shares(case_input.queues[index]):
            case_input = _try(case_input, budget, "queues", index, simpler(case_input.queues[index]))
    for index in range(len(case_input.podgroups)):
        plain = {"preemption_delay": 0.0, "staleness_grace": None, "stale_since": None, "last_start": None}
        case_input = _field(case_input, budget, "podgroups", index, plain)
        case_input = _field(case_input, budget, "podgroups", index, {"priority": 50})
        for root in _simpler_roots(case_input.podgroups[index]):
            case_input = _try(case_input, budget, "podgroups", index, root)
        case_input = _simpler_tasks(case_input, budget, case_input.podgroups[index].uid)
    for name in EngineConfig.__struct_fields__:
        config = replace(case_input.config, **{name: getattr(EngineConfig(), name)})
        smaller = replace(case_input, config=config)
        if smaller != case_input and budget.fails(smaller):
            case_input = smaller
    if case_input.topologies:
        smaller = replace(case_input, topologies=())
        if budget.fails(smaller):
            case_input = smaller
    return case_input


def _field(case_input: CaseInput, budget: _Budget, kind: str, index: int, plain: dict[str, Any]) -> CaseInput:
    for name, value in plain.items():
        record = getattr(case_input, kind)[index]
        case_input = _try(case_input, budget, kind, index, replace(record, **{name: value}))
    return case_input


def _try(case_input: CaseInput, budget: _Budget, kind: str, index: int, record: Any) -> CaseInput:
    records = list(getattr(case_input, kind))
    if record == records[index]:
        return case_input
    records[index] = record
    changed: dict[str, Any] = {kind: records}
    smaller = replace(case_input, **changed)
    return smaller if budget.fails(smaller) else case_input


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


def _simpler_tasks(case_input: CaseInput, budget: _Budget, uid: str) -> CaseInput:
    """Make all pods of a workload plainer in the same way."""

    def changed(change: Callable[[Task], Task]) -> CaseInput:
        return replace(case_input, tasks=[change(task) if task.podgroup == uid else task for task in case_input.tasks])

    def reshaped(**fields: Any) -> Callable[[Task], Task]:
        return lambda task: replace(task, shape=replace(task.shape, **fields))

    plain = Shape()
    changes: list[Callable[[Task], Task]] = [
        lambda task: replace(task, priority=None),
        reshaped(affinity=plain.affinity, anti_affinity=plain.anti_affinity, labels=(), namespace=""),
        reshaped(terms=()),
        reshaped(cpu=CORE),
        lambda task: replace(task, shape=replace(task.shape, gpu=WholeGpus(devices=1)), gpu_groups=(), accepted=None),
    ]
    for change in changes:
        smaller = changed(change)
        if smaller != case_input and budget.fails(smaller):
            case_input = smaller
    return case_input
