"""A line that describes how a lab changed while something was done to it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kailab.cluster.protocol import Object
from kailab.evidence.wording import count, elapsed, some
from kailab.lab.owners import owners_of, refused_owners
from kailab.model.kinds import kind_key, part
from kailab.model.objects import full_name, is_terminating, owner_uids, uid_of

if TYPE_CHECKING:
    from kailab.lab.lab import Lab

_ORDER = ("Running", "Pending", "Terminating", "Succeeded", "Failed")


class LabChanges:
    """Make it before the work, call ``describe`` after it."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._now = lab.now
        self._evicted = len(lab.log.evictions)

    def describe(self, opening: str = "settled after") -> str:
        """``settled after 3s of lab time: 8 pods running, 2 pending (2 OverLimit); 1 evicted``."""
        entries = self._lab.log.evictions[self._evicted :]
        moved = sum(entry.is_move for entry in entries)
        text = f"{opening} {elapsed(self._lab.now - self._now)} of lab time: {summarize_pods(self._lab)}"
        for number, what in ((len(entries) - moved, "evicted"), (moved, "moved to other nodes")):
            text += f"; {number} {what}" if number else ""
        if refused := [f"{count(pods, 'pod')} of {title}" for title, pods in _refused_by_title(self._lab)]:
            text += f"; not made, because the API server refuses them: {some(refused)}"
        return text


def _refused_by_title(lab: Lab) -> list[tuple[str, int]]:
    return sorted((f"{top['kind']} {full_name(top)}", pods) for top, pods in refused_pods(lab))


def refused_pods(lab: Lab) -> list[tuple[Object, int]]:
    """The workloads (top owners) that lack pods because the API server refuses them, and how many they lack."""
    owners = list(refused_owners(lab.cluster))
    pods = [pod for pod in lab.cluster.list("Pod") if not is_terminating(pod)] if owners else []
    there = Counter(uid for pod in pods for uid in owner_uids(pod))
    lacking: dict[str, tuple[Object, int]] = {}
    for obj in owners:
        wanted = part(kind_key(obj), "wanted_pods")
        lacks = max(0, wanted(obj) - there[uid_of(obj)]) if wanted is not None else 0
        if lacks:
            top = [obj, *owners_of(lab.cluster, obj)][-1]
            _, before = lacking.get(uid_of(top), (top, 0))
            lacking[uid_of(top)] = (top, before + lacks)
    return list(lacking.values())


def summarize_pods(lab: Lab) -> str:
    """How many pods there are by phase, and the pending ones by reason."""
    picture = lab.picture()
    phases = Counter(row.phase for row in picture.rows)
    parts = [f"{phases[phase]} {phase.lower()}" for phase in _ORDER if phases[phase]]
    if not parts:
        return "no pods"
    number, _, phase = parts[0].partition(" ")
    parts[0] = f"{number} pod{'' if number == '1' else 's'} {phase}"
    codes = Counter(
        picture.code_of(row) or picture.no_reason(row.name)
        for row in picture.rows
        if row.phase == "Pending" and not row.node
    )
    if codes:
        reasons = ", ".join(f"{times} {code}" for code, times in codes.most_common())
        place = next(index for index, part in enumerate(parts) if part.endswith("pending"))
        parts[place] += f" ({reasons})"
    return ", ".join(parts)
