"""The number of pods that a workload wants while it is neither suspended nor ended, by kind (``Kind.wanted_pods``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kailab.model.objects import Object, pods_of_job
from kailab.workloads.dynamo import roles_of, services_of
from kailab.workloads.kubeflow import REPLICA_SPECS
from kailab.workloads.ray import desired_workers
from kailab.workloads.spark import wanted_executors


def _spec(obj: Object) -> Mapping[str, Any]:
    spec = obj.get("spec")
    return spec if isinstance(spec, Mapping) else {}


def _number(holder: Any, field: str, default: int = 1) -> int:
    value = holder.get(field) if isinstance(holder, Mapping) else None
    return default if value is None else int(value)


def replicas(obj: Object) -> int:
    return _number(_spec(obj), "replicas")


def job(obj: Object) -> int:
    spec, done = _spec(obj), _number(obj.get("status"), "succeeded", 0)
    # A Job without completions makes no pods after its first success.
    return 0 if done and spec.get("completions") is None else pods_of_job(spec, done)


def cron_job(obj: Object) -> int:
    return job({"spec": _spec(obj).get("jobTemplate", {}).get("spec") or {}})


def daemon_set(obj: Object) -> int:
    return _number(obj.get("status"), "desiredNumberScheduled", 0)


def job_set(obj: Object) -> int:
    return sum(
        _number(role, "replicas") * job({"spec": (role.get("template") or {}).get("spec") or {}})
        for role in _spec(obj).get("replicatedJobs") or ()
    )


def leader_worker_set(obj: Object) -> int:
    return replicas(obj) * _number(_spec(obj).get("leaderWorkerTemplate"), "size")


def pod_clique_set(obj: Object) -> int:
    spec = _spec(obj)
    template = spec.get("template") or {}
    sizes = {clique["name"]: _number(clique.get("spec"), "replicas") or 1 for clique in template.get("cliques") or ()}
    groups = template.get("podCliqueScalingGroups") or ()
    times = {name: _number(group, "replicas") for group in groups for name in group["cliqueNames"]}
    return _number(spec, "replicas", 0) * sum(size * times.get(name, 1) for name, size in sizes.items())


def dynamo_graph(obj: Object) -> int:
    total = 0
    for name, service in services_of(dict(_spec(obj))).items():
        roles = roles_of(name, service)
        # Roles of a service of several nodes are counted for each of its replicas.
        times = _number(service, "replicas") if len(roles) > 1 else 1
        total += times * sum(pods for _, pods in roles)
    return total


def training_job(obj: Object) -> int:
    return sum(_number(role, "replicas") for role in (_spec(obj).get(REPLICA_SPECS[obj["kind"]]) or {}).values())


def _ray_cluster(spec: Mapping[str, Any]) -> int:
    return 1 + sum(map(desired_workers, spec.get("workerGroupSpecs") or ()))


def _ray_part(field: str) -> Callable[[Object], int]:
    return lambda obj: _ray_cluster(_spec(obj).get(field) or {})


def spark_application(obj: Object) -> int:
    return 1 + wanted_executors(dict(_spec(obj)))


ray_job = _ray_part("rayClusterSpec")
ray_service = _ray_part("rayClusterConfig")


def ray_cluster(obj: Object) -> int:
    return _ray_cluster(_spec(obj))
