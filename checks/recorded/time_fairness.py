"""Time-based fairness: recorded runs of KAI's simulator, repeated in cycles and compared in shape.

KAI's simulator runs its real parts on wall-clock time and samples them; here a sample is a cycle. The sequence of
events is KAI's: an evicted pod is gone one cycle later and not created again, the pod promised its place is bound then
and counts one cycle later. Which queue starts is random in KAI, so a run begins with the allocation of the recording's
first sample. Per queue, means, extremes, the number of changes and the intervals between them are compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import Any

import msgspec

from checks.case_input import NOW
from kailab.engine.config import EngineConfig
from kailab.engine.cycle import run_cycle
from kailab.engine.queueing.fairshare import Amounts, sum_up, tree_shares
from kailab.engine.snapshot.gpu_requests import WholeGpus
from kailab.engine.snapshot.records import (
    GPU,
    NO_SHARE,
    Node,
    PodGroup,
    PodSet,
    Queue,
    ResourceShare,
    Shape,
    Status,
    SubGroup,
    Task,
)
from kailab.engine.working.workingset import WorkingSet

CYCLES, WINDOW, K_VALUE = 100, 5, 1.0  # KAI's defaults
MEAN_TOLERANCE = 0.05
"""The tolerance of mean allocation and fair share, as a part of the cluster."""
CHANGES_TOLERANCE = 0.25
"""The tolerance of the number of changes: this part, or 2 changes, or the effect of LAG if changes are frequent."""
LENGTH_TOLERANCE = 0.15
"""The tolerance of mean intervals: this part, or LAG cycles for each side."""
LAG = 3
"""Cycles by which the simulator's parts run behind each other: an empty cluster at a hand-over lasted 1 to 4."""


@dataclass(slots=True)
class QueueHistory:
    """What a queue held and was due, in GPUs, sample by sample."""

    allocation: list[float] = field(default_factory=list)
    fair_share: list[float] = field(default_factory=list)


def window_usage(
    samples: Sequence[Mapping[str, float]], capacity: float, window: int, half_life: float
) -> dict[str, float]:
    """Usage (0..1) of each queue over the last ``window`` samples; ``half_life`` in samples, 0: no decay.

    As in KAI's simulator, the decay depends on the position in the window, so that the newest samples weigh least while
    the window fills.
    """
    recent = samples[-window:]
    decay = [0.5 ** ((window - i) / half_life) if half_life else 1.0 for i in range(len(recent))]
    offered = capacity * sum(decay)
    held: dict[str, float] = {}
    for weight, sample in zip(decay, recent, strict=True):
        for queue, gpus in sample.items():
            held[queue] = held.get(queue, 0.0) + weight * gpus
    return {queue: gpus / offered for queue, gpus in held.items()} if offered else {}


def simulate(config: Mapping[str, Any], start: Mapping[str, float]) -> dict[str, QueueHistory]:
    """Run a simulator configuration. ``start``: GPUs that each leaf queue holds at the beginning."""
    cluster = _Cluster(config, start)
    cycles = config.get("Cycles") or CYCLES
    window, half_life = config.get("WindowSize") or WINDOW, config.get("HalfLifePeriod") or 0
    k_value = K_VALUE if config.get("KValue") is None else config["KValue"]
    histories = {queue["Name"]: QueueHistory() for queue in config["Queues"]}
    samples: list[dict[str, float]] = []
    for _ in range(cycles):
        usage = window_usage(samples, cluster.capacity, window, half_life)
        shares = cluster.cycle(k_value, {queue: {"gpu": part} for queue, part in usage.items()})
        held = cluster.held()
        samples.append(held)
        for name, history in histories.items():
            history.allocation.append(held.get(name, 0.0))
            history.fair_share.append(shares[name])
    return histories


