"""Compares the expectations of a recorded case with the state that a run reached. Every difference is a sentence.

Cases with KAI's own assertions are compared by these (status, node if given, nodes' devices, limits on the number of
operations). Recorded-only cases are compared with what KAI did.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from checks.case_input import PLACED
from checks.recorded.case_reading import NAMES, RecordedCase, RecordedOutcome
from checks.simulated_cluster import SimulatedCluster, sharing
from kailab.engine.decisions import Decisions
from kailab.engine.snapshot.records import Status, Task
from kailab.scheduler.reading.requests import amount_in_units

Level = Literal["queues", "status", "nodes", "rounds", "operations"]
LEVELS: tuple[Level, ...] = ("queues", "status", "nodes", "rounds", "operations")
TOLERANCE = 1e-6
OPERATIONS = (("bind", "max_binds"), ("evict", "max_evictions"), ("pipeline", "max_pipelines"))


def final_differences(case: RecordedCase, table: SimulatedCluster, level: Level = "nodes") -> list[str]:
    """Compare the end of a single session, or the updated state of an integration run."""
    if case.recorded_only:
        return _recorded_final(case, table, level)
    differences = asserted_tasks(case, table, "")
    left = table.gpus_left()
    for name, wanted in case.raw["expected"]["nodes"].items():
        idle, releasing = left[name]
        for field, got in (("idle_gpus", idle), ("releasing_gpus", releasing)):
            if abs(got - wanted[field]) > TOLERANCE:
                differences.append(f"node {name}: {field} {got:g}, expected {wanted[field]:g}")
        differences += _zone_differences(table, name, wanted.get("numa_zones_available") or {})
    for outcome in case.outcomes[:1]:
        differences += _sharing_differences(table, outcome)
    return differences


def asserted_tasks(case: RecordedCase, table: SimulatedCluster, where: str) -> list[str]:
    """Compare each task about which the case asserts something. ``where`` begins each sentence."""
    expected = case.raw["expected"]
    differences: list[str] = []

    def one(uid: str, wanted: Mapping[str, Any]) -> None:
        task = table.tasks[uid]
        if task.status != _status(wanted["status"]):
            differences.append(f"{where}{uid} is {_task_state(task)}, expected {_wanted(wanted)}")
        elif wanted.get("node") and task.node != wanted["node"]:
            differences.append(f"{where}{uid} is on {task.node or 'no node'}, expected {wanted['node']}")
        if wanted.get("numa_zones") is not None:
            got = _zone_numbers(table, task)
            if got != sorted(wanted["numa_zones"]):
                differences.append(f"{where}{uid} is on NUMA zones {got}, expected {wanted['numa_zones']}")

    for job in case.raw["jobs"]:
        if job["name"] in expected["jobs"]:
            for task in job["tasks"]:
                one(task["uid"], expected["jobs"][job["name"]])
    for uid, wanted in expected["tasks"].items():
        if uid in table.tasks:
            one(uid, wanted)
    return differences


def _zone_numbers(table: SimulatedCluster, task: Task) -> list[int]:
    node = table.nodes.get(task.node)
    zones = table.zones_left(node) if node is not None else None
    return sorted(zones.index[share.zone] for share in task.numa_zones) if zones is not None else []


def _zone_differences(table: SimulatedCluster, node: str, wanted: Mapping[str, Mapping[str, Any]]) -> list[str]:
    zones = table.zones_left(table.nodes[node])
    differences = []
    for number, amounts in wanted.items():
        left = zones.available[int(number)] if zones is not None else {}
        for resource, quantity in amounts.items():
            got, amount_wanted = left.get(resource), amount_in_units(resource, quantity)
            if got != amount_wanted:
                differences.append(f"node {node}: NUMA zone {number} has {got} {resource}, expected {amount_wanted}")
    return differences


def operation_differences(case: RecordedCase, decisions: Decisions, where: str) -> list[str]:
    """Compare the number of operations of a session (or cycle) with its upper bounds."""
    limits = case.raw["operation_limits"]
    done = {
        "bind": len(decisions.binds),
        "evict": len(decisions.evictions),
        "pipeline": len(decisions.pipelines),
    }
    return [
        f"{where}{name} x{done[name]}, at most {limits.get(key, 0)} allowed"
        for name, key in OPERATIONS
        if done[name] > limits.get(key, 0)
    ]


def recorded_round_differences(
    case: RecordedCase, number: int, table: SimulatedCluster, decisions: Decisions, level: Level
) -> list[str]:
    """Compare one cycle, before the cluster is updated, with the same cycle of KAI (``number`` counts from 0)."""
    rounds = case.raw["kai_rounds"]
    stability = case.raw["kai_stability"]
    if number >= len(rounds):
        return []
    where = f"cycle {number + 1}: "
    differences: list[str] = []
    if level in ("rounds", "operations") and stability.get("rounds_status_identical"):
        for uid, wanted in rounds[number]["tasks"].items():
            task = table.tasks.get(uid)
            if task is None:
                differences.append(f"{where}{uid} is gone, KAI had {_wanted(wanted)}")
            elif task.status != _status(wanted["status"]):
                differences.append(f"{where}{uid} is {_task_state(task)}, KAI had {_wanted(wanted)}")
    if level == "operations" and stability.get("events_identical"):
        ours = _operations(decisions)
        theirs = {_recorded_operation(event) for event in rounds[number]["events"] or ()}
        differences += [f"{where}{_operation(op)}, which KAI did not do" for op in sorted(ours - theirs)]
        differences += [f"{where}KAI did {_operation(op)}" for op in sorted(theirs - ours)]
    return differences


def _operations(decisions: Decisions) -> set[tuple[str, str, str, str]]:
    operations = {("bind", b.task, b.node, str(b.action)) for b in decisions.binds}
    operations |= {("evict", e.task, "", str(e.action)) for e in decisions.evictions}
    return operations | {("pipeline", p.task, p.node, str(p.action)) for p in decisions.pipelines}


def _recorded_operation(event: Mapping[str, Any]) -> tuple[str, str, str, str]:
    # KAI records an eviction when it commits, and a moved victim is on its new node by then.
    node = "" if event["op"] == "evict" else event.get("node", "")
    return event["op"], event["task"], node, event.get("during", "")


def _operation(operation: tuple[str, str, str, str]) -> str:
    name, task, node, action = operation
    return f"{name} {task} on {node} ({action})" if node else f"{name} {task} ({action})"


def _recorded_final(case: RecordedCase, table: SimulatedCluster, level: Level) -> list[str]:
    """Compare with each outcome that KAI had. None if one of them is reached; otherwise the differences from the first."""
    found = [_outcome_differences(case, table, level, outcome) for outcome in case.outcomes]
    return found[0] if all(found) else []


def _outcome_differences(
    case: RecordedCase, table: SimulatedCluster, level: Level, outcome: RecordedOutcome
) -> list[str]:
    running = {job["name"]: 0 for job in case.raw["jobs"]}
    for left in table.tasks.values():
        running[left.podgroup] += left.status == Status.RUNNING
    differences = [
        f"{job}: {running[job]} running, KAI had {wanted}"
        for job, wanted in outcome.running.items()
        if running[job] != wanted
    ]
    for queue, gpus in outcome.gpus.items():
        got = queue_gpus(case, table, queue)
        # KAI's summary rounds shares of a device to hundredths.
        if abs(got - gpus) > 0.005 + TOLERANCE:
            differences.append(f"queue {queue}: {got:g} GPUs allocated, KAI had {gpus:g}")
    if level == "queues":
        return differences
    place = level != "status" and "gpu-sharing-varies" not in case.tags
    for uid, state in outcome.tasks.items():
        task = table.tasks.get(uid)
        if task is None:
            differences.append(f"{uid} is gone, KAI had {_wanted(state)}")
        elif task.status != _status(state["status"]):
            differences.append(f"{uid} is {_task_state(task)}, KAI had {_wanted(state)}")
        elif place and task.node != state.get("node", ""):
            differences.append(f"{uid} is on {task.node or 'no node'}, KAI had it on {state['node']}")
    if place and case.raw["kai_stability"].get("final_gpu_sharing_identical"):
        differences += _sharing_differences(table, outcome)
    return differences


def queue_gpus(case: RecordedCase, table: SimulatedCluster, queue: str) -> float:
    """GPUs that tasks of one leaf queue hold. Requests for GPU memory count as the share of their node's device."""
    of_queue = {group.uid for group in case.podgroups if group.queue == queue}
    total = 0.0
    for task in table.tasks.values():
        if task.podgroup not in of_queue or task.status not in (Status.RUNNING, Status.BINDING, Status.BOUND):
            continue
        gpu = task.shape.gpu
        if gpu.by_memory:
            total += gpu.memory_in_all / table.nodes[task.node].gpu_memory_mib
        else:
            total += gpu.most_gpus / 1000
    return total


