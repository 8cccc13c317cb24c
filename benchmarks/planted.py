"""Large crowded labs in which work waits for planted causes of every kind: four models of GPU in racks and blocks, queues in three levels, all
GPUs of the most wanted model in use, and each team's waiting work of each kind (``WAITING``).

    python -m benchmarks.planted --nodes 300 lab.state

makes the file of such a lab, for ``python -m benchmarks.causes --state lab.state``.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from benchmarks.lab_runs.shapes import PATIENT, queue
from kailab.cluster.protocol import Object
from kailab.fleet.fleet import Fleet
from kailab.fleet.reading import read_fleet
from kailab.lab import Lab
from kailab.model import labels

H100, H200, A100, L40S = "NVIDIA-H100-80GB-HBM3", "NVIDIA-H200", "NVIDIA-A100-SXM4-80GB", "NVIDIA-L40S"
DEPARTMENTS, TEAMS = 4, 3
BLOCK = 40
"""Nodes of a block; a rack has 8."""


def fleet(nodes: int) -> Fleet:
    """Six nodes in ten have H100, the others H200, A100, L40S or no GPU."""
    racks = [{"label": "topo/block", "nodes": BLOCK, "start": 1}, {"label": "topo/rack", "nodes": 8, "start": 1}]
    later = [{**level, "start": 1001} for level in racks]
    large = {"gpus": 8, "cpu": 192, "memory": "2000Gi"}
    pools = [
        {"name": "h100", "count": nodes * 6 // 10, "gpuModel": H100, "gpuMemory": "80Gi", "layout": racks,
         "resources": {"rdma/hca": 8}, **large},
        {"name": "h200", "count": nodes // 20, "gpuModel": H200, "gpuMemory": "141Gi", **large},
        {"name": "a100", "count": nodes // 5, "gpuModel": A100, "gpuMemory": "80Gi", "layout": later, **large},
        {"name": "l40s", "count": nodes // 10, "gpuModel": L40S, "gpuMemory": "48Gi", "gpus": 4, "cpu": 64, "memory": "512Gi"},
        {"name": "cpu", "count": nodes // 20, "cpu": 96, "memory": "384Gi"},
    ]  # fmt: skip
    content = {
        "apiVersion": "kailab.dev/v1",
        "kind": "Fleet",
        "name": f"planted-{nodes}",
        "pools": [{"taints": [], **pool} for pool in pools],
        "topologies": [{"name": "dc", "levels": ["topo/block", "topo/rack", labels.HOSTNAME]}],
    }
    return read_fleet(yaml.safe_dump(content))


def teams() -> list[str]:
    return [f"team-{department}{team}" for department in range(DEPARTMENTS) for team in range(TEAMS)]


def queues(gpus: int) -> Iterator[Object]:
    """One root, departments, teams. Each third team has a limit; quotas add up to nine tenths of ``gpus``."""
    each = gpus * 9 // 10 // (DEPARTMENTS * TEAMS)
    yield queue("company", quota=gpus)
    for department in range(DEPARTMENTS):
        yield queue(f"department-{department}", "company", quota=each * TEAMS)
    for name in teams():
        limit = each if name.endswith("2") else -1
        yield queue(name, f"department-{name[5]}", quota=each, limit=limit, weight=1 + int(name[5]))


def work(
    name: str, team: str, pods: int, gpus: float = 1, model: str = H100, *, gang: bool = False,
    marks: dict[str, str] | None = None, notes: dict[str, str] | None = None, **spec: Any,
) -> Object:  # fmt: skip
    """A Job. ``marks`` and ``notes``: further labels and annotations of the Job and its pods; ``spec``: of the pods, and ``limits`` of their
    container."""
    limits = {**({labels.GPU_RESOURCE: int(gpus)} if gpus else {}), **spec.pop("limits", {})}
    requests = spec.pop("requests", {"cpu": "4", "memory": "32Gi"})
    marks = {labels.QUEUE: team, **(marks or {})}
    annotations = {**(notes or {}), **({labels.BATCH_MIN_MEMBER: str(pods)} if gang else {})}
    selector = {"nodeSelector": {labels.GPU_PRODUCT: model}} if model else {}
    pod = {
        "schedulerName": labels.SCHEDULER_NAME,
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": "train", "resources": {"requests": requests, "limits": limits}}],
        **selector,
        **spec,
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": f"{team}-{name}", "namespace": "default", "labels": marks, "annotations": annotations},
        "spec": {
            "parallelism": pods,
            "completions": pods,
            "backoffLimit": PATIENT,
            "template": {"metadata": {"labels": marks, "annotations": notes or {}}, "spec": pod},
        },
    }


def deployment(name: str, team: str, replicas: int) -> Object:
    pod = work(name, team, 1)["spec"]["template"]
    pod["metadata"]["labels"] = {**pod["metadata"]["labels"], "app": f"{team}-{name}"}
    del pod["spec"]["restartPolicy"]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": f"{team}-{name}", "namespace": "default", "labels": pod["metadata"]["labels"]},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": f"{team}-{name}"}}, "template": pod},
    }


def running(nodes: int) -> Iterator[Object]:
    """Fills the H100, half of the A100 and some of the rest: gangs and Jobs of single GPUs, of which some belong to teams above their
    quota."""
    share = nodes * 6 // 10 * 8 // (DEPARTMENTS * TEAMS)
    for place, team in enumerate(teams()):
        # Half of the teams hold half as much again as their part, the others half of it.
        part = share * 3 // 2 if place % 2 else share // 2
        for number in range(part // 2 // 16):
            yield work(f"gang-{number}", team, 2, 8, gang=True)
        for number in range(part // 2 // 8):
            yield work(f"sweep-{number}", team, 8)
        for number in range(nodes // 10 // 12 * 8 // 8):
            yield work(f"a100-{number}", team, 8, model=A100)
        for number in range(max(1, nodes // 100)):
            yield work(f"cpu-{number}", team, 20, 0, model="")


WAITING: dict[str, Callable[[str, int], Object]] = {
    "share": lambda team, nodes: work("share", team, nodes // 4, 8, gang=True),
    "behind": lambda team, nodes: work("behind", team, 8),
    "block": lambda team, nodes: work(
        "block", team, BLOCK + 8, 8, gang=True, notes={labels.TOPOLOGY: "dc", labels.TOPOLOGY_REQUIRED: "topo/block"}
    ),
    "rack": lambda team, nodes: work(
        "rack", team, 8, 8, gang=True, notes={labels.TOPOLOGY: "dc", labels.TOPOLOGY_REQUIRED: "topo/rack"}
    ),
    "model": lambda team, nodes: work("model", team, 2, model="H100"),
    "queue": lambda team, nodes: work("queue", team, 1, marks={labels.QUEUE: f"{team}x"}),
    "extended": lambda team, nodes: work("extended", team, 1, limits={"example.com/fpga": 1}),
    "cards": lambda team, nodes: work("cards", team, 1, limits={"rdma/hca": 16}),
    "cores": lambda team, nodes: work("cores", team, 1, requests={"cpu": "400"}),
    "firm": lambda team, nodes: work("firm", team, nodes // 4, 8, marks={labels.PREEMPTIBILITY: "non-preemptible"}),
    "foreign": lambda team, nodes: work("foreign", team, 1, schedulerName="nobody"),
    "priority": lambda team, nodes: work("priority", team, 1, marks={labels.PRIORITY_CLASS: "urgent-x"}),
    "fraction": lambda team, nodes: work("fraction", team, 2, 0, notes={labels.GPU_FRACTION: "0.5"}),
    "memory": lambda team, nodes: work("memory", team, 2, 0, notes={labels.GPU_MEMORY: "100000"}),
    "tainted": lambda team, nodes: work("tainted", team, 1, model="", nodeSelector={"pool": "closed"}),
    "service": lambda team, nodes: deployment("service", team, nodes // 10),
}
"""Kind of cause -> a workload of a team that waits for it, in a lab of so many nodes."""


def planted(nodes: int) -> Lab:
    """A settled lab."""
    lab = Lab.open(fleet(nodes))
    lab.apply([*queues(lab.facts()["gpus"]), *running(nodes)])
    lab.settle()
    closed = [node["metadata"]["name"] for node in lab.get("Node")][:2]
    for name in closed:
        lab.patch("Node", name, {"metadata": {"labels": {"pool": "closed"}}, "spec": {"unschedulable": True}})
    lab.apply([make(team, nodes) for team in teams() for make in WAITING.values()])
    lab.settle()
    return lab


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.planted", description=__doc__)
    parser.add_argument("--nodes", type=int, default=300)
    parser.add_argument("path", type=Path)
    given = parser.parse_args()
    with planted(given.nodes) as lab:
        lab.save(given.path)
        pods = lab.get("Pod")
        waiting = sum(not pod["spec"].get("nodeName") for pod in pods)
        print(f"{given.nodes} nodes, {lab.facts()['gpus']} GPUs, {len(pods)} pods, of which {waiting} wait")


if __name__ == "__main__":
    main()
