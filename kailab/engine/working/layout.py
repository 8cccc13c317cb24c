"""Rows of the resource arrays: which resource is in which row, and in which unit.

Rows 0-3 are fixed (CPU in millicores, memory in bytes, whole GPUs in milli-GPU, pod slots). Every other resource that
some node offers or some task requests gets a row of its own, in order of appearance.
"""

from __future__ import annotations

from kailab.engine.snapshot.counting import mig_gpus
from kailab.engine.snapshot.records import Node, Shape

CPU, MEMORY, GPUS, PODS = 0, 1, 2, 3

# The resources that queues divide, in the order in which KAI checks them.
QUEUE_RESOURCES = (CPU, MEMORY, GPUS)


class Layout:
    """Grows as resources appear; a row never changes its meaning."""

    def __init__(self) -> None:
        self.rows: dict[str, int] = {}
        self.names: list[str] = ["cpu", "memory", "nvidia.com/gpu", "pods"]
        self.mig: dict[int, int] = {}  # row of a MIG profile -> milli-GPU that an instance counts for

    def __len__(self) -> int:
        return len(self.names)

    def row(self, name: str) -> int:
        row = self.rows.get(name)
        if row is None:
            row = self.rows[name] = len(self.names)
            self.names.append(name)
            if weight := mig_gpus(name):
                self.mig[row] = weight
        return row

    def of_node(self, node: Node) -> dict[int, int]:
        rows = {CPU: node.cpu, MEMORY: node.memory, GPUS: node.gpus, PODS: node.pods}
        for name, amount in node.extended:
            rows[self.row(name)] = amount
        return rows

    def of_shape(self, shape: Shape) -> dict[int, int]:
        """What a task of this shape takes from a node's pools. A share of a device takes nothing from a row;
        ``kailab.engine.working.shared_gpus`` counts shared devices.
        """
        gpu = shape.gpu
        rows = {CPU: shape.cpu, MEMORY: shape.memory, GPUS: gpu.whole_gpus(), PODS: 1}
        for name, amount in shape.extended:
            rows[self.row(name)] = amount
        for name, count in gpu.profiles:
            row = self.row(name)
            # A profile that is among the other resources too is one request, not two.
            rows[row] = max(rows.get(row, 0), count)
        return rows
