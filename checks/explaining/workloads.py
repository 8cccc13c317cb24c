"""The pods that a workload wants and those that run, read from its own objects, independently of the code under test."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from checks.explaining.situation import Situation
from kailab.cluster.protocol import Object
from kailab.errors import NotFound
from kailab.lab.lab import Lab
from kailab.model.objects import has_condition

_COUNTS = {
    "Job": ("parallelism", 1),
    "Deployment": ("replicas", 1),
    "StatefulSet": ("replicas", 1),
    "PodGroup": ("minMember", 1),
}


def _of_roles(spec: Object) -> int:
    return sum(int(role.get("replicas", 1)) for role in spec["pytorchReplicaSpecs"].values())


def _of_jobs(spec: Object) -> int:
    return sum(
        int(job.get("replicas", 1)) * int(job["template"]["spec"].get("parallelism", 1))
        for job in spec["replicatedJobs"]
    )


def _of_leaders(spec: Object) -> int:
    return int(spec.get("replicas", 1)) * int(spec["leaderWorkerTemplate"].get("size", 1))


def _of_ray(spec: Object) -> int:
    return 1 + sum(int(group.get("replicas", 1)) for group in spec.get("workerGroupSpecs") or ())


_SUMS: Mapping[str, Callable[[Object], int]] = {
    "PyTorchJob": _of_roles, "JobSet": _of_jobs, "LeaderWorkerSet": _of_leaders, "RayCluster": _of_ray,
}  # fmt: skip
KINDS = (*_COUNTS, *_SUMS, "Pod")


@dataclass(frozen=True)
class AppliedWorkload:
    """A workload that a step applied. Its pods have its name as label ``app``; the pods of a PodGroup are applied too."""

    kind: str
    name: str
    namespace: str = "default"

    def __str__(self) -> str:
        return f"{self.kind.lower()} {self.name}"

    @property
    def field(self) -> str:
        """The field of its spec with the number of pods; empty if there is no single one."""
        return _COUNTS.get(self.kind, ("", 0))[0]

    def wanted(self, lab: Lab) -> int:
        """The number of pods that it wants; -1 if it does not exist."""
        try:
            manifest = lab.cluster.get(self.kind, self.name, self.namespace)
        except NotFound:
            return -1
        if self.kind == "Pod":
            return 1
        if self.kind in _SUMS:
            return _SUMS[self.kind](manifest["spec"])
        field, default = _COUNTS[self.kind]
        return int(manifest["spec"].get(field, default))

    def pods(self, lab: Lab) -> list[Object]:
        """Its present pods, without those that are being deleted."""
        return [pod for pod in self._all_pods(lab) if "deletionTimestamp" not in pod["metadata"]]

    def leaving_pods(self, lab: Lab) -> list[Object]:
        """Its pods that are being deleted, for ever on a node that is not ready."""
        return [pod for pod in self._all_pods(lab) if "deletionTimestamp" in pod["metadata"]]

    def _all_pods(self, lab: Lab) -> list[Object]:
        pods = lab.cluster.list("Pod", self.namespace)
        return [pod for pod in pods if (pod["metadata"].get("labels") or {}).get("app") == self.name]

    def running(self, lab: Lab) -> int:
        return sum(_has_run(pod) for pod in self.pods(lab))

    def runs(self, lab: Lab) -> bool:
        """True if all its pods run (or have completed), as many as it wants, and none waits. Pods of a Job that has completed may be gone, with
        their node."""
        wanted, pods = self.wanted(lab), self.pods(lab)
        if wanted >= 0 and has_condition(lab.cluster.get(self.kind, self.name, self.namespace), "Complete"):
            return True
        ran = sum(map(_has_run, pods))
        return wanted >= 0 and ran >= max(wanted, 1) and ran == len(pods)


def _has_run(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Running", "Succeeded")


def unready_nodes(lab: Lab) -> set[str]:
    """The nodes that are not ready, by name."""
    return {
        node["metadata"]["name"]
        for node in lab.cluster.list("Node")
        for state in (node.get("status") or {}).get("conditions") or ()
        if state.get("type") == "Ready" and state.get("status") != "True"
    }


def applied_workloads(situation: Situation) -> Iterator[AppliedWorkload]:
    """The workloads that steps apply, without the pods of applied PodGroups."""
    groups = {manifest["metadata"]["name"] for manifest in situation.applied() if manifest["kind"] == "PodGroup"}
    for manifest in situation.applied():
        app = (manifest["metadata"].get("labels") or {}).get("app")
        if manifest["kind"] in KINDS and not (manifest["kind"] == "Pod" and app in groups):
            yield AppliedWorkload(manifest["kind"], manifest["metadata"]["name"])


def waiting_workloads(situation: Situation, lab: Lab) -> list[AppliedWorkload]:
    """The workloads that exist and do not run."""
    return [work for work in dict.fromkeys(applied_workloads(situation)) if work.wanted(lab) > 0 and not work.runs(lab)]


def other_workloads(situation: Situation, lab: Lab, work: AppliedWorkload) -> list[AppliedWorkload]:
    """All other workloads that exist."""
    return [other for other in dict.fromkeys(applied_workloads(situation)) if other != work and other.wanted(lab) >= 0]
