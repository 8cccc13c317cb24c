"""Making room for a pod by evicting less important ones from one node. Source: kube-scheduler DefaultPreemption.

Disruption budgets are not looked at.
"""

from __future__ import annotations

from typing import NamedTuple

from kailab.scheduler.baseline.pods import BaselinePod
from kailab.scheduler.baseline.table import Amounts, NodeTable

# kube-scheduler's defaults: candidates for a tenth of the nodes are enough, but no fewer than a hundred.
FEWEST_CANDIDATES = 100


class Preemption(NamedTuple):
    node: str
    victims: list[BaselinePod]


def find_victims(pod: BaselinePod, table: NodeTable, free: Amounts, lowest: int) -> Preemption | None:
    """The node where making room hurts least; None if no node can be made to fit.

    ``free``: with what is kept for other nominated pods taken off. ``lowest``: the lowest priority there is on any
    node.
    """
    if not pod.preempts or pod.priority <= lowest:
        return None
    allowed, _ = table.allowed(pod.shape)
    enough = max(FEWEST_CANDIDATES, len(table) // 10)
    best: tuple[tuple[int, int, int, float, str], Preemption] | None = None
    found = 0
    for position, name in enumerate(table.names):
        if not allowed[position]:
            continue
        victims = _victims_on(position, pod, table, free)
        if not victims:
            continue
        highest = max(victim.priority for victim in victims)
        earliest = min(victim.created for victim in victims if victim.priority == highest)
        # DefaultPreemption's criteria. The offset leaves no priority negative, so that more victims are never better.
        key = (highest, sum(victim.priority + 2**31 for victim in victims), len(victims), -earliest, name)
        if best is None or key < best[0]:
            best = (key, Preemption(name, victims))
        found += 1
        if found >= enough:
            break
    return best[1] if best else None


def _victims_on(position: int, pod: BaselinePod, table: NodeTable, free: Amounts) -> list[BaselinePod]:
    """The fewest important pods of one node without which ``pod`` fits; empty if even all of them are not enough."""
    lower = [other for other in table.pods[position].values() if other.priority < pod.priority and not other.leaving]
    if not lower:
        return []
    room: dict[str, int] = {}
    for name, amount in pod.needs.items():
        # A resource that no node has is not to be had by evicting.
        row = table.rows.get(name)
        if row is None:
            return []
        room[name] = int(free[row, position]) - amount + sum(other.needs.get(name, 0) for other in lower)
    if min(room.values()) < 0 or _ports_taken(position, pod, table):
        return []
    victims = []
    # The most important, and of those the oldest, are let off first.
    for other in sorted(lower, key=lambda other: (-other.priority, other.created, other.uid)):
        if all(left >= other.needs.get(name, 0) for name, left in room.items()) and not pod.shape.ports:
            for name in room:
                room[name] -= other.needs.get(name, 0)
        else:
            victims.append(other)
    return victims


def _ports_taken(position: int, pod: BaselinePod, table: NodeTable) -> bool:
    """Host ports held by pods that may not be evicted."""
    held = {
        port[1:]
        for other in table.pods[position].values()
        if other.priority >= pod.priority
        for port in other.shape.ports
    }
    return any(port[1:] in held for port in pod.shape.ports)
