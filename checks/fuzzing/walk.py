"""Random walks: user steps in a lab, and what must hold whenever it has settled.

A walk is a list of steps made from a seed. A step has an action and two numbers that choose the rest ("cordon, 7": the
node at position 7, counted modulo), so that any part of a walk is a walk. A failure is shrunk to the fewest steps that
fail in the same way.

In a settled lab: no node gives more than it has; no queue has grown past its limit; no gang is incomplete beyond its
staleness grace; no pod is promised a place that no pod leaves; and no pod waits that would fit. For the last one, a new
mirror of the cluster is decided with only allocate.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from multiprocessing import get_context
from typing import Any, NamedTuple

import msgspec

from checks.fuzzing.walk_objects import WORK, queue_tree, queue_with, subgroups
from checks.report import Report, Result
from kailab.engine.config import EngineConfig
from kailab.engine.cycle import run_cycle
from kailab.engine.decisions import QueueShare, QueueState
from kailab.engine.snapshot.records import GPU
from kailab.engine.working.state import Job
from kailab.errors import KailabError
from kailab.lab.lab import Lab
from kailab.scheduler.mirror import Mirror

FLEETS = ("lesson", "mixed", "racks")
LEAVES = ("t1", "t2", "t3", "t4")
STEPS = 40
Tell = Callable[[str, int, int], None]


class WalkStep(NamedTuple):
    """One step: an action and two numbers that choose its objects."""

    action: str
    number: int
    other: int

    def __str__(self) -> str:
        return f"{self.action} {self.number} {self.other}"


_WEIGHTS = {
    "apply": 12, "delete": 4, "scale": 4, "cordon": 2, "uncordon": 2, "taint": 2, "untaint": 2, "remove node": 2,
    "bring node": 2, "queue": 4, "remove queue": 1, "advance": 3,
}  # fmt: skip


def steps_of(seed: int, count: int = STEPS) -> list[WalkStep]:
    chance = random.Random(seed)
    names = chance.choices(list(_WEIGHTS), list(_WEIGHTS.values()), k=count)
    return [WalkStep(each, chance.randrange(10_000), chance.randrange(10_000)) for each in names]


class Walk:
    """A lab and its walk. ``faults`` lists what does not hold after the latest step."""

    def __init__(self, seed: int) -> None:
        self.lab = Lab.open(fleet=FLEETS[seed % len(FLEETS)])
        self._made: list[tuple[str, str]] = []
        self._gone: list[dict[str, Any]] = []  # nodes
        self._count = 0
        self._held: dict[str, tuple[int, ...]] = {}
        self.lab.apply(queue_tree(LEAVES))

    def close(self) -> None:
        self.lab.close()

    def take(self, step: WalkStep) -> list[str]:
        """Carry out a step, settle, and return the faults."""
        try:
            getattr(self, "_" + step.action.replace(" ", "_"))(step.number, step.other)
            self.lab.settle()
        except KailabError as error:
            return [f"{type(error).__name__}: {error}"]
        return self.faults()

    # User actions

    def _apply(self, number: int, other: int) -> None:
        self._count += 1
        chance = random.Random(other)
        name, queue = f"w{self._count}", chance.choice(LEAVES)
        made = number % (len(WORK) + 1)
        manifests = [WORK[made](name, queue, chance)] if made < len(WORK) else subgroups(name, queue, chance)
        # What is deleted of a PodGroup are its pods, one at a time.
        self._made += [(each["kind"], each["metadata"]["name"]) for each in manifests if each["kind"] != "PodGroup"]
        self.lab.apply(manifests)

    def _delete(self, number: int, other: int) -> None:
        if self._made:
            kind, name = self._made.pop(number % len(self._made))
            if self._exists(kind, name):
                self.lab.delete(kind, name)

    def _exists(self, kind: str, name: str) -> bool:
        """False for example for a bare pod that was deleted with its node."""
        return any(obj["metadata"]["name"] == name for obj in self.lab.get(kind))

    def _scale(self, number: int, other: int) -> None:
        scalable = [entry for entry in self._made if entry[0] in ("Deployment", "StatefulSet")]
        if scalable:
            kind, name = scalable[number % len(scalable)]
            self.lab.scale(kind, name, other % 8)

    def _node(self, number: int) -> str | None:
        nodes = sorted(node["metadata"]["name"] for node in self.lab.get("nodes"))
        return nodes[number % len(nodes)] if nodes else None

    def _patch_node(self, number: int, spec: dict[str, Any]) -> None:
        name = self._node(number)
        if name is not None:
            self.lab.patch("Node", name, {"spec": spec})

    def _cordon(self, number: int, other: int) -> None:
        self._patch_node(number, {"unschedulable": True})

    def _uncordon(self, number: int, other: int) -> None:
        self._patch_node(number, {"unschedulable": None})

    def _taint(self, number: int, other: int) -> None:
        effect = ("NoSchedule", "NoExecute", "PreferNoSchedule")[other % 3]
        self._patch_node(number, {"taints": [{"key": "kept", "value": "yes", "effect": effect}]})

    def _untaint(self, number: int, other: int) -> None:
        self._patch_node(number, {"taints": None})

    def _remove_node(self, number: int, other: int) -> None:
        name = self._node(number)
        if name is not None:
            self._gone.append(self.lab.cluster.get("Node", name))
            self.lab.delete("Node", name)

    def _bring_node(self, number: int, other: int) -> None:
        if self._gone:
            node = self._gone.pop(number % len(self._gone))
            metadata = {
                key: node["metadata"][key] for key in ("name", "labels", "annotations") if key in node["metadata"]
            }
            self.lab.cluster.create({**node, "metadata": metadata})

    def _queue(self, number: int, other: int) -> None:
        chance = random.Random(other)
        self.lab.apply([queue_with(LEAVES[number % len(LEAVES)], LEAVES, chance)])

    def _remove_queue(self, number: int, other: int) -> None:
        name = LEAVES[number % len(LEAVES)]
        if self._exists("Queue", name):
            self.lab.delete("Queue", name)

    def _advance(self, number: int, other: int) -> None:
        self.lab.advance(float((1, 5, 30, 61, 300)[number % 5]))

    # Invariants

    def faults(self) -> list[str]:
        mirror = Mirror(self.lab.cluster)
        try:
            mirror.update()
            return [
                *_overcommitted_nodes(mirror),
                *self._grown_queues(mirror),
                *_incomplete_gangs(mirror, self.lab.now),
                *self._wrongly_waiting(mirror),
            ]
        finally:
            mirror.close()

    def _grown_queues(self, mirror: Mirror) -> Iterator[str]:
        """Queues that hold more than their limit and more than before. A limit may be lowered below what runs, and a
        new queue may find work that was not counted.
        """
        decisions = run_cycle(mirror.working, EngineConfig(actions=()), self.lab.now)
        held, self._held = (
            self._held,
            {queue.name: tuple(share.allocated for share in _shares(queue)) for queue in decisions.queues},
        )
        if self._held.keys() - held.keys():
            return
        for queue in decisions.queues:
            before = held.get(queue.name, (0, 0, 0))
            for what, unit, share, had in zip(_AMOUNTS, _UNITS, _shares(queue), before, strict=True):
                if 0 <= share.limit < share.allocated and share.allocated > had:
                    yield f"queue {queue.name} holds {share.allocated / unit:g} {what}, its limit is {share.limit / unit:g}"

    def _wrongly_waiting(self, mirror: Mirror) -> Iterator[str]:
        leaving = any("deletionTimestamp" in pod["metadata"] for pod in mirror.pods.values())
        last = self.lab.picture().log.last
        if last is not None and not leaving:
            for promise in last.pipelines:
                yield f"pod {mirror.pod_name(promise.task)} is promised a place that nobody leaves"
        config = msgspec.structs.replace(self.lab.config, actions=("allocate",))
        decisions = run_cycle(mirror.working, config, self.lab.now)
        for bind in decisions.binds:
            yield f"pod {mirror.pod_name(bind.task)} waits and would fit on {bind.node}"


_AMOUNTS, _UNITS = ("GPUs", "cores", "bytes"), (GPU, 1000, 1)


def _shares(queue: QueueState) -> tuple[QueueShare, QueueShare, QueueShare]:
    return queue.gpu, queue.cpu, queue.memory


def _overcommitted_nodes(mirror: Mirror) -> Iterator[str]:
    table = mirror.working.table
    for i, node in enumerate(table.nodes):
        for row in range(len(table.idle)):
            if table.idle[row, i] < 0:
                yield f"node {node.name} gives more than it has of resource {row}"
        shared = table.shared.get(i)
        for name, group in (shared.groups if shared is not None else {}).items():
            if shared is not None and group.allocated > shared.memory:
                yield f"node {node.name} gives more of GPU {name} than there is"


def _incomplete_gangs(mirror: Mirror, now: float) -> Iterator[str]:
    grace = EngineConfig().staleness_grace
    jobs: dict[str, Job] = mirror.working.jobs
    for job in jobs.values():
        if job.stale:
            since = job.record.stale_since
            if since is None or now - since > grace + 1:
                yield f"gang {job.record.name} runs in part"


def run_walk(seed: int, steps: Sequence[WalkStep]) -> tuple[int, list[str]]:
    """The number of steps that went well, and the faults after the next one."""
    walk = Walk(seed)
    try:
        for number, step in enumerate(steps):
            faults = walk.take(step)
            if faults:
                return number, faults
        return len(steps), []
    finally:
        walk.close()


def shrink(seed: int, steps: Sequence[WalkStep]) -> tuple[list[WalkStep], list[str]]:
    """The fewest steps found that still fail in the same way, and the faults."""
    good, faults = run_walk(seed, steps)
    kind = kind_of(faults[0])
    remaining, piece = list(steps[: good + 1]), max(1, (good + 1) // 2)
    while piece:
        at = 0
        while at < len(remaining):
            fewer = remaining[:at] + remaining[at + piece :]
            new_faults = run_walk(seed, fewer)[1] if fewer else []
            if new_faults and kind_of(new_faults[0]) == kind:
                remaining, faults = fewer, new_faults
            else:
                at += piece
        piece //= 2
    return remaining, faults


def kind_of(fault: str) -> str:
    """A fault without its names and numbers."""
    return " ".join("#" if any(c.isdigit() or c == "/" for c in word) else word for word in fault.split()[:8])


def run_seed(seed: int, steps: int = STEPS) -> Result:
    """Run the walk of a seed. A failure is reported with its fewest steps."""
    all_steps = steps_of(seed, steps)
    _, faults = run_walk(seed, all_steps)
    if not faults:
        return Result(id=f"walk/{seed}", suite="walks", differences=())
    shrunk, faults = shrink(seed, all_steps)
    sentence = f"{faults[0]}; on fleet {FLEETS[seed % len(FLEETS)]} after: {', '.join(map(str, shrunk))}"
    return Result(id=f"walk/{seed}", suite="walks", differences=(sentence, *faults[1:]))


def run_seeds(seeds: Sequence[int], steps: int = STEPS, workers: int = 1, tell: Tell | None = None) -> Report:
    """Run the walks of these seeds. ``tell("walks", done, total)`` is called after each."""
    report = Report("random walks")
    for result in _results(seeds, steps, workers):
        report.results.append(result)
        if tell is not None:
            tell("walks", len(report.results), len(seeds))
    return report


def _results(seeds: Sequence[int], steps: int, workers: int) -> Iterator[Result]:
    walk = partial(run_seed, steps=steps)
    if workers <= 1:
        yield from map(walk, seeds)
        return
    with get_context("spawn").Pool(workers) as pool:
        yield from pool.imap(walk, seeds)
