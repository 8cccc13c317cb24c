"""Evictions in a real KAI's words: what the condition that it leaves on an evicted pod says of the action, and for whom.

Source: KAI's unschedule_info.go. Kailab's own scheduler uses the same words.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_FORMS = (
    ("preempt", re.compile(r"^Pod \S+ was preempted by higher priority workload (?P<whom>\S+)$")),
    ("reclaim", re.compile(r"^Pod \S+ was preempted by workload (?P<whom>\S+)\.(?:\n|$)")),
    ("consolidation", re.compile(r"^Pod \S+ was preempted and rescheduled due to bin packing")),
    ("stalegangeviction", re.compile(r"^Workload doesn't meet the minimum required number of pods")),
)


class Told(NamedTuple):
    """``beneficiary``: ``namespace/name`` of the PodGroup that the room is made for; empty for none."""

    action: str
    beneficiary: str


def eviction(message: str) -> Told | None:
    """What a message says; None if it is not KAI's."""
    for action, form in _FORMS:
        if found := form.match(message):
            return Told(action, found.groupdict().get("whom", ""))
    return None
