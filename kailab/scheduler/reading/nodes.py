"""Reads Node objects into engine nodes. Source: KAI node_info.NewNodeInfo, scheduler_util.CheckNodeConditionPredicate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kailab.cluster.protocol import Object
from kailab.engine.snapshot.records import CORDONED, GPU, NOT_READY, UNREPORTED_CAPACITY, Node, Numa
from kailab.model import labels as names
from kailab.model.device_selectors import Device
from kailab.model.objects import labels_of, name_of, spec_of, status_of
from kailab.scheduler.reading import affinity, requests

_MIB_LIMIT = 1 << 20  # GPU feature discovery writes labels above this in bytes by mistake
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
    """``dra_gpus``: the GPUs of the node's ResourceSlices, in addition to those of the device plugin. ``devices``: all devices of the
    slices. ``numa``: the node's zones. ``gpu_resources``: the resources that count as GPUs."""
    spec, status, labels = spec_of(node), status_of(node), labels_of(node)
    # Manifests of fake nodes often have only the capacity.
    allocatable = status.get("allocatable") or status.get("capacity") or {}
    totals = {name: requests.amount_in_units(name, quantity) for name, quantity in allocatable.items()}
    extended = tuple(
        (name, count)
        for name, count in sorted(totals.items())
        # For resources that may be unreported, 0 is an amount too.
        if (count or name in UNREPORTED_CAPACITY) and name not in _NOT_EXTENDED and name not in gpu_resources
    )
    return Node(
        name=name_of(node),
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
    """MiB of each GPU from the node's label, rounded down to hundreds; 0 without a valid label."""
    try:
        memory = int(str(labels.get(names.GPU_NODE_MEMORY, "")), 10)
    except ValueError:
        return 0
    # As in KAI's getNodeGpuMemory, so that a hundredth of a device is a whole number of MiB.
    if memory >= _MIB_LIMIT:
        memory //= 1 << 20
    return max(0, memory - memory % 100)


def unavailable(spec: Mapping[str, Any], status: Mapping[str, Any]) -> str:
    """Why no new pod may go to the node, in KAI's words; "" for an available node."""
    reasons = [CORDONED] if spec.get("unschedulable") else []
    # The status Unknown also makes a node unavailable.
    for condition in status.get("conditions") or ():
        kind, state = condition.get("type"), condition.get("status")
        if kind == "Ready" and state != "True":
            reasons.append(NOT_READY)
        elif kind in _BAD_IF_TRUE and state != "False":
            reasons.append(f"node has {kind} condition")
    return ", ".join(reasons)
