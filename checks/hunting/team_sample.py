"""The sample of a seed in an area of random clusters (``checks.fuzzing.areas``): queues, then each workload as a PodGroup with its pods, in a
step of its own.

What runs in the drawn cluster comes first, but without its places, because no pod is on a node before a scheduler has bound it. Settings of the
scheduler are not drawn. Minimum runtimes are longer than any scenario.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from itertools import groupby
from random import Random

from msgspec import structs

from checks.case_input import LEAVING, CaseInput
from checks.fuzzing import case_manifest
from checks.fuzzing.areas import TEAM_AREAS, picking
from checks.fuzzing.random_cluster import CORE, LEVELS, TOPOLOGY
from checks.fuzzing.team_cluster import NODES_OF_A_RACK, RACKS_OF_A_ZONE, team_case_input
from checks.hunting.random_sample import FOR_EVER
from checks.hunting.sample import HuntSample, Step
from kailab.cluster.protocol import Object
from kailab.engine.snapshot.records import GPU, Node, Status
from kailab.errors import InputError

MODELS = ("A100", "H100", "L40S")


def seeded_in(area: str, seed: int, nodes: range | None = None) -> HuntSample:
    """The sample of a seed. ``nodes``: their number; None: as the area has them. Raises InputError for an unknown area."""
    check_hunt_area(area)
    team = replace(TEAM_AREAS[area], settings=0)
    if nodes is not None:
        team = replace(team, nodes=nodes)
    drawn = team_case_input(team, picking(Random(f"hunt {area} {seed}")))
    return HuntSample(f"{area}-{seed}", seed, _fleet(drawn), tuple(_steps(drawn)))


def check_hunt_area(area: str) -> None:
    """Raises InputError for an unknown area."""
    if area not in TEAM_AREAS:
        raise InputError(f"--area: there is no area {area!r} of hunts; expected one of: {', '.join(TEAM_AREAS)}")


def _fleet(drawn: CaseInput) -> Object:
    leveled = bool(drawn.topologies)
    pools: list[Object] = []
    for _, nodes in groupby(drawn.nodes, key=lambda node: (node.cpu, node.memory, node.gpus, node.gpu_memory_mib)):
        alike = list(nodes)
        pools.append(_pool(f"p{len(pools)}", alike[0], len(alike), leveled))
    fleet: Object = {"apiVersion": "kailab.dev/v1", "kind": "Fleet", "name": "team", "pools": pools}
    if leveled:
        fleet["topologies"] = [{"name": TOPOLOGY.name, "levels": list(LEVELS)}]
    return fleet


def _pool(name: str, node: Node, count: int, leveled: bool) -> Object:
    pool: Object = {
        "name": name,
        "count": count,
        "gpus": node.gpus // GPU,
        "cpu": node.cpu // CORE,
        "memory": str(node.memory),
    }
    if node.gpus:
        pool |= {"gpuModel": MODELS[int(name[1:]) % len(MODELS)], "gpuMemory": f"{node.gpu_memory_mib}Mi"}
    if leveled:
        zone, rack, _ = LEVELS
        pool["layout"] = [
            {"label": zone, "nodes": NODES_OF_A_RACK * RACKS_OF_A_ZONE, "name": f"{name}-z{{index}}"},
            {"label": rack, "nodes": NODES_OF_A_RACK, "name": f"{name}-r{{index}}"},
        ]
    return pool


def _steps(drawn: CaseInput) -> Iterator[Step]:
    tasks = tuple(
        structs.replace(task, status=Status.PENDING, node="", gpu_groups=(), accepted=None)
        for task in drawn.tasks
        if task.status not in LEAVING
    )
    kept = {task.podgroup for task in tasks}
    groups = tuple(group for group in drawn.podgroups if group.uid in kept)
    objects = list(
        case_manifest.objects(structs.replace(drawn, nodes=(), topologies=(), podgroups=groups, tasks=tasks))
    )
    queues = [manifest for manifest in objects if manifest["kind"] == "Queue"]
    for queue in queues:
        for field in ("reclaimMinRuntime", "preemptMinRuntime"):
            if queue["spec"].pop(field, "0s") != "0s":
                queue["spec"][field] = FOR_EVER
    yield {"apply": queues}
    for group in groups:
        members = {task.name for task in tasks if task.podgroup == group.uid}
        pods = [
            manifest for manifest in objects if manifest["kind"] == "Pod" and manifest["metadata"]["name"] in members
        ]
        for pod in pods:
            pod["metadata"]["labels"]["app"] = group.name
        manifests = [
            manifest
            for manifest in objects
            if manifest["kind"] == "PodGroup" and manifest["metadata"]["name"] == group.name
        ]
        yield {"apply": deepcopy([*manifests, *pods])}  # YAML would write shared objects as anchors
