"""Which nodes are in a topology domain that could take a task's group now, and what other domains lack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

from kailab.engine.placing.topology import TopologyError, TopologyPlan
from kailab.engine.queueing.order import tasks_to_allocate
from kailab.engine.session import Session
from kailab.engine.snapshot.amounts import resource_text
from kailab.engine.snapshot.records import Constraint
from kailab.engine.working.domains import Domain
from kailab.engine.working.layout import GPUS, PODS
from kailab.engine.working.state import Member, WTask

Rooms: TypeAlias = Mapping[Domain, tuple[int | None, np.ndarray | None]]
"""Domain -> how many pods fit, and its free resources; None: not counted."""


class DomainAnswers:
    """Topology answers to one task. ``masks``: for each constrained group of the task, from its own up, the nodes on
    which it may be tried.
    """

    def __init__(self, session: Session, task: WTask) -> None:
        self._session = session
        self._plan = TopologyPlan(session)
        self._answers: list[tuple[Constraint, np.ndarray, str, Sequence[WTask], Rooms]] = []
        job = task.job
        assert job is not None
        next_tasks = tasks_to_allocate(job)
        # A pod that is not among the job's next tasks is asked about alone.
        if not any(other is task for other in next_tasks):
            next_tasks = [task]
        member: Member | None = task.podset
        while member is not None:
            constraint = member.constraint
            if constraint is not None and constraint.topology:
                inside = set(member.podsets)
                # A constraint holds for all tasks of the group that are placed together.
                tasks = [other for other in next_tasks if other.podset in inside]
                mask, wrong = self._ask(member, tasks)
                # The counts are copied, because the next group counts the tree again with pods of another size.
                self._answers.append((constraint, mask, wrong, tasks, self._rooms(constraint)))
            member = member.parent

    def _ask(self, member: Member, tasks: list[WTask]) -> tuple[np.ndarray, str]:
        count = len(self._session.table)
        job = tasks[0].job
        assert job is not None
        podsets = [podset for podset in member.podsets if any(task.podset is podset for task in tasks)]
        mask = np.zeros(count, dtype=bool)
        try:
            subsets = self._plan.subsets(job, member, podsets, tasks, None, quiet=True)
        except TopologyError as error:
            return mask, str(error)
        for subset in subsets:
            mask |= np.ones(count, dtype=bool) if subset is None else subset
        return mask, ""

    @property
    def masks(self) -> list[np.ndarray]:
        return [mask for _, mask, *_ in self._answers]

    def text(self, i: int) -> str:
        """Why a node is not in a domain that could take the group."""
        for constraint, mask, wrong, tasks, rooms in self._answers:
            # The first constraint that rules the node out, from the task's own group upwards.
            if mask[i]:
                continue
            tree = self._plan.tree(constraint.topology)
            if tree is None:
                return f"topology {constraint.topology} does not exist"
            if wrong:
                return wrong
            if not tree.member[i]:
                missing = next(level for level in tree.levels if level not in self._session.table.labels[i])
                return f"not part of topology {constraint.topology}: no label {missing}"
            label = constraint.required or constraint.preferred
            level = tree.level_index(label)
            assert level is not None
            path = tuple(self._session.table.labels[i][key] for key in tree.levels[: level + 1])
            domain = tree.by_level[level][path]
            return self._lack(f"{label}={domain.id[-1]}", *rooms[domain], tasks)
        return ""

    def _rooms(self, constraint: Constraint) -> Rooms:
        tree = self._plan.tree(constraint.topology)
        level = None if tree is None else tree.level_index(constraint.required or constraint.preferred)
        if tree is None or level is None:
            return {}
        rooms = self._plan.rooms[constraint.topology]
        return {domain: (rooms.pods(domain), rooms.free(domain)) for domain in tree.by_level[level].values()}

    def _lack(self, where: str, pods: int | None, room: np.ndarray | None, tasks: Sequence[WTask]) -> str:
        # The domain has room, so the required level rules it out: pods of the group run elsewhere.
        if pods is not None and pods >= len(tasks):
            return f"{where} has room, but not the pods of its group that run"
        # Amounts are counted only in the lowest domain that contains all allowed nodes, and below it.
        if room is None:
            return f"{where} is not where the rest of its group may be"
        rows = {row for task in tasks for row, amount in task.info.needs if amount and row != PODS}
        wanted = {row: sum(task.info.rows[row] for task in tasks) for row in rows}
        if GPUS in wanted:
            wanted[GPUS] -= sum(self._session.table.claims.counted_twice(tasks))
        if not wanted:
            return f"{where} has room for {pods or 0} of the {len(tasks)} pods of its group"
        names = self._session.table.layout.names
        free = {row: max(0, int(room[row])) for row in rows}
        row = max(sorted(wanted), key=lambda row: wanted[row] / max(1, free[row]))
        amounts = (
            f"{names[row]}: {resource_text(names[row], free[row])} free, wants {resource_text(names[row], wanted[row])}"
        )
        if pods is None:
            return f"{where} has too little for its group ({amounts})"
        return f"{where} has room for {pods} of the {len(tasks)} pods of its group ({amounts})"
