"""Measure a lab by its pods, for any scheduler: the pods that run after each change, and the GPUs that queues hold meanwhile.

Every pod event is processed in order, so evictions within one settling are seen even if the pod returns. Pods that are
deleted because their owner was deleted or scaled down do not count as evictions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kailab.cluster.protocol import Cluster, Object, WatchEvent
from kailab.evidence.cluster_state import pod_queue
from kailab.evidence.entries import PendingReason
from kailab.lab.subjects import SYSTEM_NAMESPACES
from kailab.model import labels, objects
from kailab.model.times import parse_time
from kailab.scheduler.observers import LabOpening, Observer
from kailab.scheduler.reading.accounts import GpuAccounts
from kailab.trials.results import LabPhase, LabResult

_TIME_PASSES = ("settle", "advance")
_REMOVES_PODS = ("delete", "scale", "patch")


class CellRecorder(Observer):
    """Measures one lab."""

    def __init__(self) -> None:
        self._cluster: Cluster | None = None
        self._watch: Any = None
        self._phases: list[LabPhase] = []
        self._waits: dict[str, tuple[str, ...]] = {}
        self._classes: dict[str, str] = {}
        self._pods: dict[str, _Pod] = {}
        self._open = _OpenPhase(0.0, {})

    def on_opened(self, opening: LabOpening) -> None:
        self._cluster = opening.cluster
        self._watch = opening.cluster.watch(("Pod",))
        self._classes = _classes(opening.cluster.list("Node"))
        self._begin()

    def on_step(self, operation: str, text: str = "", *, state: bool = False, **detail: Any) -> None:
        if self._cluster is None:
            return
        if operation not in _TIME_PASSES:
            # Changes without settling between them form one phase.
            if self._open.settled:
                self._end()
            self._open.operations.append(f"{operation} {text}".strip())
            self._open.removes_pods |= operation in _REMOVES_PODS
        self._follow()
        self._open.settled |= operation in _TIME_PASSES

    def on_closing(self, waiting: Callable[[], Sequence[PendingReason]]) -> None:
        if self._cluster is None:
            return
        self._follow()
        self._end()
        self._waits = self._reasons_by_work(waiting())
        self._watch.close()
        self._cluster = None

    def result(self) -> LabResult:
        return LabResult(phases=tuple(self._phases), waits=self._waits, classes=self._classes)

    # --- phases and events -------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        assert self._cluster is not None
        self._open = _OpenPhase(self._cluster.now(), self._held())

    def _end(self) -> None:
        if self._open.operations:
            self._phases.append(self._open.phase(self._pods.values(), self._held()))
        self._begin()

    def _held(self) -> dict[str, int]:
        held: Counter[str] = Counter()
        for pod in self._pods.values():
            if pod.queue:
                held[pod.queue] += pod.milli_gpus if pod.holds else 0
        return dict(held)

    def _follow(self) -> None:
        assert self._cluster is not None
        events: list[WatchEvent] = list(self._watch.poll())
        if not events:
            return
        pods = [event.object for event in events]
        nodes = {objects.name_of(node): node for node in self._cluster.list("Node")}
        groups = {
            (objects.namespace_of(group), objects.name_of(group)): group for group in self._cluster.list("PodGroup")
        }
        accounts = GpuAccounts(self._cluster, pods, nodes)
        held = self._held()
        for event in events:
            if objects.namespace_of(event.object) not in SYSTEM_NAMESPACES:
                self._take(event, groups, accounts, held)

    def _take(
        self, event: WatchEvent, groups: Mapping[tuple[str, str], Object], accounts: GpuAccounts, held: dict[str, int]
    ) -> None:
        pod, uid = event.object, objects.uid_of(event.object)
        before = self._pods.get(uid)
        now = _Pod.of(pod, groups, accounts, gone=event.type == "DELETED")
        if now.holds and (before is None or not before.holds):
            self._open.note_placement(pod)
            held[now.queue] = held.get(now.queue, 0) + now.milli_gpus
        elif before is not None and before.holds and not now.holds:
            held[before.queue] = held.get(before.queue, 0) - before.milli_gpus
            if before.queue:
                self._open.note_lowest(before.queue, held[before.queue])
            if not now.ended and (now.disrupted or not self._open.removes_pods):
                self._open.evicted[now.work] += 1
        if event.type == "DELETED":
            self._pods.pop(uid, None)
        else:
            self._pods[uid] = now

    def _reasons_by_work(self, reasons: Sequence[PendingReason]) -> dict[str, tuple[str, ...]]:
        codes_by_work: dict[str, set[str]] = {}
        for reason in reasons:
            for pod in self._pods.values():
                # Some reasons name a PodGroup without its pods.
                if not pod.node and (pod.name in reason.pods or (reason.podgroup and pod.podgroup == reason.podgroup)):
                    codes_by_work.setdefault(pod.work, set()).add(reason.reason)
        return {work: tuple(sorted(codes)) for work, codes in sorted(codes_by_work.items())}


@dataclass(frozen=True, slots=True)
class _Pod:
    """A pod after its last event. ``work``: its app label, or its owner."""

    name: str
    work: str
    node: str
    podgroup: str
    queue: str
    milli_gpus: int
    running: bool
    holds: bool
    ended: bool
    disrupted: bool

    @classmethod
    def of(cls, pod: Object, groups: Mapping[tuple[str, str], Object], accounts: GpuAccounts, *, gone: bool) -> _Pod:
        node, ended = objects.node_of(pod), objects.is_ended(pod)
        leaving = gone or objects.is_terminating(pod)
        return cls(
            name=objects.full_name(pod),
            work=objects.labels_of(pod).get("app") or objects.controller_name(pod) or objects.name_of(pod),
            node=node,
            podgroup=f"{objects.namespace_of(pod)}/{objects.annotations_of(pod).get(labels.POD_GROUP, '')}",
            queue=pod_queue(pod, groups),
            milli_gpus=accounts.gpus(pod),
            running=objects.phase_of(pod) == "Running" and not leaving,
            holds=bool(node) and not ended and not leaving,
            ended=ended and not leaving,
            disrupted=objects.condition_of(pod, "DisruptionTarget") is not None,
        )


class _OpenPhase:
    def __init__(self, begun: float, held: dict[str, int]) -> None:
        self.operations: list[str] = []
        self.begun = begun
        self.settled = False
        self.removes_pods = False
        self.evicted: Counter[str] = Counter()
        self._held = dict(held)
        self._lowest = dict(held)
        self._last: float | None = None

    def note_lowest(self, queue: str, milli: int) -> None:
        self._lowest[queue] = min(self._lowest.get(queue, milli), milli)

    def note_placement(self, pod: Object) -> None:
        scheduled = objects.condition_of(pod, "PodScheduled")
        if scheduled and scheduled.get("lastTransitionTime"):
            self._last = max(self._last or 0.0, parse_time(scheduled["lastTransitionTime"]))

    def phase(self, pods: Any, held: dict[str, int]) -> LabPhase:
        running: Counter[str] = Counter()
        placement: dict[str, Counter[str]] = {}
        for pod in pods:
            running[pod.work] += pod.running
            if pod.running:
                placement.setdefault(pod.work, Counter())[pod.node] += 1
        for queue, milli in held.items():
            self.note_lowest(queue, milli)
        return LabPhase(
            operations=tuple(self.operations),
            running={work: number for work, number in sorted(running.items()) if number},
            placement={work: dict(sorted(nodes.items())) for work, nodes in sorted(placement.items())},
            evicted=dict(sorted(self.evicted.items())),
            begun=dict(sorted(self._held.items())),
            held=dict(sorted(held.items())),
            lowest=dict(sorted(self._lowest.items())),
            # Conditions have whole seconds, so the time can lie before the change.
            seconds=None if self._last is None else round(max(0.0, self._last - self.begun), 3),
        )


def _classes(nodes: Sequence[Object]) -> dict[str, str]:
    """Map each node to the first node, by name, that is alike.

    So properties that all nodes of one cluster share are not a difference between clusters.
    """
    first: dict[str, str] = {}
    return {
        name: first.setdefault(_comparable_properties(node), name)
        for name, node in sorted({objects.name_of(node): node for node in nodes}.items(), key=lambda entry: entry[0])
    }


def _comparable_properties(node: Object) -> str:
    name = objects.name_of(node)
    own_labels = {
        key: value for key, value in objects.labels_of(node).items() if value != name and key != labels.HOSTNAME
    }
    # The not-ready taint is temporary.
    taints = [taint for taint in (node.get("spec") or {}).get("taints") or () if "not-ready" not in taint["key"]]
    return str((sorted(own_labels.items()), sorted(str(sorted(taint.items())) for taint in taints)))
