"""Writes a cluster as a scheduling case: the JSON that ``case_reading`` reads, so that a finding can be run again.

Units are converted back: milli-GPU to devices, bytes of queue memory to MB, times to ages before ``NOW``. The case asks
for its invariants to be checked (``compare: invariants``), because no outcome of a real KAI is recorded.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from checks.case_input import NOW, PLACED, CaseInput
from checks.cluster_changes import ClusterChange
from checks.recorded.case_reading import NAMES, NODE_NAME_LABEL
from checks.simulated_cluster import mig_gpus
from kailab.engine.snapshot.gpu_requests import GpuRequest
from kailab.engine.snapshot.records import GPU, Constraint, Node, PodGroup, Queue, ResourceShare, Shape, SubGroup, Task
from kailab.errors import InputError, Where
from kailab.model import labels

MEMORY_UNIT = 1_000_000
INVARIANTS = "invariants"
NO_LIMIT = 100_000
PLUGINS = (
    "predicates", "proportion", "priority", "elastic", "kubeflow", "ray", "nodeavailability", "gpusharingorder",
    "resourcetype", "subgrouporder", "taskorder", "nominatednode", "dynamicresources", "minruntime", "topology",
    "sg-nodelocalgreedy", "sg-multinodegang",
)  # fmt: skip
"""KAI's default list without GPU sharing order and node placement, which a configuration chooses."""


def as_case(
    case_input: CaseInput,
    id: str,
    rounds: int,
    tags: Iterable[str] = (),
    changes: Iterable[tuple[int, ClusterChange]] = (),
) -> dict[str, Any]:
    """One entry of a case file. ``rounds``: the most cycles of the check. ``changes``: what changes after so many
    cycles. Raises ``InputError`` for what the format cannot express (NUMA zones, resource claims, taints and the like).
    """
    _check_expressible(case_input, id)
    memories = [node.gpu_memory_mib for node in case_input.nodes if node.gpu_memory_mib] or [100]
    return {
        "id": id,
        "suite": id.split("/", 1)[0],
        "compare": INVARIANTS,
        "tags": sorted(tags),
        "unsupported": [],
        "mode": "integration",
        "actions": list(case_input.config.actions),
        "rounds_until_match": rounds,
        "rounds_after_match": 0,
        "config": _config(case_input, memories),
        "nodes": [_node(node) for node in case_input.nodes],
        "cluster_total": {
            "gpu": sum(node.gpus for node in case_input.nodes) / GPU
            + sum(n * mig_gpus(name) for node in case_input.nodes for name, n in node.extended if _is_mig(name)),
            "cpu": sum(node.cpu for node in case_input.nodes),
            "memory": sum(node.memory for node in case_input.nodes),
        },
        "queues": [_queue(queue, case_input.queues) for queue in case_input.queues],
        "topologies": [{"name": topology.name, "levels": list(topology.levels)} for topology in case_input.topologies],
        "jobs": [_job(group, case_input) for group in case_input.podgroups],
        "operation_limits": {
            "defined": True, "max_binds": NO_LIMIT, "max_evictions": NO_LIMIT, "max_pipelines": NO_LIMIT,
        },
        "expected": {"jobs": {}, "tasks": {}, "nodes": {}},
        "changes": [_change(cycle, change, case_input.queues) for cycle, change in changes],
    }  # fmt: skip


def _change(cycle: int, change: ClusterChange, queues: tuple[Queue, ...]) -> dict[str, Any]:
    made = {
        "ended": list(change.ended),
        "deleted": list(change.deleted),
        "gone": list(change.gone),
        "back": [node.name for node in change.back],
        "queues": [_queue(queue, queues) for queue in change.queues],
    }
    return {"before_cycle": cycle, **{name: value for name, value in made.items() if value}}


