"""The set-ups of KAI's own Go benchmarks (pkg/scheduler/actions, commit d5bc503a), built as engine snapshots.

Each says what must come out, as KAI's benchmarks demand it or as follows from how it is built. The letters are those of
docs/performance.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from msgspec import structs

from benchmarks.engine.cluster import CORE, GPUS_PER_NODE, RACK, UNBOUNDED, ClusterBuilder, pod
from kailab.engine.config import ACTIONS, EngineConfig
from kailab.engine.decisions import Action, Decisions
from kailab.engine.snapshot.records import Constraint, PodTerm, Requirement, ResourceShare, Topology
from kailab.engine.working.workingset import WorkingSet

GANG = 10
"""Tasks of the gang that can't run, each wanting a whole node."""

CONFIG = EngineConfig(use_signatures=False, max_consolidation_victims=-1, staleness_grace=0)
"""As KAI's benchmarks run: every job is tried, and any number of victims may move."""


@dataclass(frozen=True, slots=True)
class CycleOutcome:
    """The outcome of a cycle as numbers of tasks: bound, promised a place, evicted, and moved to another place. ``moved``: None for any number."""

    bound: int = 0
    promised: int = 0
    evicted: int = 0
    moved: int | None = 0

    @classmethod
    def of(cls, decisions: Decisions) -> CycleOutcome:
        moved = sum(1 for pipeline in decisions.pipelines if pipeline.moved)
        return cls(len(decisions.binds), len(decisions.pipelines) - moved, len(decisions.evictions) - moved, moved)

    def admits(self, actual: CycleOutcome) -> bool:
        return self == CycleOutcome(
            actual.bound, actual.promised, actual.evicted, None if self.moved is None else actual.moved
        )


NOTHING = CycleOutcome()


@dataclass(frozen=True, slots=True)
class Setup:
    """``build`` creates the cluster; a cycle with ``config`` must end with ``expected``."""

    name: str
    build: Callable[[], WorkingSet]
    config: EngineConfig
    expected: CycleOutcome


@dataclass(frozen=True, slots=True)
class VictimOrderSetup:
    """A set-up without a cycle: all running jobs (``victims`` of them) are sorted as victims and taken out one by one. ``by_age``: queues are compared only
    by age, as in KAI's benchmark, which enables no plugin; otherwise as in a cycle."""

    name: str
    build: Callable[[], WorkingSet]
    victims: int
    by_age: bool = True


# --- clusters ---------------------------------------------------------------------------------------------------------


