"""What nodes have left while random clusters place the pods that run at their start."""

from __future__ import annotations

from collections.abc import Sequence

from checks.simulated_cluster import accepted_share
from kailab.engine.snapshot.gpu_requests import GpuRequest
from kailab.engine.snapshot.records import GPU, Node, Shape


class FreeCapacity:
    """What nodes have left while running pods are placed."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = nodes
        self._devices = {node.name: node.gpus // GPU for node in nodes}
        self._cpu = {node.name: node.cpu for node in nodes}
        self._memory = {node.name: node.memory for node in nodes}
        self._pods = {node.name: node.pods for node in nodes}
        self._mig = {node.name: dict(node.extended) for node in nodes}
        self._groups: dict[str, list[tuple[str, int]]] = {node.name: [] for node in nodes}

    def copy(self) -> FreeCapacity:
        """The same capacity, which changes alone: to place all pods of a workload or none."""
        made = FreeCapacity(self.nodes)
        made._devices, made._cpu, made._memory = dict(self._devices), dict(self._cpu), dict(self._memory)
        made._pods, made._mig = dict(self._pods), {name: dict(free) for name, free in self._mig.items()}
        made._groups = {name: list(groups) for name, groups in self._groups.items()}
        return made

    def place(self, node: Node, shape: Shape, fresh: str) -> tuple[str, ...] | None:
        """The GPU groups (empty for whole devices) if the task fits on the node, else None. ``fresh``: the name of a
        new group.
        """
        name, gpu = node.name, shape.gpu
        if self._cpu[name] < shape.cpu or self._memory[name] < shape.memory or not self._pods[name]:
            return None
        if not _may_run(node, shape):
            return None
        groups: tuple[str, ...] | None = ()
        if gpu.by_profile:
            groups = self._instances(name, gpu)
        elif gpu.shared:
            share = accepted_share(gpu, node.gpu_memory_mib) or gpu
            groups = self._shares(name, share, fresh)
        elif self._devices[name] < gpu.devices:
            return None
        else:
            self._devices[name] -= gpu.devices
        if groups is not None:
            self._cpu[name] -= shape.cpu
            self._memory[name] -= shape.memory
            self._pods[name] -= 1
        return groups

    def _instances(self, name: str, gpu: GpuRequest) -> tuple[str, ...] | None:
        if any(self._mig[name].get(profile, 0) < count for profile, count in gpu.profiles):
            return None
        for profile, count in gpu.profiles:
            self._mig[name][profile] -= count
        return ()

    def _shares(self, name: str, gpu: GpuRequest, fresh: str) -> tuple[str, ...] | None:
        groups = self._groups[name]
        joined = [i for i, (_, used) in enumerate(groups) if used + gpu.portion <= GPU][: gpu.devices]
        new = gpu.devices - len(joined)
        if gpu.portion > GPU or self._devices[name] < new:
            return None
        for i in joined:
            groups[i] = (groups[i][0], groups[i][1] + gpu.portion)
        names = [groups[i][0] for i in joined]
        for number in range(new):
            names.append(f"{fresh}.{number}" if number else fresh)
            groups.append((names[-1], gpu.portion))
        self._devices[name] -= new
        return tuple(names)


def _may_run(node: Node, shape: Shape) -> bool:
    """Pods with pod affinity never run at the start; a node affinity is respected."""
    if shape.affinity or shape.anti_affinity:
        return False
    return not shape.terms or node.name in shape.terms[0].requirements[0].values