def write_cases(path: Path, cases: Iterable[dict[str, Any]]) -> None:
    """Write a case file. Raises ``InputError`` if that fails."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(list(cases), indent=1) + "\n")
    except OSError as error:
        raise InputError(error.strerror or str(error), Where(file=str(path))) from None


def _check_expressible(case_input: CaseInput, id: str) -> None:
    shapes = {task.shape for task in case_input.tasks}
    odd = [
        feature
        for feature, used in (
            ("NUMA zones", any(node.numa for node in case_input.nodes)),
            ("taints", any(node.taints or node.unavailable for node in case_input.nodes)),
            ("resource claims", bool(case_input.claims)),
            ("node selectors", any(shape.selector or shape.preferred for shape in shapes)),
            ("host ports", any(shape.ports for shape in shapes)),
        )
        if used
    ]
    if odd:
        raise InputError(f"{id}: a case file can't say: {', '.join(odd)}")


def _config(case_input: CaseInput, memories: list[int]) -> dict[str, Any]:
    config = case_input.config
    plugins: Any = "default"
    placements = (config.gpu_placement, config.cpu_placement, config.gpu_sharing)
    if placements != ("binpack",) * 3 or not config.prefer_shared_devices:
        arguments = {"gpu": config.gpu_placement, "cpu": config.cpu_placement}
        plugins = [{"name": name} for name in PLUGINS if name != "gpusharingorder" or config.prefer_shared_devices]
        plugins.append({"name": "gpuspread" if config.gpu_sharing == "spread" else "gpupack"})
        plugins.append({"name": "nodeplacement", "arguments": arguments})
    return {
        "plugins": plugins,
        "predicates_plugin_enabled": config.predicates,
        "numa_plugin_enabled": False,
        "min_node_gpu_memory_mib": min(memories),
        "max_node_gpu_memory_mib": max(memories),
        "scheduler_params": {
            "use_scheduling_signatures": config.use_signatures,
            "max_number_consolidation_preemptees": config.max_consolidation_victims,
            "allow_consolidating_reclaim": config.allow_consolidating_reclaim,
            "global_default_staleness_grace_period_s": config.staleness_grace,
        },
    }


def _is_mig(resource: str) -> bool:
    return resource.startswith(labels.MIG_PREFIX)


def _node(node: Node) -> dict[str, Any]:
    allocatable = {"cpu_millis": node.cpu, "memory_bytes": node.memory, "pods": node.pods, **dict(node.extended)}
    if node.gpus:
        allocatable["gpus"] = node.gpus // GPU
    return {
        "name": node.name,
        "allocatable": allocatable,
        "gpus": node.gpus // GPU,
        "gpu_memory_mib": node.gpu_memory_mib or 100,
        "gpu_memory_synced": node.gpu_memory_mib > 0,
        "max_pods": node.pods,
        "labels": dict(node.labels),
        "custom_labels": {},
        "mig_instances": {name: count for name, count in node.extended if _is_mig(name)},
        "mig_strategy": "mixed" if node.mig else "",
    }


def _queue(queue: Queue, queues: tuple[Queue, ...]) -> dict[str, Any]:
    def share(bounds: ResourceShare, unit: int) -> dict[str, float]:
        quota, limit = (value if value < 0 else _plain(value / unit) for value in (bounds.quota, bounds.limit))
        return {"quota": quota, "limit": limit, "over_quota_weight": bounds.weight}

    children = [other.name for other in queues if other.parent == queue.name]
    raw: dict[str, Any] = {
        "name": queue.name,
        "parent": queue.parent,
        "children": children,
        "kind": "department" if children else "queue",
        "priority": queue.priority,
        "creation_order": _plain(queue.created - (NOW - 1000)),
        "resources": {
            "gpu": share(queue.gpu, GPU),
            "cpu": share(queue.cpu, 1),
            "memory": share(queue.memory, MEMORY_UNIT),
        },
    }
    if queue.reclaim_min_runtime is not None:
        raw["reclaim_min_runtime_s"] = queue.reclaim_min_runtime
    if queue.preempt_min_runtime is not None:
        raw["preempt_min_runtime_s"] = queue.preempt_min_runtime
    return raw


def _plain(value: float) -> float:
    """Whole numbers without a decimal point."""
    return int(value) if value == int(value) else value


def _constraint(constraint: Constraint | None) -> dict[str, Any]:
    if constraint is None:
        return {}
    return {
        "topology_constraint": {
            "topology": constraint.topology,
            "required_level": constraint.required,
            "preferred_level": constraint.preferred,
        }
    }


def _subgroup(group: SubGroup) -> dict[str, Any]:
    raw: dict[str, Any] = {
        "name": group.name,
        "sub_groups": [_subgroup(inner) for inner in group.groups],
        "pod_sets": [
            {"name": podset.name, "min_available": podset.min_available, **_constraint(podset.constraint)}
            for podset in group.podsets
        ],
        **_constraint(group.constraint),
    }
    if group.min_members is not None:
        raw["min_sub_group"] = group.min_members
    return raw


def _job(group: PodGroup, case_input: CaseInput) -> dict[str, Any]:
    tasks = [task for task in case_input.tasks if task.podgroup == group.uid]
    raw: dict[str, Any] = {
        "name": group.uid,
        "namespace": group.namespace,
        "queue": group.queue,
        "priority": group.priority,
        "preemptible": group.preemptible,
        "preemptibility": "preemptible" if group.preemptible else "non-preemptible",
        "created_seconds_ago": _plain(NOW - group.created),
        "preemption_delay_s": group.preemption_delay,
        "root_sub_group_set": _subgroup(group.root),
        "delete_in_test": group.uid in case_input.deleted_for_good,
        "tasks": [_task(task) for task in tasks],
    }
    if not group.root.groups and len(group.root.podsets) == 1:
        raw["min_available"] = group.root.podsets[0].min_available
    for key, value in (("last_start", group.last_start), ("stale_since", group.stale_since)):
        if value is not None:
            raw[f"{key}_seconds_ago"] = _plain(NOW - value)
    if group.staleness_grace is not None:
        raw["staleness_grace_period_s"] = group.staleness_grace
    return raw


def gpus_asked(gpu: GpuRequest) -> float:
    """Devices that a request takes whole or in part; 0 for GPU memory and MIG, as in the format."""
    return 0 if gpu.by_memory else _plain(gpu.most_gpus / GPU)


def _gpu(gpu: GpuRequest) -> dict[str, Any]:
    if gpu.by_profile:
        return {"devices": 0, "portion": 0, "mig": dict(gpu.profiles), "gpus": 0}
    if gpu.by_memory:
        return {"devices": gpu.devices, "portion": 0, "memory_mib": gpu.memory_mib, "gpus": 0}
    if not gpu.devices:
        return {"devices": 1, "portion": 0, "gpus": 0}
    return {"devices": gpu.devices, "portion": gpu.portion / GPU, "gpus": gpus_asked(gpu)}


def _task(task: Task) -> dict[str, Any]:
    shape = task.shape
    raw: dict[str, Any] = {
        "uid": task.uid,
        "state": NAMES[task.status],
        "sub_group": task.subgroup or "default",
        "request_type": shape.gpu.request_type,
        "gpu": _gpu(shape.gpu),
        "request": {
            "cpu_millis": shape.cpu,
            "memory_bytes": shape.memory,
            "gpus": gpus_asked(shape.gpu),
            "pods": 1,
            **dict(shape.extended),
            **dict(shape.gpu.profiles),
        },
        "qos_class": "Guaranteed" if shape.guaranteed else "Burstable",
    }
    if task.priority is not None:
        raw["task_priority"] = task.priority
    if task.status in PLACED:
        raw |= {"node": task.node, "gpu_groups": list(task.gpu_groups), "accepted": _gpu(task.accepted or shape.gpu)}
    if shape.terms:
        raw["node_affinity_names"] = _node_names(shape)
    if shape.affinity or shape.anti_affinity:
        raw["pod_affinity"] = {
            "labels": dict(shape.labels),
            "affinity_topology_key": shape.affinity[0].topology_key if shape.affinity else "",
            "anti_affinity_topology_key": shape.anti_affinity[0].topology_key if shape.anti_affinity else "",
        }
    return raw


def _node_names(shape: Shape) -> list[str]:
    for term in shape.terms:
        for requirement in term.requirements:
            if requirement.key == NODE_NAME_LABEL and requirement.operator == "In":
                return list(requirement.values)
    raise InputError("a case file can only name the nodes that a task may go to")
