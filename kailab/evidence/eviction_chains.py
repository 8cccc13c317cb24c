"""Who displaced whom: the evictions of a lab's history by workload, and the chains that they form.

A workload that loses its place may take that of another, which takes that of a third: such displacements form a chain, from the workload
that came first to the last that gave way. Moves are no evictions: a pod that consolidation moves has another place at once. They are
counted apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kailab.evidence.canonical import format_rfc3339
from kailab.evidence.entries import PodEvicted
from kailab.evidence.history import LabHistory, PodPast
from kailab.evidence.wording import count, gpus, some
from kailab.model.multimap import multimap

TOGETHER = 60.0
"""Evictions of one workload for another count as one if they follow each other within this many seconds."""


@dataclass(frozen=True)
class Displacement:
    """Pods of one workload that were evicted for another, in one cycle or in several that follow within ``TOGETHER`` seconds. ``t`` and
    ``until``: the first and the last of these, in seconds since the lab opened; ``cycle``: the first. ``victim`` and ``beneficiary``:
    ``Kind namespace/name``; ``beneficiary`` "": evicted for nobody, as a stale gang. ``gpus``: milli-GPU that became free. ``nodes``: with
    the number of pods that left each."""

    t: float
    until: float
    cycle: int
    action: str
    victim: str
    victim_queue: str
    beneficiary: str
    beneficiary_queue: str
    pods: tuple[str, ...]
    gpus: int
    nodes: dict[str, int]
    reason: str

    def data(self, opened: float) -> dict[str, Any]:
        return {
            "t": self.t,
            "time": format_rfc3339(opened + self.t),
            "until": format_rfc3339(opened + self.until),
            "cycle": self.cycle,
            "action": self.action,
            "victim": self.victim,
            "victim_queue": self.victim_queue,
            "beneficiary": self.beneficiary,
            "beneficiary_queue": self.beneficiary_queue,
            "pods": list(self.pods),
            "gpus": self.gpus / 1000,
            "nodes": self.nodes,
            "reason": self.reason,
        }


@dataclass(frozen=True)
class EvictionHistory:
    """``displacements``: in order of time, from ``since`` (seconds since the lab opened) on. ``moves``: workload -> pods that were moved."""

    opened: float
    since: float
    displacements: tuple[Displacement, ...]
    moves: dict[str, int]

    @property
    def by_victim(self) -> dict[str, list[Displacement]]:
        """Each workload that lost pods, those that lost most GPUs first."""
        groups = multimap((displacement.victim, displacement) for displacement in self.displacements)
        return dict(sorted(groups.items(), key=lambda item: (-sum(one.gpus for one in item[1]), item[0])))

    def led_to(self, place: int) -> list[int]:
        """The next evictions for the victim of a displacement: at most up to its next loss. ``place``: an index in ``displacements``."""
        own = self.displacements[place]
        found: list[int] = []
        for later in range(place + 1, len(self.displacements)):
            other = self.displacements[later]
            if other.beneficiary == own.victim:
                found.append(later)
            elif other.victim == own.victim and other.cycle != own.cycle:
                break
        return found

    def chains(self) -> list[list[tuple[int, Displacement]]]:
        """Each chain as a tree in lines: (depth, displacement). A displacement alone is no chain and is left out."""
        led = [self.led_to(place) for place in range(len(self.displacements))]
        followed = {later for found in led for later in found}
        return [
            list(self._tree(place, led, 0, set()))
            for place in range(len(self.displacements))
            if place not in followed and led[place]
        ]

    def _tree(
        self, place: int, led: Sequence[Sequence[int]], depth: int, shown: set[int]
    ) -> Iterator[tuple[int, Displacement]]:
        shown.add(place)
        yield depth, self.displacements[place]
        for later in led[place]:
            if later not in shown:
                yield from self._tree(later, led, depth + 1, shown)

    def lines(self) -> list[str]:
        """For people."""
        since = format_rfc3339(self.opened + self.since)
        pods = sum(len(one.pods) for one in self.displacements)
        if not pods:
            return [f"No pod was evicted since {since}.", *self._move_lines()]
        victims = self.by_victim
        freed = gpus(sum(one.gpus for one in self.displacements))
        lines = [
            f"{count(pods, 'pod')} of {count(len(victims), 'workload')} evicted since {since}; {freed} became free for others:"
        ]
        for victim, losses in victims.items():
            lost = sum(len(one.pods) for one in losses)
            lines.append(
                f"{victim} ({losses[0].victim_queue or 'no queue'}) lost {count(lost, 'pod')}, {gpus(sum(one.gpus for one in losses))}:"
            )
            lines += [f"  {self._time(one)}  {_loss(one)}" for one in losses]
        if chains := self.chains():
            lines.append("Who displaced whom in turn:")
            for chain in chains:
                lines += [f"  {self._time(one)}  {'  ' * depth}{_link(one)}" for depth, one in chain]
        return [*lines, *self._move_lines()]

    def _time(self, one: Displacement) -> str:
        return format_rfc3339(self.opened + one.t)

    def _move_lines(self) -> list[str]:
        if not self.moves:
            return []
        each = [f"{workload} ({number_of})" for workload, number_of in self.moves.items()]
        moved = sum(self.moves.values())
        return [f"{count(moved, 'pod')} moved to other nodes, which is no eviction: {some(each)}."]

    def data(self) -> dict[str, Any]:
        """For programs. ``chains``: lists of (depth, index in ``evictions``)."""
        places = {id(one): place for place, one in enumerate(self.displacements)}
        return {
            "opened": format_rfc3339(self.opened),
            "since": format_rfc3339(self.opened + self.since),
            "evictions": [one.data(self.opened) for one in self.displacements],
            "workloads": [
                {
                    "workload": victim,
                    "queue": losses[0].victim_queue,
                    "pods": sum(len(one.pods) for one in losses),
                    "gpus": sum(one.gpus for one in losses) / 1000,
                    "displaced_by": list(dict.fromkeys(one.beneficiary for one in losses if one.beneficiary)),
                }
                for victim, losses in self.by_victim.items()
            ],
            "chains": [
                [{"depth": depth, "eviction": places[id(one)]} for depth, one in chain] for chain in self.chains()
            ],
            "moves": self.moves,
        }


def eviction_history(
    history: LabHistory, since: float = 0.0, belongs: Callable[[PodPast], bool] = lambda pod: True
) -> EvictionHistory:
    """The evictions from ``since`` on, in seconds since the lab opened. ``belongs``: chooses pods; an eviction counts that took one of
    them, or was made for a workload of which one was chosen."""
    pods = history.pods
    chosen = {name for name, pod in pods.items() if belongs(pod)}
    workloads = {pods[name].workload for name in chosen}
    entries = [entry for entry in history.decisions if isinstance(entry, PodEvicted) and entry.t >= since]
    moves: Counter[str] = Counter()
    together: list[tuple[str, str, list[PodEvicted]]] = []
    latest: dict[tuple[str, str, str], list[PodEvicted]] = {}
    for entry in entries:
        victim = pods[entry.pod].workload if entry.pod in pods else f"Pod {entry.pod}"
        beneficiary = (
            history.workloads.get(entry.beneficiary, f"PodGroup {entry.beneficiary}") if entry.beneficiary else ""
        )
        if entry.pod not in chosen and beneficiary not in workloads:
            continue
        if entry.is_move:
            moves[victim] += 1
        else:
            before = latest.get((victim, beneficiary, entry.action))
            if before is None or entry.t - before[-1].t > TOGETHER:
                before = latest[victim, beneficiary, entry.action] = []
                together.append((victim, beneficiary, before))
            before.append(entry)
    displacements = tuple(_displacement(victim, beneficiary, taken) for victim, beneficiary, taken in together)
    return EvictionHistory(history.opened, since, displacements, dict(moves))


def _displacement(victim: str, beneficiary: str, entries: Sequence[PodEvicted]) -> Displacement:
    first = entries[0]
    nodes = Counter(entry.node for entry in entries)
    return Displacement(
        t=first.t,
        until=entries[-1].t,
        cycle=first.cycle,
        action=first.action,
        victim=victim,
        victim_queue=first.queue,
        beneficiary=beneficiary,
        beneficiary_queue=first.beneficiary_queue,
        pods=tuple(entry.pod for entry in entries),
        gpus=sum(entry.amounts.gpu for entry in entries if entry.amounts is not None),
        nodes=dict(sorted(nodes.items())),
        reason=" ".join(first.reason.split()),
    )


def _loss(one: Displacement) -> str:
    whom = f"displaced by {one.beneficiary} ({one.beneficiary_queue})" if one.beneficiary else f"evicted ({one.reason})"
    return f"{count(len(one.pods), 'pod')}, {gpus(one.gpus)} {whom}, {one.action}; from {_nodes(one.nodes)}"


def _link(one: Displacement) -> str:
    who = f"{one.beneficiary} ({one.beneficiary_queue})" if one.beneficiary else one.action
    return f"{who} displaced {one.victim} ({one.victim_queue}): {count(len(one.pods), 'pod')}, {gpus(one.gpus)}"


def _nodes(nodes: dict[str, int], most: int = 4) -> str:
    each = [name if number_of == 1 else f"{name} ({number_of})" for name, number_of in nodes.items()]
    return ", ".join(each[:most]) + (f" and {count(len(each) - most, 'more node')}" if len(each) > most else "")


def latest_moment(history: LabHistory) -> float:
    """The last moment that a history knows, in seconds since the lab opened."""
    times: Iterable[float] = (
        *(step.t for step in history.steps),
        *(t for t, _ in history.states),
        *(entry.t for entry in history.decisions),
        *(cycle.now - history.opened for cycle in history.cycles),
    )
    return max(times, default=0.0)