def _sharing_differences(table: SimulatedCluster, outcome: RecordedOutcome) -> list[str]:
    """Compare which tasks share a device, among tasks that both sides have on one node. Names of groups do not matter."""
    theirs: dict[str, tuple[str, tuple[str, ...]]] = {}
    ours: dict[str, tuple[str, tuple[str, ...]]] = {}
    for uid, actual in outcome.tasks.items():
        task = table.tasks.get(uid)
        if not actual.get("gpu_groups") or _status(actual["status"]) not in PLACED:
            continue
        if task is not None and task.status in PLACED and task.node == actual.get("node"):
            theirs[uid] = (actual["node"], tuple(actual["gpu_groups"]))
            ours[uid] = (task.node, task.gpu_groups)
    wanted, got = sharing(theirs), sharing(ours)
    return [
        f"{uid} shares a GPU with {_names(got.get(uid, ()), uid)}, KAI had: {_names(wanted[uid], uid)}"
        for uid in theirs
        if got.get(uid, frozenset()) != wanted[uid]
    ]


def _names(uids: Iterable[str], but: str) -> str:
    return ", ".join(sorted(set(uids) - {but})) or "nobody"


def _status(name: str) -> Status:
    return next(status for status, known in NAMES.items() if known == name)


def _task_state(task: Task) -> str:
    name = NAMES[task.status]
    return f"{name} on {task.node}" if task.node and task.status in PLACED else name


def _wanted(wanted: Mapping[str, Any]) -> str:
    return f"{wanted['status']} on {wanted['node']}" if wanted.get("node") else str(wanted["status"])
