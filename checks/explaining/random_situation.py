"""The situation of a seed: a fleet, queues, and misconfigured workloads that compete."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from random import Random

from checks.explaining import random_clusters
from checks.explaining.misconfigurations import Surroundings, add_misconfigurations
from checks.explaining.situation import Situation, Step
from checks.fuzzing.walk_objects import WORK
from kailab.cluster.protocol import Object
from kailab.model import labels
from kailab.model.kinds import api_version_of

CONFIGS: tuple[Object | None, ...] = (None,) * 9 + ({"queueDepthPerAction": {"allocate": 1}},)


def seeded(seed: int) -> Situation:
    """The situation of a seed."""
    chance = Random(seed)
    fleet = random_clusters.fleet(chance)
    config = chance.choice(CONFIGS)
    steps = tuple(_steps(chance, fleet))
    # YAML would write shared objects as anchors, and changing one object must not change another.
    return Situation(f"seed {seed}", deepcopy(fleet), tuple(deepcopy(step) for step in steps), deepcopy(config))


def _steps(chance: Random, fleet: Object) -> Iterator[Step]:
    queues, leaves, inner = random_clusters.queue_tree(chance)
    yield {"apply": queues + (random_clusters.odd_queues(chance) if chance.random() < 0.3 else [])}
    if chance.random() < 0.05:
        yield {"refuse": {"pods": f"w{chance.randrange(4)}", "message": "denied by policy: no cost centre"}}
    around = Surroundings(chance, inner, "topologies" in fleet)
    names: list[tuple[str, str]] = []
    for number in range(chance.choice((2, 3, 4, 5, 6))):
        made = _random_workload(f"w{number}", chance.choice(leaves), around)
        names.append((made[0]["kind"], f"w{number}"))
        yield {"apply": made}
        yield from _random_event(chance, fleet, leaves, names)


def _random_workload(name: str, queue: str, around: Surroundings) -> list[Object]:
    chance = around.chance
    if chance.random() < 0.12:
        return gang_of_pods(name, queue, chance)
    manifest: Object = chance.choice(WORK)(name, queue, chance)
    add_misconfigurations(manifest, around)
    return [manifest]


def gang_of_pods(name: str, queue: str, chance: Random) -> list[Object]:
    """A PodGroup and its pods, as written by users without an operator."""
    least = chance.choice((1, 2, 3))
    count = max(1, least + chance.choice((0, 0, 1, -1)))
    spec: Object = {"queue": queue, "minMember": least, "priorityClassName": chance.choice(("train", "build"))}
    metadata = {"name": name}
    group: Object = {"apiVersion": api_version_of("PodGroup"), "kind": "PodGroup", "metadata": metadata, "spec": spec}
    gpus = chance.choice((1, 2, 4))
    return [group, *(_member(f"{name}-{number}", name, queue, gpus) for number in range(count))]


def _member(name: str, group: str, queue: str, gpus: int) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": {"app": group, labels.QUEUE: queue},
            "annotations": {labels.POD_GROUP: group},
        },
        "spec": {
            "schedulerName": labels.SCHEDULER_NAME,
            "containers": [{"name": "main", "image": "pause", "resources": {"limits": {labels.GPU_RESOURCE: gpus}}}],
        },
    }


def _random_event(chance: Random, fleet: Object, leaves: list[str], names: list[tuple[str, str]]) -> Iterator[Step]:
    """An event between two workloads, usually none."""
    drawn = chance.random()
    if drawn < 0.15:
        yield {"advance": chance.choice((5, 30, 100, 700))}
    elif drawn < 0.20:
        yield {"patch": {"kind": "Node", "name": _node(chance, fleet), "patch": {"spec": {"unschedulable": True}}}}
    elif drawn < 0.25:
        quota = {"spec": {"resources": {"gpu": {"quota": chance.choice((0, 1, 2)), "limit": -1, "overQuotaWeight": 1}}}}
        yield {"patch": {"kind": "Queue", "name": chance.choice(leaves), "patch": quota}}
    elif drawn < 0.30 and len(names) > 1:
        kind, name = names.pop(chance.randrange(len(names) - 1))
        yield {"delete": {"kind": kind, "name": name}}


def _node(chance: Random, fleet: Object) -> str:
    pool = chance.choice(fleet["pools"])
    return f"{pool['name']}-{chance.randrange(pool['count'])}"
