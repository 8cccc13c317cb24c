"""How GPUs count, in milli-GPU: devices, MIG instances and memory. Requests count by these functions (``gpu_requests``).

Whole devices, shares and claims count the same everywhere; a MIG instance counts by the leading number of its profile.
GPU memory counts as a part of a device: while the task waits, of the smallest device in the cluster, rounded to the
nearest; once placed, of its own device, rounded up to 0.01. Source: KAI's GpuResourceRequirement and resource_info.
"""

from __future__ import annotations

import re

GPU = 1000
"""One device, in milli-GPU."""
DEFAULT_GPU_MEMORY = 100  # MiB, for nodes that report none; the value that KAI uses
_MIG_PROFILE = re.compile(r"^nvidia\.com/mig-(\d+)g\.(\d+)gb")


def mig_gpus(resource: str) -> int:
    """Milli-GPU that one instance of a MIG resource counts for in quotas: the leading number of its profile, as in KAI.

    >>> mig_gpus("nvidia.com/mig-2g.10gb")
    2000
    """
    match = _MIG_PROFILE.match(resource)
    return int(match.group(1)) * GPU if match else 0


def device_memory(memory: int) -> int:
    """MiB per device from a node's reported memory (0: not reported), rounded down to a hundred as in KAI. Values in
    bytes are recognised by their size.
    """
    # No device has a TiB, so a number as large is in bytes. gpu-feature-discovery had this fault, and KAI corrects it
    # in the same way (getNodeGpuMemory).
    if memory >= 1 << 20:
        memory //= 1 << 20
    # Rounded as in KAI, so that each hundredth of a device is a whole number of MiB.
    return memory - memory % 100 if memory > 0 else DEFAULT_GPU_MEMORY


def smallest_device(memories: list[int]) -> int:
    """MiB of the smallest device of all nodes that report their memory."""
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
