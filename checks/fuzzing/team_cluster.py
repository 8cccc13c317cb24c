"""Random clusters as teams have them: nodes of a few models, queues that divide them, running and waiting workloads.

``TeamCluster`` says how large a cluster is and how often its features occur; ``team_case_input`` draws one. Workloads
run only where they fit, so that nothing is given out twice at the start.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from msgspec import structs

from checks.case_input import NOW, CaseInput
from checks.fuzzing.free_capacity import FreeCapacity
from checks.fuzzing.random_cluster import CORE, FREE, LEVELS, MIG_ENABLED, NODE_NAME, TOPOLOGY, Pick
from checks.simulated_cluster import accepted_share
from kailab.engine.config import ACTIONS, EngineConfig
from kailab.engine.snapshot.gpu_requests import NO_GPU, GpuFraction, GpuMemory, GpuRequest, WholeGpus
from kailab.engine.snapshot.records import (
    GPU,
    Constraint,
    Node,
    PodGroup,
    PodSet,
    Queue,
    ResourceShare,
    Shape,
    Status,
    SubGroup,
    Task,
)
from kailab.model import labels

GB = 10**9
NODES_OF_A_RACK = 2
RACKS_OF_A_ZONE = 2
DEVICE_MIB = 80_000


@dataclass(frozen=True, kw_only=True)
class TeamCluster:
    """``nodes``: their number, ``running`` and ``waiting``: the numbers of workloads, ``fill``: the percentage of the
    devices in use at the start, at which no further workload runs. ``models``: the number of node models.

    Everything else is in percent of the draws. Of clusters: ``cpu_nodes``: one or two nodes without GPUs,
    ``unlike_devices``: models with different device memory, ``levels``: three topology levels, ``cpu_quotas``: quotas
    of cores and memory, ``runtimes``: minimum runtimes at each queue, ``settings``: changed settings. Of workloads:
    ``cpu_only``, ``shares``, ``gpu_memory`` and ``gangs`` among the kinds; ``constrained`` (if there are levels),
    ``subgroups`` and ``elastic`` of gangs, ``minima`` of those with subgroups; ``leaving`` of the running ones, and
    ``scattered`` of those whose pods run anywhere instead of together.

    ``greedy``: what runs belongs to half of the queues. ``urgent``: what waits has a higher priority than what runs.
    """

    nodes: range
    running: range
    waiting: range
    fill: range
    models: range = range(1, 4)
    cpu_nodes: int = 20
    unlike_devices: int = 0
    levels: int = 20
    cpu_quotas: int = 0
    runtimes: int = 0
    settings: int = 0
    cpu_only: int = 10
    shares: int = 20
    gpu_memory: int = 0
    gangs: int = 35
    constrained: int = 0
    subgroups: int = 0
    minima: int = 0
    elastic: int = 20
    leaving: int = 4
    scattered: int = 40
    greedy: bool = False
    urgent: bool = False


def team_case_input(team: TeamCluster, pick: Pick) -> CaseInput:
    """A cluster of this description."""
    nodes = tuple(_nodes(team, pick))
    queues = tuple(_queues(team, pick, nodes))
    topologies = (TOPOLOGY,) if any(key == LEVELS[0] for node in nodes for key, _ in node.labels) else ()
    draw = _WorkloadDraw(team, pick, nodes, queues, bool(topologies))
    draw.run()
    draw.wait()
    return CaseInput(
        nodes=nodes,
        queues=queues,
        podgroups=tuple(draw.podgroups),
        tasks=tuple(draw.tasks),
        topologies=topologies,
        config=_settings(pick) if _happens(pick, team.settings) else EngineConfig(),
    )


def _happens(pick: Pick, percent: int) -> bool:
    return bool(pick(range(100)) >= 100 - percent)


# Nodes


@dataclass(frozen=True)
class _Model:
    gpus: int
    cores: int
    memory: int  # bytes
    device_mib: int


def _nodes(team: TeamCluster, pick: Pick) -> Iterator[Node]:
    unlike = _happens(pick, team.unlike_devices)
    sizes = (DEVICE_MIB, DEVICE_MIB // 2, 48_000)
    models = [
        _Model(pick((8, 8, 4)), pick((48, 64, 96, 192)), pick((250, 500, 1_000)) * GB, size if unlike else DEVICE_MIB)
        for _, size in zip(range(pick(team.models)), sizes, strict=False)
    ]
    wanted = pick(team.nodes)
    without = min(pick((1, 2)), wanted - 1) if _happens(pick, team.cpu_nodes) else 0
    # Nodes of one model stand together, as racks are bought. The first models are the larger part.
    of_model = [len(models) * position // (wanted - without) for position in range(wanted - without)]
    leveled = _happens(pick, team.levels)
    for position in range(wanted):
        model = models[of_model[position]] if position < len(of_model) else None
        name = f"m{of_model[position]}-{position}" if model else f"cpu-{position}"
        rack = position // NODES_OF_A_RACK
        own = {labels.HOSTNAME: name, NODE_NAME: name, MIG_ENABLED: "false"}
        own |= {"zone": f"z{rack // RACKS_OF_A_ZONE}", "rack": f"r{rack}"} if leveled else {}
        yield Node(
            name=name,
            cpu=(model.cores if model else 64) * CORE,
            memory=model.memory if model else 250 * GB,
            gpus=model.gpus * GPU if model else 0,
            gpu_memory_mib=model.device_mib if model else 0,
            labels=tuple(sorted(own.items())),
            devices=(),
        )


# Queues


def _queues(team: TeamCluster, pick: Pick, nodes: Sequence[Node]) -> Iterator[Queue]:
    """Two or three levels, whose quotas add up to at most what the nodes have."""
    departments = [f"d{number}" for number in range(pick((1, 2, 2, 3)))]
    middle = {name: [f"{name}-a", f"{name}-b"] if _happens(pick, 25) else [] for name in departments}
    leaves = {
        f"{above}-q{number}": above
        for name in departments
        for above in middle[name] or [name]
        for number in range(pick((1, 2, 3)) if middle[name] else pick((2, 3, 4)))
    }
    parents = dict.fromkeys(departments, "") | {m: name for name in departments for m in middle[name]} | leaves
    parts = {leaf: pick((0, 1, 1, 1, 2, 2, 3)) for leaf in leaves}
    whole = sum(parts.values()) or 1
    gpus = sum(node.gpus for node in nodes) // GPU
    quota = {leaf: gpus * part // whole for leaf, part in parts.items()}
    cores = sum(node.cpu for node in nodes) // CORE
    gigabytes = sum(node.memory for node in nodes) // GB
    # Quotas of a part of the cores: work without GPUs takes the cores that no quota covers.
    percent = pick((25, 50, 100)) if _happens(pick, team.cpu_quotas) else 0
    bounded = _happens(pick, team.runtimes)
    for number, (name, parent) in enumerate(parents.items()):
        below = [leaf for leaf in leaves if leaf == name or leaf.startswith(f"{name}-")]
        part, own = sum(parts[leaf] for leaf in below), sum(quota[leaf] for leaf in below)
        yield Queue(
            name=name,
            uid=name,
            parent=parent,
            priority=pick((100,) * 9 + (200,)),
            created=NOW - 1000 + number,
            gpu=_gpu_share(pick, own),
            cpu=_bound(pick, cores * part * percent // whole // 100, CORE) if percent else FREE,
            memory=_bound(pick, gigabytes * part * percent // whole // 100, GB) if percent else FREE,
            reclaim_min_runtime=pick((None, 0.0, 30.0, 600.0)) if bounded else None,
            preempt_min_runtime=pick((None, 0.0, 30.0, 600.0)) if bounded else None,
        )


def _gpu_share(pick: Pick, quota: int) -> ResourceShare:
    limit = quota + pick((0, 2, 8)) if _happens(pick, 8) else -1
    return ResourceShare(
        quota=quota * GPU, limit=limit * GPU if limit >= 0 else -1, weight=float(pick((1, 1, 1, 2, 0)))
    )


def _bound(pick: Pick, quota: int, unit: int) -> ResourceShare:
    quota = max(quota, 1)
    return ResourceShare(
        quota=quota * unit, limit=quota * pick((1, 2)) * unit if _happens(pick, 25) else -1, weight=1.0
    )


# Workloads

PRIORITIES = ((50, True),) * 5 + ((75, True),) * 2 + ((100, True), (100, False))
INFERENCE = (125, False)


class _WorkloadDraw:
    """Draws the workloads one after another; ``room``: what is left for those that run."""

    def __init__(
        self, team: TeamCluster, pick: Pick, nodes: Sequence[Node], queues: Sequence[Queue], leveled: bool
    ) -> None:
        self.podgroups: list[PodGroup] = []
        self.tasks: list[Task] = []
        self._team, self._pick, self._nodes, self._leveled = team, pick, nodes, leveled
        self._room = FreeCapacity(nodes)
        self._parents = {queue.name: queue for queue in queues}
        self._leaves = [queue.name for queue in queues if not any(other.parent == queue.name for other in queues)]
        self._gpus = sum(node.gpus for node in nodes)
        self._used = 0
        self._firm = dict.fromkeys(self._parents, (0, 0, 0))  # of what can't be evicted: GPUs, cores, memory
        self._held = dict.fromkeys(self._parents, (0, 0, 0))
        self._numbers = count()

    def run(self) -> None:
        """Run workloads until so much of the devices is in use."""
        pick, team = self._pick, self._team
        leaves = self._leaves[::2] if team.greedy else self._leaves
        fill = pick(team.fill)
        for _ in range(pick(team.running)):
            if self._used * 100 < self._gpus * fill:
                self._add_running(pick(leaves))
        # What is left goes to gangs of growing number, so that large clusters are full without hundreds of workloads.
        for size in (8, 8, 4, 4, 4, 2, 2, 2, 1, 1, 1, 1):
            while self._used * 100 < self._gpus * fill and len(self.podgroups) < max(team.running) + 12:
                if not self._add_running(pick(leaves), filling=size):
                    break

    def wait(self) -> None:
        for _ in range(self._pick(self._team.waiting)):
            group, tasks = self._workload(self._pick(self._leaves), waiting=True)
            self.podgroups.append(group)
            self.tasks += tasks

    def _add_running(self, queue: str, filling: int = 0) -> bool:
        """Run one workload, or none if it does not fit. ``filling``: one of so many devices a pod."""
        group, tasks = self._workload(queue, filling=filling)
        amounts = _amounts(tasks)
        if not self._within(queue, amounts, group.preemptible) or self._used + amounts[0] > self._gpus:
            return False
        placed = self._place(group, tasks)
        if placed is None:
            return False
        leaving = _happens(self._pick, self._team.leaving)
        status = Status.RELEASING if leaving else Status.RUNNING
        self.tasks += [structs.replace(task, status=status) for task in placed]
        self.podgroups.append(group)
        self._used += amounts[0]
        for name in self._above(queue):
            self._held[name] = _sum(self._held[name], amounts)
            if not group.preemptible:
                self._firm[name] = _sum(self._firm[name], amounts)
        return True

    def _above(self, queue: str) -> Iterator[str]:
        while queue:
            yield queue
            queue = self._parents[queue].parent

    def _within(self, queue: str, amounts: tuple[int, int, int], preemptible: bool) -> bool:
        """True if the limits of a queue and of those above it allow it, and the quotas what can't be evicted."""
        for name in self._above(queue):
            record = self._parents[name]
            shares = (record.gpu, record.cpu, record.memory)
            held, firm = _sum(self._held[name], amounts), _sum(self._firm[name], amounts)
            if any(0 <= share.limit < amount for share, amount in zip(shares, held, strict=True)):
                return False
            if not preemptible and any(0 <= share.quota < amount for share, amount in zip(shares, firm, strict=True)):
                return False
        return True

    def _place(self, group: PodGroup, tasks: list[Task]) -> list[Task] | None:
        """The tasks, placed in a domain of the required level if there is one; None if they do not all fit."""
        pick = self._pick
        nodes = list(self._nodes)
        required = group.root.constraint.required if group.root.constraint else ""
        if required:
            domain = dict(pick(nodes).labels)[required]
            nodes = [node for node in nodes if dict(node.labels)[required] == domain]
        scattered = _happens(pick, self._team.scattered)
        first = pick(range(len(nodes)))
        room, placed = self._room.copy(), []
        for task in tasks:
            first = pick(range(len(nodes))) if scattered else first
            for node in (*nodes[first:], *nodes[:first]):
                groups = room.place(node, task.shape, f"g-{task.uid}")
                if groups is not None:
                    accepted = accepted_share(task.shape.gpu, node.gpu_memory_mib)
                    placed.append(structs.replace(task, node=node.name, gpu_groups=groups, accepted=accepted))
                    break
            else:
                return None
        self._room = room
        return placed

    def _workload(self, queue: str, waiting: bool = False, filling: int = 0) -> tuple[PodGroup, list[Task]]:
        team, pick = self._team, self._pick
        name = f"w{next(self._numbers)}"
        drawn = pick(range(100))
        priority, preemptible = pick(PRIORITIES)
        cores, gigabytes = pick((1, 1, 2, 4)), pick((1, 4, 16))
        pods, gang = 1, False
        gpu: GpuRequest = WholeGpus(devices=1)
        kinds = {"cpu": team.cpu_only, "share": team.shares, "memory": team.gpu_memory, "gang": team.gangs}
        kind = "gang" if filling else _kind(kinds, drawn)
        if kind == "cpu":
            gpu, pods = NO_GPU, pick((1, 1, 2, 3, 6))
            cores, gigabytes = pick((1, 2, 8, 16, 32)), pick((1, 8, 64))
        elif kind == "share":
            gpu, pods = GpuFraction(devices=1, portion=pick((200, 250, 300, 500, 500, 750))), pick((1, 1, 2, 4))
        elif kind == "memory":
            # Some ask for as much as, or more than, a device of the smaller models has.
            mib, devices = pick((4_000, 10_000, 20_000, 24_000, 40_000, 50_000, 80_000)), pick((1, 1, 1, 2))
            gpu, pods = GpuMemory(devices=devices, memory_mib=mib), pick((1, 1, 2, 4))
        elif kind == "gang":
            gang, pods = True, pick((2, 2, 3, 4, 4, 6, 8, 16))
            gpu = WholeGpus(devices=filling or pick((1, 1, 2, 4, 8)))
            # Gangs of many nodes are of one half of the cluster at most.
            pods = max(2, min(pods, self._gpus // GPU // gpu.devices // 2))
        elif _happens(pick, 30):
            (priority, preemptible), pods = INFERENCE, pick((1, 2, 3))
        else:
            gpu = WholeGpus(devices=pick((1, 1, 1, 2, 4)))
        if waiting and team.urgent and preemptible:
            priority, preemptible = pick(((75, True), (100, True), (100, False)))
        elif team.urgent and not waiting and preemptible:
            priority = 50
        root = self._root(pods, gang, waiting)
        sets = [podset.name for podset in _podsets(root)]
        shape = Shape(cpu=cores * CORE, memory=gigabytes * GB, gpu=gpu)
        tasks = [
            Task(
                uid=f"{name}-{number}",
                name=f"{name}-{number}",
                namespace="default",
                podgroup=name,
                shape=shape,
                subgroup=sets[number % len(sets)],
            )
            for number in range(pods)
        ]
        group = PodGroup(
            uid=name,
            name=name,
            namespace="default",
            queue=queue,
            priority=priority,
            preemptible=preemptible,
            created=NOW - 900 + 5 * len(self.podgroups),
            root=root,
        )
        return group, tasks

    def _root(self, pods: int, gang: bool, waiting: bool) -> SubGroup:
        """The groups of a workload of so many pods. The pods of set ``i`` are every n-th one from ``i`` on."""
        team, pick = self._team, self._pick
        constraint = None
        if self._leveled and gang and _happens(pick, team.constrained):
            # A preferred level lies below the required one.
            at = pick(range(len(LEVELS)))
            constraint = pick(
                (
                    Constraint(topology=TOPOLOGY.name, required=LEVELS[at]),
                    Constraint(topology=TOPOLOGY.name, preferred=LEVELS[at]),
                    Constraint(topology=TOPOLOGY.name, required=LEVELS[0], preferred=LEVELS[max(at, 1)]),
                )
            )
        elastic = gang and _happens(pick, team.elastic)
        if not (gang and pods >= 2 and _happens(pick, team.subgroups)):
            least = pick(range(1, max(pods // 2, 1) + 1)) if elastic else pods if gang else 1
            return SubGroup(podsets=(PodSet(name="default", min_available=least),), constraint=constraint)
        number = min(pods, pick((2, 2, 3, 4)))
        sizes = [len(range(at, pods, number)) for at in range(number)]
        podsets = [
            PodSet(name=f"s{at}", min_available=pick(range(1, size + 1)) if elastic else size)
            for at, size in enumerate(sizes)
        ]
        if self._leveled and waiting and _happens(pick, team.constrained):
            inner = Constraint(topology=TOPOLOGY.name, required=pick(LEVELS[1:]))
            podsets[0] = structs.replace(podsets[0], constraint=inner)
        minimum = pick(range(1, number + 1)) if _happens(pick, team.minima) else None
        if number < 3 or not _happens(pick, 40):
            return SubGroup(podsets=tuple(podsets), min_members=minimum, constraint=constraint)
        nested = SubGroup(name="inner", podsets=tuple(podsets[1:]))
        outer = min(minimum, 2) if minimum is not None else None
        left = SubGroup(name="outer", podsets=tuple(podsets[:1]))
        return SubGroup(groups=(left, nested), min_members=outer, constraint=constraint)


def _podsets(group: SubGroup) -> Iterator[PodSet]:
    yield from group.podsets
    for inner in group.groups:
        yield from _podsets(inner)


def _kind(odds: dict[str, int], drawn: int) -> str:
    """The kind at a percentage; empty for one beyond all."""
    for kind, percent in odds.items():
        if drawn < percent:
            return kind
        drawn -= percent
    return ""


def _amounts(tasks: Sequence[Task]) -> tuple[int, int, int]:
    """GPUs (milli), cores (milli) and memory of tasks. GPU memory counts by the smallest device, as the most that it
    can be.
    """
    total = (0, 0, 0)
    for task in tasks:
        gpu = task.shape.gpu
        share = accepted_share(gpu, DEVICE_MIB // 2) or gpu
        total = _sum(total, (share.devices * share.portion, task.shape.cpu, task.shape.memory))
    return total


def _sum(left: tuple[int, int, int], right: tuple[int, int, int]) -> tuple[int, int, int]:
    return left[0] + right[0], left[1] + right[1], left[2] + right[2]


# Settings


def _settings(pick: Pick) -> EngineConfig:
    """Settings of which one or several are not the default. Only those that a case file can hold."""
    actions = pick((ACTIONS, ACTIONS, tuple(each for each in ACTIONS if each != pick(ACTIONS[1:]))))
    return EngineConfig(
        actions=actions,
        gpu_placement=pick(("binpack", "spread")),
        cpu_placement=pick(("binpack", "spread")),
        gpu_sharing=pick(("binpack", "spread")),
        prefer_shared_devices=pick((True, True, False)),
        use_signatures=pick((True, False)),
        max_consolidation_victims=pick((16, 16, -1, 1, 2)),
        allow_consolidating_reclaim=pick((True, False)),
    )
