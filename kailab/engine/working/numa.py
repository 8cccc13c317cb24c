"""NUMA alignment: the zones of a node on which the kubelet would accept a task, and what each zone has free.

The kubelet's Topology Manager rejects a pod that its policy cannot align (single-numa-node, restricted), or aligns as
much as possible (best-effort). A zone has free what it has less what the node's tasks hold of it. As in KAI, a leaving
task frees its part at once. Source: KAI's numa plugin.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from kailab.engine.snapshot.records import ContainerRequest, Node, Numa, Shape, ZoneShare
from kailab.engine.working.state import ShapeInfo, WTask
from kailab.model.labels import GPU_RESOURCE

SCORE = 100.0  # for one zone; half of it for two, and so on
"""The score for one zone; half of it for two zones, and so on."""
REFUSING = ("single-numa-node", "restricted")

ZoneAmounts = dict[str, int]
Drawn = dict[int, ZoneAmounts]  # zone number -> resource -> amount


def only_if_guaranteed(resource: str) -> bool:
    """CPU and memory are aligned only for Guaranteed pods, devices for all."""
    return resource in ("cpu", "memory") or resource.startswith("hugepages-")


class Zones:
    """The zones of one node, lowest number first."""

    def __init__(self, numa: Numa) -> None:
        self.policy = numa.policy
        self.scope = numa.scope
        zones = sorted(numa.zones, key=lambda zone: _zone_order(zone.name))
        self.names = [zone.name for zone in zones]
        self.index = {name: i for i, name in enumerate(self.names)}
        self.allocatable = [dict(zone.allocatable) for zone in zones]
        self.available = [dict(zone) for zone in self.allocatable]
        self.resources = sorted({name for zone in self.allocatable for name in zone})

    def change(self, held: tuple[ZoneShare, ...], sign: int) -> None:
        """Subtract (1) or return (-1) what a task holds. If it names an unknown zone, its position is unknown and
        nothing changes.
        """
        if any(share.zone not in self.index for share in held):
            return
        for share in held:
            free = self.available[self.index[share.zone]]
            for resource, amount in share.amounts:
                if resource in free:
                    free[resource] -= sign * amount

    def align(self, info: ShapeInfo) -> Drawn | None:
        """The zones from which the kubelet would draw the task's requests, or None if it cannot align them."""
        shape = info.shape
        # The kubelet aligns only resources that zones report, and some of them only for Guaranteed pods (KAI:
        # alignedAware).
        resources = [name for name in self.resources if shape.guaranteed or not only_if_guaranteed(name)]
        together, one_by_one = requests(shape, self.scope)
        free = [dict(zone) for zone in self.available]
        drawn: Drawn = {}
        for request in together:
            wanted = {name: request[name] for name in resources if request.get(name, 0) > 0}
            mask = self._mask(wanted, free)
            if mask is None:
                return None
            _draw(wanted, mask, free, drawn)
        for request in one_by_one:
            wanted = {name: request[name] for name in resources if request.get(name, 0) > 0}
            # Init containers end before the others start, so each one sees the zones as they are now.
            if self._mask(wanted, self.available) is None:
                return None
        return drawn

    def _mask(self, wanted: ZoneAmounts, free: list[ZoneAmounts]) -> tuple[int, ...] | None:
        """The zones that the policy picks for one request."""
        if self.policy == "best-effort":
            return _greedy(wanted, free)
        width = 1
        if self.policy == "restricted":
            # The kubelet merges hints: the fewest zones that could hold a resource must be the same number for all
            # resources.
            widths = {self._width(name, amount) for name, amount in wanted.items()}
            if not widths:
                return ()
            if len(widths) > 1 or None in widths:
                return None
            width = widths.pop() or 1
        # In lexicographic order, so the lowest sufficient zones.
        for mask in combinations(range(len(free)), width):
            if all(sum(free[z].get(name, 0) for z in mask) >= amount for name, amount in wanted.items()):
                return mask
        return None

    def _width(self, resource: str, amount: int) -> int | None:
        """The fewest zones that could ever hold the amount."""
        total = 0
        for count, size in enumerate(sorted((zone.get(resource, 0) for zone in self.allocatable), reverse=True), 1):
            total += size
            if total >= amount:
                return count
        return None

    def shares(self, drawn: Drawn) -> tuple[ZoneShare, ...]:
        return tuple(
            ZoneShare(zone=self.names[z], amounts=tuple(sorted(amounts.items())))
            for z, amounts in sorted(drawn.items())
        )


