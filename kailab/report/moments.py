"""The moments of a lab: from cycles of kailab's engine, from states after steps, and from the present state of a
running lab; with decisions and waits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from kailab.cluster.protocol import Object
from kailab.engine.decisions import QueueState
from kailab.engine.snapshot.counting import smallest_device
from kailab.engine.snapshot.records import GPU, Node, PodGroup, Task
from kailab.errors import EvidenceError, InputError
from kailab.evidence import cycles as cycle_files
from kailab.evidence import entries
from kailab.evidence.canonical import format_rfc3339
from kailab.evidence.cycles import RecordedCycle
from kailab.evidence.sanitizing import Scrubber
from kailab.report.columns import GroupColumns, NodeColumns, PodColumns, PodState, QueueColumns, UndoLog
from kailab.report.page_data import NONE, STATE_OF_STATUS, DecisionForm, EvictionForm, MomentForm, WaitForm
from kailab.report.racks import NodePlace, RackMap
from kailab.report.raw import CycleReferences, EntryReferences


class CycleMoments:
    """Adds cycles in order and appends a moment for each to ``moments``."""

    def __init__(
        self,
        moments: list[MomentForm],
        pods: PodColumns,
        nodes: NodeColumns,
        queues: QueueColumns,
        raw: EntryReferences,
        opened: float,
    ) -> None:
        self.count = 0
        """Number of cycles added."""
        self.changed_pods: set[int] = set()
        """Indices of pods changed since the set was last cleared."""
        self._moments = moments
        self._pods, self._nodes, self._queues = pods, nodes, queues
        self._raw, self._opened = raw, opened
        self._whole = cycle_files.CycleReader()
        self._groups: dict[str, PodGroup] = {}
        self._records: dict[str, Node] = {}
        self._held: dict[str, int] = {}
        self._smallest = 0
        self._order: list[str] = []

    def add_cycle(self, cycle: RecordedCycle, racks: RackMap) -> list[str]:
        """Add the next cycle. Returns the names of PodGroups that it left pending. Raises EvidenceError for damaged
        cycles."""
        try:
            _, decisions = self._whole.complete(cycle)
        except InputError as error:
            raise EvidenceError(f"{cycle_files.NAME}: {error}") from error
        self._add_cycle(cycle, self._raw.cycle(self.count, cycle), racks)
        self.count += 1
        # The amount that a task holds is known when it is bound; its record has only its request.
        self._held |= {bind.task: bind.amounts.gpu for bind in decisions.binds}
        return [self._name(pending.podgroup) for pending in decisions.pending]

    def _add_cycle(self, cycle: RecordedCycle, texts: CycleReferences, racks: RackMap) -> None:
        moment = len(self._moments)
        self._add_nodes(moment, cycle, texts.records("nodes"), racks)
        self._add_groups(cycle, texts.records("podgroups"))
        self._add_tasks(moment, cycle, texts.records("tasks"))
        self._pods.groups.end_of(moment)
        if cycle.queues:
            self._add_queues(moment, cycle, texts.queues())
        # Refer to the decisions rather than to the whole line, which may be large.
        ref = texts.decisions()
        t = round(cycle.now - self._opened, 6)
        self._moments.append(
            MomentForm(kind="cycle", number=cycle.number, t=t, time=format_rfc3339(cycle.now), ref=ref)
        )

    def _add_nodes(self, moment: int, cycle: RecordedCycle, first: int, racks: RackMap) -> None:
        if cycle.changes.whole:
            self._records = {}
            self._nodes.keep_only(moment, {node.name for node in cycle.changes.set.nodes})
        for name in cycle.changes.removed.nodes:
            self._records.pop(name, None)
            self._nodes.mark_gone(moment, name)
        for index, node in enumerate(cycle.changes.set.nodes):
            self._records[node.name] = node
            where = racks.place_of(node.name, node.labels)
            self._nodes.put(moment, node.name, where, node.offered_gpus, node.unavailable, first + index)
        if cycle.changes.set.nodes:
            self._smallest = smallest_device([node.gpu_memory_mib for node in self._records.values()])

    def _add_groups(self, cycle: RecordedCycle, first: int) -> None:
        for index, group in enumerate(cycle.changes.set.podgroups):
            self._groups[group.uid] = group
            least = sum(podset.min_available for podset in group.root.podsets) or NONE
            self._pods.groups.put(f"{group.namespace}/{group.name}", group.queue, least, first + index)

    def _add_tasks(self, moment: int, cycle: RecordedCycle, first: int) -> None:
        if cycle.changes.whole:
            present = {self._pods.by_identity(task.uid) for task in cycle.changes.set.tasks}
            self._pods.keep_only(moment, present)
            self.changed_pods.update(range(len(self._pods.names)))
        for uid in cycle.changes.removed.tasks:
            if (gone := self._pods.by_identity(uid)) != NONE:
                self._pods.mark_gone(moment, gone)
                self.changed_pods.add(gone)
        for index, task in enumerate(cycle.changes.set.tasks):
            name = f"{task.namespace}/{task.name}"
            group = self._pods.groups.put(self._name(task.podgroup) if task.podgroup else name)
            self.changed_pods.add(self._pods.put(moment, task.uid, name, group, self._pod_state(task), first + index))

    def _pod_state(self, task: Task) -> PodState:
        node = self._records.get(task.node)
        if node is None:
            milli = task.shape.gpu.wanted_gpus(self._smallest)
        else:
            held = self._held.get(task.uid)
            milli = held if held is not None else (task.accepted or task.shape.gpu).held_gpus(node.gpu_memory_mib)
        return PodState(STATE_OF_STATUS[task.status], task.node, milli, " ".join(task.gpu_groups))

    def _add_queues(self, moment: int, cycle: RecordedCycle, first: int) -> None:
        before, order = self._order, list[str]()
        for index, queue in enumerate(cycle.queues):
            if isinstance(queue, tuple):
                order += before[queue[0] : queue[0] + queue[1]]
            else:
                order.append(queue.name)
                self._queues.put(moment, queue.name, queue, first + index)
        self._queues.keep_only(moment, set(order))
        self._order = order

    def _name(self, uid: str) -> str:
        group = self._groups.get(uid)
        return uid if group is None else f"{group.namespace}/{group.name}"


_STATE_OF = {
    "Running": "runs",
    "Terminating": "leaves",
    "Succeeded": "succeeded",
    "Failed": "failed",
    "Unknown": "unknown",
}


class PresentState(NamedTuple):
    """The present state of a running lab. ``t``: seconds since it opened. ``queues``: as the scheduler computes them;
    empty if it reports no shares."""

    t: float
    state: entries.ClusterState
    queues: Sequence[QueueState] = ()


class StateMoments:
    """Adds states in order. Rows have no UID, so pods are identified by name."""

    def __init__(
        self, pods: PodColumns, nodes: NodeColumns, queues: QueueColumns, after_cycles: bool, by_index: bool
    ) -> None:
        """``after_cycles``: PodGroup records from the scheduler exist. ``by_index``: references use indices of columns
        instead of indices of rows."""
        self._pods, self._nodes, self._queues = pods, nodes, queues
        self._after_cycles, self._by_place = after_cycles, by_index
        self._rows: dict[str, entries.PodRow] = {}
        self._group_rows: dict[str, entries.PodGroupRow] = {}
        self._changed_pods: set[str] = set()
        """Names of pods that changed at the last reading."""
        self._changed_groups: set[str] = set()
        """Names of PodGroups that changed at the last reading."""

    def add_state(
        self,
        moment: int,
        state: entries.ClusterState,
        refs: Mapping[str, int],
        racks: RackMap,
        specs: Mapping[str, Object] | None,
    ) -> None:
        """Add a state.

        ``refs``: reference of the first row of each list. ``specs``: queue objects, for what rows lack; None: queues
        are known from elsewhere.
        """
        self._add_nodes(moment, state, refs["nodes"], racks)
        for index, group in enumerate(state.podgroups):
            self._add_group(group, refs["podgroups"], index)
        present = {self._add_pod(moment, row, refs["pods"], index) for index, row in enumerate(state.pods)}
        self._rows = {row.name: row for row in state.pods}
        self._pods.keep_only(moment, present)
        self._pods.groups.end_of(moment)
        if specs is not None:
            for index, queue in enumerate(state.queues):
                self._queues.put(moment, queue.name, _queue(queue, specs.get(queue.name, {})), refs["queues"] + index)
            self._queues.keep_only(moment, {queue.name for queue in state.queues})

    def update_state(
        self, moment: int, now: PresentState, refs: Mapping[str, int], racks: RackMap, changed: set[int]
    ) -> None:
        """Add the present state after the last one was undone. Unchanged items cost one comparison.

        ``changed``: indices of pods that cycles changed since. References use indices of columns.
        """
        pods, groups, state = self._pods, self._pods.groups, now.state
        self._add_nodes(moment, state, refs["nodes"], racks)
        group_rows = {row.name: row for row in state.podgroups}
        self._changed_groups |= {groups.form.name[index] for index in groups.touched if index < len(groups.form.name)}
        before = groups.touched
        groups.touched = set()
        for name, group in group_rows.items():
            if self._group_rows.get(name) is not group or name in self._changed_groups:
                self._add_group(group, refs["podgroups"], 0)
        rows, rows_before = {row.name: row for row in state.pods}, self._rows
        self._changed_pods |= {pods.names[index] for index in changed} | (rows_before.keys() - rows.keys())
        before_pods, pods.touched = pods.touched, set()
        indices = changed | {index for name in self._changed_pods if (index := pods.index_of(name)) != NONE}
        for name, row in rows.items():
            if rows_before.get(name) is not row or name in self._changed_pods:
                indices.add(self._add_pod(moment, row, refs["pods"], 0))
        for index in sorted(indices):
            if pods.names[index] not in rows or pods.index_of(pods.names[index]) != index:
                pods.mark_gone(moment, index)
        groups.end_of(moment)
        self._rows, self._group_rows = rows, group_rows
        # These are valid only now: compare them again after the undo.
        self._changed_pods = {pods.names[index] for index in pods.touched}
        self._changed_groups = {groups.form.name[index] for index in groups.touched}
        # A pod also changes if its object appears or disappears.
        pods.touched |= before_pods | {pods.index_of(name) for name in rows_before.keys() ^ rows.keys()} - {NONE}
        groups.touched |= before

    def is_there(self, pod: str) -> bool:
        """True if the pod existed at the last reading."""
        return pod in self._rows

    def _add_nodes(self, moment: int, state: entries.ClusterState, first: int, racks: RackMap) -> None:
        for index, node in enumerate(state.nodes):
            column = self._nodes.index_of(node.name) if self._by_place else index
            if column == NONE:
                column = len(self._nodes.form.name)
            where = racks.place_of(node.name) if self._nodes.index_of(node.name) == NONE else NodePlace("")
            self._nodes.put(moment, node.name, where, node.gpus * GPU, node.unavailable, first + column)
        self._nodes.keep_only(moment, {node.name for node in state.nodes})

    def _add_group(self, group: entries.PodGroupRow, first: int, index: int) -> None:
        groups, least = self._pods.groups, NONE if group.min_member is None else group.min_member
        column = groups.put(group.name)
        known = self._after_cycles and groups.form.ref[column] != NONE
        groups.put(group.name, group.queue, least, NONE if known else first + (column if self._by_place else index))

    def _add_pod(self, moment: int, row: entries.PodRow, first: int, index: int) -> int:
        group = self._pods.groups.put(row.group, row.queue)
        known = self._pods.index_of(row.name)
        state_before = self._pods.last(known) if known != NONE else None
        state = _STATE_OF.get(row.phase) or ("starts" if row.node else "waits")
        if state_before is not None and state_before.state == "gated" and state == "waits":
            state = "gated"  # rows do not have this
        shared = state_before.shared if state_before is not None and state_before.node == row.node else ""
        identity = (
            self._pods.identity(known)
            if known != NONE and state_before is not None and state_before.state != "gone"
            else ""
        )
        seen = PodState(state, row.node, row.milli_gpus, shared)
        column = index if not self._by_place else known if identity else len(self._pods.names)
        return self._pods.put(moment, identity or f"{row.name}@{moment}", row.name, group, seen, first + column)


def state_moment(state_number: int, t: float, opened: float, ref: int) -> MomentForm:
    return MomentForm(kind="state", number=state_number, t=t, time=format_rfc3339(opened + t), ref=ref)


def present_moment(now: PresentState, number: int, opened: float, ref: int) -> MomentForm:
    t = round(now.t, 6)
    return MomentForm(kind="now", number=number, t=t, time=format_rfc3339(opened + t), ref=ref)


def _queue(row: entries.QueueRow, spec: Object) -> dict[str, Any]:
    """The queue in the words of its object, because no scheduler known to kailab computed shares."""
    fields = spec.get("spec") or {}
    return {
        "name": row.name,
        "parent": row.parent,
        "priority": fields.get("priority"),
        "resources": fields.get("resources") or {},
        "status": row.status,
    }


class DecisionColumns:
    """Adds decisions in order. ``count``: their number."""

    def __init__(self, first: int, pods: PodColumns, nodes: NodeColumns, queues: QueueColumns) -> None:
        """``first``: reference of the first entry."""
        self.form = DecisionForm(ref0=first)
        self.count = 0
        self._pods, self._nodes, self._queues = pods, nodes, queues
        self._kinds: dict[str, int] = {}
        self._actions: dict[str, int] = {}

    def add(self, entry: entries.Decision, moments: Sequence[MomentForm], moment: int) -> None:
        """Add a decision. ``moment``: its moment, or NONE. A pod is the latest one with its name so far."""
        form, pods = self.form, self._pods
        kind = str(entry.__struct_config__.tag)
        form.moment.append(moment)
        form.kind.append(_index_in(self._kinds, form.kinds, kind))
        form.action.append(_index_in(self._actions, form.actions, entry.action))
        form.pod.append(NONE if isinstance(entry, entries.GroupWaits) else pods.index_of(entry.pod))
        group = getattr(entry, "podgroup", "")
        form.group.append(pods.groups.put(group) if group else NONE)
        form.node.append(self._nodes.index_of(entry.node) if isinstance(entry, entries.PodOnNode) else NONE)
        if isinstance(entry, entries.PodEvicted):
            form.evictions.append(_eviction(self.count, entry, pods, self._queues))
        if moment != NONE:
            counts = moments[moment].counts
            counts[kind] = counts.get(kind, 0) + 1
        self.count += 1


def _index_in(indices: dict[str, int], names: list[str], name: str) -> int:
    index = indices.get(name)
    if index is None:
        index = indices[name] = len(names)
        names.append(name)
    return index


def _eviction(index: int, entry: entries.PodEvicted, pods: PodColumns, queues: QueueColumns) -> EvictionForm:
    return EvictionForm(
        decision=index,
        beneficiary=pods.groups.put(entry.beneficiary) if entry.beneficiary else NONE,
        beneficiary_name=entry.beneficiary,
        beneficiary_queue=queues.add(entry.beneficiary_queue),
        reason=entry.reason,
        ground=entry.ground,
        taking=None if entry.taking is None else msgspec.to_builtins(entry.taking),
        shares=msgspec.to_builtins(entry.shares),
    )


class WaitColumns:
    """Waiting PodGroups. A wait stays open until another moment ends it. ``touched``: as in ``QueueColumns``."""

    def __init__(self, groups: GroupColumns, holds: UndoLog) -> None:
        self.form: list[WaitForm] = []
        self.touched: set[int] = set()
        self._open: dict[str, int] = {}
        self._groups, self._holds = groups, holds

    def begin(self, moment: int, reason: entries.PendingReason, ref: int) -> None:
        self._close(moment, reason.podgroup)
        self._put(
            reason.podgroup,
            WaitForm(
                group=self._groups.put(reason.podgroup, reason.queue),
                begins=moment,
                ends=NONE,
                code=reason.reason,
                message=reason.message,
                ref=ref,
                queue_context=reason.queue_context,
                fits=[(fit.pod, fit.nodes, list(fit.reasons)) for fit in reason.fits],
                tried=list(reason.tried),
                numbers=dict(reason.numbers),
                place=reason.place,
                because=reason.because,
            ),
        )

    def keep_only(self, moment: int, groups: set[str]) -> None:
        for name in [name for name in self._open if name not in groups]:
            self._close(moment, name)

    def at_end(
        self, moment: int, pending: Sequence[entries.PendingReason], first: int, text: Scrubber | None = None
    ) -> None:
        """Record the reasons of the last reading. An unchanged reason keeps its entry. ``text``: removes secrets from
        reasons if needed."""
        self.keep_only(moment, {reason.podgroup for reason in pending})
        for index, reason in enumerate(pending):
            open_wait, message = (
                self._opened(reason.podgroup),
                reason.message if text is None else text.text(reason.message),
            )
            if open_wait is None or (open_wait.code, open_wait.message) != (reason.reason, message):
                self.begin(moment, reason if text is None else text.entry(reason), first + index)

    def rows(self, moment: int, state: entries.ClusterState, first: int) -> None:
        """Record what pod conditions say, for a scheduler that reports no reasons."""
        waits: dict[str, tuple[str, str, int]] = {}
        for index, row in enumerate(state.pods):
            if row.phase == "Pending" and not row.node:
                waits.setdefault(row.group, (row.reason or "Pending", row.message, first + index))
        self.keep_only(moment, set(waits))
        for name, (code, message, ref) in waits.items():
            open_wait = self._opened(name)
            if open_wait is None or (open_wait.code, open_wait.message) != (code, message):
                self._close(moment, name)
                group = self._groups.put(name)
                self._put(name, WaitForm(group=group, begins=moment, ends=NONE, code=code, message=message, ref=ref))

    def _opened(self, name: str) -> WaitForm | None:
        index = self._open.get(name)
        return None if index is None else self.form[index]

    def _put(self, name: str, wait: WaitForm) -> None:
        self.touched.add(len(self.form))
        self._holds.put(self._open, name, len(self.form))
        self._holds.append(self.form, wait)

    def _close(self, moment: int, name: str) -> None:
        index = self._open.get(name)
        if index is not None:
            self._holds.drop(self._open, name)
            self._holds.set(self.form[index], "ends", moment)
            self.touched.add(index)
