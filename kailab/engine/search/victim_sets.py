"""Sets of victims that might make room for a job, in the order in which they are tried.

Victims accumulate one unit at a time, the last in serving order first. After each unit, two generators propose subsets
of what has accumulated: *node local* (victims on one node of the newest victim) and, if none of those works, *multi
node* (victims of the k most promising nodes, where the steps of k double). KAI calls such a set a scenario. Source: KAI's scenario builder,
nodelocalgreedy and multinodegang plugins and the sub-scenario emitter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from kailab.engine.faults import COUNTED_TWICE, FLOAT_SUMS, SURPLUS_LEFT
from kailab.engine.queueing.jobqueue import JobQueue
from kailab.engine.queueing.victims import Victim
from kailab.engine.search.filters import Filters
from kailab.engine.search.search_goal import SearchGoal, VictimBatch
from kailab.engine.session import Session
from kailab.engine.snapshot.records import GPU
from kailab.engine.working.state import Job, WTask


class VictimSet(NamedTuple):
    """A set of victims for ``goal``. ``recorded``: victims of the last successful smaller try. ``extra``: victims added
    now.
    """

    goal: SearchGoal
    recorded: list[VictimBatch]
    extra: list[VictimBatch]

    def evictions(self) -> list[WTask]:
        """The victims in order; a recorded victim may occur a second time."""
        return [task for batch in (*self.recorded, *self.extra) for task in batch.tasks]

    def tasks(self) -> list[WTask]:
        """Each victim once."""
        return list({task.uid: task for task in self.evictions()}.values())

    def by_job(self) -> dict[str, tuple[Job, list[WTask]]]:
        """The victims by job. As in KAI's validators, a recorded victim that occurs again counts twice."""
        victims: dict[str, tuple[Job, list[WTask]]] = {}
        for batch in (*self.recorded, *self.extra):
            victims.setdefault(batch.job.uid, (batch.job, []))[1].extend(batch.tasks)
        return victims

    def fingerprint(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """A key that is equal for sets that evict the same tasks equally often."""
        return (
            tuple(sorted(task.uid for batch in self.recorded for task in batch.tasks)),
            tuple(sorted(task.uid for batch in self.extra for task in batch.tasks)),
        )


class VictimUnits:
    """The units of victims of one search in the order in which they go, without recorded ones. Tries with the same recorded victims, each of which
    begins in the same state, share it.
    """

    def __init__(self, session: Session, queue: JobQueue[Job | Victim], recorded: frozenset[str]) -> None:
        """``recorded``: the uids of the recorded victims."""
        self._session, self._queue, self._recorded = session, queue, recorded
        self._units: list[VictimBatch] = []

    def unit(self, number: int) -> VictimBatch | None:
        """The unit with this number, counted from 0 and asked for in turn; None if there are no more."""
        units = self._units
        if number == len(units):
            unit = self._next()
            if unit is None:
                return None
            units.append(unit)
        return units[number]

    def _next(self) -> VictimBatch | None:
        while not self._queue.empty:
            item = self._queue.pop()
            victim = item if isinstance(item, Victim) else Victim(item)
            tasks = victim.next()
            queue = self._session.queue_of(victim.job)
            assert queue is not None
            # A unit with a recorded victim is not new (KAI: addNextPotentialVictims). The rest of its job comes up once
            # more without these victims.
            if any(task.uid in self._recorded for task in tasks):
                rest = victim.without(self._recorded)
                if rest.count:
                    self._queue.push(queue, rest.key(), rest)
                continue
            # The rest returns to the order at its new position, because another queue may come next.
            more = victim is item or len(tasks) < self._session.active_tasks(victim.job)
            victim.drop(tasks)
            if victim.count and more:
                self._queue.push(queue, victim.key(), victim)
            return VictimBatch(victim.job, tasks)
        return None


class GatheredVictims:
    """The victims gathered so far for one goal."""

    def __init__(
        self,
        session: Session,
        goal: SearchGoal,
        recorded: list[VictimBatch],
        order: VictimUnits,
        on_advance: Callable[[], None],
    ) -> None:
        self.session = session
        self.goal = goal
        self.recorded = recorded
        self.batches: list[VictimBatch] = []
        self._order = order
        self._advanced = 0
        self._on_advance = on_advance
        self._filters = Filters(session, goal, recorded)
        self.jobs_on: dict[str, dict[str, None]] = {}  # node -> jobs with an added victim there, in order
        self._by_job: dict[str, list[list[WTask]]] = {}  # the units of each job
        if session.imitates(COUNTED_TWICE):  # KAI evicts recorded victims once more with the rest of their job
            for batch in recorded:
                self._by_job.setdefault(batch.job.uid, []).append(batch.tasks)

    @property
    def valid(self) -> bool:
        """True if the victims might suffice."""
        return self._filters.passes()

    def valid_with(self, victims: Iterable[tuple[str, int]]) -> bool:
        """``valid``, if only these victims had been gathered. ``victims``: the node and milli-GPU of each."""
        return self._filters.passes_with(victims)

    def advance(self) -> bool:
        """Add the next unit. Returns False if none is left."""
        self._on_advance()
        unit = self._order.unit(self._advanced)
        if unit is None:
            return False
        self._advanced += 1
        tasks = unit.tasks
        if tasks:
            self.batches.append(unit)
            uid = unit.job.uid
            self._by_job.setdefault(uid, []).append(tasks)
            for task in tasks:
                self.jobs_on.setdefault(task.node, {})[uid] = None
            # The filters check all gathered victims; the generators propose parts of them.
            self._filters.add(tasks)
        return True

    def victim_set(self, extra: list[VictimBatch]) -> VictimSet:
        """A set of gathered units."""
        order = self.session.map_order
        if order is not None:
            extra = [VictimBatch(unit.job, order.of(unit.tasks)) for unit in order.of(extra)]
        return VictimSet(self.goal, self._recorded_in_turn(), extra)

    def all_victims_of(self, uids: dict[str, None]) -> VictimSet:
        """The set of all gathered victims of these jobs."""
        order = self.session.map_order
        extra = []
        for uid in uids if order is None else order.of(uids):
            # The units of a job stay in order, but not the pods of a unit.
            units = self._by_job[uid] if order is None else [order.of(u) for u in self._by_job[uid]]
            extra.append(VictimBatch(self.session.jobs[uid], [task for unit in units for task in unit]))
        return VictimSet(self.goal, self._recorded_in_turn(), extra)

    def _recorded_in_turn(self) -> list[VictimBatch]:
        order = self.session.map_order
        if order is None:
            return self.recorded
        by_job: dict[str, list[VictimBatch]] = {}
        for unit in self.recorded:
            by_job.setdefault(unit.job.uid, []).append(unit)
        in_turn = [unit for units in order.of(by_job.values()) for unit in units]
        return [VictimBatch(unit.job, order.of(unit.tasks)) for unit in in_turn]


def node_local(gathered: GatheredVictims) -> Iterator[VictimSet]:
    """Victims with a pod on one node of the newest victim's job, node by node."""
    # The victims of the smaller try may suffice for the larger one.
    if gathered.valid and gathered.recorded:
        yield gathered.victim_set([])
    while gathered.advance():
        if not gathered.valid or not gathered.batches:
            continue
        newest = gathered.batches[-1].job
        # Only nodes of the newest victim, because subsets of the others were proposed before.
        nodes = sorted({task.node for task in newest if task.node})
        seen: set[frozenset[str]] = set()
        for node in nodes:
            jobs = gathered.jobs_on.get(node)
            if not jobs:
                continue
            chosen = gathered.all_victims_of(jobs)
            key = frozenset(task.uid for task in chosen.tasks())
            # A gang on two nodes is the same set from either node.
            if key not in seen:
                seen.add(key)
                yield chosen


def multi_node(gathered: GatheredVictims) -> Iterator[VictimSet]:
    """After each unit, victims of the smallest sets of nodes that could suffice, then of larger sets."""
    if gathered.valid:
        yield gathered.victim_set([])
    by_node = _VictimsByNode(gathered)
    while gathered.advance():
        if gathered.valid:
            if gathered.batches:
                yield from by_node.subsets()
            else:
                yield gathered.victim_set([])


class _VictimsByNode:
    """The gathered victims by node. Amounts in milli-GPU. Whoever simulates a set leaves the nodes as they were."""

    def __init__(self, gathered: GatheredVictims) -> None:
        session, goal, table = gathered.session, gathered.goal, gathered.session.table
        # With KAI's sums imitated: what is free on each node in GPUs, to which each victim adds its own in turn.
        self._floats = table.free_gpu_floats() if session.imitates(FLOAT_SUMS) else None
        self._accumulation = gathered
        self._added = 0
        self._batches: dict[str, list[int]] = {}  # node -> numbers of the batches with a task there, in order
        self._by_job: dict[str, list[int]] = {}
        self._several: set[str] = set()  # uids of jobs with more than one gathered batch
        self._free = table.free_gpu_vector()
        # Free once all gathered victims are gone; in GPUs with KAI's sums.
        self._capacity: dict[str, float] = {}
        self._wanted = session.gpus_needed(goal.tasks)
        # Held by victims of the smaller try, by node.
        self._recorded: dict[str, int] = {}
        for batch in gathered.recorded:
            for task in batch.tasks:
                self._recorded[task.node] = self._recorded.get(task.node, 0) + session.accepted(task)[2]
        # Nodes that the simulation may use for any subset.
        self._usable = goal.nodes.copy()
        for node in self._recorded:
            i = table.index.get(node)
            if i is not None:
                self._usable[i] = True
        # Free on nodes without gathered victims.
        self._baseline = int(self._free[self._usable].sum()) + sum(self._recorded.values())

    def _catch_up(self) -> None:
        session, batches = self._accumulation.session, self._accumulation.batches
        for number in range(self._added, len(batches)):
            batch = batches[number]
            numbers = self._by_job.setdefault(batch.job.uid, [])
            numbers.append(number)
            if len(numbers) > 1:
                self._several.add(batch.job.uid)
            for task in batch.tasks:
                if task.node not in self._batches:
                    self._begin(task.node)
                node_batches = self._batches[task.node]
                # Batches come in order, so checking the last is enough.
                if not node_batches or node_batches[-1] != number:
                    node_batches.append(number)
                self._capacity[task.node] += self._counted(session.accepted(task)[2])
        self._added = len(batches)

    def _begin(self, node: str) -> None:
        self._batches[node] = []
        recorded = self._recorded.get(node, 0)
        i = self._accumulation.session.table.index.get(node)
        free = 0 if i is None else int(self._free[i])
        if self._floats is None or i is None:
            self._capacity[node] = self._counted(recorded + free)
        else:
            self._capacity[node] = self._counted(recorded) + float(self._floats[i])
        self._baseline -= recorded + (free if i is not None and self._usable[i] else 0)

    def _counted(self, amount: int) -> float:
        """An amount of milli-GPU as ``_capacity`` counts it."""
        return amount if self._floats is None else amount / GPU

    def subsets(self) -> Iterator[VictimSet]:
        self._catch_up()
        accumulation, capacity = self._accumulation, self._capacity
        smallest = self._counted(min(self._wanted, default=0))
        # A node that could not take the smallest task even without these victims is useless.
        nodes = [node for node in self._batches if smallest <= 0 or capacity[node] >= smallest]
        # The smallest sufficient nodes first, so that few tasks are evicted; ties in the order of gathering (KAI:
        # sortViableCandidates).
        nodes.sort(key=capacity.__getitem__)
        # The shortage beyond what is free without these victims.
        missing = sum(self._wanted) - self._baseline
        k = _fewest_nodes(nodes, capacity, self._counted(missing))
        step = 1
        while k <= len(nodes):
            # Whole batches, including their tasks on other nodes, because a gang does not go in part.
            picked = sorted({number for node in nodes[:k] for number in self._batches[node]})
            yield accumulation.victim_set([accumulation.batches[number] for number in picked])
            with_surplus = self._with_surplus(picked)
            if with_surplus != picked and not accumulation.session.imitates(SURPLUS_LEFT):
                yield accumulation.victim_set([accumulation.batches[number] for number in with_surplus])
            if k == len(nodes):
                return
            k = min(k + step, len(nodes))
            # Growing steps keep the number of simulations logarithmic in the number of nodes.
            step *= 2

    def _with_surplus(self, picked: list[int]) -> list[int]:
        """Add the surplus that was gathered before the core of a job and runs elsewhere. If the core finds no other
        place, the surplus may be too small to keep running.
        """
        if not self._several:
            return picked
        batches = self._accumulation.batches
        chosen = set(picked)
        for uid in self._several:
            numbers = self._by_job[uid]
            # All of the job was gathered, so its last unit is the core.
            if numbers[-1] in chosen and sum(len(batches[n].tasks) for n in numbers) >= batches[numbers[-1]].job.active:
                chosen.update(numbers)
        return sorted(chosen)


def _fewest_nodes(nodes: list[str], capacity: dict[str, float], missing: float) -> int:
    if missing <= 0:
        return 0
    total: float = 0
    for count, node in enumerate(nodes, start=1):
        total += capacity[node]
        if total >= missing:
            return count
    # Not even all nodes suffice, so no subset is worth a simulation.
    return len(nodes) + 1