def _zone_order(name: str) -> tuple[bool, int, str]:
    digits = name[len(name.rstrip("0123456789")) :]
    return (not digits, int(digits) if digits else 0, name)


def _greedy(wanted: ZoneAmounts, free: list[ZoneAmounts]) -> tuple[int, ...] | None:
    """Zones that cover most of what is still missing, one after the other."""
    missing = dict(wanted)
    mask: list[int] = []
    while any(amount > 0 for amount in missing.values()):
        best, most = -1, 0
        for z, zone in enumerate(free):
            if z in mask:
                continue
            cover = sum(min(amount, zone.get(name, 0)) for name, amount in missing.items() if amount > 0)
            # Ties go to the lowest zone.
            if cover > most:
                best, most = z, cover
        if best < 0:
            return None
        mask.append(best)
        for name in missing:
            missing[name] -= free[best].get(name, 0)
    return tuple(mask)


def _draw(wanted: ZoneAmounts, mask: tuple[int, ...], free: list[ZoneAmounts], drawn: Drawn) -> None:
    for name, amount in wanted.items():
        for z in mask:
            # Lowest zone first. The kubelet does not report how it splits a request over zones, so any split will do
            # (as in KAI).
            take = min(free[z].get(name, 0), amount)
            if take > 0:
                free[z][name] -= take
                amount -= take
                zone = drawn.setdefault(z, {})
                zone[name] = zone.get(name, 0) + take


def requests(shape: Shape, scope: str) -> tuple[list[ZoneAmounts], list[ZoneAmounts]]:
    """(requests that hold their zones at the same time, requests of init containers, each on its own).

    CPU counts only for containers of Guaranteed pods that request whole cores, because only these have exclusive cores.
    """
    whole = _whole(shape)
    containers = shape.containers or (ContainerRequest(amounts=tuple(whole.items())),)
    cores = [_cores(shape, container) for container in containers]
    # The kubelet's podGuaranteedCPUs: the peak of the init containers or the sum of all that keep running, whichever is
    # larger.
    if scope == "pod":
        stay = peak = 0
        for container, amount in zip(containers, cores, strict=True):
            if container.stage == "sidecar":
                stay += amount
            elif container.stage == "init":
                peak = max(peak, stay + amount)
        stay += sum(amount for container, amount in zip(containers, cores, strict=True) if container.stage == "app")
        return [{**whole, "cpu": max(stay, peak)}], []
    each = [{**dict(container.amounts), "cpu": amount} for container, amount in zip(containers, cores, strict=True)]
    stages = [container.stage for container in containers]
    return (
        [request for request, stage in zip(each, stages, strict=True) if stage != "init"],
        [request for request, stage in zip(each, stages, strict=True) if stage == "init"],
    )


def _whole(shape: Shape) -> ZoneAmounts:
    """The pod's requests by resource name. The kubelet does not see shares of devices as requests."""
    return {"cpu": shape.cpu, "memory": shape.memory, **dict(shape.extended), **shape.gpu.resources()}


def _cores(shape: Shape, container: ContainerRequest) -> int:
    cpu = dict(container.amounts).get("cpu", 0)
    # Parts of cores come from the shared pool, which belongs to no zone (kubelet: guaranteedCPUs).
    return cpu if shape.guaranteed and cpu % 1000 == 0 else 0


