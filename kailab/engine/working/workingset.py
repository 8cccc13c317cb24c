"""The engine's view of a cluster: kept up to date record by record, frozen while a cycle runs.

``WorkingSet`` is a container of records (kailab.engine.snapshot.records) with indexes that make a cycle cost what changed.
``run_cycle`` borrows it: whatever it tries is undone when it returns, so the same records and configuration give the
same decisions again. ``Snapshot`` is the same records as a value.
"""

from __future__ import annotations

from typing import Any

from kailab.engine.snapshot.changes import Changes, Follower
from kailab.engine.snapshot.records import (
    ALLOCATED,
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
from kailab.engine.working.state import Job, ShapeInfo, WTask

_SINGULAR = {
    "nodes": "node", "queues": "queue", "podgroups": "podgroup", "tasks": "task", "topologies": "topology", "claims": "claim",
}  # fmt: skip


class WorkingSet:
    """Records by identity. ``set_*`` adds or replaces, ``remove_*`` ignores what is not there.

    Order of calls does not matter to decisions: a task may come before its PodGroup, a PodGroup before its queue, a task
    on a node before that node. ``version`` grows with every change that could matter to a decision.
    """

    def __init__(self) -> None:
        self.version = 0
        self.nodes: dict[str, Node] = {}
        self.queues: dict[str, Queue] = {}
        self.topologies: dict[str, Topology] = {}
        self.claims: dict[str, ResourceClaim] = {}
        self.jobs: dict[str, Job] = {}
        self.tasks: dict[str, WTask] = {}
        self.layout = Layout()
        self._by_job: dict[str, dict[str, WTask]] = {}  # tasks whose PodGroup is not here (yet)
        self._shapes: dict[Shape, ShapeInfo] = {}
        self._shapes_by_id: dict[int, ShapeInfo] = {}
        self._table: NodeTable | None = None
        self.table_version = 0
        self._tree: QueueTree | None = None
        self._trees: dict[str, tuple[int, DomainTree]] = {}
        self._dirty: dict[str, Job] = {}
        self.waiting = JobIndex("waiting")
        self.victims = JobIndex("victims")
        self.stale: dict[str, Job] = {}  # those that run in part only
        # What each queue's own jobs hold and ask for: [CPU, memory, GPU] of preemptible and of other work, and waiting.
        self.held: dict[str, list[int]] = {}
        self.held_firm: dict[str, list[int]] = {}
        self.asked: dict[str, list[int]] = {}
        self.memory_tasks: dict[str, WTask] = {}  # those that want GPU memory: its share depends on the device
        self.has_anti_affinity = False  # some pod, now or once, kept others away
        self.has_pod_preferences = False  # some pod, now or once, would rather be with others, or without them
        self.foreign: dict[str, WTask] = {}  # tasks of other schedulers: they only take room
        self._claiming: dict[str, dict[str, WTask]] = {}  # claim -> tasks that name it

        self._followers: list[Follower] = []

    # As a value

    @classmethod
    def of(cls, snapshot: Snapshot) -> WorkingSet:
        """All records of a snapshot."""
        working = cls()
        working._set_all(snapshot)
        return working

    def value(self) -> Snapshot:
        """The records as they are now; what a running cycle tries is not in it."""
        return Snapshot(
            nodes=tuple(self.nodes.values()),
            queues=tuple(self.queues.values()),
            podgroups=tuple(job.record for job in self.jobs.values()),
            tasks=tuple(task.record for task in self.tasks.values()),
            topologies=tuple(self.topologies.values()),
            claims=tuple(self.claims.values()),
        )

    def apply(self, changes: Changes) -> None:
        """Take over what changed between two snapshots."""
        for kind, identity in IDENTITY.items():
            remove = getattr(self, f"remove_{_SINGULAR[kind]}")
            gone = set(getattr(changes.removed, kind))
            if changes.whole:
                gone = {identity(record) for record in getattr(self.value(), kind)}
                gone -= {identity(record) for record in getattr(changes.set, kind)}
            for name in sorted(gone):
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
        """Tell it no more of changes."""
        self._followers.remove(follower)

    def record(self, kind: str, identity: str) -> Any:
        """One record of a kind (as the fields of ``Snapshot`` are called); None where there is none."""
        if kind == "tasks":
            task = self.tasks.get(identity)
            return task and task.record
        if kind == "podgroups":
            job = self.jobs.get(identity)
            return job and job.record
        return getattr(self, kind).get(identity)

    def _changed(self, kind: str, identity: str) -> None:
        self.version += 1
        for follower in self._followers:
            follower.note(kind, identity)

    # Nodes, queues, topologies

    def set_node(self, node: Node) -> None:
        """Add a node, or take its changed record."""
        if self.nodes.get(node.name) != node:
            self.nodes[node.name] = node
            # Made anew when it is next asked for: nodes change seldom, and then often many at once.
            self._table = None
            self._changed("nodes", node.name)

    def remove_node(self, name: str) -> None:
        """Take a node out, by name; nothing if there is none."""
        if self.nodes.pop(name, None) is not None:
            self._table = None
            self._changed("nodes", name)

    def set_queue(self, queue: Queue) -> None:
        """Add a queue, or take its changed record."""
        if self.queues.get(queue.name) != queue:
            self.queues[queue.name] = queue
            self._tree = None
            self._changed("queues", queue.name)

    def remove_queue(self, name: str) -> None:
        """Take a queue out, by name; nothing if there is none."""
        if self.queues.pop(name, None) is not None:
            self._tree = None
            self._changed("queues", name)

    def set_topology(self, topology: Topology) -> None:
        """Add a topology, or take its changed record."""
        if self.topologies.get(topology.name) != topology:
            self.topologies[topology.name] = topology
            self._changed("topologies", topology.name)

    def remove_topology(self, name: str) -> None:
        """Take a topology out, by name; nothing if there is none."""
        if self.topologies.pop(name, None) is not None:
            self._changed("topologies", name)

    def set_claim(self, claim: ResourceClaim) -> None:
        """Add a resource claim, or take its changed record."""
        if self.claims.get(claim.name) != claim:
            self._change_claim(claim.name, claim)

    def remove_claim(self, name: str) -> None:
        """Take a resource claim out, by name; nothing if there is none."""
        if name in self.claims:
            self._change_claim(name, None)

    def _change_claim(self, name: str, claim: ResourceClaim | None) -> None:
        users = list(self._claiming.get(name, {}).values())
        # What a holder counts for on its node depends on the claim's record: off under the old one, on under the new.
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
        """Put a task on the node table where it is (1), or take it away (-1)."""
        table = self._table
        if table is None:
            return
        claims = table.claims if task.info.shape.claims else None
        if claims is not None and sign > 0:
            claims.enter(task, task.info.shape)
        if task.node:
            table.place(task, task.status, task.node, task.groups, sign)
            table.host(task, task.node, sign > 0)
        if claims is not None and sign < 0:
            claims.leave(task, task.info.shape)

    # PodGroups and tasks

    def set_podgroup(self, podgroup: PodGroup) -> None:
        """Add a PodGroup, or take its changed record. Tasks that name it may come before it."""
        job = self.jobs.get(podgroup.uid)
        if job is None:
            job = self.jobs[podgroup.uid] = Job(podgroup)
            for task in self._by_job.pop(podgroup.uid, {}).values():
                self.foreign.pop(task.uid, None)
                task.job = job
                job.add(task)
                self._account(task, 1)
        elif job.record == podgroup:
            return
        else:
            # The change may be of what the sums go by: the queue, or whether the job is preemptible.
            for task in job.tasks.values():
                self._account(task, -1)
            job.update(podgroup)
            for task in job.tasks.values():
                self._account(task, 1)
        self._dirty[job.uid] = job
        self._changed("podgroups", job.uid)

    def remove_podgroup(self, uid: str) -> None:
        """Take a PodGroup out, by UID; its tasks stay, without a group."""
        job = self.jobs.pop(uid, None)
        if job is None:
            return
        for task in [*job.tasks.values(), *job.lost.values()]:
            self._account(task, -1)
            job.remove(task)
            task.job, task.podset = None, None
            self._by_job.setdefault(uid, {})[task.uid] = task
            # Without a group nobody schedules it: it only takes room, as a pod of another scheduler does.
            self.foreign[task.uid] = task
        self._dirty.pop(uid, None)
        self.waiting.discard(uid)
        self.victims.discard(uid)
        self.stale.pop(uid, None)
        self._changed("podgroups", uid)

    def set_task(self, task: Task) -> None:
        """Add a task, or take its changed record."""
        old = self.tasks.get(task.uid)
        if old is not None:
            if old.record == task:
                return
            self._detach(old)
        job = self.jobs.get(task.podgroup) if task.podgroup else None
        # A changed task is a new one, so that nothing of the old one stays behind.
        work = WTask(task, self._info(task.shape), job)
        self.tasks[task.uid] = work
        if job is None:
            self.foreign[task.uid] = work
            if task.podgroup:
                self._by_job.setdefault(task.podgroup, {})[task.uid] = work
        else:
            job.add(work)
            self._dirty[job.uid] = job
            self._account(work, 1)
        for name in task.shape.claims:
            self._claiming.setdefault(name, {})[task.uid] = work
        self._take_place(work, 1)
        self._changed("tasks", task.uid)

    def remove_task(self, uid: str) -> None:
        """Take a task out, by UID; nothing if there is none."""
        task = self.tasks.pop(uid, None)
        if task is not None:
            self._detach(task)
            self._changed("tasks", uid)

    def _detach(self, task: WTask) -> None:
        # First, while its group and its claims still know of it.
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
            self._dirty[task.job.uid] = task.job
        else:
            waiting = self._by_job.get(task.record.podgroup)
            if waiting is not None:
                waiting.pop(task.uid, None)
                if not waiting:
                    del self._by_job[task.record.podgroup]

    def _info(self, shape: Shape) -> ShapeInfo:
        # By identity first: whoever gives the records shares equal shapes, and hashing one costs more than a look.
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
        # Kept only for shapes that the info itself holds: their ids can't be used again.
        if info.shape is shape:
            self._shapes_by_id[id(shape)] = info
        return info

    def _account(self, task: WTask, sign: int) -> None:
        """What the task adds to its queue's own sums. GPU memory held on a node is added when a cycle begins, because it
        depends on the node's devices."""
        job = task.job
        if job is None or task.podset is None:
            return
        # As the cluster has it, since this runs between cycles only.
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
            firm = self.held_firm.setdefault(job.record.queue, [0, 0, 0])
            firm[0] += sign * cpu
            firm[1] += sign * memory
            firm[2] += sign * gpus
        if task.info.shape.gpu.memory_mib:
            if sign > 0:
                self.memory_tasks[task.uid] = task
            else:
                self.memory_tasks.pop(task.uid, None)

    # What a cycle works on

    @property
    def table(self) -> NodeTable:
        if self._table is None:
            table = self._table = NodeTable(self.nodes.values(), self.layout, self.claims, self.tasks)
            # Tasks may ask for resources that no node has; they have rows as well.
            table.grow()
            for task in self.tasks.values():
                self._take_place(task, 1)
            # Masks that shapes keep are of the table before.
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
        found = self._trees.get(topology.name)
        # Positions in the tree are columns of the node table, so each table needs trees of its own.
        if found is None or found[0] != self.table_version or found[1].topology != topology:
            found = self._trees[topology.name] = (self.table_version, DomainTree(topology, table))
        return found[1]

    def settle_indexes(self) -> None:
        """Bring the job indexes up to date with what changed since the last cycle."""
        if self._dirty:
            dirty = list(self._dirty.values())
            self._dirty.clear()
            self.waiting.fill(dirty)
            self.victims.fill(dirty)
            for job in dirty:
                # Kept up to date here, so that the action on stale gangs does not look through all jobs in every cycle.
                if job.stale:
                    self.stale[job.uid] = job
                else:
                    self.stale.pop(job.uid, None)

    def touched(self, job: Job) -> None:
        """Something of this job has changed: its place in the order is to be found anew."""
        self._dirty[job.uid] = job
