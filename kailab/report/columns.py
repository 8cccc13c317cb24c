"""Pods, PodGroups, nodes and queues as columns: for each item, its changes and the moments at which they happened.

``UndoLog`` notes changes that are valid only for the present moment of a running lab, and undoes them before the next moment is added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from kailab.engine.decisions import QueueState
from kailab.report.page_data import NONE, STATES, GroupForm, NodeForm, PodForm, QueueForm

_ABSENT: Any = object()


class UndoLog:
    """Notes changes from ``begin`` on, so that ``back`` undoes them. Before ``begin`` it only carries them out."""

    def __init__(self) -> None:
        self._noted: list[Callable[[], object]] | None = None

    def begin(self) -> None:
        self._noted = []

    def back(self) -> None:
        """All is as it was at ``begin``."""
        for undo in reversed(self._noted or ()):
            undo()
        self._noted = None

    def append(self, items: list[Any], value: Any) -> None:
        items.append(value)
        if self._noted is not None:
            self._noted.append(items.pop)

    def put(self, items: Any, key: Any, value: Any) -> None:
        """An item of a list, or of a dict."""
        if self._noted is not None:
            before = items.get(key, _ABSENT) if isinstance(items, dict) else items[key]
            self._noted.append(lambda: items.pop(key, None) if before is _ABSENT else items.__setitem__(key, before))
        items[key] = value

    def drop(self, items: dict[Any, Any], key: Any) -> None:
        """An item of a dict, which is there."""
        before = items.pop(key)
        if self._noted is not None:
            self._noted.append(lambda: items.__setitem__(key, before))

    def set(self, of: Any, name: str, value: Any) -> None:
        """A field."""
        if self._noted is not None:
            before = getattr(of, name)
            self._noted.append(lambda: setattr(of, name, before))
        setattr(of, name, value)


_STATE = {name: place for place, name in enumerate(STATES)}
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
    """A pod at a moment. ``state``: of ``STATES``; ``node``: where it is or is promised a place; ``shared``: device group."""

    state: str
    node: str
    milli: int
    shared: str = ""


class QueueColumns:
    """``touched``: places of which something was told since somebody emptied it."""

    def __init__(self, holds: UndoLog) -> None:
        self.form = QueueForm()
        self.touched: set[int] = set()
        self._holds = holds
        self._places: dict[str, int] = {}

    def place(self, name: str) -> int:
        if not name:
            return NONE
        found = self._places.get(name)
        if found is None:
            found = len(self.form.name)
            self._holds.put(self._places, name, found)
            self._holds.append(self.form.name, name)
            self._holds.append(self.form.changes, [])
            self.touched.add(found)
        return found

    def put(self, moment: int, name: str, state: QueueState | dict[str, Any], ref: int) -> None:
        place = self.place(name)
        changes = self.form.changes[place]
        if not changes or changes[-1][1] != state:
            borrowed = (
                [state.gpu.borrowed, state.cpu.borrowed, state.memory.borrowed] if isinstance(state, QueueState) else []
            )
            self._holds.append(changes, (moment, state, ref, borrowed))
            self.touched.add(place)

    def keep_only(self, moment: int, names: set[str]) -> None:
        """All others are gone."""
        for name, place in self._places.items():
            changes = self.form.changes[place]
            if name not in names and changes and changes[-1][1] is not None:
                self._holds.append(changes, (moment, None, NONE, []))
                self.touched.add(place)


class NodeColumns:
    """``touched``: as of queues."""

    def __init__(self, holds: UndoLog) -> None:
        self.form = NodeForm()
        self.touched: set[int] = set()
        self._holds = holds
        self._places: dict[str, int] = {}
        self._racks: dict[str, int] = {}

    def place(self, name: str) -> int:
        return self._places.get(name, NONE)

    def put(self, moment: int, name: str, rack: str, milli: int, unavailable: str, ref: int) -> int:
        """Its place."""
        found = self._places.get(name)
        if found is None:
            found = len(self.form.name)
            self._holds.put(self._places, name, found)
            self._holds.append(self.form.name, name)
            self._holds.append(self.form.changes, [])
            if rack not in self._racks:
                self._holds.put(self._racks, rack, len(self.form.racks))
                self._holds.append(self.form.racks, rack)
            self._holds.append(self.form.rack, self._racks[rack])
        changes = self.form.changes[found]
        if not changes or changes[-1][1:3] != (milli, unavailable):
            self._holds.append(changes, (moment, milli, unavailable, ref))
            self.touched.add(found)
        return found

    def gone(self, moment: int, name: str) -> None:
        place = self._places.get(name)
        if place is not None and self.form.changes[place][-1][1] != NONE:
            self._holds.append(self.form.changes[place], (moment, NONE, "", NONE))
            self.touched.add(place)

    def keep_only(self, moment: int, names: set[str]) -> None:
        for name in self._places:
            if name not in names:
                self.gone(moment, name)


class GroupColumns:
    """PodGroups by name, and how many of their pods are in which way. A change of several pods at a moment is counted once, with
    ``end_of``."""

    def __init__(self, queues: QueueColumns, holds: UndoLog) -> None:
        self.form = GroupForm()
        self.touched: set[int] = set()
        self._queues, self._holds = queues, holds
        self._places: dict[str, int] = {}
        self._counts: list[list[int]] = []
        self._counted: set[int] = set()

    def place(self, name: str, queue: str = "", members: int = NONE, ref: int = NONE) -> int:
        """Of a PodGroup; what is told anew replaces what was known."""
        form, found = self.form, self._places.get(name)
        if found is None:
            found = len(form.name)
            self._holds.put(self._places, name, found)
            for column, value in (
                (form.name, name), (form.queue, NONE), (form.workload, ""), (form.members, NONE), (form.ref, NONE),
                (form.counts, []), (self._counts, [0, 0, 0, 0]),
            ):  # fmt: skip
                self._holds.append(column, value)
            self.touched.add(found)
        if queue:
            self._tell(form.queue, found, self._queues.place(queue))
        if members != NONE:
            self._tell(form.members, found, members)
        if ref != NONE:
            self._tell(form.ref, found, ref)
        return found

    def known(self, name: str) -> int:
        """The place of one that was told of."""
        return self._places.get(name, NONE)

    def _tell(self, column: list[int], place: int, value: int) -> None:
        if column[place] != value:
            self._holds.put(column, place, value)
            self.touched.add(place)

    def count(self, group: int, state: str, by: int) -> None:
        """A pod of it is, or is no longer, in a state."""
        if state in _COUNTED:
            kind = _COUNTED[state]
            self._holds.put(self._counts[group], kind, self._counts[group][kind] + by)
            self._counted.add(group)

    def end_of(self, moment: int) -> None:
        """All is told of a moment."""
        for group in sorted(self._counted):
            now = tuple(self._counts[group])
            before = self.form.counts[group]
            if (before[-1][1:] if before else (0, 0, 0, 0)) != now:
                self._holds.append(before, (moment, *now))
                self.touched.add(group)
        self._counted.clear()


class PodColumns:
    """Pods by an identity (a UID where one is known). ``touched``: as of queues."""

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

    def place(self, name: str) -> int:
        """Of the latest pod of a name."""
        return self._by_name.get(name, NONE)

    def put(self, moment: int, identity: str, name: str, group: int, seen: PodState, ref: int) -> int:
        """Its place."""
        holds, found = self._holds, self._by_identity.get(identity)
        if found is None:
            found = len(self.names)
            holds.put(self._by_identity, identity, found)
            for column, value in (
                (self.names, name), (self._identities, identity), (self._group, group), (self._seen, []),
            ):  # fmt: skip
                holds.append(column, value)
        before = self._by_name.get(name, NONE)
        if before != found:
            holds.put(self._by_name, name, found)
            self.touched |= {before, found} - {NONE}
        seen_before = self._seen[found]
        was = seen_before[-1][1] if seen_before else None
        if was == seen and self._group[found] == group:
            return found
        if was is not None:
            self.groups.count(self._group[found], was.state, NONE)
        holds.put(self._group, found, group)
        self.groups.count(group, seen.state, 1)
        if seen.shared and seen.shared not in self._sharing:
            holds.put(self._sharing, seen.shared, len(self._sharing))
        holds.append(seen_before, (moment, seen, ref))
        self.touched.add(found)
        return found

    def last(self, place: int) -> PodState:
        return self._seen[place][-1][1]

    def group_of(self, place: int) -> int:
        return self._group[place]

    def gone(self, moment: int, place: int) -> None:
        if self.last(place).state != "gone":
            self.groups.count(self._group[place], self.last(place).state, NONE)
            self._holds.append(self._seen[place], (moment, PodState("gone", "", 0), NONE))
            self.touched.add(place)

    def identity(self, place: int) -> str:
        return self._identities[place]

    def by_identity(self, identity: str) -> int:
        return self._by_identity.get(identity, NONE)

    def keep_only(self, moment: int, places: set[int]) -> None:
        for place in range(len(self.names)):
            if place not in places:
                self.gone(moment, place)

    def form(
        self, before: Mapping[str, int], after: Callable[[int], int], places: Iterable[int] | None = None
    ) -> PodForm:
        """``before``: references to objects by the pod's name; ``after``: by its place. ``places``: of some pods; None: of all."""
        form = PodForm()
        for place in range(len(self.names)) if places is None else places:
            name = self.names[place]
            form.name.append(name)
            form.group.append(self._group[place])
            form.before.append(before.get(name, NONE))
            # A name may have been taken again: the object that was there at the end is the latest pod's.
            form.after.append(after(place) if self._by_name[name] == place else NONE)
            form.first.append(len(form.moment))
            for moment, seen, ref in self._seen[place]:
                form.moment.append(moment)
                form.state.append(_STATE[seen.state])
                form.node.append(self._nodes.place(seen.node))
                form.milli.append(seen.milli)
                form.shared.append(self._sharing[seen.shared] if seen.shared else NONE)
                form.ref.append(ref)
        form.first.append(len(form.moment))
        form.sharing = list(self._sharing)
        return form
