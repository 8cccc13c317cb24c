"""Changes of a random cluster between cycles: jobs that end, are deleted or scaled, nodes that go and come, queues whose
amounts change.

Each change is made once the cluster has settled, and it settles again under the same invariants. The changes follow
from the cluster's seed, so the same seed gives the same run.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TypeAlias

from msgspec import structs

from checks.case_input import ACTIVE, NOW, CaseInput
from checks.invariants import Decide, settle_violations
from checks.simulated_cluster import SimulatedCluster
from kailab.engine.snapshot.records import GPU, Node, PodGroup, Status, Task

MOST_ADDED = 3
CORDONED = "cordoned"

ChangeOf: TypeAlias = Callable[["ChangingCluster"], str]


class ChangingCluster:
    """A simulated cluster that is changed between cycles. ``made``: the changes so far, as text."""

    def __init__(self, case_input: CaseInput, chance: random.Random) -> None:
        self.table = SimulatedCluster(case_input)
        self.chance = chance
        self.made: list[str] = []
        self._gone: list[Node] = []  # nodes that may come back
        self._added = 0

    @property
    def case_input(self) -> CaseInput:
        """The present records but the tasks, which are in ``table``."""
        return self.table.case_input

    def change(self) -> str:
        """Make one change that is possible now. Returns it as text; empty if none is."""
        self._forget_deleted()
        kinds: list[ChangeOf] = list(CHANGES)
        self.chance.shuffle(kinds)
        for kind in kinds:
            text = kind(self)
            if text:
                self.made.append(text)
                return text
        return ""

    def run(self, decide: Decide, changes: int, most: int) -> list[str]:
        """Settle within ``most`` cycles, and again after each of so many changes. Returns the violations of the first
        run to a settled state that has any; each names the change before it.
        """
        for number in range(changes + 1):
            if number and not self.change():
                return []
            violations = settle_violations(self.table, decide, most)
            if violations:
                since = f"after change {number} ({self.made[-1]}), " if number else ""
                return [f"{since}{violation}" for violation in violations]
        return []

    # Jobs

    def end_job(self) -> str:
        """A job ends whose tasks all run: its tasks and its PodGroup are gone."""
        running = [group for group in self._jobs() if all(task.status in ACTIVE for task in self._tasks(group))]
        if not running:
            return ""
        group = self.chance.choice(running)
        self._remove(group)
        return f"{group.name} ends"

    def delete_job(self) -> str:
        """A job is deleted. Its running tasks leave until the next change; those that wait are gone at once."""
        jobs = self._jobs()
        if not jobs:
            return ""
        group = self.chance.choice(jobs)
        held = [task for task in self._tasks(group) if task.status in ACTIVE]
        if not held:
            self._remove(group)
            return f"{group.name} is deleted while it waits"
        for task in self._tasks(group):
            del self.table.tasks[task.uid]
        for task in held:
            self.table.tasks[task.uid] = structs.replace(task, status=Status.RELEASING)
        self._set(deleted_for_good=self.case_input.deleted_for_good | {group.uid})
        return f"{group.name} is deleted while it runs"

    def scale_up(self) -> str:
        """A job gets more tasks, like one that it has."""
        jobs = self._jobs()
        if not jobs:
            return ""
        group = self.chance.choice(jobs)
        like = self._tasks(group)[0]
        count = self.chance.randint(1, MOST_ADDED)
        for _ in range(count):
            self._added += 1
            uid = f"{group.uid}-added-{self._added}"
            self.table.tasks[uid] = structs.replace(_waiting(like), uid=uid, name=uid)
        return f"{group.name} gets {count} more tasks"

    def scale_down(self) -> str:
        """A job without subgroups loses its last tasks, at most down to its minimum."""
        scalable = []
        for group in self._jobs():
            if group.root.groups or len(group.root.podsets) != 1:
                continue
            surplus = len(self._tasks(group)) - group.root.podsets[0].min_available
            if surplus > 0:
                scalable.append((group, surplus))
        if not scalable:
            return ""
        group, surplus = self.chance.choice(scalable)
        count = self.chance.randint(1, surplus)
        for task in self._tasks(group)[-count:]:
            del self.table.tasks[task.uid]
        return f"{group.name} loses {count} tasks"

    # Nodes

    def cordon_node(self) -> str:
        """A node takes no more tasks, or does so again."""
        if not self.case_input.nodes:
            return ""
        node = self.chance.choice(self.case_input.nodes)
        unavailable = "" if node.unavailable else CORDONED
        self._set_nodes(
            [
                structs.replace(node, unavailable=unavailable) if other is node else other
                for other in self.case_input.nodes
            ]
        )
        return f"{node.name} is {'cordoned' if unavailable else 'uncordoned'}"

    def remove_node(self) -> str:
        """A node goes. Its tasks are created again and wait; those that were leaving it are gone."""
        if len(self.case_input.nodes) < 2:
            return ""
        node = self.chance.choice(self.case_input.nodes)
        for task in list(self.table.tasks.values()):
            if task.node != node.name:
                continue
            if task.podgroup in self.case_input.deleted_for_good or task.status == Status.STUCK_RELEASING:
                del self.table.tasks[task.uid]
            else:
                self.table.tasks[task.uid] = _waiting(task)
        self._gone.append(node)
        self._set_nodes([other for other in self.case_input.nodes if other is not node])
        return f"{node.name} goes"

    def bring_node(self) -> str:
        """A node that went comes back."""
        if not self._gone:
            return ""
        node = self._gone.pop(self.chance.randrange(len(self._gone)))
        self._set_nodes([*self.case_input.nodes, node])
        return f"{node.name} comes back"

    # Queues

    def change_queue(self) -> str:
        """A queue gets another quota of GPUs, or another over-quota weight."""
        queue = self.chance.choice(self.case_input.queues)
        gpu = structs.replace(
            queue.gpu, quota=self.chance.choice((-1, 0, GPU, 4 * GPU)), weight=self.chance.choice((0.0, 1.0, 2.0))
        )
        self._set(
            queues=tuple(
                structs.replace(other, gpu=gpu) if other is queue else other for other in self.case_input.queues
            )
        )
        return f"queue {queue.name} gets a quota of {gpu.quota / GPU:g} and weight {gpu.weight:g}"

    # The records

    def _jobs(self) -> list[PodGroup]:
        """Jobs with tasks that may be changed: none that is deleted, and none with resource claims or gates."""
        return [
            group
            for group in self.case_input.podgroups
            if group.uid not in self.case_input.deleted_for_good
            and (tasks := self._tasks(group))
            and all(
                not task.shape.claims and (task.status in ACTIVE or task.status == Status.PENDING) for task in tasks
            )
        ]

    def _tasks(self, group: PodGroup) -> list[Task]:
        return [task for task in self.table.tasks.values() if task.podgroup == group.uid]

    def _remove(self, group: PodGroup) -> None:
        for task in self._tasks(group):
            del self.table.tasks[task.uid]
        self._set(podgroups=tuple(other for other in self.case_input.podgroups if other is not group))

    def _forget_deleted(self) -> None:
        """Tasks of deleted jobs have left by the next change."""
        for group in [group for group in self.case_input.podgroups if group.uid in self.case_input.deleted_for_good]:
            self._remove(group)

    def _set(self, **fields: object) -> None:
        self.table.case_input = structs.replace(self.case_input, **fields)

    def _set_nodes(self, nodes: list[Node]) -> None:
        self._set(nodes=tuple(nodes))
        self.table.nodes = {node.name: node for node in nodes}


CHANGES: tuple[ChangeOf, ...] = (
    ChangingCluster.end_job,
    ChangingCluster.delete_job,
    ChangingCluster.scale_up,
    ChangingCluster.scale_down,
    ChangingCluster.cordon_node,
    ChangingCluster.remove_node,
    ChangingCluster.bring_node,
    ChangingCluster.change_queue,
)


def _waiting(task: Task) -> Task:
    return structs.replace(
        task, status=Status.PENDING, node="", gpu_groups=(), accepted=None, numa_zones=(), created=NOW
    )


def violations_of_changes(case_input: CaseInput, seed: int, changes: int, decide: Decide, most: int) -> list[str]:
    """The violations of a cluster that settles and then is changed so many times (``ChangingCluster.run``)."""
    return ChangingCluster(case_input, random.Random(f"changes {seed}")).run(decide, changes, most)
