"""How a cluster stands at one moment, in rows small enough to keep at every step.

Rows are plain dicts: pods (phase, place, queue, GPUs, why pending), PodGroups, queues and nodes. GPUs are in
milli-GPU (1000 = one device).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kailab.cluster.protocol import Cluster, Object
from kailab.engine.records import GPU
from kailab.model import labels
from kailab.scheduler.reading.accounts import Accounts


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


def pod_row(pod: Object, podgroups: Mapping[tuple[str, str], Object], accounts: Accounts) -> dict[str, Any]:
    """One pod: name (``namespace/name``), app, owner, phase, node, queue, podgroup, milli_gpus (what it counts for),
    holds (whether it takes them, and the rest of what it asks for, on its node now); reason and message while it waits."""
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
        "milli_gpus": accounts.gpus(pod),
        "holds": accounts.holds(pod),
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
    pods = cluster.list("Pod")
    accounts = Accounts(cluster, pods, nodes)
    return {
        "pods": [pod_row(pod, by_name, accounts) for pod in pods],
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
                "gpus": accounts.offered(node) // GPU,
                "milli_gpus_used": accounts.used[name],
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
