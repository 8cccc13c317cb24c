"""A lab's moments from the cycles of kailab's engine: how each found the cluster, from its records, and what it decided."""

from __future__ import annotations

from kailab.engine.snapshot.counting import held_gpus, offered_gpus, smallest_device, wanted_gpus
from kailab.engine.snapshot.records import Node, PodGroup, Task
from kailab.errors import EvidenceError, InputError
from kailab.evidence import cycles as cycle_files
from kailab.evidence.canonical import rfc3339
from kailab.evidence.cycles import Cycle
from kailab.report.columns import Nodes, Pods, Queues, Seen
from kailab.report.form import NONE, OF_STATUS, Moment
from kailab.report.racks import Racks
from kailab.report.raw import CycleTexts, Texts


class CycleMoments:
    """Takes cycles in, one after the other. ``moments`` gets a moment of each."""

    def __init__(
        self, moments: list[Moment], pods: Pods, nodes: Nodes, queues: Queues, raw: Texts, opened: float
    ) -> None:
        self.taken = 0
        """So many cycles."""
        self.pods_told: set[int] = set()
        """Places of pods of which something was told since somebody emptied it."""
        self._moments = moments
        self._pods, self._nodes, self._queues = pods, nodes, queues
        self._raw, self._opened = raw, opened
        self._whole = cycle_files.Whole()
        self._groups: dict[str, PodGroup] = {}
        self._records: dict[str, Node] = {}
        self._held: dict[str, int] = {}
        self._smallest = 0
        self._order: list[str] = []

    def take(self, cycle: Cycle, racks: Racks) -> list[str]:
        """The next one. Gives the PodGroups that it left pending, by name. Raises EvidenceError for damaged cycles."""
        try:
            _, decisions = self._whole.take(cycle)
        except InputError as error:
            raise EvidenceError(f"{cycle_files.NAME}: {error}") from error
        self._take(cycle, self._raw.cycle(self.taken, cycle), racks)
        self.taken += 1
        # What a task counts for on its node is said when it is bound; its record says only what it asks for.
        self._held |= {bind.task: bind.amounts.gpu for bind in decisions.binds}
        return [self._name(one.podgroup) for one in decisions.pending]

    def _take(self, cycle: Cycle, texts: CycleTexts, racks: Racks) -> None:
        moment = len(self._moments)
        self._take_nodes(moment, cycle, texts.records("nodes"), racks)
        self._take_groups(cycle, texts.records("podgroups"))
        self._take_tasks(moment, cycle, texts.records("tasks"))
        self._pods.groups.end_of(moment)
        if cycle.queues:
            self._take_queues(moment, cycle, texts.queues())
        # Its line may be large: the decisions of it are what a reader looks for.
        ref = texts.decisions()
        t = round(cycle.now - self._opened, 6)
        self._moments.append(Moment(kind="cycle", number=cycle.number, t=t, time=rfc3339(cycle.now), ref=ref))

    def _take_nodes(self, moment: int, cycle: Cycle, first: int, racks: Racks) -> None:
        if cycle.changes.whole:
            self._records = {}
            self._nodes.keep_only(moment, {node.name for node in cycle.changes.set.nodes})
        for name in cycle.changes.removed.nodes:
            self._records.pop(name, None)
            self._nodes.gone(moment, name)
        for place, node in enumerate(cycle.changes.set.nodes):
            self._records[node.name] = node
            rack = racks.of(node.name, node.labels)
            self._nodes.put(moment, node.name, rack, offered_gpus(node), node.unavailable, first + place)
        if cycle.changes.set.nodes:
            self._smallest = smallest_device([node.gpu_memory_mib for node in self._records.values()])

    def _take_groups(self, cycle: Cycle, first: int) -> None:
        for place, group in enumerate(cycle.changes.set.podgroups):
            self._groups[group.uid] = group
            least = sum(podset.min_available for podset in group.root.podsets) or NONE
            self._pods.groups.place(f"{group.namespace}/{group.name}", group.queue, least, first + place)

    def _take_tasks(self, moment: int, cycle: Cycle, first: int) -> None:
        if cycle.changes.whole:
            there = {self._pods.by_identity(task.uid) for task in cycle.changes.set.tasks}
            self._pods.keep_only(moment, there)
            self.pods_told.update(range(len(self._pods.names)))
        for uid in cycle.changes.removed.tasks:
            if (gone := self._pods.by_identity(uid)) != NONE:
                self._pods.gone(moment, gone)
                self.pods_told.add(gone)
        for place, task in enumerate(cycle.changes.set.tasks):
            name = f"{task.namespace}/{task.name}"
            group = self._pods.groups.place(self._name(task.podgroup) if task.podgroup else name)
            self.pods_told.add(self._pods.put(moment, task.uid, name, group, self._seen(task), first + place))

    def _seen(self, task: Task) -> Seen:
        node = self._records.get(task.node)
        if node is None:
            milli = wanted_gpus(task.shape.gpu, self._smallest)
        else:
            held = self._held.get(task.uid)
            milli = held if held is not None else held_gpus(task.accepted or task.shape.gpu, node.gpu_memory_mib)
        return Seen(OF_STATUS[task.status], task.node, milli, " ".join(task.gpu_groups))

    def _take_queues(self, moment: int, cycle: Cycle, first: int) -> None:
        before, order = self._order, list[str]()
        for place, told in enumerate(cycle.queues):
            if isinstance(told, tuple):
                order += before[told[0] : told[0] + told[1]]
            else:
                order.append(told.name)
                self._queues.put(moment, told.name, told, first + place)
        self._queues.keep_only(moment, set(order))
        self._order = order

    def _name(self, uid: str) -> str:
        group = self._groups.get(uid)
        return uid if group is None else f"{group.namespace}/{group.name}"
