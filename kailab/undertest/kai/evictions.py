"""Why a KAI before v0.8.1 evicted pods: by the Event ``Evict`` of their PodGroup, as it leaves no condition on the pods.

Source: ``PodEvicted`` in KAI's pkg/scheduler/cache/status_updater/default_status_updater.go, and the aggregation of client-go's
tools/record: the eleventh Event of one PodGroup within ten minutes, and those after it, are one that has the last message.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from kailab.cluster.protocol import Cluster, Object
from kailab.model import labels
from kailab.model.times import parse_time
from kailab.undertest.contract import Stop

_COMBINED = "(combined from similar events): "
_NEAR = 5.0  # seconds: the Event is sent just before the pod is deleted, and both times have whole seconds

_Said = list[tuple[float, str, bool]]  # when last, message, whether it stands for several


class Evictions:
    """See ``Stopped``."""

    def __init__(self, there: Cluster) -> None:
        self._there = there

    def __call__(self, pods: Sequence[Object]) -> dict[str, Stop]:
        leaving = [pod for pod in pods if "deletionTimestamp" in pod["metadata"]]
        if not leaving:
            return {}
        said = self._said()
        found = {pod["metadata"]["uid"]: _message(pod, said[_group(pod)]) for pod in leaving}
        return {uid: Stop(message) for uid, message in found.items() if message}

    def _said(self) -> dict[tuple[str, str], _Said]:
        found: dict[tuple[str, str], _Said] = defaultdict(list)
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


def _message(pod: Object, said: _Said) -> str:
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