def departments(cluster: ClusterBuilder, gpus: int, queues: int = 4, parts: int = 2) -> list[str]:
    """Root departments, and queues below them that share the GPUs alike. Four queues go to two departments in pairs,
    more in turn."""
    for part in range(parts):
        cluster.queue(f"dept-{part}", quota=gpus // parts, weight=gpus // parts)
    names = [f"queue-{i}" for i in range(queues)]
    for i, name in enumerate(names):
        part = i * parts // queues if queues == 4 else i % parts
        cluster.queue(name, f"dept-{part}", quota=gpus // queues, weight=1)
    return names


def idle(nodes: int, jobs: int, queues: int = 4, parts: int = 2, tasks: int = 1) -> WorkingSet:
    """A, D and E: one-GPU jobs, or gangs of such tasks, wait for an empty cluster in which all fit."""
    cluster = ClusterBuilder()
    names = departments(cluster, nodes * GPUS_PER_NODE, queues, parts)
    cluster.nodes(nodes)
    shape = pod(1)
    for i in range(jobs):
        cluster.job(f"waiting-{i:06}", names[i % queues], shape, tasks)
    return cluster.working


def spread(nodes: int, jobs: int, waiting: bool) -> WorkingSet:
    """B: one-GPU jobs run all over a cluster with room to spare. C (``waiting``): every second one waits instead."""
    cluster = ClusterBuilder()
    queues = departments(cluster, nodes * GPUS_PER_NODE)
    names = cluster.nodes(nodes)
    shape = pod(1)
    for i in range(jobs):
        node = "" if waiting and i % 2 else names[i % nodes]
        cluster.job(f"job-{i:06}", queues[i % len(queues)], shape, node=node)
    return cluster.working


def full(nodes: int, quota: int, owner_quota: int, racks: int = 0, min_runtime: float | None = None) -> ClusterBuilder:
    """F, H and I: queue-0 fills the cluster with one-GPU jobs; queue-1 is the one that is owed something."""
    cluster = ClusterBuilder()
    cluster.queue("default")
    cluster.queue("queue-0", "default", quota=quota)
    cluster.queue("queue-1", "default", quota=owner_quota)
    if min_runtime is not None:
        queue = cluster.working.queues["queue-0"]
        cluster.working.set_queue(structs.replace(queue, reclaim_min_runtime=min_runtime))
    cluster.running(nodes * GPUS_PER_NODE, "queue-0", cluster.nodes(nodes, racks), pod(1))
    return cluster


def unschedulable(nodes: int) -> WorkingSet:
    """F: a gang of ten whole nodes, where queue-0 has to give up one GPU less than it needs."""
    cluster = full(nodes, (nodes - GANG) * GPUS_PER_NODE + 1, GANG * GPUS_PER_NODE)
    cluster.job("gang", "queue-1", pod(GPUS_PER_NODE), GANG)
    return cluster.working


def unschedulable_apart(nodes: int) -> WorkingSet:
    """F-anti: queue-0 has to give up enough, but the ten pods of the gang shun each other's rack, and there are nine."""
    cluster = full(nodes, (nodes - GANG) * GPUS_PER_NODE, GANG * GPUS_PER_NODE, racks=GANG - 1)
    me = (Requirement(key="app", operator="In", values=("gang",)),)
    shunning = structs.replace(
        pod(GPUS_PER_NODE),
        anti_affinity=(PodTerm(topology_key=RACK, requirements=me, namespaces=()),),
        labels=(("app", "gang"),),
    )
    cluster.job("gang", "queue-1", shunning, GANG)
    return cluster.working


def unschedulable_together(nodes: int) -> WorkingSet:
    """F-topo: the ten pods want one rack, and no rack has ten nodes (of 100, at the most nine)."""
    cluster = full(nodes, (nodes - GANG) * GPUS_PER_NODE, GANG * GPUS_PER_NODE, racks=12)
    cluster.working.set_topology(Topology(name="benchmark-topology", levels=(RACK,)))
    together = Constraint(topology="benchmark-topology", required=RACK)
    cluster.job("gang", "queue-1", pod(GPUS_PER_NODE), GANG, constraint=together)
    return cluster.working


def missing_volume(nodes: int, running: int = 7_370, waiting: int = 3) -> WorkingSet:
    """G: CPU jobs of half a core to five; three more wait for a volume that does not exist."""
    cluster = ClusterBuilder()
    no_gpu = 0
    cluster.queue("test-cpu", quota=0, cpu=ResourceShare(quota=500_000, limit=-1, weight=1))
    cluster.queue("reclaim-cpu", quota=0, cpu=UNBOUNDED)
    queue = cluster.working.queues["reclaim-cpu"]
    cluster.working.set_queue(structs.replace(queue, priority=210))
    names = cluster.nodes(nodes, cores=80, gpus=no_gpu)
    shapes = [structs.replace(pod(no_gpu), cpu=cpu) for cpu in range(CORE // 2, 5 * CORE + 1, CORE // 4)]
    for i in range(running):
        cluster.job(f"running-{i:06}", "test-cpu", shapes[i % len(shapes)], node=names[i % nodes])
    lost = structs.replace(pod(no_gpu), cpu=CORE // 2, blocked=('persistentvolumeclaim "missing" not found',))
    for i in range(waiting):
        cluster.job(f"waiting-{i}", "reclaim-cpu", lost)
    return cluster.working


def large_gang(nodes: int, tasks: int | None = None) -> WorkingSet:
    """H: all of the cluster is owed to queue-1, and a gang of half of the nodes (or ``tasks`` nodes) wants them."""
    cluster = full(nodes, 0, nodes * GPUS_PER_NODE)
    cluster.job("gang", "queue-1", pod(GPUS_PER_NODE), nodes // 2 if tasks is None else tasks)
    return cluster.working


def many_single(nodes: int, min_runtime: float | None = None) -> WorkingSet:
    """I: all of the cluster is owed to queue-1, and as many one-GPU jobs as there are GPUs want it. I-min: the running
    ones have a minimum runtime, which is over."""
    cluster = full(nodes, 0, nodes * GPUS_PER_NODE, min_runtime=min_runtime)
    shape = pod(1)
    for i in range(nodes * GPUS_PER_NODE):
        cluster.job(f"waiting-{i:06}", "queue-1", shape)
    return cluster.working


def victims_alone(queues: int, victims: int) -> WorkingSet:
    """J: running jobs over so many root queues."""
    cluster = ClusterBuilder()
    names = [f"queue-{i}" for i in range(queues)]
    for name in names:
        cluster.queue(name)
    cluster.running(victims, names, cluster.nodes(-(-victims // GPUS_PER_NODE)), pod(1))
    return cluster.working


# --- benchmarks -------------------------------------------------------------------------------------------------------


def cycle(name: str, build: Callable[[], WorkingSet], expected: CycleOutcome, *actions: Action) -> Setup:
    """One cycle of these actions, or of all."""
    return Setup(name, build, structs.replace(CONFIG, actions=actions or ACTIONS), expected)


def allocate(nodes: int, jobs: int) -> Setup:
    return cycle(f"A-{nodes}", partial(idle, nodes, jobs), CycleOutcome(bound=jobs), "allocate")


def many_queues(nodes: int, jobs: int, queues: int, parts: int) -> Setup:
    build = partial(idle, nodes, jobs, queues, parts)
    return cycle(f"D-{nodes}", build, CycleOutcome(bound=jobs), "allocate")


def gangs(nodes: int, jobs: int) -> Setup:
    return cycle(f"E-{nodes}", partial(idle, nodes, jobs, tasks=4), CycleOutcome(bound=4 * jobs), "allocate")


def nothing_waits(nodes: int, jobs: int) -> Setup:
    return cycle(f"B-{nodes}", partial(spread, nodes, jobs, False), NOTHING, "reclaim")


def preempt(nodes: int, jobs: int) -> Setup:
    return cycle(f"C-preempt-{nodes}", partial(spread, nodes, jobs, True), NOTHING, "preempt")


def consolidate(nodes: int, jobs: int) -> Setup:
    expected = CycleOutcome(promised=jobs // 2, moved=None)
    return cycle(f"C-consolidate-{nodes}", partial(spread, nodes, jobs, True), expected, "consolidation")


def full_cycle(nodes: int, jobs: int) -> Setup:
    return cycle(f"C-full-{nodes}", partial(spread, nodes, jobs, True), CycleOutcome(bound=jobs // 2))


def hopeless(nodes: int) -> Setup:
    return cycle(f"F-{nodes}", partial(unschedulable, nodes), NOTHING, "reclaim")


def hopeless_apart(nodes: int) -> Setup:
    return cycle(f"F-anti-{nodes}", partial(unschedulable_apart, nodes), NOTHING, "reclaim")


def hopeless_together(nodes: int) -> Setup:
    return cycle(f"F-topo-{nodes}", partial(unschedulable_together, nodes), NOTHING, "reclaim")


def no_volume(nodes: int) -> Setup:
    return cycle(f"G-{nodes}", partial(missing_volume, nodes), NOTHING, "reclaim")


def reclaim_gang(nodes: int, tasks: int | None = None) -> Setup:
    size = nodes // 2 if tasks is None else tasks
    expected = CycleOutcome(promised=size, evicted=GPUS_PER_NODE * size)
    return cycle(f"H-{nodes}", partial(large_gang, nodes, size), expected, "reclaim")


def reclaim_single(nodes: int, min_runtime: float | None = None) -> Setup:
    gpus = nodes * GPUS_PER_NODE
    name = f"I-{nodes}" if min_runtime is None else f"I-min-{nodes}"
    return cycle(name, partial(many_single, nodes, min_runtime), CycleOutcome(promised=gpus, evicted=gpus))


def setups() -> dict[str, Setup | VictimOrderSetup]:
    """All of KAI's benchmarks by our name for them, and a few more that KAI has none like."""
    all_setups: list[Setup | VictimOrderSetup] = [
        *(allocate(*size) for size in ((10, 50), (50, 200), (100, 500), (500, 4_000), (5_000, 40_000))),
        *(nothing_waits(*size) for size in ((10, 50), (50, 200))),
        *(preempt(*size) for size in ((10, 50), (50, 200))),
        *(consolidate(*size) for size in ((10, 50), (50, 200))),
        *(full_cycle(*size) for size in ((10, 50), (50, 200), (100, 500))),
        many_queues(50, 200, 20, 5),
        gangs(50, 100),
        *(hopeless(nodes) for nodes in (10, 50, 100, 200, 500, 1000)),
        hopeless_apart(100),
        hopeless_together(100),
        no_volume(1500),
        *(reclaim_gang(nodes) for nodes in (10, 50, 100, 200, 500, 1000)),
        *(reclaim_single(nodes) for nodes in (10, 50, 100, 200, 500, 1000)),
        reclaim_single(500, min_runtime=30.0),
        VictimOrderSetup("J-preempt", partial(victims_alone, 1, 1_000), 1_000),
        VictimOrderSetup("J-reclaim", partial(victims_alone, 10, 1_000), 1_000),
        VictimOrderSetup("J-shares", partial(victims_alone, 10, 1_000), 1_000, by_age=False),
    ]
    return {setup.name: setup for setup in all_setups}
