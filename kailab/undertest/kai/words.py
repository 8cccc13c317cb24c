"""A real KAI's words, read: what the condition that it leaves on an evicted pod says of the action, and for whom; and the code
of the reason for which a pod waits.

Source: KAI's unschedule_info.go. Kailab's own scheduler uses the same words.
"""

from __future__ import annotations

import re

from kailab.undertest.contract import Told

_FORMS = (
    ("preempt", re.compile(r"^Pod \S+ was preempted by higher priority workload (?P<whom>\S+)$")),
    ("reclaim", re.compile(r"^Pod \S+ was preempted by workload (?P<whom>\S+)\.(?:\n|$)")),
    ("consolidation", re.compile(r"^Pod \S+ was preempted and rescheduled due to bin packing")),
    ("stalegangeviction", re.compile(r"^Workload doesn't (?:meet|have) the minimum required number of pods")),
)

_CODES = (
    "OverLimit",
    "NonPreemptibleOverQuota",
    "PodSchedulingErrors",
    "PreemptionDelayNotElapsed",
    "QueueDoesNotExist",
)


def eviction(message: str) -> Told | None:
    """What a message says; None if it is not KAI's."""
    for action, form in _FORMS:
        if found := form.match(message):
            return Told(action, found.groupdict().get("whom", ""))
    return None


def code(message: str) -> str:
    """The code that the message of a pod that waits begins with; empty if it has none. A PodGroup that runs in part has no
    condition that would say it."""
    first, colon, _ = message.partition(":")
    return first if colon and first in _CODES else ""
