"""Compares loaded cases with KAI's recorded initial state: free resources of nodes, usage of queues, fair shares."""

from __future__ import annotations

from collections.abc import Mapping

from checks.case_input import ACTIVE, PLACED
from checks.recorded.case_reading import RecordedCase
from checks.simulated_cluster import SimulatedCluster, mig_gpus
from kailab.engine.queueing.fairshare import Amounts, tree_shares
from kailab.engine.snapshot.gpu_requests import GpuRequest
from kailab.engine.snapshot.records import GPU, Node, Status, Task

HOLDING = PLACED - {Status.PIPELINED}
TOLERANCE = 0.011
RESOURCES = ("gpu", "cpu", "memory")


def loading_differences(case: RecordedCase) -> list[str]:
    plugins = case.raw["config"]["plugins"]
    accounted = plugins == "default" or any(plugin["name"] == "proportion" for plugin in plugins)
    return _node_differences(case) + (_queue_differences(case) if accounted else [])


def _node_differences(case: RecordedCase) -> list[str]:
    differences = []
    left = SimulatedCluster(case).gpus_left()
    for raw in case.raw["nodes"]:
        node = raw["name"]
        held = [t for t in case.tasks if t.node == node and t.status in PLACED and t.status != Status.PIPELINED]
        record = next(n for n in case.nodes if n.name == node)
        ours = {
            "gpus": left[node][0],
            "cpu_millis": record.cpu - sum(t.shape.cpu for t in held),
            "memory_bytes": record.memory - sum(t.shape.memory for t in held),
            "pods": record.pods - len(held),
        }
        initial = raw["initial"]
        differences += _compare(f"node {node} idle", ours, initial["idle"])
        differences += _compare(f"node {node} releasing", {"gpus": left[node][1]}, initial["releasing"])
    return differences


def queue_usage(case: RecordedCase) -> tuple[dict[str, dict[str, float]], dict[str, dict[str, float]]]:
    """Queue -> amounts by resource, (allocated, requested), summed up the tree. GPUs in devices."""
    parents = {queue.name: queue.parent for queue in case.queues}
    queue_of = {group.uid: group.queue for group in case.podgroups}
    memories = [n.gpu_memory_mib for n in case.nodes if n.gpu_memory_mib > 100 and n.gpus]
    least = min(memories, default=100)
    allocated = {name: dict.fromkeys(RESOURCES, 0.0) for name in parents}
    requested = {name: dict.fromkeys(RESOURCES, 0.0) for name in parents}
    for task in case.tasks:
        active = task.status in ACTIVE
        if not active and task.status != Status.PENDING:
            continue
        amounts = {"gpu": _gpus(task, least, case.nodes), "cpu": task.shape.cpu, "memory": task.shape.memory}
        queue = queue_of[task.podgroup]
        while queue in parents:
            for resource, amount in amounts.items():
                requested[queue][resource] += amount
                if active:
                    allocated[queue][resource] += amount
            queue = parents[queue]
    return allocated, requested


def _gpus(task: Task, least_memory: int, nodes: tuple[Node, ...]) -> float:
    gpu: GpuRequest = task.accepted or task.shape.gpu
    if gpu.by_profile:
        return float(sum(count * mig_gpus(profile) for profile, count in gpu.profiles))
    if gpu.claimed:
        return float(gpu.claimed_devices)
    if gpu.by_memory:
        return gpu.memory_in_all / least_memory
    return gpu.most_gpus / GPU


def _queue_differences(case: RecordedCase) -> list[str]:
    allocated, requested = queue_usage(case)
    differences = []
    for raw in case.raw["queues"]:
        for resource in RESOURCES:
            recorded = raw["kai_initial"].get(resource, {})
            where = f"queue {raw['name']} {resource}"
            ours = {
                "allocated": allocated[raw["name"]][resource],
                "request": requested[raw["name"]][resource],
            }
            differences += _compare(where, ours, recorded)
    return differences + _fair_share_differences(case, requested)


def _fair_share_differences(case: RecordedCase, requested: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Compare the fair shares of KAI's session with the engine's division of the same requests."""
    total = case.raw["cluster_total"]
    shares = tree_shares(
        case.queues,
        Amounts(gpu=round(total["gpu"] * GPU), cpu=total["cpu"], memory=total["memory"]),
        {
            name: Amounts(gpu=round(asked["gpu"] * GPU), cpu=asked["cpu"], memory=asked["memory"])
            for name, asked in requested.items()
        },
    )
    differences = []
    for raw in case.raw["queues"]:
        share = shares[raw["name"]]
        for resource, ours in (("gpu", share.gpu / GPU), ("cpu", share.cpu), ("memory", share.memory)):
            recorded = raw["kai_initial"].get(resource, {})
            differences += _compare(f"queue {raw['name']} {resource}", {"fair_share": ours}, recorded)
    return differences


def _compare(where: str, ours: Mapping[str, float], recorded: Mapping[str, float]) -> list[str]:
    return [
        f"{where} {key} {got:g}, recorded {recorded.get(key, 0):g}"
        for key, got in ours.items()
        if abs(got - recorded.get(key, 0)) > TOLERANCE
    ]
