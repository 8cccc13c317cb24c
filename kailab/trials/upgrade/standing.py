"""What stands in a cluster, by identity: pods with a node, and KAI's objects with what they ask for; and what a change took or altered."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any, NamedTuple

from kailab.cluster.protocol import Cluster, Object
from kailab.model import labels
from kailab.trials.upgrade.probing import is_probes
from kailab.undertest.contract import IdleDetector

_OVER = ("Succeeded", "Failed")
_PAUSE_SECONDS = 0.5


class Standing(NamedTuple):
    """``pods``: uid -> ``namespace/name`` of pods that have a node and have not ended or failed. ``specs``: uid -> the spec of Queues
    and PodGroups; ``names``: uid -> their kind and name. Without PodGroups that were made for pods which are gone: they are garbage.
    Without the trial's own probes, which come and go."""

    pods: dict[str, str]
    specs: dict[str, dict[str, Any]]
    names: dict[str, str]

    @classmethod
    def of(cls, cluster: Cluster) -> Standing:
        pods = _pods(cluster)
        grouped = {_group(one) for one in pods if not _is_over(one)}
        podgroups = [one for one in cluster.list("PodGroup") if not _is_owned(one) or _name(one) in grouped]
        objects = [one for one in (*cluster.list("Queue"), *podgroups) if not is_probes(one)]
        return cls(
            {one["metadata"]["uid"]: _name(one) for one in pods if _holds_a_node(one)},
            {one["metadata"]["uid"]: dict(one.get("spec") or {}) for one in objects},
            {one["metadata"]["uid"]: f"{one['kind']} {_name(one)}" for one in objects},
        )

    def lost(self, after: Standing) -> tuple[str, ...]:
        """Pods and KAI's objects that are gone, or have lost their node; what was made anew under an old name is lost, too."""
        pods = (f"Pod {name}" for uid, name in self.pods.items() if uid not in after.pods)
        return (*pods, *(name for uid, name in self.names.items() if uid not in after.names))

    def altered(self, after: Standing) -> tuple[str, ...]:
        """Fields of specs that say something else now, each with how many objects it is of."""
        counted: Counter[str] = Counter()
        for uid, spec in self.specs.items():
            if uid not in after.specs:
                continue
            now = after.specs[uid]
            for field in sorted({*spec, *now}):
                if spec.get(field) != now.get(field):
                    what = "gone" if field not in now else "new" if field not in spec else "changed"
                    counted[f"{self.names[uid].split()[0]} spec.{field} {what}"] += 1
        return tuple(f"{what} ({count})" for what, count in sorted(counted.items()))


def still(cluster: Cluster, rest: IdleDetector | None, quiet: float, patience: float) -> bool:
    """Wait until nothing has changed for ``quiet`` seconds, and the scheduler has looked at everything since. False: not within
    ``patience`` seconds. Raises SchedulerFailed where it has ended."""
    begun = since = time.monotonic()
    seen: object = None
    while time.monotonic() - begun < patience:
        now = sorted((one["metadata"]["uid"], one["spec"].get("nodeName", "")) for one in _pods(cluster))
        if now != seen:
            seen, since = now, time.monotonic()
            if rest is not None:
                rest.changed()
        elif time.monotonic() - since >= quiet and (rest is None or rest.is_idle()):
            return True
        time.sleep(_PAUSE_SECONDS)
    return False


def _pods(cluster: Cluster) -> list[Object]:
    return [one for one in cluster.list("Pod") if not is_probes(one)]


def _holds_a_node(pod: Object) -> bool:
    return bool(pod["spec"].get("nodeName")) and not _is_over(pod)


def _is_over(pod: Object) -> bool:
    return "deletionTimestamp" in pod["metadata"] or (pod.get("status") or {}).get("phase") in _OVER


def _group(pod: Object) -> str:
    metadata = pod["metadata"]
    return f"{metadata.get('namespace')}/{(metadata.get('annotations') or {}).get(labels.POD_GROUP, '')}"


def _is_owned(obj: Object) -> bool:
    return bool(obj["metadata"].get("ownerReferences"))


def _name(obj: Object) -> str:
    namespace = obj["metadata"].get("namespace")
    return f"{namespace}/{obj['metadata']['name']}" if namespace else str(obj["metadata"]["name"])
