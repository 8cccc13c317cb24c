"""Pods, PodGroups, nodes and queues as columns: what of them changed at which moment."""

from __future__ import annotations

from typing import Any, NamedTuple

from kailab.engine.decisions import QueueState
from kailab.report.form import NONE, STATES, GroupForm, NodeForm, PodForm, QueueForm

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


class Seen(NamedTuple):
    """A pod at a moment. ``state``: of ``STATES``; ``node``: where it is or is promised a place; ``shared``: device group."""

    state: str
    node: str
    milli: int
    shared: str = ""


class Queues:
    def __init__(self) -> None:
        self.form = QueueForm()
        self._places: dict[str, int] = {}

    def place(self, name: str) -> int:
        if not name:
            return NONE
        found = self._places.get(name)
        if found is None:
            found = self._places[name] = len(self.form.name)
            self.form.name.append(name)
            self.form.changes.append([])
        return found

    def put(self, moment: int, name: str, state: QueueState | dict[str, Any], ref: int) -> None:
        changes = self.form.changes[self.place(name)]
        if not changes or changes[-1][1] != state:
            borrowed = (
                [state.gpu.borrowed, state.cpu.borrowed, state.memory.borrowed] if isinstance(state, QueueState) else []
            )
            changes.append((moment, state, ref, borrowed))

    def keep_only(self, moment: int, names: set[str]) -> None:
        """All others are gone."""
        for name, place in self._places.items():
            changes = self.form.changes[place]
            if name not in names and changes and changes[-1][1] is not None:
                changes.append((moment, None, NONE, []))


class Nodes:
    def __init__(self) -> None:
        self.form = NodeForm()
        self._places: dict[str, int] = {}
        self._racks: dict[str, int] = {}

    def place(self, name: str) -> int:
        return self._places.get(name, NONE)

    def put(self, moment: int, name: str, rack: str, milli: int, unavailable: str, ref: int) -> None:
        found = self._places.get(name)
        if found is None:
            found = self._places[name] = len(self.form.name)
            self.form.name.append(name)
            self.form.changes.append([])
            if rack not in self._racks:
                self._racks[rack] = len(self.form.racks)
                self.form.racks.append(rack)
            self.form.rack.append(self._racks[rack])
        changes = self.form.changes[found]
        if not changes or changes[-1][1:3] != (milli, unavailable):
            changes.append((moment, milli, unavailable, ref))

    def gone(self, moment: int, name: str) -> None:
        place = self._places.get(name)
        if place is not None and self.form.changes[place][-1][1] != NONE:
            self.form.changes[place].append((moment, NONE, "", NONE))

    def keep_only(self, moment: int, names: set[str]) -> None:
        for name in self._places:
            if name not in names:
                self.gone(moment, name)


class Pods:
    """Pods by an identity (a UID where one is known), and PodGroups by name. A change of several pods at a moment is counted once,
    with ``end_of``."""

    def __init__(self, queues: Queues, nodes: Nodes) -> None:
        self.groups = GroupForm()
        self._queues = queues
        self._nodes = nodes
        self._names: list[str] = []
        self._identities: list[str] = []
        self._group: list[int] = []
        self._seen: list[list[tuple[int, Seen, int]]] = []
        self._by_identity: dict[str, int] = {}
        self._by_name: dict[str, int] = {}
        self._groups: dict[str, int] = {}
        self._counts: list[list[int]] = []
        self._touched: set[int] = set()
        self._sharing: dict[str, int] = {}

    def group(self, name: str, queue: str = "", members: int = NONE, ref: int = NONE) -> int:
        """The place of a PodGroup; what is told anew replaces what was known."""
        found = self._groups.get(name)
        if found is None:
            found = self._groups[name] = len(self.groups.name)
            self.groups.name.append(name)
            self.groups.queue.append(NONE)
            self.groups.workload.append("")
            self.groups.members.append(NONE)
            self.groups.ref.append(NONE)
            self.groups.counts.append([])
            self._counts.append([0, 0, 0, 0])
        if queue:
            self.groups.queue[found] = self._queues.place(queue)
        if members != NONE:
            self.groups.members[found] = members
        if ref != NONE:
            self.groups.ref[found] = ref
        return found

    def place(self, name: str) -> int:
        """Of the latest pod of a name."""
        return self._by_name.get(name, NONE)

    def put(self, moment: int, identity: str, name: str, group: int, seen: Seen, ref: int) -> None:
        found = self._by_identity.get(identity)
        if found is None:
            found = self._by_identity[identity] = len(self._names)
            self._names.append(name)
            self._identities.append(identity)
            self._group.append(group)
            self._seen.append([])
        self._by_name[name] = found
        was = self._seen[found][-1][1] if self._seen[found] else None
        if was == seen and self._group[found] == group:
            return
        self._count(self._group[found], was.state if was is not None else "", NONE)
        self._group[found] = group
        self._count(group, seen.state, 1)
        self._seen[found].append((moment, seen, ref))

    def last(self, place: int) -> Seen:
        return self._seen[place][-1][1]

    def gone(self, moment: int, place: int) -> None:
        if self.last(place).state != "gone":
            self._count(self._group[place], self.last(place).state, NONE)
            self._seen[place].append((moment, Seen("gone", "", 0), NONE))

    def identity(self, place: int) -> str:
        return self._identities[place]

    def by_identity(self, identity: str) -> int:
        return self._by_identity.get(identity, NONE)

    def keep_only(self, moment: int, places: set[int]) -> None:
        for place in range(len(self._names)):
            if place not in places:
                self.gone(moment, place)

    def end_of(self, moment: int) -> None:
        """All is told of a moment."""
        for group in sorted(self._touched):
            now = tuple(self._counts[group])
            before = self.groups.counts[group]
            if (before[-1][1:] if before else (0, 0, 0, 0)) != now:
                before.append((moment, *now))  # type: ignore[arg-type]
        self._touched.clear()

    def _count(self, group: int, state: str, by: int) -> None:
        if state in _COUNTED:
            self._counts[group][_COUNTED[state]] += by
            self._touched.add(group)

    def form(self, before: dict[str, int], after: dict[str, int]) -> PodForm:
        """``before``, ``after``: references to the objects, by the pod's name."""
        form = PodForm(name=self._names, group=self._group)
        form.before = [before.get(name, NONE) for name in self._names]
        # A name may have been taken again: the object that was there at the end is the latest pod's.
        form.after = [
            after.get(name, NONE) if self._by_name[name] == place else NONE for place, name in enumerate(self._names)
        ]
        for changes in self._seen:
            form.first.append(len(form.moment))
            for moment, seen, ref in changes:
                form.moment.append(moment)
                form.state.append(_STATE[seen.state])
                form.node.append(self._nodes.place(seen.node))
                form.milli.append(seen.milli)
                form.shared.append(self._shared(seen.shared))
                form.ref.append(ref)
        form.first.append(len(form.moment))
        form.sharing = list(self._sharing)
        return form

    def _shared(self, name: str) -> int:
        return self._sharing.setdefault(name, len(self._sharing)) if name else NONE
