"""What ``whatif`` and ``simulate`` foretell is what then happens: random clusters, each change really made afterwards.

The lab is kept in a file: it is foretold from one reading of it, and happens to another.
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from checks.fuzzing.walk import LEAVES, Walk, steps_of
from checks.fuzzing.walk_objects import WORK
from kailab.explain.subject import SubjectRef
from kailab.lab import Lab
from kailab.lab.change import Apply, Change, Delete
from kailab.lab.node_changes import drain_node, nodes_to_add
from kailab.model import labels
from kailab.whatif.alternatives import Alternative, what_if
from kailab.whatif.fields import deletion_of, deletions_by_label, patch_of
from kailab.whatif.outcome import Outcome
from kailab.whatif.simulation import When, simulate

HOUR = 3600.0

SEEDS = int(os.environ.get("KAILAB_FORETOLD_SEEDS", "60"))
"""How many random labs each command is tried on. 500 take a quarter of an hour of processor time."""
BLOCK = 18


def differences(predicted: Outcome, seen: Outcome) -> Mapping[str, tuple[Any, Any]]:
    """What a predicted outcome and the real one have different, by workload and queue; empty if they are equal."""
    result: dict[str, tuple[Any, Any]] = {}
    for workload in sorted({*predicted.workloads, *seen.workloads}):
        pair = (predicted.workloads.get(workload), seen.workloads.get(workload))
        if pair[0] != pair[1]:
            result[str(workload)] = pair
    for name in sorted({*predicted.queues, *seen.queues}):
        queue_pair = (predicted.queues.get(name), seen.queues.get(name))
        if queue_pair[0] != queue_pair[1]:
            result[f"Queue/{name}"] = queue_pair
    if predicted.evictions != seen.evictions:
        result["evictions"] = (predicted.evictions, seen.evictions)
    return result


def work(name: str, chance: random.Random) -> dict[str, Any]:
    """A random workload; half of those of which pods come from a template end after some time."""
    manifest: dict[str, Any] = chance.choice(WORK)(name, chance.choice(LEAVES), chance)
    template = manifest["spec"].get("template")
    if template is not None and chance.random() < 0.5:
        seconds = str(chance.choice((20, 90, 600, 2000)))
        template["metadata"].setdefault("annotations", {})[labels.RUN_SECONDS] = seconds
    return manifest


def crowd(chance: random.Random) -> dict[str, Any]:
    """A Job that takes most of a fleet, for a while or without end, so that others wait for it or evict it."""
    job: dict[str, Any] = WORK[0]("crowd", chance.choice(LEAVES), chance)
    job["spec"] |= {"parallelism": chance.randrange(16, 40), "completions": 40}
    template = job["spec"]["template"]
    template["metadata"]["labels"]["priorityClassName"] = "train"
    template["spec"]["containers"][0]["resources"]["limits"] = {labels.GPU_RESOURCE: 1}
    if chance.random() < 0.7:
        template["metadata"].setdefault("annotations", {})[labels.RUN_SECONDS] = str(chance.choice((300, 900, 2500)))
    return job


def a_lab(seed: int, folder: Path) -> Path:
    """The file of a random lab."""
    chance, walk = random.Random(seed), Walk(seed)
    try:
        for step in steps_of(seed, chance.randrange(8, 24)):
            walk.take(step)
        if chance.random() < 0.7:
            walk.lab.apply([crowd(chance)])
            walk.lab.settle()
        walk.lab.apply([work(f"more-{number}", chance) for number in range(chance.randrange(3, 12))])
        walk.lab.settle()
        walk.lab.advance(chance.choice((0, 3, 50)))
        walk.lab.settle()
        file = folder / f"{seed}.state"
        walk.lab.save(file)
        return file
    finally:
        walk.close()


def some_changes(lab: Lab, chance: random.Random) -> Sequence[Change]:
    """One or two changes of all sorts."""
    found: list[Change] = []
    nodes = [node["metadata"]["name"] for node in lab.get("Node")]
    owners = [(kind, obj["metadata"]["name"]) for kind in ("Job", "Deployment", "StatefulSet") for obj in lab.get(kind)]
    leaves = [queue["metadata"]["name"] for queue in lab.get("Queue") if queue["metadata"]["name"] in LEAVES]
    for number in range(chance.randrange(1, 3)):
        what = chance.choice(("set", "set", "apply", "delete", "add", "drain", "without", "scale"))
        if what == "set" and leaves:
            field, value = (
                chance.choice(("gpu.quota", "gpu.limit", "gpu.overQuotaWeight", "priority")),
                chance.randrange(12),
            )
            found.append(patch_of(lab, f"queue/{chance.choice(leaves)}.{field}={value}"))
        elif what == "apply":
            found.append(Apply((work(f"new-{number}", chance),)))
        elif what == "delete" and owners and not any(isinstance(change, Delete) for change in found):
            kind, name = owners.pop(chance.randrange(len(owners)))
            found.append(deletion_of(lab, f"{kind}/{name}"))
        elif what == "add" and nodes:
            found.append(nodes_to_add(lab, f"{chance.choice(nodes)}:{chance.randrange(1, 3)}"))
        elif what == "drain" and nodes:
            found[:0] = drain_node(lab, nodes.pop(chance.randrange(len(nodes))))
        elif what == "without" and not any(isinstance(change, Delete) for change in found):
            used = {name for pod in lab.get("Pod") if (name := pod["metadata"].get("labels", {}).get(labels.QUEUE))}
            found += deletions_by_label(lab, f"{labels.QUEUE}={chance.choice(sorted(used))}") if used else ()
        elif what == "scale":
            gone = {change.name for change in found if isinstance(change, Delete)}
            if scaled := [name for kind, name in owners if kind == "Deployment" and name not in gone]:
                found.append(patch_of(lab, f"deployment/{chance.choice(scaled)}.replicas={chance.randrange(9)}"))
    return found


def made(lab: Lab, changes: Sequence[Change], end: float) -> Outcome:
    """What really becomes of a lab in which these are made."""
    since = len(lab.log.evictions)
    for change in changes:
        change.do(lab)
    lab.settle()
    lab.advance(end - lab.now)
    return Outcome.of(lab, since)


def check_whatif(seed: int, folder: Path) -> None:
    file, chance = a_lab(seed, folder), random.Random(seed)
    saved = file.read_bytes()
    with Lab.resume(file, read_only=True) as lab:
        changes = some_changes(lab, chance)
        found = what_if(lab, [Alternative("some", tuple(changes))], chance.choice((0, 60, HOUR)))
    with Lab.resume(file) as lab:
        assert differences(found.comparisons[0].after, made(lab, changes, found.end)) == {}
    with Lab.resume(file) as lab:
        assert differences(found.before, made(lab, (), found.end)) == {}
    assert file.read_bytes() == saved


def check_simulate(seed: int, folder: Path) -> None:
    file, chance = a_lab(seed, folder), random.Random(seed + 1_000_000)
    saved = file.read_bytes()
    manifest = work("asked", chance)
    with Lab.resume(file, read_only=True) as lab:
        found = simulate(lab, [manifest], bound=HOUR, tried=False)
    (fate,) = found.fates
    with Lab.resume(file) as lab:
        since, start = len(lab.log.evictions), lab.now
        lab.apply([manifest])
        lab.settle()
        subject = SubjectRef.of(lab, manifest["kind"], "asked")
        assert subject.runs(lab) == (fate.when is When.NOW)
        left = start + (HOUR if fate.seconds is None else fate.seconds) - lab.now
        if fate.when is not When.NOW and left > 0:
            for _ in lab.moments(left):
                if subject.runs(lab):
                    break
            assert subject.runs(lab) == (fate.when is When.LATER)
            if fate.when is When.LATER:
                assert lab.now - start == fate.seconds
        if fate.seconds is not None:
            places = tuple(sorted((row.name, row.node) for row in subject.state(lab).running))
            assert places == fate.places
            lab.advance(found.end - lab.now)
            assert differences(found.comparison.after, Outcome.of(lab, since)) == {}
    assert file.read_bytes() == saved


@pytest.mark.parametrize("seed", range(6))
def test_a_change_does_what_was_foretold(seed, tmp_path):
    check_whatif(seed, tmp_path)


@pytest.mark.parametrize("seed", range(6))
def test_work_runs_as_was_foretold(seed, tmp_path):
    check_simulate(seed, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("begin", range(6, SEEDS, BLOCK))
def test_changes_of_all_sorts_do_what_was_foretold(begin, tmp_path):
    for seed in range(begin, min(begin + BLOCK, SEEDS)):
        check_whatif(seed, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("begin", range(6, SEEDS, BLOCK))
def test_work_of_all_sorts_runs_as_was_foretold(begin, tmp_path):
    for seed in range(begin, min(begin + BLOCK, SEEDS)):
        check_simulate(seed, tmp_path)
