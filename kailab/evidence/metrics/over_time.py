"""Snapshots of a lab's metrics over its past, from its evidence or its record: one at each moment at which something happened.

The times at which pods were created, bound and deleted are exact. The amounts of queues are those at the start of each cycle of kailab's scheduler; with another
scheduler they are counted from the pods after each step. The use of nodes is counted from binds, as far as decisions have the amounts, and corrected after each
step. Display names of queues are missing, because evidence does not keep them. ``encode_series`` and ``read_series`` write and read the series, one per line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from kailab.engine.decisions import QueueState
from kailab.engine.snapshot.changes import Changes
from kailab.engine.snapshot.records import GPU
from kailab.errors import EvidenceError
from kailab.evidence import canonical
from kailab.evidence.cycles import whole_cycles
from kailab.evidence.entries import ClusterState, Decision, GroupWaits, PodBound, PodEvicted, PodPromised, WriteRefused
from kailab.evidence.history import LabHistory, PodPast
from kailab.evidence.large_files import read_stored_file
from kailab.evidence.metrics.families import (
    EventTally,
    FleetUse,
    MetricGroup,
    MetricSeries,
    MetricsSnapshot,
    WaitingGroup,
    collect_series,
)
from kailab.evidence.recording import Recording
from kailab.evidence.shares import QueueTreeShares
from kailab.model.objects import full_name, name_of, spec_of

WAITING_SECONDS = 60.0
MOST_SNAPSHOTS = 1000
"""``WAITING_SECONDS``: interval between snapshots while work waits and nothing else happens. There are at most about twice ``MOST_SNAPSHOTS`` snapshots."""
RESOURCES = ("gpu", "cpu", "memory")


class _PastEvent(NamedTuple):
    """``kind``: names the method of ``_LabAtMoment`` that takes ``what``. ``order``: within one moment, events that free capacity come before
    those that use it."""

    t: float
    order: int
    kind: str
    what: Any


def snapshots_over_time(history: LabHistory) -> Iterator[MetricsSnapshot]:
    """Yield snapshots in the order of time; the first is from the opening. Raises EvidenceError for damaged cycles."""
    past = _LabAtMoment(history)
    events = sorted(_events(history), key=lambda event: event[:2])
    # Work waits until the end, even if no event follows.
    end = max((*(step.t for step in history.steps), *(event.t for event in events[-1:])), default=0.0)
    interval = max(WAITING_SECONDS, end / MOST_SNAPSHOTS)
    before = 0.0
    if not events or events[0].t > 0:
        yield past.at(0.0)
    least, skipped = end / (2 * MOST_SNAPSHOTS), None
    for t, happened in groupby(events, key=lambda event: event.t):
        # The last of several close moments gets a snapshot before time goes on.
        if skipped is not None and t - before >= least:
            yield past.at(skipped)
            before, skipped = skipped, None
        yield from past.waits(before, t, interval)
        for event in happened:
            past.process_event(event)
        if t - before >= least or t in (0.0, end):
            yield past.at(t)
            before, skipped = t, None
        else:
            skipped = t
    if skipped is not None:
        yield past.at(skipped)
        before = skipped
    yield from past.waits(before, end, interval)
    if end > before:
        yield past.at(end)


def _events(history: LabHistory) -> Iterator[_PastEvent]:
    for pod in history.pods.values():
        yield from (_PastEvent(t, 2, "created", pod) for t in pod.created)
        yield from (_PastEvent(t, 0, "gone", pod) for t in pod.gone)
        if pod.ended is not None:
            yield _PastEvent(pod.ended, 1, "ended", pod)
    yield from (_PastEvent(entry.t, 3, "decided", entry) for entry in history.decisions)
    for cycle, _, decisions in whole_cycles(history.cycles):
        t = round(cycle.now - history.opened, 6)
        yield _PastEvent(t, 2, "changes", cycle.changes)
        yield _PastEvent(t, 4, "queue_states", decisions.queues)
    yield from (_PastEvent(t, 5, "state", state) for t, state in history.states)


class _LabAtMoment:
    """The state of the lab after the events so far."""

    def __init__(self, history: LabHistory) -> None:
        self._tally = EventTally.begun()
        self._groups = _groups(history)
        self._queues = {
            name_of(queue): queue for listing in (history.before, history.after) for queue in listing.get("queues", ())
        }
        # Pods that were placed when the lab opened have no bind event.
        self._placed = {full_name(pod) for pod in history.before.get("pods", ()) if spec_of(pod).get("nodeName")}
        self._with_cycles = bool(history.cycles)
        self._shares: Mapping[str, QueueTreeShares] = {}
        self._names: dict[str, str] = {}
        self._gpus: dict[str, int] = {}
        self._used: dict[str, int] = {}
        self._held: dict[str, tuple[str, int, float]] = {}
        self._waiting: dict[str, dict[str, float]] = {}
        self._left: dict[str, set[str]] = {}
        self._begun: dict[str, float] = {}
        self._running: dict[str, set[str]] = {}
        self._reasons: dict[str, str] = {}
        self._phases: dict[str, tuple[str, str]] = {}
        self._by_phase: Counter[tuple[str, str]] = Counter()

    def process_event(self, event: _PastEvent) -> None:
        getattr(self, f"_{event.kind}")(event.t, event.what)

    def at(self, t: float) -> MetricsSnapshot:
        waiting = tuple(
            WaitingGroup(self._group(group), self._reasons.get(group, ""), min(pods.values()), len(pods))
            for group, pods in self._waiting.items()
            if pods
        )
        pods = {key: count for key, count in self._by_phase.items() if count}
        return MetricsSnapshot(t, self._shares, {}, waiting, pods, self._fleet(), self._tally)

    def waits(self, begin: float, end: float, every: float) -> Iterator[MetricsSnapshot]:
        """Yield snapshots between two moments while work waits."""
        t = (begin // every + 1) * every
        while t < end and any(self._waiting.values()):
            yield self.at(t)
            t += every

    # --- pods ----------------------------------------------------------------------------------------------------

    def _created(self, t: float, pod: PodPast) -> None:
        group = pod.podgroup or pod.name
        self._begun.setdefault(group, t)
        self._left.setdefault(group, set()).add(pod.name)
        if pod.name in self._placed:
            self._phase(pod.name, pod.queue, "Running")
            self._running.setdefault(group, set()).add(pod.name)
            return
        self._waiting.setdefault(group, {})[pod.name] = t
        self._phase(pod.name, pod.queue, "Pending")

    def _gone(self, t: float, pod: PodPast) -> None:
        self._release(pod)
        self._placed.discard(pod.name)
        self._phase(pod.name, "", "")

    def _ended(self, t: float, pod: PodPast) -> None:
        group = self._group(pod.podgroup or pod.name)
        self._release(pod)
        self._phase(pod.name, pod.queue, pod.phase)
        if group.gang and not self._left.get(group.name) and group.name in self._begun:
            self._tally.completions.setdefault(group.queue, []).append(t - self._begun.pop(group.name))

    def _release(self, pod: PodPast) -> None:
        """Take a pod out of its PodGroup and off its node."""
        group = pod.podgroup or pod.name
        self._waiting.get(group, {}).pop(pod.name, None)
        self._left.get(group, set()).discard(pod.name)
        self._running.get(group, set()).discard(pod.name)
        if (usage := self._held.pop(pod.name, None)) is not None:
            node, milli, _ = usage
            self._used[node] = max(0, self._used.get(node, 0) - milli)

    def _phase(self, pod: str, queue: str, phase: str) -> None:
        """Set a pod's phase; an empty phase removes it."""
        if (before := self._phases.pop(pod, None)) is not None:
            self._by_phase[before] -= 1
        if phase:
            self._phases[pod] = (queue, phase)
            self._by_phase[queue, phase] += 1

    # --- decisions -----------------------------------------------------------------------------------------------

    def _decided(self, t: float, entry: Decision) -> None:
        tally = self._tally
        match entry:
            case PodBound():
                tally.binds = (tally.binds or 0) + 1
                self._bound(t, entry)
            case PodPromised():
                tally.promises = (tally.promises or 0) + 1
            case PodEvicted():
                tally.evict(entry, self._group(entry.podgroup).priority)
                self._phase(entry.pod, entry.queue, "Terminating")
                self._running.get(entry.podgroup or entry.pod, set()).discard(entry.pod)
            case GroupWaits():
                tally.left_waiting = (tally.left_waiting or 0) + 1
                self._reasons[entry.podgroup] = entry.reason
            case WriteRefused():
                tally.refused = (tally.refused or 0) + 1

    def _bound(self, t: float, entry: PodBound) -> None:
        group = self._group(entry.podgroup or entry.pod)
        since = self._waiting.get(group.name, {}).pop(entry.pod, t)
        self._phase(entry.pod, entry.queue, "Running")
        running = self._running.setdefault(group.name, set())
        # The PodGroup starts, for the first time or after all its pods were evicted.
        if not running:
            self._tally.start(group.priority, t - since)
            if group.gang:
                self._tally.gangs_started[group.priority] += 1
        running.add(entry.pod)
        if entry.amounts is not None:
            self._held[entry.pod] = entry.node, entry.amounts.gpu, t
            self._used[entry.node] = self._used.get(entry.node, 0) + entry.amounts.gpu

    # --- queues and nodes ----------------------------------------------------------------------------------------

    def _queue_states(self, t: float, queues: tuple[QueueState, ...]) -> None:
        self._shares = {resource: QueueTreeShares.counted(queues, resource=resource) for resource in RESOURCES}  # type: ignore[arg-type]

    def _changes(self, t: float, changes: Changes) -> None:
        if changes.whole:
            self._gpus = {}
        self._names |= {group.uid: f"{group.namespace}/{group.name}" for group in changes.set.podgroups}
        for uid in changes.removed.podgroups:
            self._tally.evicted.pop(self._names.pop(uid, ""), None)
        for name in changes.removed.nodes:
            self._gpus.pop(name, None)
        self._gpus |= {node.name: node.offered_gpus for node in changes.set.nodes}

    def _fleet(self) -> FleetUse | None:
        if not self._gpus:
            return None
        free = [gpus - self._used.get(node, 0) for node, gpus in self._gpus.items()]
        return FleetUse(sum(self._gpus.values()), sum(self._gpus.values()) - sum(free), max(0, *free))

    def _state(self, t: float, state: ClusterState) -> None:
        self._gpus = {node.name: node.gpus * GPU for node in state.nodes}
        self._used = {node.name: node.milli_gpus_used for node in state.nodes}
        placed = {row.name for row in state.pods if row.holds}
        for pod, (node, milli, since) in list(self._held.items()):
            if pod in placed:
                continue
            # A pod that was bound at this moment, after the state was read, still exists; any other is gone.
            if since == t:
                self._used[node] = self._used.get(node, 0) + milli
            else:
                del self._held[pod]
        if not self._with_cycles:
            queues = [
                self._queues.get(row.name) or {"metadata": {"name": row.name}, "spec": {"parentQueue": row.parent}}
                for row in state.queues
            ]
            self._shares = {"gpu": QueueTreeShares.observed(queues, state.pods)}
            groups = {row.name for row in state.podgroups}
            for deleted in self._tally.evicted.keys() - groups:
                del self._tally.evicted[deleted]
            for row in state.pods:
                if row.reason and not row.node:
                    self._reasons[row.group] = row.reason

    def _group(self, name: str) -> MetricGroup:
        return self._groups.get(name) or MetricGroup(name)


