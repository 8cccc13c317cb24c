"""The records of cycles as evidence keeps them: cut by the same rules as the objects that they were read from.

Records hold names, amounts, selectors, tolerations, labels of nodes, and a few sentences (why no node takes a pod). Labels that
nothing in the lab selects by are left out, which changes no decision. What was left out of objects is looked for in all other
text but names. Texts that were different stay different, so that nothing becomes equal that was not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import structs

from kailab.engine.decisions import Decisions
from kailab.engine.snapshot.changes import Changes
from kailab.engine.snapshot.records import Node, Shape, Task
from kailab.engine.snapshot.snapshot import Snapshot
from kailab.evidence.cycles import Cycle

T = TypeVar("T")


def names_in(cycles: Iterable[Cycle]) -> set[str]:
    """Names and UIDs of all records, and of the GPUs that pods share: they are no secrets, and are kept wherever they stand."""
    found: set[str] = set()
    for cycle in cycles:
        records = cycle.changes.set
        found.update(group for bind in cycle.decisions.binds for group in bind.gpu_groups)
        found.update(group for promise in cycle.decisions.pipelines for group in promise.gpu_groups)
        for task in records.tasks:
            found.update((task.uid, task.name, task.namespace, *task.gpu_groups))
        for group in records.podgroups:
            found.update((group.uid, group.name, group.namespace, group.queue))
        found.update(node.name for node in records.nodes)
        found.update(queue.name for queue in records.queues)
        found.update(topology.name for topology in records.topologies)
    return found


class RecordCutter:
    """``keeps_label``: whether evidence keeps a label, for nodes. ``scrubbed``: text without what is left out. ``cut``: the texts
    of records of which something was left out."""

    def __init__(self, keeps_label: Callable[[str], bool], scrubbed: Callable[[str], str]) -> None:
        self.cut: set[str] = set()
        self._keeps_label = keeps_label
        self._scrubbed = scrubbed
        self._unseen: list[Cycle] = []
        self._read: set[str] = set()  # label keys that records select by
        self._known: dict[str, str] = {}
        self._given: set[str] = set()  # what stands for a cut text already
        self._shapes: dict[int, Shape] = {}  # by identity: equal tasks share one shape

    def cycles(self, cycles: Sequence[Cycle]) -> Iterator[Cycle]:
        self.look_at(cycles)
        for cycle in cycles:
            yield self._cycle(cycle)

    def look_at(self, cycles: Sequence[Cycle]) -> None:
        """All cycles, before any is cut: a task that comes later may select by a label of a node that came first."""
        self._unseen += cycles

    def record(self, record: Any) -> Any:
        """One record of any kind."""
        self._see()
        if isinstance(record, Node):
            return self._node(record)
        return self._task(record) if isinstance(record, Task) else record

    def decisions(self, decisions: Decisions) -> Decisions:
        """What a cycle decided, but for what waits."""
        # Binds and promises hold names, amounts and codes only; sentences are in evictions and reasons to wait.
        return structs.replace(decisions, evictions=_mapped(decisions.evictions, self._text))

    def _see(self) -> None:
        # Only when something is to be cut: there may be very many records.
        while self._unseen:
            _selecting(self._unseen.pop().changes.set, self._read)

    def _cycle(self, cycle: Cycle) -> Cycle:
        self._see()
        return structs.replace(
            cycle,
            changes=self._changes(cycle.changes),
            decisions=self.decisions(cycle.decisions),
            pending=_mapped(cycle.pending, self._text),
        )

    def _changes(self, changes: Changes) -> Changes:
        records = changes.set
        # Only in these may something have to be cut; queues, PodGroups and topologies are names and amounts.
        if not (records.nodes or records.tasks or records.claims):
            return changes
        kept = Snapshot(
            nodes=tuple(self._node(node) for node in records.nodes),
            queues=records.queues,
            podgroups=records.podgroups,
            tasks=tuple(self._task(task) for task in records.tasks),
            topologies=records.topologies,
            claims=_mapped(records.claims, self._record_text),
        )
        return structs.replace(changes, set=kept)

    def _node(self, node: Node) -> Node:
        labels = tuple(pair for pair in node.labels if pair[0] in self._read or self._keeps_label(pair[0]))
        return _mapped(structs.replace(node, labels=labels), self._record_text)

    def _task(self, task: Task) -> Task:
        shape = self._shapes.get(id(task.shape))
        if shape is None:
            shape = self._shapes[id(task.shape)] = _mapped(task.shape, self._record_text)
        return task if shape is task.shape else structs.replace(task, shape=shape)

    def _record_text(self, text: str) -> str:
        new = self._text(text)
        # Counted in records only: they are what is decided on. A sentence that was cut can't change a decision.
        if new is not text:
            self.cut.add(text)
        return new

    def _text(self, text: str) -> str:
        new = self._known.get(text)
        if new is None:
            new = self._scrubbed(text)
            if new != text:
                plain, number = new, 1
                # Two texts that became equal could make two selectors or devices equal, and so change what is decided.
                while new in self._given:
                    number += 1
                    new = f"{plain} ({number})"
                self._given.add(new)
            else:
                new = text
            self._known[text] = new
        return text if new == text else new


def _selecting(records: Snapshot, keys: set[str]) -> None:
    """Label keys by which shapes and topologies look at nodes."""
    for topology in records.topologies:
        keys.update(topology.levels)
    for shape in {id(task.shape): task.shape for task in records.tasks}.values():
        needs = [*shape.selector, *(need for term in shape.terms for need in term.requirements)]
        needs += (need for term in shape.preferred for need in term.requirements)
        keys.update(need.key for need in needs)
        keys.update(term.topology_key for term in (*shape.affinity, *shape.anti_affinity))


def _mapped(value: T, text: Callable[[str], str]) -> T:
    """The same with every text in it replaced, but for keys; itself where nothing was."""
    new: Any = value
    if isinstance(value, str):
        new = text(value) if type(value) is str else value  # codes of an enumeration are no free text
    elif isinstance(value, msgspec.Struct):
        changed = {}
        for name in value.__struct_fields__:
            before = getattr(value, name)
            after = _mapped(before, text)
            if after is not before:
                changed[name] = after
        new = structs.replace(value, **changed) if changed else value
    elif isinstance(value, tuple):
        items = [_mapped(one, text) for one in value]
        if any(a is not b for a, b in zip(items, value)):
            # A named tuple is made by its fields, a plain one from a list.
            make: Any = getattr(type(value), "_make", tuple)
            new = make(items)
    elif isinstance(value, list):
        items = [_mapped(one, text) for one in value]
        new = items if any(a is not b for a, b in zip(items, value)) else value
    elif isinstance(value, Mapping):
        kept = {key: _mapped(one, text) for key, one in value.items()}
        new = kept if any(kept[key] is not one for key, one in value.items()) else value
    return new
