"""A moment from a state of the evidence: how the cluster stood after a step, in rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kailab.cluster.protocol import Object
from kailab.engine.decisions import QueueState
from kailab.engine.snapshot.records import GPU
from kailab.evidence.canonical import rfc3339
from kailab.evidence.entries import PodRow, QueueRow, State
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
    shares. ``unavailable``: node -> why it takes nothing new, of those that do not."""

    t: float
    state: State
    queues: Sequence[QueueState] = ()
    unavailable: Mapping[str, str] = {}


class StateMoments:
    """Takes states in, one after the other. Rows have no UID: a pod is the one that was there by that name before."""

    def __init__(self, pods: Pods, nodes: Nodes, queues: Queues, racks: Racks) -> None:
        self._pods, self._nodes, self._queues, self._racks = pods, nodes, queues, racks

    def take(
        self,
        moment: int,
        state: State,
        refs: Mapping[str, int],
        specs: Mapping[str, Object] | None,
        unavailable: Mapping[str, str] | None = None,
    ) -> None:
        """``refs``: the first row of each list. ``specs``: queues as objects, for what rows do not say; None: queues are known better
        from elsewhere. ``unavailable``: node -> why it takes nothing new."""
        closed = unavailable or {}
        for place, node in enumerate(state.nodes):
            rack = self._racks.of(node.name)
            why = closed.get(node.name, "")
            self._nodes.put(moment, node.name, rack, node.gpus * GPU, why, refs["nodes"] + place)
        self._nodes.keep_only(moment, {node.name for node in state.nodes})
        for place, group in enumerate(state.podgroups):
            least = NONE if group.min_member is None else group.min_member
            self._pods.group(group.name, group.queue, least, refs["podgroups"] + place)
        there = {self._take_pod(moment, row, refs["pods"] + place) for place, row in enumerate(state.pods)}
        self._pods.keep_only(moment, there)
        self._pods.end_of(moment)
        if specs is not None:
            for place, queue in enumerate(state.queues):
                self._queues.put(moment, queue.name, _queue(queue, specs.get(queue.name, {})), refs["queues"] + place)
            self._queues.keep_only(moment, {queue.name for queue in state.queues})

    def _take_pod(self, moment: int, row: PodRow, ref: int) -> int:
        group = self._pods.group(row.group, row.queue)
        known = self._pods.place(row.name)
        was = self._pods.last(known) if known != NONE else None
        state = _STATE_OF.get(row.phase) or ("starts" if row.node else "waits")
        if was is not None and was.state == "gated" and state == "waits":
            state = "gated"  # a row does not tell
        shared = was.shared if was is not None and was.node == row.node else ""
        identity = self._pods.identity(known) if known != NONE and was is not None and was.state != "gone" else ""
        seen = Seen(state, row.node, row.milli_gpus, shared)
        self._pods.put(moment, identity or f"{row.name}@{moment}", row.name, group, seen, ref)
        return self._pods.place(row.name)


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