def _groups(history: LabHistory) -> dict[str, MetricGroup]:
    """All PodGroups by full name; a pod without a PodGroup counts as one."""
    groups = {
        pod.podgroup or pod.name: MetricGroup(pod.podgroup or pod.name, pod.queue) for pod in history.pods.values()
    }
    # PodGroups that were deleted in between are known only from the scheduler's records.
    classes = {
        priority_class.get("value", 0): name_of(priority_class)
        for listing in (history.before, history.after)
        for priority_class in listing.get("priorityclasses", ())
    }
    for cycle in history.cycles:
        for record in cycle.changes.set.podgroups:
            name = f"{record.namespace}/{record.name}"
            least = sum(podset.min_available for podset in record.root.podsets)
            groups[name] = MetricGroup(name, record.queue, classes.get(record.priority, ""), max(least, 1))
    for listing in (history.before, history.after):
        for group in listing.get("podgroups", ()):
            spec = group.get("spec") or {}
            name = full_name(group)
            groups[name] = MetricGroup(
                name, spec.get("queue", ""), spec.get("priorityClassName", ""), spec.get("minMember") or 1
            )
    for _, state in history.states:
        for row in state.podgroups:
            groups[row.name] = MetricGroup(row.name, row.queue, row.priority_class, row.min_member or 1)
    return groups


def encode_series(recording: Recording) -> bytes:
    """Encode the series of a recorded lab. Their only texts are names of objects and codes of reasons."""
    return canonical.json_lines(collect_series(snapshots_over_time(LabHistory.of_recording(recording))).every())


def read_series(path: Path) -> list[MetricSeries]:
    """Read a file ``metrics.jsonl``. Raises EvidenceError."""
    try:
        return [msgspec.json.decode(line, type=MetricSeries) for line in read_stored_file(path).splitlines()]
    except (OSError, msgspec.MsgspecError) as error:
        raise EvidenceError(f"{path}: can't be read: {error}") from error
