"""What a request for GPUs counts for, in milli-GPU: the one place that says it.

Whole devices, shares and claims count the same wherever they are, a MIG instance by the leading number of its profile. GPU
memory counts as a part of a device: of the one it sits on, in steps of 0.01 rounded up, once it has one; of the smallest
there is, to the nearest, while it waits. Source: KAI's GpuResourceRequirement and resource_info.
"""

from __future__ import annotations

import re

from kailab.engine.snapshot.records import GPU, GpuRequest, Node

DEFAULT_GPU_MEMORY = 100  # MiB, where a node does not say; KAI computes with it too
_MIG_PROFILE = re.compile(r"^nvidia\.com/mig-(\d+)g\.(\d+)gb")


def mig_gpus(resource: str) -> int:
    """Milli-GPU that one instance of a MIG resource counts for in quotas: its leading number, as KAI counts.

    >>> mig_gpus("nvidia.com/mig-2g.10gb")
    2000
    """
    match = _MIG_PROFILE.match(resource)
    return int(match.group(1)) * GPU if match else 0


def claimed_gpus(gpu: GpuRequest) -> int:
    """What of it comes through resource claims."""
    return sum(count for _, count in gpu.dra) * GPU


def fixed_gpus(gpu: GpuRequest) -> int:
    """All but GPU memory, which depends on the device."""
    own = 0 if gpu.memory_mib else gpu.devices * gpu.portion
    return own + claimed_gpus(gpu) + sum(mig_gpus(name) * count for name, count in gpu.mig)


def held_gpus(gpu: GpuRequest, device: int) -> int:
    """On a node with devices of ``device`` MiB."""
    return fixed_gpus(gpu) + (gpu.devices * portion(gpu.memory_mib, device) if gpu.memory_mib else 0)


def wanted_gpus(gpu: GpuRequest, device: int) -> int:
    """While it waits. ``device``: MiB of the smallest device there is."""
    return fixed_gpus(gpu) + memory_as_gpus(gpu.memory_mib * gpu.devices, device)


def offered_gpus(node: Node) -> int:
    """All that a node has."""
    return node.gpus + sum(mig_gpus(name) * count for name, count in node.extended)


def device_memory(memory: int) -> int:
    """MiB per device from what a node says (0: nothing), rounded down to a hundred as KAI rounds; bytes are recognised by
    their size."""
    # A TiB in MiB: no device has as much, so the number is in bytes. gpu-feature-discovery had such a fault, and KAI
    # mends it in the same way (getNodeGpuMemory).
    if memory >= 1 << 20:
        memory //= 1 << 20
    # As KAI rounds, so that each hundredth of a device is a whole number of MiB.
    return memory - memory % 100 if memory > 0 else DEFAULT_GPU_MEMORY


def smallest_device(memories: list[int]) -> int:
    """Of the devices of all nodes, as far as nodes tell."""
    return min((memory for memory in memories if memory > DEFAULT_GPU_MEMORY), default=DEFAULT_GPU_MEMORY)


def portion(memory: int, device: int) -> int:
    """Memory as milli-GPU of a device of ``device`` MiB, rounded up to 0.01 device."""
    if device <= 0:
        return 0
    # KAI: math.Ceil of hundredths (getGpuMemoryFractionalOnNode). Whole numbers keep it exact.
    return -(-memory * 100 // device) * 10


def memory_as_gpus(memory: int, device: int) -> int:
    """GPU memory as milli-GPU of devices of ``device`` MiB, to the nearest."""
    return (memory * GPU * 2 + device) // (2 * device) if device > 0 else 0
