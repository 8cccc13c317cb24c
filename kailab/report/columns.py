"""Columns of pods, PodGroups, nodes and queues: for each item, its changes and the moments at which they happened.

``UndoLog`` records changes that are valid only for the present moment of a running lab, and undoes them before the next
moment is added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from kailab.engine.decisions import QueueState
from kailab.report.page_data import NONE, STATES, GroupForm, NodeForm, PodForm, QueueForm
from kailab.report.racks import NodePlace

_ABSENT: Any = object()


class UndoLog:
    """Records changes from ``begin`` on, so that ``back`` can undo them. Before ``begin`` it only applies them."""

    def __init__(self) -> None:
        self._noted: list[Callable[[], object]] | None = None

    def begin(self) -> None:
        self._noted = []

    def back(self) -> None:
        """Restore the state at ``begin``."""
        for undo in reversed(self._noted or ()):
            undo()
        self._noted = None

    def append(self, items: list[Any], value: Any) -> None:
        items.append(value)
        if self._noted is not None:
            self._noted.append(items.pop)

    def put(self, items: Any, key: Any, value: Any) -> None:
        """Set an item of a list or a dict."""
        if self._noted is not None:
            before = items.get(key, _ABSENT) if isinstance(items, dict) else items[key]
            self._noted.append(lambda: items.pop(key, None) if before is _ABSENT else items.__setitem__(key, before))
        items[key] = value

    def drop(self, items: dict[Any, Any], key: Any) -> None:
        """Remove an existing item of a dict."""
        before = items.pop(key)
        if self._noted is not None:
            self._noted.append(lambda: items.__setitem__(key, before))

    def set(self, of: Any, name: str, value: Any) -> None:
        if self._noted is not None:
            before = getattr(of, name)
            self._noted.append(lambda: setattr(of, name, before))
        setattr(of, name, value)


_STATE = {name: index for index, name in enumerate(STATES)}
_WAITS, _PROMISED, _PLACED, _LEAVES = range(4)
_COUNTED = {
    "waits": _WAITS,
    "gated": _WAITS,
    "promised": _PROMISED,
    "starts": _PLACED,
    "runs": _PLACED,
    "leaves": _LEAVES,
}


class PodState(NamedTuple):
    """A pod at a moment. ``state``: of ``STATES``. ``node``: where it is or has a promised place. ``shared``: device
    group."""

    state: str
    node: str
    milli: int
    shared: str = ""


class QueueColumns:
    """Queues. ``touched``: indices of items changed since the set was last cleared."""

    def __init__(self, holds: UndoLog) -> None:
        self.form = QueueForm()
        self.touched: set[int] = set()
        self._holds = holds
        self._indices: dict[str, int] = {}

    def add(self, name: str) -> int:
        """The index of a queue, which is added if it is new; NONE for an empty name."""
        if not name:
            return NONE
        index = self._indices.get(name)
        if index is None:
            index = len(self.form.name)
            self._holds.put(self._indices, name, index)
            self._holds.append(self.form.name, name)
            self._holds.append(self.form.changes, [])
            self.touched.add(index)
        return index

    def put(self, moment: int, name: str, state: QueueState | dict[str, Any], ref: int) -> None:
        index = self.add(name)
        changes = self.form.changes[index]
        if not changes or changes[-1][1] != state:
            borrowed = (
                [state.gpu.borrowed, state.cpu.borrowed, state.memory.borrowed] if isinstance(state, QueueState) else []
            )
            self._holds.append(changes, (moment, state, ref, borrowed))
            self.touched.add(index)

    def keep_only(self, moment: int, names: set[str]) -> None:
        """Mark all other queues as gone."""
        for name, index in self._indices.items():
            changes = self.form.changes[index]
            if name not in names and changes and changes[-1][1] is not None:
                self._holds.append(changes, (moment, None, NONE, []))
                self.touched.add(index)


class NodeColumns:
    """Nodes. ``touched``: as in ``QueueColumns``."""

    def __init__(self, holds: UndoLog) -> None:
        self.form = NodeForm()
        self.touched: set[int] = set()
        self._holds = holds
        self._indices: dict[str, int] = {}
        self._racks: dict[str, int] = {}
        self._models: dict[str, int] = {}

    def index_of(self, name: str) -> int:
        return self._indices.get(name, NONE)

    def put(self, moment: int, name: str, place: NodePlace, milli: int, unavailable: str, ref: int) -> int:
        """Record a node and return its index. ``place``: counts when the node is new."""
        index = self._indices.get(name)
        if index is None:
            index = len(self.form.name)
            self._holds.put(self._indices, name, index)
            self._holds.append(self.form.name, name)
            self._holds.append(self.form.changes, [])
            for names, indices, column, value in (
                (self.form.racks, self._racks, self.form.rack, place.rack),
                (self.form.models, self._models, self.form.model, place.model),
            ):
                if value not in indices:
                    self._holds.put(indices, value, len(names))
                    self._holds.append(names, value)
                self._holds.append(column, indices[value])
        changes = self.form.changes[index]
        if not changes or changes[-1][1:3] != (milli, unavailable):
            self._holds.append(changes, (moment, milli, unavailable, ref))
            self.touched.add(index)
        return index

    def mark_gone(self, moment: int, name: str) -> None:
        index = self._indices.get(name)
        if index is not None and self.form.changes[index][-1][1] != NONE:
            self._holds.append(self.form.changes[index], (moment, NONE, "", NONE))
            self.touched.add(index)

    def keep_only(self, moment: int, names: set[str]) -> None:
        for name in self._indices:
            if name not in names:
                self.mark_gone(moment, name)


class GroupColumns:
    """PodGroups by name, with the number of their pods by state. ``end_of`` records the counts once for each moment."""

    def __init__(self, queues: QueueColumns, holds: UndoLog) -> None:
        self.form = GroupForm()
        self.touched: set[int] = set()
        self._queues, self._holds = queues, holds
        self._indices: dict[str, int] = {}
        self._counts: list[list[int]] = []
        self._counted: set[int] = set()

    def put(self, name: str, queue: str = "", members: int = NONE, ref: int = NONE) -> int:
        """Record a PodGroup and return its index. Given values replace known ones."""
        form, index = self.form, self._indices.get(name)
        if index is None:
            index = len(form.name)
            self._holds.put(self._indices, name, index)
            for column, value in (
                (form.name, name), (form.queue, NONE), (form.workload, ""), (form.members, NONE), (form.ref, NONE),
                (form.counts, []), (self._counts, [0, 0, 0, 0]),
            ):  # fmt: skip
                self._holds.append(column, value)
            self.touched.add(index)
        if queue:
            self._set(form.queue, index, self._queues.add(queue))
        if members != NONE:
            self._set(form.members, index, members)
        if ref != NONE:
            self._set(form.ref, index, ref)
        return index

    def index_of(self, name: str) -> int:
        """The index of a known PodGroup, or NONE."""
        return self._indices.get(name, NONE)

    def _set(self, column: list[int], index: int, value: int) -> None:
        if column[index] != value:
            self._holds.put(column, index, value)
            self.touched.add(index)

    def count(self, group: int, state: str, by: int) -> None:
        """Change the number of its pods in a state."""
        if state in _COUNTED:
            kind = _COUNTED[state]
            self._holds.put(self._counts[group], kind, self._counts[group][kind] + by)
            self._counted.add(group)

    def end_of(self, moment: int) -> None:
        """Record the counts of a complete moment."""
        for group in sorted(self._counted):
            now = tuple(self._counts[group])
            before = self.form.counts[group]
            if (before[-1][1:] if before else (0, 0, 0, 0)) != now:
                self._holds.append(before, (moment, *now))
                self.touched.add(group)
        self._counted.clear()


class PodColumns:
    """Pods by an identity (the UID if known). ``touched``: as in ``QueueColumns``."""

    def __init__(self, groups: GroupColumns, nodes: NodeColumns, holds: UndoLog) -> None:
        self.groups = groups
        self.touched: set[int] = set()
        self.names: list[str] = []
        self._nodes, self._holds = nodes, holds
        self._identities: list[str] = []
        self._group: list[int] = []
        self._seen: list[list[tuple[int, PodState, int]]] = []
        self._by_identity: dict[str, int] = {}
        self._by_name: dict[str, int] = {}
        self._sharing: dict[str, int] = {}

    def index_of(self, name: str) -> int:
        """The index of the latest pod with this name."""
        return self._by_name.get(name, NONE)

    def put(self, moment: int, identity: str, name: str, group: int, seen: PodState, ref: int) -> int:
        """Record a pod and return its index."""
        holds, index = self._holds, self._by_identity.get(identity)
        if index is None:
            index = len(self.names)
            holds.put(self._by_identity, identity, index)
            for column, value in (
                (self.names, name), (self._identities, identity), (self._group, group), (self._seen, []),
            ):  # fmt: skip
                holds.append(column, value)
        before = self._by_name.get(name, NONE)
        if before != index:
            holds.put(self._by_name, name, index)
            self.touched |= {before, index} - {NONE}
        seen_before = self._seen[index]
        known_state = seen_before[-1][1] if seen_before else None
        if known_state == seen and self._group[index] == group:
            return index
        if known_state is not None:
            self.groups.count(self._group[index], known_state.state, NONE)
        holds.put(self._group, index, group)
        self.groups.count(group, seen.state, 1)
        if seen.shared and seen.shared not in self._sharing:
            holds.put(self._sharing, seen.shared, len(self._sharing))
        holds.append(seen_before, (moment, seen, ref))
        self.touched.add(index)
        return index

    def last(self, index: int) -> PodState:
        return self._seen[index][-1][1]

    def group_of(self, index: int) -> int:
        return self._group[index]

    def mark_gone(self, moment: int, index: int) -> None:
        if self.last(index).state != "gone":
            self.groups.count(self._group[index], self.last(index).state, NONE)
            self._holds.append(self._seen[index], (moment, PodState("gone", "", 0), NONE))
            self.touched.add(index)

    def identity(self, index: int) -> str:
        return self._identities[index]

    def by_identity(self, identity: str) -> int:
        return self._by_identity.get(identity, NONE)

    def keep_only(self, moment: int, indices: set[int]) -> None:
        for index in range(len(self.names)):
            if index not in indices:
                self.mark_gone(moment, index)

    def form(
        self, before: Mapping[str, int], after: Callable[[int], int], indices: Iterable[int] | None = None
    ) -> PodForm:
        """The data of the page.

        ``before``: references to objects by pod name; ``after``: by index. ``indices``: of some pods; None: all.
        """
        form = PodForm()
        for index in range(len(self.names)) if indices is None else indices:
            name = self.names[index]
            form.name.append(name)
            form.group.append(self._group[index])
            form.before.append(before.get(name, NONE))
            # A name may be reused: the object at the end belongs to the latest pod.
            form.after.append(after(index) if self._by_name[name] == index else NONE)
            form.first.append(len(form.moment))
            for moment, seen, ref in self._seen[index]:
                form.moment.append(moment)
                form.state.append(_STATE[seen.state])
                form.node.append(self._nodes.index_of(seen.node))
                form.milli.append(seen.milli)
                form.shared.append(self._sharing[seen.shared] if seen.shared else NONE)
                form.ref.append(ref)
        form.first.append(len(form.moment))
        form.sharing = list(self._sharing)
        return form
