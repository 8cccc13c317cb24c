"""Proofs that no set of victims can help.

Once a search has cost some effort, four bounds are checked, each a necessary condition for any solution:

- *taking*: how much GPU the queue rules let a reclaimer take, at most, from each part of the tree, plus what is free;
- *room*: with every allowed victim gone, how many pods of each shape fit on each node: enough in all (beside the
  victims, if these are only moved), enough in one domain of a required topology level, and enough domains if pods of
  the job keep each other apart;
- *reach*: these nodes must be ones to which the shape may go at all;
- *turns*: if all allowed victims are pods of the job's own shape, at least one of them must be served after the job.

A job that violates a bound cannot be helped by any eviction; otherwise the search continues. Because the bounds are
necessary conditions, they change only the run time, not a decision.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import ceil, inf

import numpy as np

from kailab.engine.placing import node_capacity
from kailab.engine.placing.podaffinity import holder_of_port, selects
from kailab.engine.search.reclaimable import Demand
from kailab.engine.search.victims_first import VictimsFirstBound
from kailab.engine.session import Session
from kailab.engine.snapshot.records import ACTIVE, GPU
from kailab.engine.working.jobindex import Entry
from kailab.engine.working.layout import GPUS
from kailab.engine.working.queues import WQueue
from kailab.engine.working.state import Job, Member, ShapeInfo, WSubGroup, WTask

JobFilter = Callable[[Job], bool]
_ROUNDING = 1e-6
"""What sums of portions of devices may be too large by."""


@dataclass(frozen=True)
class SearchBounds:
    """The bounds of one search: for all ``tasks`` of a job, with victims that ``pick`` allows in ``queues``; all of
    these are in ``lists``, by queue and in order, or among all possible victims if that is None. ``wanted``: for
    reclaim, whose queue rules then apply. ``all_stay``: every victim has to find another place. ``wordless``: nobody reads which bound is
    violated.
    """

    session: Session
    job: Job
    pick: JobFilter
    queues: list[WQueue]
    lists: Mapping[str, list[Entry]] | None
    wanted: Demand | None = None
    all_stay: bool = False
    wordless: bool = False

    def in_order(self, queue: WQueue) -> list[Entry]:
        """The jobs of a queue that may be victims if ``pick`` allows them, in order."""
        lists = self.session.victims.lists if self.lists is None else self.lists
        return lists.get(queue.name, [])

    def _in_any_order(self, queue: WQueue) -> Iterator[Job]:
        if self.lists is not None:
            yield from (job for _, job in self.in_order(queue))
            return
        # Not sorted, because a policy is called for each job that is.
        for job in self.session.victims.members(queue.name):
            # A job that gets places later in this cycle counts to a policy as it was when a search first considered it.
            if job.pending:
                job.victim_key()
            yield job

    def broken(self, tasks: list[WTask]) -> str | None:
        """The violated bound as text, or None if a solution is possible."""
        if self.wordless:
            return "a bound is violated" if self.any_broken(tasks) else None
        victims = self._victims()
        freed = self._freed_devices(victims)
        return (
            self._taking(tasks, victims, freed)
            or self._room(self.job, tasks, victims, freed)
            or self._turns(tasks, victims)
        )

    def any_broken(self, tasks: list[WTask]) -> bool:
        """True if a bound is violated, whichever."""
        victims = self._victims()
        freed = self._freed_devices(victims)
        # What is violated most often comes first.
        return bool(
            self._room(self.job, tasks, victims, freed)
            or self._taking(tasks, victims, freed)
            or self._return(tasks, victims)
        )

    def _victims(self) -> list[Job]:
        return [
            victim
            for queue in self.queues
            for victim in self._in_any_order(queue)
            if victim is not self.job and self.pick(victim)
        ]

    # Taking

    def _taking(self, tasks: list[WTask], victims: list[Job], freed: Mapping[int, int]) -> str | None:
        """Applies only if GPU alone can exceed its share: then each part of the tree yields until it is down to its
        bound. ``freed``: see ``_freed_devices``.
        """
        session, tree, wanted = self.session, self.session.tree, self.wanted
        if (
            wanted is None
            or wanted.amounts[2] <= 0
            # These count differently from node to node, so a sum of whole devices is no upper bound.
            or any(
                task.info.shape.gpu.shared or task.info.shape.gpu.by_profile or task.info.shape.claims for task in tasks
            )
        ):
            return None
        parts: dict[WQueue, list[Job]] = {}
        for victim in victims:
            queue = session.queue_of(victim)
            if queue is not None:
                parts.setdefault(tree.diverging_ancestors(wanted.queue, queue)[1], []).append(victim)
        table = session.table
        free = int(np.maximum(table.idle[GPUS] + table.releasing[GPUS], 0).sum())
        free += GPU * sum(freed.values())
        takeable: float = 0
        for part, jobs in parts.items():
            held = sum(session.accepted(task)[2] for job in jobs for task in job if ACTIVE[task.status])
            # No more than the allowed victims hold, whatever the rules permit.
            takeable += min(held, self._from(part, jobs))
        if free + takeable >= wanted.amounts[2]:
            return None
        return (
            f"it wants {wanted.amounts[2] / GPU:g} GPUs; {free / GPU:g} are free, and the queues it may reclaim from give up "
            f"{takeable / GPU:g} at the most"
        )

    def _from(self, part: WQueue, jobs: list[Job]) -> float:
        """The most GPU that may be taken below ``part``: units are taken while it is above its bound, and the last one
        may overshoot.
        """
        if any(part.allocated[r] > part.allocatable[r] or part.allocated[r] > part.quota[r] for r in (0, 1)):
            return inf  # an excess of CPU or memory may justify more
        # Either rule may justify taking, so the lower bound counts.
        bound = min(part.allocatable[2], part.quota[2])
        surplus = part.allocated[2] - bound
        if surplus <= 0:
            return 0
        largest = max((_largest_unit(self.session, job) for job in jobs), default=0)
        smallest = min((_smallest_task(self.session, job) for job in jobs), default=0)
        # With equal units, exactly as many go as bring the part down to its bound.
        if largest == smallest > 0:
            return -(-int(surplus) // largest) * largest
        return surplus + largest

    # Turns

    def _return(self, tasks: list[WTask], victims: list[Job]) -> bool:
        """The bound of ``_turns``, and one for victims of unlike shapes that has no sentence."""
        self.session.working.order_read = True
        pods, bound = _active_pods(victims), VictimsFirstBound(self.session, self.job)
        return bound.rules_out(tasks, pods) or bound.leaves_too_little(tasks, pods)

    def _turns(self, tasks: list[WTask], victims: list[Job]) -> str | None:
        self.session.working.order_read = True
        pods = _active_pods(victims)
        if not VictimsFirstBound(self.session, self.job).rules_out(tasks, pods):
            return None
        return f"the {len(pods)} pods that could go have their turn before it, and would take their places again"

    # Room

    def _room(self, job: Job, tasks: list[WTask], victims: list[Job], freed: Mapping[int, int]) -> str | None:
        table = self.session.table
        # Not below zero, an upper bound for a node that has shrunk and holds more than it has.
        pool = np.maximum(table.free, 0)
        homes: dict[ShapeInfo, list[int]] = {}
        for victim in victims:
            for task in victim:
                i = table.index.get(task.node)
                if i is not None and ACTIVE[task.status]:
                    homes.setdefault(task.info, []).append(i)
        leaving = {info: np.bincount(nodes, minlength=len(table)) for info, nodes in homes.items()}
        for info, numbers in leaving.items():
            for row, amount in info.needs:
                pool[row] += numbers * amount
        # A whole GPU needs a device that nobody shares any more. For shares it is an upper bound that each device is free.
        whole = pool.copy()
        for home, devices in freed.items():
            whole[GPUS, home] += GPU * devices
        for home, shared in table.shared.items():
            pool[GPUS, home] += GPU * len(shared.groups)
        by_shape: dict[int, list[WTask]] = {}
        for task in tasks:
            by_shape.setdefault(id(task.info), []).append(task)
        for same in by_shape.values():
            info = same[0].info
            # Room for these depends on more than amounts: on other pods, and claims.
            if info.shape.affinity or info.shape.claims:
                continue
            # Of shares it is an upper bound, because those that stay count as gone.
            room = pool if info.shape.gpu.shared else whole
            fitting = node_capacity.shares_per_node if info.shape.gpu.shared else node_capacity.pods_per_node
            counts = fitting(self.session, info, room)
            if info.shape.ports and self.session.config.predicates:
                self._keep_free_ports(info, victims, counts)
            short = self._apart(info, same, counts) or self._inside(job, same, counts)
            if short is not None:
                return short
            places = int(counts.sum())
            if places < len(same):
                return f"even with every possible victim gone there is room for {places} of its {len(same)} pods"
            # One more victim frees no more room than it takes again, so the bound for all victims holds for fewer. Of victims on
            # nodes to which the job may not go, whose room does not count, some may stay where they are.
            if self.all_stay:
                mine = node_capacity.allowed_nodes(self.session, info)
                beside = Counter({other: int(numbers[mine].sum()) for other, numbers in leaving.items()})
                devices = 0 if info.shape.gpu.shared else self._devices_for_shares(info, beside, freed)
                places = node_capacity.places_beside(self.session, info, room, beside, devices)
                if places < len(same):
                    return f"with every possible victim moved there is room for {places} of its {len(same)} pods"
        return None

    def _freed_devices(self, victims: list[Job]) -> dict[int, int]:
        """How many shared devices of each node (by its place in the table) become whole if all victims go, of those that
        do not count as free yet.
        """
        table = self.session.table
        if not table.shared:
            return {}
        going: Counter[tuple[int, str]] = Counter()
        for victim in victims:
            for task in victim:
                i = table.index.get(task.node)
                if i is not None and ACTIVE[task.status]:
                    going.update((i, name) for name in task.groups)
        freed: dict[int, int] = {}
        for home, shared in table.shared.items():
            for name, group in shared.groups.items():
                staying = group.holders - group.leaving + group.waiting - going[home, name]
                if staying <= 0:
                    freed[home] = freed.get(home, 0) - sum(group.pools())
        return freed

    def _devices_for_shares(self, info: ShapeInfo, victims: Counter[ShapeInfo], freed: Mapping[int, int]) -> int:
        """How many devices of the nodes to which a shape may go are shared by victims on them, at least, whichever of these are placed
        again, of the devices that would be whole without victims. ``victims``: how many there are of each shape.
        ``freed``: see ``_freed_devices``.
        """
        session, table = self.session, self.session.table
        mine = node_capacity.allowed_nodes(session, info)
        portions = sum(
            number * node_capacity.least_portion(session, other)
            for other, number in victims.items()
            if other.shape.gpu.shared and node_capacity.goes_only_to(session, other, mine)
        )
        # As if whatever stays on a device that does not become whole held nothing of it, so that a victim's share has room there.
        for home, shared in table.shared.items():
            if mine[home]:
                portions -= len(shared.groups) - freed.get(home, 0)
        return max(0, ceil(portions - _ROUNDING))

    def _keep_free_ports(self, info: ShapeInfo, victims: list[Job], counts: np.ndarray) -> None:
        """Lower the counts to one pod for each node, and to none where a pod that can't be a victim holds a host port."""
        going = {task.uid for victim in victims for task in victim if ACTIVE[task.status]}
        np.minimum(counts, 1, out=counts)
        for i in np.flatnonzero(counts):
            if holder_of_port(self.session.table, info.shape, int(i), going) is not None:
                counts[i] = 0

    def _apart(self, info: ShapeInfo, same: list[WTask], counts: np.ndarray) -> str | None:
        """Pods that keep their own kind away need a domain each."""
        if not self.session.config.predicates:
            return None
        for term in info.shape.anti_affinity:
            if term.weight or not selects(term, info.shape):
                continue
            column, _ = self.session.table.column(term.topology_key)
            domains = np.unique(column[(counts > 0) & (column >= 0)])
            # Nodes without the label are in no domain, so the term does not apply there.
            loose = int(np.minimum(counts[column < 0], len(same)).sum())
            if len(domains) + loose < len(same):
                return (
                    f"its {len(same)} pods keep each other out of a {term.topology_key}, and there are {len(domains)} "
                    "where one could go"
                )
        return None

    def _inside(self, job: Job, same: list[WTask], counts: np.ndarray) -> str | None:
        """A required level must have one domain for all pods of the group."""
        for group in _confined(job.root):
            constraint = group.constraint
            assert constraint is not None
            topology = self.session.working.topologies.get(constraint.topology)
            if topology is None or constraint.required not in topology.levels:
                continue
            inside = set(group.podsets)
            pods = sum(1 for task in same if task.podset in inside)
            if not pods:
                continue
            # Pods of other shapes in the group only take more room, so leaving them out keeps the condition necessary.
            tree = self.session.working.domain_tree(topology)
            level = tree.level_index(constraint.required)
            assert level is not None
            best = max((int(counts[d.nodes].sum()) for d in tree.by_level[level].values()), default=0)
            if best < pods:
                return (
                    f"its {pods} pods must share one {constraint.required}; with every possible victim gone the best one has "
                    f"room for {best}"
                )
        return None


def _active_pods(jobs: list[Job]) -> list[WTask]:
    return [task for job in jobs for task in job if ACTIVE[task.status]]


def _confined(group: WSubGroup) -> list[Member]:
    """The group and those of its members on every level that must stay in one domain."""
    return [member for member in group.tree() if member.constraint is not None and member.constraint.required]


def _largest_unit(session: Session, job: Job) -> int:
    """The most GPU in one unit: the core of the job, or a surplus pod."""
    return sum(session.accepted(task)[2] for task in job if ACTIVE[task.status])


def _smallest_task(session: Session, job: Job) -> int:
    amounts = [session.accepted(task)[2] for task in job if ACTIVE[task.status]]
    # Only a job of one task is certainly one unit; -1 matches no unit, and so excludes the exact count.
    return min(amounts) if len(amounts) == 1 else -1
