"""A line that describes how a lab changed while something was done to it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kailab.cluster.protocol import Object
from kailab.evidence.wording import count, elapsed, some
from kailab.lab.owners import refused_pods
from kailab.model.objects import full_name

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
        refused = sorted(refused_pods(self._lab.cluster), key=lambda each: _title(each[0]))
        if refused:
            named = [f"{count(pods, 'pod')} of {_title(top)}" for top, pods in refused]
            text += f"; not made, because the API server refuses them: {some(named)}"
        return text


def _title(workload: Object) -> str:
    return f"{workload['kind']} {full_name(workload)}"


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
