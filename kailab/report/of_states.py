"""A moment from a state of the evidence: how the cluster stood after a step, in rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kailab.cluster.protocol import Object
from kailab.engine.decisions import QueueState
from kailab.engine.snapshot.records import GPU
from kailab.evidence.canonical import rfc3339
from kailab.evidence.entries import PodGroupRow, PodRow, QueueRow, State
from kailab.report.columns import Nodes, Pods, Queues, Seen
from kailab.report.form import NONE, Moment
from kailab.report.racks import Racks

_STATE_OF = {
    "Running": "runs",
    "Terminating": "leaves",
    "Succeeded": "succeeded",
    "Failed": "failed",
    "Unknown": "unknown",
}


class Now(NamedTuple):
    """A lab that goes on, as it stands. ``t``: seconds since it opened. ``queues``: as the scheduler reckons; none where it tells no
    shares."""

    t: float
    state: State
    queues: Sequence[QueueState] = ()


class StateMoments:
    """Takes states in, one after the other. Rows have no UID: a pod is the one that was there by that name before."""

    def __init__(self, pods: Pods, nodes: Nodes, queues: Queues, after_cycles: bool, by_place: bool) -> None:
        """``after_cycles``: a PodGroup's record is what the scheduler read. ``by_place``: references go by the places of columns, not by
        those of rows."""
        self._pods, self._nodes, self._queues = pods, nodes, queues
        self._after_cycles, self._by_place = after_cycles, by_place
        self._rows: dict[str, PodRow] = {}
        self._group_rows: dict[str, PodGroupRow] = {}
        self._stood: set[str] = set()
        """Pods of which something was told when the lab was looked at last, by name; and PodGroups."""
        self._stood_groups: set[str] = set()

    def take(
        self,
        moment: int,
        state: State,
        refs: Mapping[str, int],
        racks: Racks,
        specs: Mapping[str, Object] | None,
    ) -> None:
        """``refs``: the first row of each list. ``specs``: queues as objects, for what rows do not say; None: queues are known better
        from elsewhere."""
        self._take_nodes(moment, state, refs["nodes"], racks)
        for place, group in enumerate(state.podgroups):
            self._take_group(group, refs["podgroups"], place)
        there = {self._take_pod(moment, row, refs["pods"], place) for place, row in enumerate(state.pods)}
        self._rows = {row.name: row for row in state.pods}
        self._pods.keep_only(moment, there)
        self._pods.groups.end_of(moment)
        if specs is not None:
            for place, queue in enumerate(state.queues):
                self._queues.put(moment, queue.name, _queue(queue, specs.get(queue.name, {})), refs["queues"] + place)
            self._queues.keep_only(moment, {queue.name for queue in state.queues})

    def take_now(self, moment: int, now: Now, refs: Mapping[str, int], racks: Racks, told: set[int]) -> None:
        """How a lab stands whose last stand was taken back: what is as it was then costs a look. ``told``: places of pods of which cycles
        told since. References go by the places of columns."""
        pods, groups, state = self._pods, self._pods.groups, now.state
        self._take_nodes(moment, state, refs["nodes"], racks)
        group_rows = {row.name: row for row in state.podgroups}
        self._stood_groups |= {groups.form.name[place] for place in groups.touched if place < len(groups.form.name)}
        before = groups.touched
        groups.touched = set()
        for name, group in group_rows.items():
            if self._group_rows.get(name) is not group or name in self._stood_groups:
                self._take_group(group, refs["podgroups"], 0)
        rows, was = {row.name: row for row in state.pods}, self._rows
        self._stood |= {pods.names[place] for place in told} | (was.keys() - rows.keys())
        before_pods, pods.touched = pods.touched, set()
        places = told | {place for name in self._stood if (place := pods.place(name)) != NONE}
        for name, row in rows.items():
            if was.get(name) is not row or name in self._stood:
                places.add(self._take_pod(moment, row, refs["pods"], 0))
        for place in sorted(places):
            if pods.names[place] not in rows or pods.place(pods.names[place]) != place:
                pods.gone(moment, place)
        groups.end_of(moment)
        self._rows, self._group_rows = rows, group_rows
        # What was told now and does not hold beyond: to be looked at again when it is taken back.
        self._stood = {pods.names[place] for place in pods.touched}
        self._stood_groups = {groups.form.name[place] for place in groups.touched}
        # Whether there is an object is told of a pod, too.
        pods.touched |= before_pods | {pods.place(name) for name in was.keys() ^ rows.keys()} - {NONE}
        groups.touched |= before

    def is_there(self, pod: str) -> bool:
        """Whether it was, when the lab was looked at."""
        return pod in self._rows

    def _take_nodes(self, moment: int, state: State, first: int, racks: Racks) -> None:
        for place, node in enumerate(state.nodes):
            column = self._nodes.place(node.name) if self._by_place else place
            if column == NONE:
                column = len(self._nodes.form.name)
            rack = racks.of(node.name) if self._nodes.place(node.name) == NONE else ""
            self._nodes.put(moment, node.name, rack, node.gpus * GPU, node.unavailable, first + column)
        self._nodes.keep_only(moment, {node.name for node in state.nodes})

    def _take_group(self, group: PodGroupRow, first: int, place: int) -> None:
        groups, least = self._pods.groups, NONE if group.min_member is None else group.min_member
        column = groups.place(group.name)
        known = self._after_cycles and groups.form.ref[column] != NONE
        groups.place(group.name, group.queue, least, NONE if known else first + (column if self._by_place else place))

    def _take_pod(self, moment: int, row: PodRow, first: int, place: int) -> int:
        group = self._pods.groups.place(row.group, row.queue)
        known = self._pods.place(row.name)
        was = self._pods.last(known) if known != NONE else None
        state = _STATE_OF.get(row.phase) or ("starts" if row.node else "waits")
        if was is not None and was.state == "gated" and state == "waits":
            state = "gated"  # a row does not tell
        shared = was.shared if was is not None and was.node == row.node else ""
        identity = self._pods.identity(known) if known != NONE and was is not None and was.state != "gone" else ""
        seen = Seen(state, row.node, row.milli_gpus, shared)
        column = place if not self._by_place else known if identity else len(self._pods.names)
        return self._pods.put(moment, identity or f"{row.name}@{moment}", row.name, group, seen, first + column)


def moment(state_number: int, t: float, opened: float, ref: int) -> Moment:
    return Moment(kind="state", number=state_number, t=t, time=rfc3339(opened + t), ref=ref)


def moment_now(now: Now, number: int, opened: float, ref: int) -> Moment:
    t = round(now.t, 6)
    return Moment(kind="now", number=number, t=t, time=rfc3339(opened + t), ref=ref)


def _queue(row: QueueRow, spec: Object) -> dict[str, Any]:
    """As the objects say it, in their words: nothing of it was reckoned by a scheduler that kailab could ask."""
    own = spec.get("spec") or {}
    return {
        "name": row.name,
        "parent": row.parent,
        "priority": own.get("priority"),
        "resources": own.get("resources") or {},
        "status": row.status,
    }
