"""What a workload wants and what of it runs, read from its own objects: the oracle's reading, which shares no code with the one
of the answers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from checks.explaining.situation import Situation
from kailab.cluster.protocol import Object
from kailab.errors import NotFound
from kailab.lab.lab import Lab

KINDS = ("Job", "Deployment", "StatefulSet", "PodGroup", "Pod")
_COUNTS = {
    "Job": ("parallelism", 1),
    "Deployment": ("replicas", 1),
    "StatefulSet": ("replicas", 1),
    "PodGroup": ("minMember", 1),
}


@dataclass(frozen=True)
class AppliedWorkload:
    """A workload that somebody applied. Its pods are labelled ``app`` with its name; of a PodGroup they are written out."""

    kind: str
    name: str
    namespace: str = "default"

    def __str__(self) -> str:
        return f"{self.kind.lower()} {self.name}"

    @property
    def field(self) -> str:
        """That of its spec which says how many pods it wants; not of a pod."""
        return _COUNTS[self.kind][0]

    def wanted(self, lab: Lab) -> int:
        """How many pods it wants; of a workload that is not there -1."""
        try:
            found = lab.cluster.get(self.kind, self.name, self.namespace)
        except NotFound:
            return -1
        if self.kind == "Pod":
            return 1
        field, default = _COUNTS[self.kind]
        return int(found["spec"].get(field, default))

    def pods(self, lab: Lab) -> list[Object]:
        """Those that are there and are not on their way out."""
        return [
            pod
            for pod in lab.cluster.list("Pod", self.namespace)
            if (pod["metadata"].get("labels") or {}).get("app") == self.name
            and "deletionTimestamp" not in pod["metadata"]
        ]

    def running(self, lab: Lab) -> int:
        return sum(_ran(pod) for pod in self.pods(lab))

    def runs(self, lab: Lab) -> bool:
        """All its pods run (or have run to their end), as many as it wants, and none waits."""
        wanted, pods = self.wanted(lab), self.pods(lab)
        ran = sum(map(_ran, pods))
        return wanted >= 0 and ran >= max(wanted, 1) and ran == len(pods)


def _ran(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Running", "Succeeded")


def applied_workloads(situation: Situation) -> Iterator[AppliedWorkload]:
    """The workloads that steps apply, but for pods of a PodGroup that is written out."""
    groups = {one["metadata"]["name"] for one in situation.applied() if one["kind"] == "PodGroup"}
    for one in situation.applied():
        app = (one["metadata"].get("labels") or {}).get("app")
        if one["kind"] in KINDS and not (one["kind"] == "Pod" and app in groups):
            yield AppliedWorkload(one["kind"], one["metadata"]["name"])


def waiting_workloads(situation: Situation, lab: Lab) -> list[AppliedWorkload]:
    """Those of them that are there and do not run."""
    return [work for work in dict.fromkeys(applied_workloads(situation)) if work.wanted(lab) > 0 and not work.runs(lab)]


def other_workloads(situation: Situation, lab: Lab, work: AppliedWorkload) -> list[AppliedWorkload]:
    """All other workloads that are there."""
    return [one for one in dict.fromkeys(applied_workloads(situation)) if one != work and one.wanted(lab) >= 0]
