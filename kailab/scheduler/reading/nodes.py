"""Node objects to engine nodes. Source: KAI node_info.NewNodeInfo, scheduler_util.CheckNodeConditionPredicate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kailab.cluster.protocol import Object
from kailab.engine.snapshot.records import CORDONED, GPU, NOT_READY, UNREPORTED_CAPACITY, Node, Numa
from kailab.model import labels as names
from kailab.model.device_selectors import Device
from kailab.scheduler.reading import affinity, requests

_MIB_LIMIT = 1 << 20  # a label at or above this many MiB was written in bytes (a fault of GPU feature discovery)
_NOT_EXTENDED = ("cpu", "memory", "pods")
_BAD_IF_TRUE = ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")
DEFAULT_PODS = 110


def node_record(
    node: Object,
    dra_gpus: int = 0,
    devices: tuple[Device, ...] | None = None,
    numa: Numa | None = None,
    *,
    gpu_resources: tuple[str, ...] = names.GPU_RESOURCES,
) -> Node:
    """``gpu_resources``: what counts as GPUs, all as one. ``dra_gpus``: GPUs that the node's ResourceSlices offer; they count beside those of the device plugin. ``devices``:
    all that they offer. ``numa``: the node's zones."""
    metadata, spec, status = node["metadata"], node.get("spec") or {}, node.get("status") or {}
    labels = metadata.get("labels") or {}
    # Manifests of fake nodes often give the capacity alone.
    allocatable = status.get("allocatable") or status.get("capacity") or {}
    totals = {name: requests.parse_amount(name, quantity) for name, quantity in allocatable.items()}
    extended = tuple(
        (name, count)
        for name, count in sorted(totals.items())
        # Of what counts as unknown where it is not told, nothing is an amount too.
        if (count or name in UNREPORTED_CAPACITY) and name not in _NOT_EXTENDED and name not in gpu_resources
    )
    return Node(
        name=metadata["name"],
        cpu=totals.get("cpu", 0),
        memory=totals.get("memory", 0),
        gpus=(sum(totals.get(name, 0) for name in gpu_resources) + dra_gpus) * GPU,
        pods=totals.get("pods", DEFAULT_PODS),
        extended=extended,
        gpu_memory_mib=gpu_memory(labels),
        labels=tuple(sorted((str(key), str(value)) for key, value in labels.items())),
        taints=affinity.taints(spec.get("taints")),
        unavailable=unavailable(spec, status),
        mig=any(name.startswith(names.MIG_PREFIX) for name, _ in extended)
        or str(labels.get("node-role.kubernetes.io/mig-enabled", "")).lower() in ("true", "1", "t"),
        claimed_gpus=dra_gpus > 0,
        devices=devices,
        numa=numa,
    )


def gpu_memory(labels: Mapping[str, Any]) -> int:
    """MiB of each GPU from the label, cut to hundreds; 0 where the label is missing or no number."""
    try:
        memory = int(str(labels.get(names.GPU_NODE_MEMORY, "")), 10)
    except ValueError:
        return 0
    # KAI's getNodeGpuMemory floors to hundreds, so that each hundredth of a device is a whole number of MiB.
    if memory >= _MIB_LIMIT:
        memory //= 1 << 20
    return max(0, memory - memory % 100)


def unavailable(spec: Mapping[str, Any], status: Mapping[str, Any]) -> str:
    """Why nothing new may go there, in KAI's words; empty when it is available."""
    reasons = [CORDONED] if spec.get("unschedulable") else []
    # An Unknown state counts against the node, too: nobody has heard of it.
    for condition in status.get("conditions") or ():
        kind, state = condition.get("type"), condition.get("status")
        if kind == "Ready" and state != "True":
            reasons.append(NOT_READY)
        elif kind in _BAD_IF_TRUE and state != "False":
            reasons.append(f"node has {kind} condition")
    return ", ".join(reasons)
