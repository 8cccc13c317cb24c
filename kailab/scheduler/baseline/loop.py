"""The baseline's loop: pods one by one, by priority, then in order of arrival; no queues, no gangs.

Source: kube-scheduler with its default plugins. A pod that fits nowhere waits until something that may help it has
changed: a pod gone, a node new or different.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import numpy as np

from kailab.cluster.protocol import Cluster, Object, WatchEvent
from kailab.engine.snapshot.records import Node, Shape
from kailab.errors import ApiError, NotFound
from kailab.model.labels import DEFAULT_SCHEDULER_NAME, GPU_RESOURCE
from kailab.scheduler.baseline.neighbours import refusals
from kailab.scheduler.baseline.pods import BaselinePod, baseline_pod, needs_of
from kailab.scheduler.baseline.preemption import find_victims
from kailab.scheduler.baseline.scoring import Standing, best_node
from kailab.scheduler.baseline.table import Amounts, Mask, NodeTable
from kailab.scheduler.reading.nodes import node_record
from kailab.scheduler.reading.podgroups import Priorities
from kailab.scheduler.reading.shapes import ShapeCache
from kailab.scheduler.status.conditions import not_scheduled, with_condition

COMPONENT = "default-scheduler"
_TERMINAL = ("Succeeded", "Failed")


class Baseline:
    """What kube-scheduler would do with the pods of ``scheduler_names``; all other pods on nodes only use them up."""

    wake_at: float | None = None
    """Nothing here waits for a time."""

    def __init__(self, cluster: Cluster, scheduler_names: Iterable[str] = (DEFAULT_SCHEDULER_NAME,)) -> None:
        self._cluster = cluster
        self._scheduler_names = frozenset(scheduler_names)
        self._watch = cluster.watch(("PriorityClass", "Node", "Pod"))
        self._shapes = ShapeCache(sharing=False)
        self._needs: dict[Shape, dict[str, int]] = {}
        self._priorities = Priorities()
        self._nodes: dict[str, Node] = {}
        self._placed: dict[str, BaselinePod] = {}
        self._waiting: dict[str, BaselinePod] = {}  # in order of arrival
        self._new: dict[str, None] = {}  # of those waiting: not tried yet
        self._keeping_away: dict[str, BaselinePod] = {}
        self._table: NodeTable | None = None
        # Equal pods fail alike as long as nothing moves: of thousands that wait, one is tried.
        self._failed: dict[tuple[Shape, int], tuple[int, str]] = {}  # why, and at which version of the table
        self._standings: dict[Shape, Standing] = {}
        self._nominated: dict[str, BaselinePod] = {}  # of those waiting: room is being made for them
        self._messages: dict[str, str] = {}
        self.cycles = 0

    def waiting(self) -> dict[str, str]:
        """UID of each pod that fits nowhere, with the reason."""
        return {uid: self._messages[uid] for uid in self._waiting if uid in self._messages}

    def close(self) -> None:
        self._watch.close()

    def step(self) -> bool:
        """Take in what changed and try the pods that it may concern; True if anything was written."""
        freed = self._take(self._watch.poll())
        wanted = self._waiting if freed else {uid: self._waiting[uid] for uid in self._new if uid in self._waiting}
        if not wanted:
            return False
        self.cycles += 1
        self._new = {}
        if self._table is None:
            self._table = NodeTable(self._nodes, self._placed.values())
            self._failed.clear()
            self._standings.clear()
        wrote = False
        # The order of kube-scheduler's PrioritySort.
        for pod in sorted(wanted.values(), key=lambda pod: (-pod.priority, pod.created)):
            wrote |= self._schedule(pod, self._table)
        return wrote

    # --- taking in changes -------------------------------------------------------------------------------------------

    def _take(self, events: Iterable[WatchEvent]) -> bool:
        """True if something changed that may let a waiting pod in."""
        latest: dict[str, dict[str, WatchEvent]] = {"PriorityClass": {}, "Node": {}, "Pod": {}}
        for event in events:
            metadata = event.object["metadata"]
            latest[event.kind][metadata.get("uid") or metadata["name"]] = event
        freed = False
        for event in latest["PriorityClass"].values():
            if event.type == "DELETED":
                self._priorities.remove(event.object["metadata"]["name"])
            else:
                self._priorities.set(event.object)
        for event in latest["Node"].values():
            freed |= self._node(event)
        for uid, event in latest["Pod"].items():
            freed |= self._pod(uid, None if event.type == "DELETED" else event.object)
        return freed

    def _node(self, event: WatchEvent) -> bool:
        name = event.object["metadata"]["name"]
        before = self._nodes.get(name)
        if event.type == "DELETED":
            self._nodes.pop(name, None)
        else:
            self._nodes[name] = node_record(event.object, gpu_resources=(GPU_RESOURCE,))
        if before == self._nodes.get(name):
            return False
        self._table = None
        return True

    def _pod(self, uid: str, pod: Object | None) -> bool:
        if pod is None or (pod.get("status") or {}).get("phase") in _TERMINAL:
            self._drop(uid)
            return self._unplace(uid)
        shape = self._shapes.of(pod)
        needs = self._needs.get(shape)
        if needs is None:
            needs = self._needs[shape] = needs_of(shape)
        new = baseline_pod(pod, shape, needs, self._priorities)
        if new.node:
            self._drop(uid)
            self._place(new)
            return False
        spec = pod["spec"]
        ours = (spec.get("schedulerName") or DEFAULT_SCHEDULER_NAME) in self._scheduler_names
        if not ours or spec.get("schedulingGates") or new.leaving:
            self._drop(uid)
            # The room that was kept for it is free again.
            return bool(new.nominated)
        if uid not in self._waiting:
            self._new[uid] = None
        self._waiting[uid] = new
        if new.nominated:
            self._nominated[uid] = new
        else:
            self._nominated.pop(uid, None)
        return False

    def _drop(self, uid: str) -> None:
        """It waits no longer."""
        for table in (self._waiting, self._new, self._messages, self._nominated):
            table.pop(uid, None)

    def _place(self, pod: BaselinePod) -> None:
        before = self._placed.get(pod.uid)
        self._placed[pod.uid] = pod
        if any(not term.weight for term in pod.shape.anti_affinity):
            self._keeping_away[pod.uid] = pod
        table = self._table
        if table is None:
            return
        if before is None:
            table.add(pod)
        elif (position := table.index.get(pod.node)) is not None:
            # It counts already; what is replaced is its present state, which says whether it is leaving.
            table.pods[position][pod.uid] = pod

    def _unplace(self, uid: str) -> bool:
        pod = self._placed.pop(uid, None)
        self._keeping_away.pop(uid, None)
        if pod is not None and self._table is not None:
            self._table.remove(pod)
        return pod is not None

    # --- one pod -----------------------------------------------------------------------------------------------------

    def _schedule(self, pod: BaselinePod, table: NodeTable) -> bool:
        failed = self._failed.get((pod.shape, pod.priority))
        # Whether terms of affinity hold depends on the pod's labels too, which are not in the key.
        looks_around = bool(pod.shape.affinity or pod.shape.anti_affinity or self._keeping_away)
        # A nominated pod is tried each time: its room may just have become free.
        if failed is not None and failed[0] == table.version and not pod.nominated and not looks_around:
            return self._give_up(pod, failed[1])
        free = self._free_for(pod, table)
        standing = self._standing(pod, table)
        fits, others = self._fits(pod, table, free, standing)
        if fits.any():
            position = best_node(pod, table, fits, standing.scores, self._placed.values())
            return self._bind(pod, table.names[position])
        message = self._why(pod, table, free, others)
        preempted = self._preempt(pod, table, free)
        if not preempted:
            self._failed[pod.shape, pod.priority] = (table.version, message)
        return self._give_up(pod, message) or preempted

    def _standing(self, pod: BaselinePod, table: NodeTable) -> Standing:
        standing = self._standings.get(pod.shape)
        if standing is None:
            standing = self._standings[pod.shape] = Standing(pod, table)
        standing.refresh()
        return standing

    def _free_for(self, pod: BaselinePod, table: NodeTable) -> Amounts:
        """Free resources less what is kept for nominated pods that are as important or more so."""
        free = table.free
        for other in self._nominated.values():
            position = table.index.get(other.nominated)
            if position is None or other.uid == pod.uid or other.priority < pod.priority:
                continue
            # The table itself counts no nominations: they hold against less important pods only.
            free = free.copy() if free is table.free else free
            for name, amount in other.needs.items():
                row = table.rows.get(name)
                if row is not None:
                    free[row, position] -= amount
        return free

    def _fits(
        self, pod: BaselinePod, table: NodeTable, free: Amounts, standing: Standing
    ) -> tuple[Mask, list[tuple[Mask, str]]]:
        fits = standing.fits
        # The standing is of the table's own figures.
        if free is not table.free:
            fits = table.allowed(pod.shape)[0] & table.fitting(pod.needs, free)
        if pod.shape.ports:
            fits = fits & ~table.port_conflicts(pod.shape)
        others: list[tuple[Mask, str]] = []
        if pod.shape.affinity or pod.shape.anti_affinity or self._keeping_away:
            others = refusals(pod, table, self._placed.values(), self._keeping_away)
            for refused, _ in others:
                fits = fits & ~refused
        return fits, others

    def _why(self, pod: BaselinePod, table: NodeTable, free: Amounts, others: list[tuple[Mask, str]]) -> str:
        """kube-scheduler's text: each node counts for the first plugin that refuses it."""
        if not len(table):
            return "no nodes available to schedule pods"
        counts: dict[str, int] = {}
        _, refused = table.allowed(pod.shape)
        conflicts = table.port_conflicts(pod.shape) if pod.shape.ports else np.zeros(len(table), bool)
        for position in range(len(table)):
            reasons = [refused[position]] if refused[position] else []
            if not reasons and conflicts[position]:
                reasons = ["node(s) didn't have free ports for the requested pod ports"]
            # The order of kube-scheduler's filters: taints and affinity, ports, resources, then other pods.
            reasons = reasons or table.lacking(position, pod.needs, free)
            reasons = reasons or [reason for mask, reason in others if mask[position]][:1]
            for reason in reasons:
                counts[reason] = counts.get(reason, 0) + 1
        told = ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
        return f"0/{len(table)} nodes are available: {told}."

    # --- writing -----------------------------------------------------------------------------------------------------

    def _bind(self, pod: BaselinePod, node: str) -> bool:
        try:
            self._cluster.bind(pod.namespace, pod.name, node)
        except NotFound:
            self._drop(pod.uid)
            return False
        except ApiError as error:
            # So that the next step tries it without waiting for a change.
            self._new[pod.uid] = None
            return self._give_up(pod, f"binding rejected: {error}", "SchedulerError")
        text = f"Successfully assigned {pod.namespace}/{pod.name} to {node}"
        self._cluster.event(pod.object, "Normal", "Scheduled", text, COMPONENT)
        self._drop(pod.uid)
        # At once: the pods after it in this step must find its place taken.
        self._place(msgspec.structs.replace(pod, node=node, nominated=""))
        return True

    def _give_up(self, pod: BaselinePod, message: str, reason: str = "Unschedulable") -> bool:
        """Say why a pod waits; True if that is news."""
        self._messages[pod.uid] = message
        current = (pod.object.get("status") or {}).get("conditions") or ()
        conditions = with_condition(current, not_scheduled(message, reason), self._cluster.now())
        if conditions is None:
            return False
        self._cluster.event(pod.object, "Warning", "FailedScheduling", message, COMPONENT)
        self._patch_status(pod, {"conditions": conditions})
        return True

    def _patch_status(self, pod: BaselinePod, status: Object) -> None:
        try:
            self._cluster.patch("Pod", pod.name, pod.namespace, {"status": status}, "status")
        except ApiError:
            return  # gone meanwhile, or told again when it is tried again

    def _preempt(self, pod: BaselinePod, table: NodeTable, free: Amounts) -> bool:
        nominated = table.index.get(pod.nominated) if pod.nominated else None
        if nominated is not None and any(
            other.leaving and other.priority < pod.priority for other in table.pods[nominated].values()
        ):
            return False  # room is being made already
        # Where nothing less important runs there is no node worth looking at.
        lowest = min((other.priority for other in self._placed.values()), default=pod.priority)
        found = find_victims(pod, table, free, lowest)
        if found is None:
            return False
        for victim in found.victims:
            text = f"{COMPONENT}: preempting to accommodate a higher priority pod"
            try:
                self._cluster.evict(victim.namespace, victim.name, "PreemptionByScheduler", text)
            except NotFound:
                continue
            except ApiError:
                return True  # what went is gone; the pod is tried again when that shows
            told = f"Preempted by pod {pod.uid} on node {found.node}"
            self._cluster.event(victim.object, "Normal", "Preempted", told, COMPONENT)
        self._patch_status(pod, {"nominatedNodeName": found.node})
        return True