class _Cluster:
    """A working set and the events that change it from cycle to cycle."""

    def __init__(self, config: Mapping[str, Any], start: Mapping[str, float]) -> None:
        self.working = WorkingSet()
        self.tasks: dict[str, Task] = {}
        self._queue_of: dict[str, str] = {}
        self._parents = {queue["Name"]: queue["Parent"] for queue in config["Queues"]}
        self._shares: dict[str, float] | None = None
        self._leaving: list[str] = []
        self._binding: list[Task] = []
        self.capacity = float(sum(node["GPUs"] for node in config["Nodes"]))
        room = []
        for number, node in enumerate(config["Nodes"]):
            name = f"node-{number}"
            self.working.set_node(Node(name=name, cpu=10**6, memory=10**12, gpus=node["GPUs"] * GPU, pods=10**4))
            room.append([name, node["GPUs"]])
        self._totals = Amounts(gpu=round(self.capacity) * GPU)
        for rank, queue in enumerate(config["Queues"]):
            self.working.set_queue(_queue(queue, rank))
        for name, jobs in config["Jobs"].items():
            self._submit(name, jobs, start.get(name, 0.0), room)

    def _submit(self, queue: str, jobs: Mapping[str, int], held: float, room: list[list[Any]]) -> None:
        gpus = jobs["GPUs"]
        for number in range(jobs["NumJobs"]):
            name = f"{queue}-{number:04d}"
            group = PodGroup(
                uid=name, name=name, namespace="default", queue=queue, created=NOW - 10**5 + len(self._queue_of),
                root=SubGroup(podsets=(PodSet(name="default", min_available=1),)), last_start=NOW - 60,
            )  # fmt: skip
            self.working.set_podgroup(group)
            self._queue_of[name] = queue
            for pod in range(jobs["NumPods"]):
                node = next((place for place in room if place[1] >= gpus), None) if held >= gpus else None
                if node is not None:
                    node[1] -= gpus
                    held -= gpus
                self._set(
                    Task(
                        uid=f"{name}-{pod}",
                        name=f"{name}-{pod}",
                        namespace="default",
                        podgroup=name,
                        shape=Shape(gpu=WholeGpus(devices=gpus)),
                        subgroup="default",
                        status=Status.RUNNING if node else Status.PENDING,
                        node=node[0] if node else "",
                    )
                )

    def _set(self, task: Task) -> None:
        self.tasks[task.uid] = task
        self.working.set_task(task)

    def cycle(self, k_value: float, usage: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
        """Remove leaving pods, start bound pods, and decide. Returns fair shares in GPUs.

        Past usage affects decisions only through fair shares, so a settled cluster is decided again only after one of
        them changes.
        """
        shares = self._fair_shares(k_value, usage)
        if shares == self._shares and not self._leaving and not self._binding:
            return shares
        for uid in self._leaving:
            self.working.remove_task(uid)
            del self.tasks[uid]
        for task in self._binding:
            if task.uid in self.tasks:
                self._set(msgspec.structs.replace(task, status=Status.RUNNING))
        decisions = run_cycle(self.working, EngineConfig(k_value=k_value, usage=usage), NOW)
        self._leaving = [eviction.task for eviction in decisions.evictions]
        for uid in self._leaving:
            self._set(msgspec.structs.replace(self.tasks[uid], status=Status.RELEASING))
        self._binding = [
            msgspec.structs.replace(self.tasks[bind.task], status=Status.BINDING, node=bind.node)
            for bind in decisions.binds
        ]
        for task in self._binding:
            self._set(task)
        self._shares = {state.name: state.gpu.fair_share / GPU for state in decisions.queues}
        return self._shares

    def _fair_shares(self, k_value: float, usage: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
        wanted: dict[str, Amounts] = {}
        for uid, task in self.tasks.items():
            if uid in self._leaving:
                continue
            queue = self._queue_of[task.podgroup]
            wanted[queue] = Amounts(gpu=wanted.get(queue, Amounts()).gpu + task.shape.gpu.devices * GPU)
        requests = sum_up(self.working.queues.values(), wanted)
        shares = tree_shares(self.working.queues.values(), self._totals, requests, k_value=k_value, usage=usage)
        return {name: share.gpu / GPU for name, share in shares.items()}

    def held(self) -> dict[str, float]:
        """GPUs of running pods, summed up the tree."""
        held: dict[str, float] = {}
        for task in self.tasks.values():
            if task.status != Status.RUNNING:
                continue
            queue = self._queue_of[task.podgroup]
            while queue:
                held[queue] = held.get(queue, 0.0) + task.shape.gpu.devices
                queue = self._parents[queue]
        return held


def _queue(raw: Mapping[str, Any], rank: int) -> Queue:
    weight, priority = raw.get("Weight"), raw.get("Priority")
    return Queue(
        name=raw["Name"],
        uid=raw["Name"],
        parent=raw["Parent"],
        priority=100 if priority is None else priority,
        created=NOW - 10**6 + rank,
        gpu=ResourceShare(
            quota=round((raw.get("DeservedGPUs") or 0) * GPU), limit=-1, weight=1.0 if weight is None else weight
        ),
        cpu=NO_SHARE,
        memory=NO_SHARE,
    )


def differences(simulation: Mapping[str, Any], run: Mapping[str, Any]) -> list[str]:
    """Compare a run of kailab with a run of KAI's simulation."""
    recorded = {name: _unrolled(series) for name, series in run["series_rle"].items()}
    start = {name: history.allocation[0] for name, history in recorded.items()}
    ours = simulate(simulation["config"], start)
    capacity = float(sum(node["GPUs"] for node in simulation["config"]["Nodes"]))
    result: list[str] = []
    for name, theirs in sorted(recorded.items()):
        result += _history_differences(name, ours[name], theirs, capacity)
    return result


def _unrolled(series: Mapping[str, Sequence[Sequence[float]]]) -> QueueHistory:
    def plain(pairs: Iterable[Sequence[float]]) -> list[float]:
        return [value for value, count in pairs for _ in range(int(count))]

    return QueueHistory(plain(series["allocation"]), plain(series["fair_share"]))


def _history_differences(name: str, ours: QueueHistory, theirs: QueueHistory, capacity: float) -> Iterator[str]:
    # Each hand-over leaves the cluster empty for a few cycles, and their number differs between KAI and kailab.
    lost = LAG * _changes(theirs.allocation) / len(theirs.allocation) / 2
    slack = (MEAN_TOLERANCE + min(lost, 0.25)) * capacity
    for verb, mine, kai in (
        ("holds", _mean(ours.allocation), _mean(theirs.allocation)),
        ("holds in the last half", _mean(_last_half(ours.allocation)), _mean(_last_half(theirs.allocation))),
        ("is due", _mean(ours.fair_share), _mean(theirs.fair_share)),
    ):
        if abs(mine - kai) > slack:
            yield f"queue {name} {verb} {mine:.2f} GPUs on average, KAI had {kai:.2f} (tolerance {slack:.2f})"
    if abs(max(ours.allocation) - max(theirs.allocation)) > MEAN_TOLERANCE * capacity:
        yield f"queue {name} holds {max(ours.allocation):g} GPUs at most, KAI had {max(theirs.allocation):g}"
    cycles, mine, kai = len(ours.allocation), _changes(ours.allocation), _changes(theirs.allocation)
    lagging = mine > 0 < kai and abs(cycles / mine - cycles / kai) <= LAG
    if abs(mine - kai) > max(2, CHANGES_TOLERANCE * kai) and not lagging:
        yield f"queue {name} changes {mine} times, KAI had {kai}"
    own, recorded = _mean_interval(ours.allocation), _mean_interval(theirs.allocation)
    if own and recorded and abs(own - recorded) > max(2 * LAG, LENGTH_TOLERANCE * recorded):
        yield f"queue {name} changes every {own:.0f} cycles, KAI every {recorded:.0f}"


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _last_half(values: Sequence[float]) -> Sequence[float]:
    return values[len(values) // 2 :]


def _changes(values: Sequence[float]) -> int:
    return sum(before != after for before, after in pairwise(values))


def _mean_interval(values: Sequence[float]) -> float:
    """Mean interval between changes, without the first two intervals (warming up) and the last (cut off)."""
    lengths = [sum(1 for _ in group) for _, group in groupby(values)][2:-1]
    return sum(lengths) / len(lengths) if lengths else 0.0
