"""Mutable state behind the records: tasks with their present place, pod sets with their counts, the subgroup tree.

Records (``kailab.engine.snapshot.records``) are the input; a cycle changes these objects and undoes the changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from kailab.engine.snapshot.records import (
    ACTIVE,
    ALIVE,
    ALLOCATED,
    ON_NODE,
    Constraint,
    PodGroup,
    Shape,
    Status,
    SubGroup,
    Task,
    ZoneShare,
)
from kailab.engine.working.layout import Layout
from kailab.engine.working.order_criteria import JobCriterion

if TYPE_CHECKING:
    from kailab.engine.snapshot.records import PodSet as PodSetRecord

TaskPlace = tuple[str, tuple[str, ...]]  # node name, GPU groups
Uids = frozenset[str]  # of PodGroups


class JobRanking(Protocol):
    """A configured order of jobs. Implemented by ``kailab.engine.policies.ranking``."""

    @property
    def criteria(self) -> tuple[JobCriterion, ...]:
        """The criteria behind the parts of ``order_key``."""

    @property
    def subgroup_order(self) -> bool:
        """True if KAI's subgrouporder plugin orders the subgroups of a job."""

    def order_key(self, job: Job) -> tuple[Any, ...]:
        """Serving order: the smallest first."""

    def victim_key(self, job: Job, state: int) -> tuple[Any, ...]:
        """Eviction order: the largest first. ``state``: the job's elastic state."""


class ShapeInfo:
    """A shape with values that the engine derives from it once."""

    __slots__ = (
        "cpu_only", "empty", "kept_apart", "liked", "mask", "mask_version", "needs", "plain", "prefers_pods", "quota", "request",
        "requires_pods", "rows", "shape", "size",
    )  # fmt: skip

    def __init__(self, shape: Shape, layout: Layout) -> None:
        self.shape = shape
        self.rows = layout.of_shape(shape)
        # Only rows with a request, because nodes are compared row by row.
        self.needs = tuple((row, amount) for row, amount in self.rows.items() if amount > 0)
        gpu = shape.gpu
        self.plain = not gpu.shared and not shape.claims  # ``needs`` is all that it takes of a node
        self.cpu_only = gpu.nothing
        self.empty = self.cpu_only and all(row == 3 for row, _ in self.needs)  # best effort: only a pod slot
        gpus = gpu.fixed_gpus()
        self.request = gpu.plain_gpus()  # without GPU memory and MIG
        # What it counts for in quotas (CPU, memory, GPU); GPU memory is added where the device size is known.
        self.quota = (shape.cpu, shape.memory, gpus)
        terms = (*shape.affinity, *shape.anti_affinity)
        self.requires_pods = any(not term.weight for term in terms)
        self.prefers_pods = any(term.weight for term in terms)
        self.liked: dict[ShapeInfo, tuple[tuple[str, int], ...]] = {}  # caches of podaffinity for pairs of shapes
        self.kept_apart: dict[ShapeInfo, tuple[str, ...]] = {}
        self.mask: np.ndarray | None = None
        self.mask_version = -1
        self.size = (gpus, shape.cpu, shape.memory, gpu.memory_mib)


class ExpectedEnd(NamedTuple):
    """The expected end of a task in its place, by the answers in ``made_by`` and the job's records of that version."""

    made_by: object
    record_version: int
    at: float


