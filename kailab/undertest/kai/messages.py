"""A real KAI's words, read: what the condition that it leaves on an evicted pod says of the action, and for whom; and the code
of the reason for which a pod waits.

Source: KAI's unschedule_info.go. Kailab's own scheduler uses the same words.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

from kailab.cluster.protocol import Cluster, Object
from kailab.model import labels
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
    """What a message says; None if it is not KAI's."""
    for action, form in _FORMS:
        if found := form.match(message):
            return EvictionCondition(action, found.groupdict().get("whom", ""))
    return None


def parse_code(message: str) -> str:
    """The code that the message of a pod that waits begins with; empty if it has none. A PodGroup that runs in part has no
    condition that would say it."""
    first, colon, _ = message.partition(":")
    return first if colon and first in _CODES else ""


# Why a KAI before v0.8.1 evicted pods: by the Event ``Evict`` of their PodGroup, as it leaves no condition on the pods.
#
# Source: ``PodEvicted`` in KAI's pkg/scheduler/cache/status_updater/default_status_updater.go, and the aggregation of client-go's
# tools/record: the eleventh Event of one PodGroup within ten minutes, and those after it, are one that has the last message.

_COMBINED = "(combined from similar events): "
_NEAR = 5.0  # seconds: the Event is sent just before the pod is deleted, and both times have whole seconds

_EvictEvents = list[tuple[float, str, bool]]  # when last, message, whether it stands for several


class EvictionEvents:
    """See ``Stopped``."""

    def __init__(self, there: Cluster) -> None:
        self._there = there

    def __call__(self, pods: Sequence[Object]) -> dict[str, EvictionReason]:
        leaving = [pod for pod in pods if "deletionTimestamp" in pod["metadata"]]
        if not leaving:
            return {}
        said = self._said()
        found = {pod["metadata"]["uid"]: _message(pod, said[_group(pod)]) for pod in leaving}
        return {uid: EvictionReason(message) for uid, message in found.items() if message}

    def _said(self) -> dict[tuple[str, str], _EvictEvents]:
        found: dict[tuple[str, str], _EvictEvents] = defaultdict(list)
        for event in self._there.list("Event"):
            about = event.get("involvedObject") or {}
            if event.get("reason") != "Evict" or about.get("kind") != "PodGroup":
                continue
            message = str(event.get("message", ""))
            when = parse_time(event.get("lastTimestamp") or event["metadata"]["creationTimestamp"])
            several = message.startswith(_COMBINED)
            found[about.get("namespace", ""), about.get("name", "")].append(
                (when, message.removeprefix(_COMBINED), several)
            )
        return found


def _group(pod: Object) -> tuple[str, str]:
    metadata = pod["metadata"]
    return metadata.get("namespace", ""), (metadata.get("annotations") or {}).get(labels.POD_GROUP, "")


def _message(pod: Object, said: _EvictEvents) -> str:
    """The one that names the pod; else one of its PodGroup that names none, or that stands for several, of the moment in which it was
    deleted."""
    metadata = pod["metadata"]
    begins = f"Pod {metadata.get('namespace', '')}/{metadata['name']} was preempted"
    asked = parse_time(metadata["deletionTimestamp"]) - float(metadata.get("deletionGracePeriodSeconds") or 0)
    near = [one for one in said if abs(one[0] - asked) <= _NEAR]
    for _, message, _ in near:
        if message.startswith(begins):
            return message
    return next((message for _, message, several in near if several or not message.startswith("Pod ")), "")
