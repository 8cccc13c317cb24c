"""How many pods a workload wants: replicas, parallelism, the replicas of all its roles."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kailab.cluster.protocol import Object
from kailab.workloads.ray import desired_workers

_Count = Callable[[Object], int]


def wanted_pods(obj: Object) -> int | None:
    """Of an object that is to have pods; None for a kind that does not say, and while it is suspended or ended as for any other
    time: what it wants when it works."""
    count = _KINDS.get(obj["kind"])
    return None if count is None else max(0, count(obj))


def min_member(podgroup: Object) -> int:
    """Pods of a PodGroup that must start together: of as many of its subgroups as it needs, those with the fewest."""
    spec = podgroup["spec"]
    return max(int(spec.get("minMember") or 0), _least_below("", spec, spec.get("subGroups") or ()), 1)


def _least_below(name: str, holder: Mapping[str, Any], subgroups: Sequence[Mapping[str, Any]]) -> int:
    """``name``: of the subgroup that ``holder`` is; empty for the PodGroup itself."""
    children = [one for one in subgroups if (one.get("parent") or "") == name and one.get("name") != name]
    # Without those looked at: nothing refuses subgroups that are each other's parents.
    rest = [one for one in subgroups if one not in children]
    each = sorted(
        _least_below(str(one["name"]), one, rest) or int(one.get("minMember") or 0)
        for one in children
        if one.get("name")
    )
    needed = holder.get("minSubGroup")
    return sum(each if needed is None else each[: int(needed)])


def choice_of_subgroups(podgroup: Object) -> tuple[int, tuple[str, ...]] | None:
    """How many of its subgroups a PodGroup needs, and those it has; None where it needs them all, or has none."""
    spec = podgroup["spec"]
    names = tuple(str(one.get("name")) for one in spec.get("subGroups") or () if not one.get("parent"))
    needed = spec.get("minSubGroup")
    return None if needed is None or int(needed) >= len(names) else (int(needed), names)


def _spec(obj: Object) -> Mapping[str, Any]:
    spec = obj.get("spec")
    return spec if isinstance(spec, Mapping) else {}


def _number(holder: Any, field: str, default: int = 1) -> int:
    value = holder.get(field) if isinstance(holder, Mapping) else None
    return default if value is None else int(value)


def _replicas(obj: Object) -> int:
    return _number(_spec(obj), "replicas")


def _job(obj: Object) -> int:
    spec, done = _spec(obj), _number(obj.get("status"), "succeeded", 0)
    wanted = _number(spec, "parallelism")
    if spec.get("completions") is not None:
        return min(wanted, int(spec["completions"]) - done)
    # A Job without completions makes no pods after its first success.
    return 0 if done else wanted


def _cron_job(obj: Object) -> int:
    return _job({"spec": _spec(obj).get("jobTemplate", {}).get("spec") or {}})


def _daemon_set(obj: Object) -> int:
    return _number(obj.get("status"), "desiredNumberScheduled", 0)


def _job_set(obj: Object) -> int:
    return sum(
        _number(role, "replicas") * _job({"spec": (role.get("template") or {}).get("spec") or {}})
        for role in _spec(obj).get("replicatedJobs") or ()
    )


def _leader_worker_set(obj: Object) -> int:
    return _replicas(obj) * _number(_spec(obj).get("leaderWorkerTemplate"), "size")


def _roles(field: str) -> _Count:
    return lambda obj: sum(_number(role, "replicas") for role in (_spec(obj).get(field) or {}).values())


def _ray_cluster(spec: Mapping[str, Any]) -> int:
    return 1 + sum(map(desired_workers, spec.get("workerGroupSpecs") or ()))


def _ray_part(*fields: str) -> _Count:
    return lambda obj: _ray_cluster(next((found for field in fields if (found := _spec(obj).get(field))), {}))


def _spark(obj: Object) -> int:
    return 1 + _number(_spec(obj).get("executor"), "instances")


_KINDS: Mapping[str, _Count] = {
    "Deployment": _replicas,
    "ReplicaSet": _replicas,
    "ReplicationController": _replicas,
    "StatefulSet": _replicas,
    "DaemonSet": _daemon_set,
    "Job": _job,
    "CronJob": _cron_job,
    "JobSet": _job_set,
    "LeaderWorkerSet": _leader_worker_set,
    "PyTorchJob": _roles("pytorchReplicaSpecs"),
    "TFJob": _roles("tfReplicaSpecs"),
    "XGBoostJob": _roles("xgbReplicaSpecs"),
    "JAXJob": _roles("jaxReplicaSpecs"),
    "PaddleJob": _roles("paddleReplicaSpecs"),
    "MPIJob": _roles("mpiReplicaSpecs"),
    "RayCluster": lambda obj: _ray_cluster(_spec(obj)),
    "RayJob": _ray_part("rayClusterSpec"),
    "RayService": _ray_part("rayClusterConfig"),
    "SparkApplication": _spark,
}
