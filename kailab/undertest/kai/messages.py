"""Read what a real KAI reports: evictions and the reasons of waiting pods.

``parse_eviction`` and ``parse_code`` read messages of pod conditions (source: KAI's unschedule_info.go); kailab's own scheduler writes
the same messages. Before v0.8.1 KAI left no condition on evicted pods, so ``EvictionEvents`` reads the Event ``Evict`` of their PodGroup
(source: ``Evicted`` in KAI's default_status_updater.go). The event recorder of client-go combines Events: the eleventh of one PodGroup
within ten minutes and all later ones are a single Event with the last message.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

from kailab.cluster.protocol import Cluster
from kailab.model import labels
from kailab.model.objects import (
    Object,
    annotations_of,
    full_name,
    involved_of,
    is_terminating,
    metadata_of,
    namespace_of,
    uid_of,
)
from kailab.model.times import parse_time
from kailab.undertest.contract import EvictionCondition, EvictionReason

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


def parse_eviction(message: str) -> EvictionCondition | None:
    """Parse the message of an evicted pod's condition; None if it is not KAI's."""
    for action, form in _FORMS:
        if match := form.match(message):
            return EvictionCondition(action, match.groupdict().get("whom", ""))
    return None


def parse_code(message: str) -> str:
    """The code at the start of a waiting pod's message, or "". A PodGroup that runs in part has no condition with it."""
    first, colon, _ = message.partition(":")
    return first if colon and first in _CODES else ""


# --- evictions before v0.8.1 ------------------------------------------------------------------------------------------

_COMBINED = "(combined from similar events): "
_NEAR = 5.0  # seconds: the Event is sent just before the pod is deleted, and both times have whole seconds

_EvictEvents = list[tuple[float, str, bool]]  # (time of the last one, message, whether it is a combined Event)


class EvictionEvents:
    """An ``EvictionFinder``."""

    def __init__(self, there: Cluster) -> None:
        self._there = there

    def __call__(self, pods: Sequence[Object]) -> dict[str, EvictionReason]:
        leaving = [pod for pod in pods if is_terminating(pod)]
        if not leaving:
            return {}
        events = self._evict_events()
        messages = {uid_of(pod): _message(pod, events[_group(pod)]) for pod in leaving}
        return {uid: EvictionReason(message) for uid, message in messages.items() if message}

    def _evict_events(self) -> dict[tuple[str, str], _EvictEvents]:
        result: dict[tuple[str, str], _EvictEvents] = defaultdict(list)
        for event in self._there.list("Event"):
            about = involved_of(event)
            if event.get("reason") != "Evict" or about.get("kind") != "PodGroup":
                continue
            message = str(event.get("message", ""))
            when = parse_time(event.get("lastTimestamp") or metadata_of(event)["creationTimestamp"])
            several = message.startswith(_COMBINED)
            result[about.get("namespace", ""), about.get("name", "")].append(
                (when, message.removeprefix(_COMBINED), several)
            )
        return result


def _group(pod: Object) -> tuple[str, str]:
    return namespace_of(pod), annotations_of(pod).get(labels.POD_GROUP, "")


def _message(pod: Object, events: _EvictEvents) -> str:
    """The message that names the pod; else one of its PodGroup at the time of the deletion that names no pod or is combined; else ""."""
    metadata = metadata_of(pod)
    begins = f"Pod {full_name(pod)} was preempted"
    deleted_at = parse_time(metadata["deletionTimestamp"]) - float(metadata.get("deletionGracePeriodSeconds") or 0)
    near = [event for event in events if abs(event[0] - deleted_at) <= _NEAR]
    for _, message, _ in near:
        if message.startswith(begins):
            return message
    return next((message for _, message, several in near if several or not message.startswith("Pod ")), "")
