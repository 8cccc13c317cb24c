"""How a cluster stands at one moment, in rows small enough to keep at every step.

Rows are plain dicts: pods (phase, place, queue, GPUs, why pending), PodGroups, queues and nodes. GPUs are in
milli-GPU (1000 = one device).
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_CEILING, Decimal, InvalidOperation
from typing import Any

from kailab.cluster.protocol import Cluster, Object
from kailab.errors import InputError
from kailab.model import labels, quantities

ALIVE = ("Pending", "Running", "Terminating")


def milli_gpus(pod: Object, node: Object | None = None) -> int:
    """GPUs that a pod asks for, in milli-GPU.

    Whole devices from limits or requests, shares from KAI's annotations. A request by GPU memory is a share
    only on a node whose devices' memory is known; without ``node`` it counts as 0."""
    annotations = pod["metadata"].get("annotations") or {}
    devices = quantities.counted(annotations.get(labels.GPU_FRACTION_DEVICES), 1) if annotations else 1
    fraction = annotations.get(labels.GPU_FRACTION)
    if fraction:
        try:
            return int(Decimal(fraction) * 1000) * devices
        except (InvalidOperation, ValueError):
            return 0
    memory = annotations.get(labels.GPU_MEMORY)
    if memory:
        per_device = ((node or {}).get("metadata", {}).get("labels") or {}).get(labels.GPU_NODE_MEMORY, "0")
        try:
            share = Decimal(memory) * 1000 / Decimal(per_device)
        except (InvalidOperation, ValueError, ZeroDivisionError):
            return 0
        return int(share.to_integral_value(ROUND_CEILING)) * devices
    total = 0
    for container in pod["spec"].get("containers") or ():
        resources = container.get("resources") or {}
        amount = (resources.get("limits") or {}).get(labels.GPU_RESOURCE)
        if amount is None:
            amount = (resources.get("requests") or {}).get(labels.GPU_RESOURCE)
        if amount:
            try:
                total += quantities.gpu_milli(amount)
            except InputError:
                continue
    return total


def gpus_of_node(node: Object) -> int:
    """Devices that a node offers; 0 where it says what is no number of devices."""
    try:
        return quantities.count((node.get("status") or {}).get("allocatable", {}).get(labels.GPU_RESOURCE, 0))
    except InputError:
        return 0


def phase(pod: Object) -> str:
    """``status.phase``, or ``Terminating`` for a pod on its way out."""
    if pod["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return (pod.get("status") or {}).get("phase") or "Pending"


def owner(obj: Object) -> str:
    """The controlling owner as ``Kind/name``; empty for none."""
    references = obj["metadata"].get("ownerReferences") or ()
    for reference in references:
        if reference.get("controller"):
            return f"{reference['kind']}/{reference['name']}"
    return f"{references[0]['kind']}/{references[0]['name']}" if references else ""


def condition(obj: Object, type: str) -> Mapping[str, Any] | None:
    """The condition of that type in ``status.conditions``."""
    for entry in (obj.get("status") or {}).get("conditions") or ():
        if entry.get("type") == type:
            return entry
    return None


def pod_queue(pod: Object, podgroups: Mapping[tuple[str, str], Object]) -> str:
    """The queue a pod counts for: that of its PodGroup, else its own label."""
    metadata = pod["metadata"]
    name = (metadata.get("annotations") or {}).get(labels.POD_GROUP)
    group = podgroups.get((metadata.get("namespace", ""), name)) if name else None
    if group is not None:
        return group["spec"].get("queue") or ""
    own = metadata.get("labels") or {}
    return own.get(labels.QUEUE) or own.get(labels.QUEUE_RUNAI) or ""


def pod_row(pod: Object, podgroups: Mapping[tuple[str, str], Object], nodes: Mapping[str, Object]) -> dict[str, Any]:
    """One pod: name (``namespace/name``), app, owner, phase, node, queue, podgroup, milli_gpus; reason while it
    is pending."""
    metadata, spec = pod["metadata"], pod["spec"]
    place = spec.get("nodeName") or ""
    row = {
        "name": f"{metadata.get('namespace', '')}/{metadata['name']}",
        "app": (metadata.get("labels") or {}).get("app", ""),
        "owner": owner(pod),
        "phase": phase(pod),
        "node": place,
        "queue": pod_queue(pod, podgroups),
        "podgroup": (metadata.get("annotations") or {}).get(labels.POD_GROUP, ""),
        "milli_gpus": milli_gpus(pod, nodes.get(place)),
    }
    if not place:
        scheduled = condition(pod, "PodScheduled")
        if scheduled and scheduled.get("status") == "False":
            row["reason"] = scheduled.get("reason", "")
            row["message"] = scheduled.get("message", "")
    return row


def standing(cluster: Cluster) -> dict[str, list[dict[str, Any]]]:
    """``pods``, ``podgroups``, ``queues``, ``nodes``: a row each, sorted by name."""
    groups = cluster.list("PodGroup")
    by_name = {(group["metadata"].get("namespace", ""), group["metadata"]["name"]): group for group in groups}
    nodes = {node["metadata"]["name"]: node for node in cluster.list("Node")}
    pods = [pod_row(pod, by_name, nodes) for pod in cluster.list("Pod")]
    used: dict[str, int] = {}
    for row in pods:
        if row["node"] and row["phase"] in ALIVE:
            used[row["node"]] = used.get(row["node"], 0) + row["milli_gpus"]
    return {
        "pods": pods,
        "podgroups": [_podgroup_row(group) for group in groups],
        "queues": [
            {
                "name": queue["metadata"]["name"],
                "parent": queue["spec"].get("parentQueue", ""),
                "status": queue.get("status") or {},
            }
            for queue in cluster.list("Queue")
        ],
        "nodes": [
            {
                "name": name,
                "gpus": gpus_of_node(node),
                "milli_gpus_used": used.get(name, 0),
            }
            for name, node in nodes.items()
        ],
    }


def _podgroup_row(group: Object) -> dict[str, Any]:
    metadata, spec = group["metadata"], group["spec"]
    return {
        "name": f"{metadata.get('namespace', '')}/{metadata['name']}",
        "queue": spec.get("queue", ""),
        "min_member": spec.get("minMember"),
        "priority_class": spec.get("priorityClassName", ""),
        "status": group.get("status") or {},
    }