class WTask:
    """A task with its present place. ``vacated``: the places from which it was evicted to be promised another one, in this
    order. First is its place in the cluster, if it has one; others are earlier promises of the cycle.
    """

    __slots__ = (
        "expected_end", "groups", "info", "job", "key", "node", "podset", "record", "status", "uid", "vacated", "virtual",
        "zones",
    )  # fmt: skip

    def __init__(self, record: Task, info: ShapeInfo, job: Job | None) -> None:
        self.record = record
        self.uid = record.uid
        self.info = info
        self.job = job
        self.podset: WPodSet | None = None
        self.status = record.status
        # A terminated pod still names its node but holds nothing there.
        self.node = record.node if ON_NODE[record.status] else ""
        self.groups = record.gpu_groups
        self.zones = record.numa_zones
        self.vacated: tuple[TaskPlace, ...] = ()
        self.virtual = False  # its state exists only in this cycle
        self.expected_end: ExpectedEnd | None = None
        self.key = self.natural_key()

    def natural_key(self) -> tuple[int, int, float, str]:
        """Sort key among the tasks of a pod set: labelled priority, age, UID."""
        record, priority = self.record, self.record.priority
        # KAI's TaskOrderFn: labelled pods first, by falling priority. Age and UID make the order total.
        labelled = (1, 0) if priority is None else (0, -priority)
        return (*labelled, record.created, record.uid)

    def __repr__(self) -> str:
        return f"<{self.record.namespace}/{self.record.name} {self.status.name} {self.node}>"


class WPodSet:
    """A leaf of the subgroup tree with up-to-date counts."""

    __slots__ = ("active", "alive", "constraint", "gated", "job", "minimum", "name", "parent", "tasks", "used")

    def __init__(self, record: PodSetRecord, job: Job, parent: WSubGroup) -> None:
        self.name = record.name
        self.minimum = record.min_available
        self.constraint = record.constraint
        self.job = job
        self.parent = parent
        self.tasks: dict[str, WTask] = {}
        self.active = 0  # KAI: active allocated
        self.used = 0  # active or leaving
        self.alive = 0
        self.gated = 0

    def count(self, status: Status, sign: int) -> None:
        if ACTIVE[status]:
            self.active += sign
        if ON_NODE[status]:
            self.used += sign
        if ALIVE[status]:
            self.alive += sign
        if status == Status.GATED:
            self.gated += sign

    def move(self, before: Status, status: Status) -> None:
        """``count`` for a task that changes from one status to another."""
        self.active += ACTIVE[status] - ACTIVE[before]
        self.used += ON_NODE[status] - ON_NODE[before]
        self.alive += ALIVE[status] - ALIVE[before]
        if status == Status.GATED:
            self.gated += 1
        if before == Status.GATED:
            self.gated -= 1

    @property
    def satisfied(self) -> bool:
        return self.active >= self.minimum

    @property
    def ready(self) -> bool:
        # Gated pods cannot be scheduled, so a gang that needs one of them has to wait.
        return self.alive - self.gated >= self.minimum

    @property
    def counts(self) -> tuple[int, int]:
        """(members placed, members needed)."""
        return self.active, self.minimum

    @property
    def podsets(self) -> list[WPodSet]:
        return [self]


class WSubGroup:
    """An inner node of the subgroup tree."""

    __slots__ = ("constraint", "members", "min_members", "name", "parent", "podsets")

    def __init__(self, record: SubGroup, job: Job, parent: WSubGroup | None = None) -> None:
        self.name = record.name
        self.constraint: Constraint | None = record.constraint
        self.min_members = record.min_members
        self.parent = parent
        groups = tuple(WSubGroup(group, job, self) for group in record.groups)
        podsets = tuple(WPodSet(podset, job, self) for podset in record.podsets)
        self.members: tuple[WSubGroup | WPodSet, ...] = groups + podsets
        # Most groups are one pod set, so this is usually the same tuple.
        self.podsets: tuple[WPodSet, ...] = (
            tuple(podset for member in self.members for podset in member.podsets) if groups else podsets
        )

    def tree(self) -> Iterator[Member]:
        """The group and its members on every level, each group before its own members."""
        yield self
        for member in self.members:
            if isinstance(member, WSubGroup):
                yield from member.tree()
            else:
                yield member

    @property
    def needed(self) -> int:
        return len(self.members) if self.min_members is None else self.min_members

    @property
    def placed(self) -> int:
        return sum(1 for member in self.members if member.satisfied)

    @property
    def satisfied(self) -> bool:
        return self.placed >= self.needed

    @property
    def ready(self) -> bool:
        members = self.members
        # Most groups are one pod set, and each job is checked first.
        if len(members) == 1 and self.min_members is None:
            return members[0].ready
        return sum(1 for member in members if member.ready) >= self.needed

    @property
    def counts(self) -> tuple[int, int]:
        return self.placed, self.needed


