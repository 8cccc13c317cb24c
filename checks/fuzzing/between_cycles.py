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

from checks.case_input import ACTIVE, CaseInput
from checks.cluster_changes import ClusterChange, forget_deleted, set_nodes, waiting
from checks.invariants import Decide, settle_violations
from checks.simulated_cluster import SimulatedCluster
from kailab.engine.snapshot.records import GPU, Node, PodGroup, Queue, Status, Task

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
        forget_deleted(self.table)
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
        ClusterChange(ended=(group.uid,)).make(self.table)
        return f"{group.name} ends"

    def delete_job(self) -> str:
        """A job is deleted. Its running tasks leave until the next change; those that wait are gone at once."""
        jobs = self._jobs()
        if not jobs:
            return ""
        group = self.chance.choice(jobs)
        ClusterChange(deleted=(group.uid,)).make(self.table)
        runs = group.uid in self.case_input.deleted_for_good
        return f"{group.name} is deleted while it {'runs' if runs else 'waits'}"

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
            self.table.tasks[uid] = structs.replace(waiting(like), uid=uid, name=uid)
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
        set_nodes(
            self.table,
            [
                structs.replace(node, unavailable=unavailable) if other is node else other
                for other in self.case_input.nodes
            ],
        )
        return f"{node.name} is {'cordoned' if unavailable else 'uncordoned'}"

    def remove_node(self) -> str:
        """A node goes. Its tasks are created again and wait; those that were leaving it are gone."""
        if len(self.case_input.nodes) < 2:
            return ""
        node = self.chance.choice(self.case_input.nodes)
        self._gone.append(node)
        ClusterChange(gone=(node.name,)).make(self.table)
        return f"{node.name} goes"

    def bring_node(self) -> str:
        """A node that went comes back."""
        if not self._gone:
            return ""
        node = self._gone.pop(self.chance.randrange(len(self._gone)))
        ClusterChange(back=(node,)).make(self.table)
        return f"{node.name} comes back"

    # Queues

    def change_queue(self) -> str:
        """A queue gets another quota of GPUs, or another over-quota weight."""
        queue = self.chance.choice(self.case_input.queues)
        changed = _with_other_amounts(queue, self.chance)
        ClusterChange(queues=(changed,)).make(self.table)
        return f"queue {queue.name} gets a quota of {changed.gpu.quota / GPU:g} and weight {changed.gpu.weight:g}"

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


def violations_of_changes(case_input: CaseInput, seed: int, changes: int, decide: Decide, most: int) -> list[str]:
    """The violations of a cluster that settles and then is changed so many times (``ChangingCluster.run``)."""
    return ChangingCluster(case_input, random.Random(f"changes {seed}")).run(decide, changes, most)


def _with_other_amounts(queue: Queue, chance: random.Random) -> Queue:
    gpu = structs.replace(queue.gpu, quota=chance.choice((-1, 0, GPU, 4 * GPU)), weight=chance.choice((0.0, 1.0, 2.0)))
    return structs.replace(queue, gpu=gpu)


def drawn_changes(case_input: CaseInput, seed: int, changes: int, apart: int) -> list[tuple[int, ClusterChange]]:
    """Changes that follow from the seed alone, not from what a scheduler has decided, so that two schedulers can be
    compared: each comes ``apart`` cycles after the last one.
    """
    chance = random.Random(f"drawn changes {seed}")
    jobs = [group.uid for group in case_input.podgroups]
    here, away = list(case_input.nodes), list[Node]()
    drawn: list[tuple[int, ClusterChange]] = []
    for number in range(1, changes + 1):
        possible = ["queue"] + ["ended", "deleted"] * bool(jobs) + ["gone"] * (len(here) > 1) + ["back"] * bool(away)
        kind = chance.choice(possible)
        if kind in ("ended", "deleted"):
            job = (jobs.pop(chance.randrange(len(jobs))),)
            change = ClusterChange(ended=job) if kind == "ended" else ClusterChange(deleted=job)
        elif kind == "gone":
            away.append(here.pop(chance.randrange(len(here))))
            change = ClusterChange(gone=(away[-1].name,))
        elif kind == "back":
            here.append(away.pop(chance.randrange(len(away))))
            change = ClusterChange(back=(here[-1],))
        else:
            change = ClusterChange(queues=(_with_other_amounts(chance.choice(case_input.queues), chance),))
        drawn.append((number * apart, change))
    return drawn