class _ShapeAlignment:
    """Whether each node accepts one shape, and for which version of the node's zones."""

    def __init__(self, count: int) -> None:
        self.seen = np.full(count, -1, dtype=np.int64)
        self.rejected = np.zeros(count, dtype=bool)
        self.scores = np.zeros(count)


class NumaNodes:
    """All nodes that report zones. ``version`` per node grows with every change of what its zones have left."""

    def __init__(self, nodes: list[Node]) -> None:
        self.zones = {i: Zones(node.numa) for i, node in enumerate(nodes) if node.numa is not None and node.numa.zones}
        self.most = max((len(zones.names) for zones in self.zones.values()), default=0)
        self.version = np.zeros(len(nodes), dtype=np.int64)
        self._devices = {
            name
            for zones in self.zones.values()
            # A kubelet without a policy aligns nothing, so its zones do not matter.
            if zones.policy != "none"
            for name in zones.resources
            if not only_if_guaranteed(name)
        }
        self._alignments: dict[ShapeInfo, _ShapeAlignment] = {}

    def __bool__(self) -> bool:
        return bool(self.zones)

    def change(self, i: int, task: WTask, sign: int) -> None:
        zones = self.zones.get(i)
        if zones is not None:
            zones.change(task.zones, sign)
            self.version[i] += 1

    def concerns(self, info: ShapeInfo) -> bool:
        """True if alignment matters to this shape."""
        return info.shape.guaranteed or any(_asks(info, name) for name in self._devices)

    def narrow(self, info: ShapeInfo, candidates: np.ndarray) -> None:
        """Remove nodes whose kubelet would reject the task."""
        if self.concerns(info):
            candidates &= ~self._updated(info).rejected

    def scores(self, info: ShapeInfo) -> np.ndarray | None:
        """Higher scores for nodes on which the task spans fewer zones; None if alignment does not matter."""
        return self._updated(info).scores if self.concerns(info) else None

    def place(self, info: ShapeInfo, i: int) -> tuple[ZoneShare, ...]:
        """What the task would hold of the node's zones."""
        zones = self.zones.get(i)
        if zones is None or not _is_aligned(zones, info):
            return ()
        drawn = zones.align(info)
        return zones.shares(drawn) if drawn else ()

    def _updated(self, info: ShapeInfo) -> _ShapeAlignment:
        alignment = self._alignments.get(info)
        if alignment is None:
            alignment = self._alignments[info] = _ShapeAlignment(len(self.version))
            # As in KAI (assumedSpan), a task on a node without zones is assumed to span the largest number of zones.
            alignment.scores[:] = SCORE / self.most
        # Only nodes whose zones changed since the last call for this shape.
        for i in np.flatnonzero(alignment.seen != self.version):
            zones = self.zones.get(int(i))
            if zones is not None:
                self._align_on_node(info, zones, alignment, int(i))
        alignment.seen[:] = self.version
        return alignment

    @staticmethod
    def _align_on_node(info: ShapeInfo, zones: Zones, alignment: _ShapeAlignment, i: int) -> None:
        if not _is_aligned(zones, info):
            alignment.scores[i] = SCORE / len(zones.names)
            return
        drawn = zones.align(info)
        # Under best-effort the kubelet accepts every pod, so misalignment costs only points.
        alignment.rejected[i] = drawn is None and zones.policy in REFUSING
        alignment.scores[i] = 0.0 if drawn is None else SCORE / max(1, len(drawn))


def _is_aligned(zones: Zones, info: ShapeInfo) -> bool:
    if zones.policy == "none":
        return False
    return info.shape.guaranteed or any(_asks(info, name) for name in zones.resources if not only_if_guaranteed(name))


def _asks(info: ShapeInfo, resource: str) -> bool:
    if resource == GPU_RESOURCE:
        return info.request > 0
    shape = info.shape
    return dict(shape.extended).get(resource, 0) > 0 or shape.gpu.resources().get(resource, 0) > 0
