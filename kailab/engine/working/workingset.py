"""The engine's view of a cluster, updated record by record and unchanged by cycles.

A ``WorkingSet`` contains records (kailab.engine.snapshot.records) with indexes, so that a cycle costs what changed.
``run_cycle`` undoes all its changes when it returns, so the same records and configuration give the same decisions
again. ``Snapshot`` is the same records as a value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import structs

from kailab.engine.snapshot.changes import Changes, Follower
from kailab.engine.snapshot.records import (
    ALIVE,
    ALLOCATED,
    ON_NODE,
    Node,
    PodGroup,
    Queue,
    ResourceClaim,
    Shape,
    Status,
    Task,
    Topology,
)
from kailab.engine.snapshot.snapshot import IDENTITY, Snapshot
from kailab.engine.working.domains import DomainTree
from kailab.engine.working.jobindex import JobIndex
from kailab.engine.working.layout import Layout
from kailab.engine.working.nodes import NodeTable
from kailab.engine.working.queues import QueueTree
from kailab.engine.working.state import ConfiguredOrder, Job, ShapeInfo, WTask

_SINGULAR = {
    "nodes": "node", "queues": "queue", "podgroups": "podgroup", "tasks": "task", "topologies": "topology", "claims": "claim",
}  # fmt: skip


class ForeseenBinds:
    """The binds of a cycle whose effects are still to come. ``places``: node and GPU groups by task. ``started``: the PodGroups
    that start with them. ``made_by``: what decided them. ``lasting``: time alone changes nothing in what refused the jobs that
    wait.
    """

    def __init__(
        self, places: Mapping[str, tuple[str, tuple[str, ...]]], started: Iterable[str], made_by: object, lasting: bool
    ) -> None:
        self.to_come = set(places)
        self.made_by, self.lasting = made_by, lasting
        self._places = places
        self._started = frozenset(started)

    def comes(self, before: Task, after: Task) -> bool:
        """True if a task changes as foreseen, or goes on from being bound to running."""
        foreseen = self._places.get(after.uid)
        if foreseen is None or foreseen != (after.node, after.gpu_groups) or not ALLOCATED[after.status]:
            return False
        if ALLOCATED[before.status]:
            return structs.replace(after, status=before.status) == before
        self.to_come.discard(after.uid)
        waiting = structs.replace(after, status=before.status, node=before.node, gpu_groups=before.gpu_groups)
        return before.status == Status.PENDING and waiting == before

    def starts(self, before: PodGroup, after: PodGroup) -> bool:
        """True if a PodGroup changes only by the start that was foreseen."""
        return before.uid in self._started and structs.replace(after, last_start=before.last_start) == before


class WorkingSet:
    """Records by identity. ``set_*`` adds or replaces a record; ``remove_*`` ignores unknown identities.

    The order of calls does not affect decisions: a task may come before its PodGroup, a PodGroup before its queue, a
    task on a node before that node. ``version`` grows with every change that could affect a decision.
    """

    def __init__(self) -> None:
        self.version = 0
        self.nodes: dict[str, Node] = {}
        self.queues: dict[str, Queue] = {}
        self.topologies: dict[str, Topology] = {}
        self.claims: dict[str, ResourceClaim] = {}
        self.order = ConfiguredOrder()
        self.jobs: dict[str, Job] = {}
        self.tasks: dict[str, WTask] = {}
        self.layout = Layout()
        self._by_job: dict[str, dict[str, WTask]] = {}  # tasks whose PodGroup is missing (or comes later)
        self._shapes: dict[Shape, ShapeInfo] = {}
        self._shapes_by_id: dict[int, ShapeInfo] = {}
        self._table: NodeTable | None = None
        self._make_table: Callable[..., NodeTable] = NodeTable
        self.table_version = 0
        self._tree: QueueTree | None = None
        self._trees: dict[str, tuple[int, DomainTree]] = {}
        self._dirty: dict[str, Job] = {}
        self.waiting = JobIndex("waiting")
        self.victims = JobIndex("victims")
        self._ranked: tuple[object, JobIndex] | None = None
        self._unranked: dict[str, Job] = {}  # jobs that changed since then
        self._run_times: tuple[object, dict[str, float]] = (None, {})
        self.ended_by_bound: set[tuple[object, ...]] = set()  # kinds of searches of which a bound ended the last one
        self.order_read = False  # a search of the latest cycle went as far as the order of its victims
        self.stale: dict[str, Job] = {}  # jobs of which only a part runs
        # Per queue, what its own jobs hold and ask for: [CPU, memory, GPU] held by all work, held by non-preemptible
        # work, and waiting.
        self.held: dict[str, list[int]] = {}
        self.held_non_preemptible: dict[str, list[int]] = {}
        self.asked: dict[str, list[int]] = {}
        self.memory_tasks: dict[str, WTask] = {}  # tasks that request GPU memory, whose share depends on the device
        self.has_anti_affinity = False  # some pod, now or earlier, has required anti-affinity
        self.has_pod_preferences = False  # some pod, now or earlier, has preferred (anti-)affinity
        self.foreign: dict[str, WTask] = {}  # tasks of other schedulers, which only take room
        self._claiming: dict[str, dict[str, WTask]] = {}  # claim -> tasks that name it

        self._followers: list[Follower] = []
        self._foreseen: ForeseenBinds | None = None  # None too once anything else has happened

    # Snapshots and changes

    @classmethod
    def of(cls, snapshot: Snapshot) -> WorkingSet:
        """A working set of all records of a snapshot."""
        working = cls()
        working._set_all(snapshot)
        return working

    def value(self) -> Snapshot:
        """The present records, without the changes of a running cycle."""
        return Snapshot(
            nodes=tuple(self.nodes.values()),
            queues=tuple(self.queues.values()),
            podgroups=tuple(job.record for job in self.jobs.values()),
            tasks=tuple(task.record for task in self.tasks.values()),
            topologies=tuple(self.topologies.values()),
            claims=tuple(self.claims.values()),
        )

    def apply(self, changes: Changes) -> None:
        """Apply the changes between two snapshots."""
        for kind, identity in IDENTITY.items():
            remove = getattr(self, f"remove_{_SINGULAR[kind]}")
            removed = set(getattr(changes.removed, kind))
            if changes.whole:
                removed = {identity(record) for record in getattr(self.value(), kind)}
                removed -= {identity(record) for record in getattr(changes.set, kind)}
            for name in sorted(removed):
                remove(name)
        self._set_all(changes.set)

    def _set_all(self, snapshot: Snapshot) -> None:
        for kind in IDENTITY:
            take = getattr(self, f"set_{_SINGULAR[kind]}")
            for record in getattr(snapshot, kind):
                take(record)

    def follow(self) -> Follower:
        """Collect changes from now on, until ``unfollow``."""
        follower = Follower(self)
        self._followers.append(follower)
        return follower

    def unfollow(self, follower: Follower) -> None:
        """Stop reporting changes to a follower."""
        self._followers.remove(follower)

    def record(self, kind: str, identity: str) -> Any:
        """One record by kind (a field name of ``Snapshot``) and identity, or None."""
        if kind == "tasks":
            task = self.tasks.get(identity)
            return task and task.record
        if kind == "podgroups":
            job = self.jobs.get(identity)
            return job and job.record
        return getattr(self, kind).get(identity)

    def _changed(self, kind: str, identity: str, *, foreseen: bool = False) -> None:
        self.version += 1
        if not foreseen:
            self._foreseen = None
        for follower in self._followers:
            follower.note(kind, identity)

    # Nodes, queues, topologies

    def set_node(self, node: Node) -> None:
        """Add a node, or replace its record."""
        if self.nodes.get(node.name) != node:
            self.nodes[node.name] = node
            # Rebuilt on the next use: nodes change rarely, and then often many at once.
            self._table = None
            self._changed("nodes", node.name)

    def remove_node(self, name: str) -> None:
        """Remove a node by name, if it exists."""
        if self.nodes.pop(name, None) is not None:
            self._table = None
            self._changed("nodes", name)

    def set_queue(self, queue: Queue) -> None:
        """Add a queue, or replace its record."""
        if self.queues.get(queue.name) != queue:
            self.queues[queue.name] = queue
            self._tree = None
            self._changed("queues", queue.name)

    def remove_queue(self, name: str) -> None:
        """Remove a queue by name, if it exists."""
        if self.queues.pop(name, None) is not None:
            self._tree = None
            self._changed("queues", name)

    def set_topology(self, topology: Topology) -> None:
        """Add a topology, or replace its record."""
        if self.topologies.get(topology.name) != topology:
            self.topologies[topology.name] = topology
            self._changed("topologies", topology.name)

    def remove_topology(self, name: str) -> None:
        """Remove a topology by name, if it exists."""
        if self.topologies.pop(name, None) is not None:
            self._changed("topologies", name)

    def set_claim(self, claim: ResourceClaim) -> None:
        """Add a resource claim, or replace its record."""
        if self.claims.get(claim.name) != claim:
            self._change_claim(claim.name, claim)

    def remove_claim(self, name: str) -> None:
        """Remove a resource claim by name, if it exists."""
        if name in self.claims:
            self._change_claim(name, None)

    def _change_claim(self, name: str, claim: ResourceClaim | None) -> None:
        users = list(self._claiming.get(name, {}).values())
        # A holder's effect on its node depends on the claim's record: it is removed under the old record and added
        # under the new one.
        for task in reversed(users):
            self._take_place(task, -1)
        if claim is None:
            del self.claims[name]
        else:
            self.claims[name] = claim
        for task in users:
            self._take_place(task, 1)
        if self._table is not None:
            self._table.claims.refresh((name,))
        self._changed("claims", name)

    def _take_place(self, task: WTask, sign: int) -> None:
        """Add a task to the node table where it is (1), or remove it (-1)."""
        table = self._table
        if table is None:
            return
        claims = table.claims if task.info.shape.claims else None
        if claims is not None and sign > 0:
            claims.enter(task, task.info.shape)
        if task.node:
            table.change_usage(task, task.status, task.node, task.groups, sign)
            table.host(task, task.node, sign > 0)
        if claims is not None and sign < 0:
            claims.leave(task, task.info.shape)

    # PodGroups and tasks

    def set_podgroup(self, podgroup: PodGroup) -> None:
        """Add a PodGroup, or replace its record. Its tasks may come before it."""
        job = self.jobs.get(podgroup.uid)
        foreseen = False
        if job is None:
            job = self.jobs[podgroup.uid] = Job(podgroup, self.order)
            for task in self._by_job.pop(podgroup.uid, {}).values():
                self.foreign.pop(task.uid, None)
                task.job = job
                job.add(task)
                self._account(task, 1)
        elif job.record == podgroup:
            return
        else:
            foreseen = self._foreseen is not None and self._foreseen.starts(job.record, podgroup)
            # The queue or the preemptibility may change, on which the sums depend.
            for task in job.tasks.values():
                self._account(task, -1)
            job.update(podgroup)
            for task in job.tasks.values():
                self._account(task, 1)
        self._changed_job(job)
        self._changed("podgroups", job.uid, foreseen=foreseen)

    def remove_podgroup(self, uid: str) -> None:
        """Remove a PodGroup by UID; its tasks stay, without a group."""
        job = self.jobs.pop(uid, None)
        if job is None:
            return
        tasks = [*job.tasks.values(), *job.unassigned_tasks.values()]
        for task in tasks:
            self._account(task, -1)
            job.remove(task)
            task.job, task.podset = None, None
            self._by_job.setdefault(uid, {})[task.uid] = task
            # A task without a group is not scheduled here; it only takes room, like a pod of another scheduler.
            self.foreign[task.uid] = task
        self._dirty.pop(uid, None)
        self._run_times[1].pop(uid, None)
        self.waiting.discard(uid)
        self._unranked.pop(uid, None)
        if self._ranked is not None:
            self._ranked[1].discard(uid)
        self.victims.discard(uid)
        self.stale.pop(uid, None)
        self._changed("podgroups", uid, foreseen=all(map(_over, tasks)))

    def set_task(self, task: Task) -> None:
        """Add a task, or replace its record."""
        old = self.tasks.get(task.uid)
        foreseen = False
        if old is not None:
            if old.record == task:
                return
            foreseen = self._foreseen is not None and self._foreseen.comes(old.record, task)
            self._detach(old)
        job = self.jobs.get(task.podgroup) if task.podgroup else None
        # A new object, so that no state of the old one remains.
        work = WTask(task, self._info(task.shape), job)
        self.tasks[task.uid] = work
        if job is None:
            self.foreign[task.uid] = work
            if task.podgroup:
                self._by_job.setdefault(task.podgroup, {})[task.uid] = work
        else:
            job.add(work)
            self._changed_job(job)
            self._account(work, 1)
        for name in task.shape.claims:
            self._claiming.setdefault(name, {})[task.uid] = work
        self._take_place(work, 1)
        self._changed("tasks", task.uid, foreseen=foreseen)

    def remove_task(self, uid: str) -> None:
        """Remove a task by UID, if it exists."""
        task = self.tasks.pop(uid, None)
        if task is not None:
            over = task.job is None and _over(task)
            self._detach(task)
            self._changed("tasks", uid, foreseen=over)

    def _detach(self, task: WTask) -> None:
        # First, while its group and claims still contain it.
        self._take_place(task, -1)
        for name in task.info.shape.claims:
            users = self._claiming[name]
            users.pop(task.uid, None)
            if not users:
                del self._claiming[name]
        self.foreign.pop(task.uid, None)
        if task.job is not None:
            self._account(task, -1)
            task.job.remove(task)
            self._changed_job(task.job)
        else:
            waiting = self._by_job.get(task.record.podgroup)
            if waiting is not None:
                waiting.pop(task.uid, None)
                if not waiting:
                    del self._by_job[task.record.podgroup]

    def _changed_job(self, job: Job) -> None:
        job.record_version += 1
        self._dirty[job.uid] = job
        self._run_times[1].pop(job.uid, None)

    def _info(self, shape: Shape) -> ShapeInfo:
        # By identity first: equal shapes of records are usually one object, and hashing a shape costs more than a
        # lookup.
        info = self._shapes_by_id.get(id(shape))
        if info is not None and info.shape is shape:
            return info
        info = self._shapes.get(shape)
        if info is None:
            rows = len(self.layout)
            info = self._shapes[shape] = ShapeInfo(shape, self.layout)
            self.has_anti_affinity |= any(not term.weight for term in shape.anti_affinity)
            self.has_pod_preferences |= info.prefers_pods
            if self._table is not None and len(self.layout) > rows:
                self._table.grow()
        # Only for shapes that the info itself references, so that their ids cannot be reused.
        if info.shape is shape:
            self._shapes_by_id[id(shape)] = info
        return info

    def _account(self, task: WTask, sign: int) -> None:
        """Add the task to its queue's own sums (or subtract it). Held GPU memory is added when a cycle begins, because
        it depends on the node's devices.
        """
        job = task.job
        if job is None or task.podset is None:
            return
        # The status in the cluster, because this runs only between cycles.
        status = task.status
        if status == Status.PENDING:
            sums = self.asked.setdefault(job.record.queue, [0, 0, 0])
        elif ALLOCATED[status]:
            sums = self.held.setdefault(job.record.queue, [0, 0, 0])
        else:
            return
        cpu, memory, gpus = task.info.quota
        sums[0] += sign * cpu
        sums[1] += sign * memory
        sums[2] += sign * gpus
        if status != Status.PENDING and not job.record.preemptible:
            non_preemptible = self.held_non_preemptible.setdefault(job.record.queue, [0, 0, 0])
            non_preemptible[0] += sign * cpu
            non_preemptible[1] += sign * memory
            non_preemptible[2] += sign * gpus
        if task.info.shape.gpu.by_memory:
            if sign > 0:
                self.memory_tasks[task.uid] = task
            else:
                self.memory_tasks.pop(task.uid, None)

    # State of a cycle

    def renew_table(self, make: Callable[..., NodeTable]) -> None:
        """Build the node table anew on its next use. ``make`` takes the arguments of ``NodeTable``."""
        self._table, self._make_table = None, make

    @property
    def table(self) -> NodeTable:
        if self._table is None:
            table = self._table = self._make_table(self.nodes.values(), self.layout, self.claims, self.tasks)
            # Tasks may request resources that no node has; these have rows too.
            table.grow()
            for task in self.tasks.values():
                self._take_place(task, 1)
            # The masks of shapes belong to the previous table.
            self.table_version += 1
        return self._table

    @property
    def tree(self) -> QueueTree:
        if self._tree is None:
            self._tree = QueueTree(self.queues.values())
        return self._tree

    def domain_tree(self, topology: Topology) -> DomainTree:
        """The domains of a topology on the present nodes."""
        table = self.table
        cached = self._trees.get(topology.name)
        # The tree refers to columns of the node table, so each table needs its own trees.
        if cached is None or cached[0] != self.table_version or cached[1].topology != topology:
            cached = self._trees[topology.name] = (self.table_version, DomainTree(topology, table))
        return cached[1]

    def settle_indexes(self) -> None:
        """Update the job indexes with the changes since the last cycle."""
        if self._dirty:
            dirty = list(self._dirty.values())
            self._dirty.clear()
            if self._ranked is not None:
                self._unranked.update((job.uid, job) for job in dirty)
            self.waiting.fill(dirty)
            self.victims.fill(dirty)
            for job in dirty:
                # Updated here, so that the action on stale gangs need not visit all jobs in every cycle.
                if job.stale:
                    self.stale[job.uid] = job
                else:
                    self.stale.pop(job.uid, None)

    def waiting_ranked(self, made_of: object) -> JobIndex:
        """The waiting jobs in the order of their present ranking, whose keys stay the same until a job changes.
        ``made_of``: what else the keys depend on. Jobs of which something has a place are ranked anew in each cycle.
        """
        known, self._ranked = self._ranked, None  # an error of a policy leaves an index that is not up to date
        if known is None or known[0] != made_of:
            known = (made_of, JobIndex("waiting"))
            known[1].fill(self.waiting.jobs())
        else:
            changed = dict(self._unranked)
            for classes in known[1].classes.values():
                changed.update((job.uid, job) for _, job in classes.get(None, ()))
            known[1].fill(changed.values())
        self._unranked.clear()
        self._ranked = known
        return known[1]

    def run_times(self, made_by: object) -> dict[str, float]:
        """Expected run times by job, to be filled in by the caller. Each is kept until a record of its job changes, and all
        are until ``made_by`` does.
        """
        if self._run_times[0] != made_by:
            self._run_times = (made_by, {})
        return self._run_times[1]

    def foresee(self, binds: ForeseenBinds | None) -> None:
        """Say which binds will come as changes of records; None: none."""
        self._foreseen = binds

    def come_as_foreseen(self, made_by: object) -> ForeseenBinds | None:
        """The binds foreseen by ``made_by`` if all have come, and nothing else has changed since they were foreseen."""
        foreseen = self._foreseen
        if foreseen is None or foreseen.to_come or foreseen.made_by != made_by:
            return None
        return foreseen

    def some_wait(self) -> bool:
        """True if some job waits."""
        self.settle_indexes()
        return bool(self.waiting.classes)

    def touched(self, job: Job) -> None:
        """Mark a job as changed, so that its position in the order is updated."""
        self._dirty[job.uid] = job


def _over(task: WTask) -> bool:
    """True if a task has ended and holds nothing, so that without its PodGroup it has no part in any decision."""
    return not (ALIVE[task.status] or ON_NODE[task.status] or task.info.shape.claims)
