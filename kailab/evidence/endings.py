"""Where workloads of a lab ended, and the first decision about each, of two labs, that is another.

Names of pods and UIDs are left out of the comparison: a Deployment's pods have other names as soon as one more was made before them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from kailab.evidence.canonical import plain
from kailab.evidence.entries import Bound, Decision, Evicted, Promised, Refused, Waits
from kailab.evidence.history import History
from kailab.evidence.observed import ACTION
from kailab.evidence.story import unnamed


@dataclass(frozen=True)
class Moved:
    """A workload that ended elsewhere. ``first``, ``second``: how, ``Running on a100-0`` -> number of pods (empty: it has none).
    ``decisions``: the first ones about it that differ (None: there was none), and ``told``, both in words."""

    workload: str
    first: dict[str, int]
    second: dict[str, int]
    decisions: tuple[Decision | None, Decision | None]
    told: tuple[str, str]

    def data(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Of each side: where it ended, and its decision."""
        left, right = (None if one is None else plain(one) for one in self.decisions)
        return {"ended": self.first, "decision": left}, {"ended": self.second, "decision": right}

    def __str__(self) -> str:
        text = f"{self.workload} ended otherwise: {_ended(self.first)} -> {_ended(self.second)}"
        if self.decisions == (None, None):
            return text
        return f"{text}; first decided otherwise: {self.told[0]} -> {self.told[1]}"


def moved(first: History, second: History) -> Iterator[Moved]:
    """In the order in which workloads came to be known."""
    one, two = _endings(first), _endings(second)
    left, right = _about(first), _about(second)
    # Of a scheduler that tells nothing of its own binds and evictions are known, and not by which action.
    observed = any(entry.action == ACTION for history in (first, second) for entry in history.decisions)
    other = _first_other_seen if observed else _first_other
    for workload in dict.fromkeys((*one, *two, *left, *right)):
        before, after = one.get(workload, {}), two.get(workload, {})
        if before == after:
            continue
        pair = other(left.get(workload, []), right.get(workload, []))
        yield Moved(workload, before, after, pair, (_told(pair[0]), _told(pair[1])))


def _endings(history: History) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for pod in history.after.get("pods", ()):
        metadata = pod["metadata"]
        # The history has read the same look, so every pod of it is known there.
        past = history.pods[f"{metadata.get('namespace', '')}/{metadata['name']}"]
        phase = (pod.get("status") or {}).get("phase") or "Pending"
        node = (pod.get("spec") or {}).get("nodeName")
        how = f"{phase} on {node}" if node else phase
        of = found.setdefault(past.workload, {})
        of[how] = of.get(how, 0) + 1
    # Sorted, since two runs list the same pods in another order once one of them has another name.
    return {workload: dict(sorted(counts.items())) for workload, counts in found.items()}


def _about(history: History) -> dict[str, list[Decision]]:
    found: dict[str, list[Decision]] = {}
    for entry in history.decisions:
        if isinstance(entry, Waits) or (not isinstance(entry, Refused) and entry.podgroup):
            workload = history.workloads.get(entry.podgroup, entry.podgroup)
        else:
            workload = history.pods[entry.pod].workload if entry.pod in history.pods else f"Pod {entry.pod}"
        found.setdefault(workload, []).append(entry)
    return found


def _first_other(one: list[Decision], two: list[Decision]) -> tuple[Decision | None, Decision | None]:
    for left, right in zip_longest(one, two):
        # Compared as they are told: cycle, time and names of pods may differ where the decision is the same.
        if _told(left) != _told(right):
            return left, right
    return None, None


def _first_other_seen(one: list[Decision], two: list[Decision]) -> tuple[Decision | None, Decision | None]:
    """By what the cluster shows. Of a side that decided nothing more, why it waits is told, where that is known."""
    pairs = zip_longest(*([entry for entry in side if isinstance(entry, Bound | Evicted)] for side in (one, two)))
    for left, right in pairs:
        if _seen(left) != _seen(right):
            return left or _last_wait(one), right or _last_wait(two)
    return None, None


def _seen(entry: Bound | Evicted | None) -> tuple[str, str]:
    return ("", "") if entry is None else (str(entry.__struct_config__.tag), entry.node)


def _last_wait(entries: list[Decision]) -> Decision | None:
    return next((entry for entry in reversed(entries) if isinstance(entry, Waits)), None)


def _told(entry: Decision | None) -> str:
    """A decision in words, without names of pods."""
    match entry:
        case None:
            return "nothing"
        case Waits():
            return f"waits ({entry.reason}: {unnamed(entry)})"
        case Refused():
            return f"{entry.verb} refused ({' '.join(entry.reason.split())})"
        case Evicted():
            whom = f" for queue {entry.beneficiary_queue}" if entry.beneficiary_queue else ""
            return f"{'moved' if entry.is_move else 'evicted'} from {entry.node} by {entry.action}{whom}"
        case Promised():
            return f"promised {entry.node} by {entry.action}"
        case Bound():
            return f"bound to {entry.node} by {entry.action}"


def _ended(counts: dict[str, int]) -> str:
    return ", ".join(f"{number} {how}" for how, number in counts.items()) or "no pods"