Member = WSubGroup | WPodSet


class ConfiguredOrder:
    """What all jobs of a working set are ranked by. ``ranking``: set while a cycle with a configured order runs."""

    __slots__ = ("ranking",)

    def __init__(self) -> None:
        self.ranking: JobRanking | None = None


_NO_TASKS: dict[str, WTask] = {}
"""Shared by all jobs without such tasks, so it stays empty."""


class Job:
    """A PodGroup with its tasks. ``podsets``: the leaves of ``root``; if there is one, its tasks are ``tasks`` itself. ``version`` grows with every
    change of a task, ``record_version`` with every change of its record and of those of its tasks; they are keys of caches.
    """

    __slots__ = (
        "allocated", "last_evicted", "last_start", "next_tasks", "next_tasks_version", "order", "pending", "podsets",
        "record", "record_version", "root", "succeeded", "tasks", "uid", "unassigned_tasks", "version",
    )  # fmt: skip

    def __init__(self, record: PodGroup, order: ConfiguredOrder) -> None:
        self.uid = record.uid
        self.order = order
        self.tasks: dict[str, WTask] = {}
        self.pending = 0
        self.succeeded = 0
        self.allocated = 0  # KAI: allocated (without pipelined)
        self.version = 0
        self.record_version = 0
        self.next_tasks: list[WTask] = []  # valid for ``next_tasks_version``, see ``order.tasks_to_allocate``
        self.next_tasks_version = -1
        self.last_start: float | None = None
        self.last_evicted: float | None = None
        self.unassigned_tasks = _NO_TASKS  # tasks that name an unknown subgroup
        self._set_record(record)

    def _set_record(self, record: PodGroup) -> None:
        self.record = record
        self.last_start = record.last_start
        self.last_evicted = record.last_evicted
        self.root = WSubGroup(record.root, self)
        self.podsets = self.root.podsets
        if len(self.podsets) == 1:
            self.podsets[0].tasks = self.tasks
        else:
            self.podsets = tuple({podset.name: podset for podset in self.podsets}.values())

    def update(self, record: PodGroup) -> None:
        """Take a changed record; the tasks stay."""
        same_tree = record.root == self.record.root
        # Usually a time or a status changed, and pod sets keep their counts.
        if same_tree:
            self.record = record
            self.last_start = record.last_start
            self.last_evicted = record.last_evicted
        else:
            # New pod sets count from zero, so every task is added again.
            tasks = list(self.tasks.values()) + list(self.unassigned_tasks.values())
            self.tasks, self.unassigned_tasks = {}, _NO_TASKS
            self.pending = self.succeeded = self.allocated = 0
            self._set_record(record)
            for task in tasks:
                self.add(task)
        self.version += 1

    def add(self, task: WTask) -> None:
        name = task.record.subgroup or "default"
        podset = next((podset for podset in self.podsets if podset.name == name), None)
        if podset is None:
            task.podset = None
            # The subgroup may come with a later record.
            if not self.unassigned_tasks:
                self.unassigned_tasks = {}
            self.unassigned_tasks[task.uid] = task
            self.version += 1
            return
        task.podset = podset
        self.tasks[task.uid] = task
        podset.tasks[task.uid] = task
        self.count(task, task.status, 1)

    def remove(self, task: WTask) -> None:
        if self.unassigned_tasks.pop(task.uid, None) is not None:
            return
        if self.tasks.pop(task.uid, None) is not None:
            assert task.podset is not None
            task.podset.tasks.pop(task.uid, None)  # gone already if they are the job's own
            self.count(task, task.status, -1)

    def count(self, task: WTask, status: Status, sign: int) -> None:
        assert task.podset is not None
        task.podset.count(status, sign)
        if status == Status.PENDING:
            self.pending += sign
        elif status == Status.SUCCEEDED:
            self.succeeded += sign
        if ALLOCATED[status]:
            self.allocated += sign
        self.version += 1

    def move(self, task: WTask, before: Status, status: Status) -> None:
        """``count`` for a task that changes from one status to another."""
        assert task.podset is not None
        task.podset.move(before, status)
        if before != status:
            self.pending += (status == Status.PENDING) - (before == Status.PENDING)
            self.succeeded += (status == Status.SUCCEEDED) - (before == Status.SUCCEEDED)
            self.allocated += ALLOCATED[status] - ALLOCATED[before]
        self.version += 1

    @property
    def active(self) -> int:
        return sum(podset.active for podset in self.podsets)

    @property
    def used(self) -> int:
        return sum(podset.used for podset in self.podsets)

    @property
    def elastic(self) -> bool:
        """True if some pod set has more tasks than its minimum."""
        # All pods count, running or not, as in KAI (IsElastic).
        return any(podset.minimum < len(podset.tasks) for podset in self.podsets)

    @property
    def gang_satisfied(self) -> bool:
        """Source: KAI IsGangSatisfied (leaving tasks still count)."""
        return all(podset.used >= podset.minimum for podset in self.podsets)

    @property
    def stale(self) -> bool:
        """True if only a part of the gang runs. A job with a succeeded pod is finishing, not stale."""
        return not self.succeeded and self.used > 0 and not self.gang_satisfied

    def delayed_until(self) -> float | None:
        """The end of the preemption delay, or None without one."""
        delay = self.record.preemption_delay
        if delay <= 0:
            return None
        # KAI's PreemptionDelayEnd: each eviction restarts the delay.
        anchor = self.record.created
        if self.last_evicted is not None and self.last_evicted > anchor:
            anchor = self.last_evicted
        return anchor + delay

    def order_key(self) -> tuple[Any, ...]:
        """Sort key among the jobs of a queue: priority; below, at or above its minimum; age; UID."""
        ranking = self.order.ranking
        if ranking is not None:
            return ranking.order_key(self)
        return self.kai_key(self.elastic_state())

    def kai_key(self, elastic_state: int) -> tuple[Any, ...]:
        """``order_key`` in KAI's order, for this ``elastic_state``."""
        return (-self.record.priority, elastic_state, self.record.created, self.uid)

    def victim_key(self) -> tuple[Any, ...]:
        """Sort key among the victims of a queue, the last of which go first. The same as ``order_key`` unless
        configured otherwise.
        """
        ranking = self.order.ranking
        if ranking is not None:
            return ranking.victim_key(self, self.elastic_state())
        return self.kai_key(self.elastic_state())

    @property
    def ranking(self) -> JobRanking | None:
        return self.order.ranking

    @property
    def by_name(self) -> bool:
        """True if its subgroups are ordered by name alone (KAI without its subgrouporder plugin)."""
        ranking = self.order.ranking
        return ranking is not None and not ranking.subgroup_order

    def elastic_state(self) -> int:
        """0: below its minimum, 1: at it, 2: above it."""
        state = 1
        for podset in self.podsets:
            if podset.active < podset.minimum:
                return 0
            if podset.active > podset.minimum:
                state = 2
        return state

    def __iter__(self) -> Iterator[WTask]:
        return iter(self.tasks.values())

    def __repr__(self) -> str:
        return f"<job {self.record.name}>"


Zones = tuple[ZoneShare, ...]
Situation = tuple[Status, str, tuple[str, ...], tuple[TaskPlace, ...], bool, Zones]


class JournalEntry(NamedTuple):
    """One change: a task and its state before. ``again``: the task was evicted a second time, which changed only its
    queue's account.
    """

    task: WTask
    before: Situation
    again: bool = False
