"""The defaults an API server fills in, for what kailab's controllers and scheduler read.

``apply_defaults`` never changes its argument: it returns the same object where nothing is missing, else a new
one that shares every part that did not change. Pod templates inside workloads are defaulted too, so pods made
from a template need nothing more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from kailab.model.labels import DEFAULT_SCHEDULER_NAME

Object: TypeAlias = dict[str, Any]

_POD_SPEC: dict[str, Any] = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "schedulerName": DEFAULT_SCHEDULER_NAME,
}
_EMPTY: Object = {}


def apply_defaults(obj: Object, kind: str) -> Object:
    """The object with the defaults of its kind (a kind key). Objects of the wrong shape come back as they
    are: saying what is wrong is validation's part."""
    rule = _RULES.get(kind)
    return rule(obj) if rule is not None else obj


def strip_nulls(value: Any) -> Any:
    """Mapping entries with a null value are as good as absent to an API server: taken out here, at any depth.

    Returns its argument where there is none.
    """
    if isinstance(value, dict):
        changed: Object | None = None
        for key, item in value.items():
            kept = strip_nulls(item) if isinstance(item, (dict, list)) else item
            if kept is None or kept is not item:
                if changed is None:
                    changed = dict(value)
                if kept is None:
                    del changed[key]
                else:
                    changed[key] = kept
        return value if changed is None else changed
    if isinstance(value, list):
        items = [strip_nulls(item) if isinstance(item, (dict, list)) else item for item in value]
        return value if all(a is b for a, b in zip(items, value)) else items
    return value


def pod_spec_defaults(spec: Object) -> Object:
    """Restart policy, grace period, scheduler name; requests where only limits are given (extended resources
    too)."""
    missing = {key: value for key, value in _POD_SPEC.items() if key not in spec}
    for name in ("containers", "initContainers"):
        containers = spec.get(name)
        if isinstance(containers, list):
            filled = _containers(containers)
            if filled is not containers:
                missing[name] = filled
    return {**spec, **missing} if missing else spec


def _containers(containers: list[Any]) -> list[Any]:
    changed: list[Any] | None = None
    for index, container in enumerate(containers):
        filled = _container(container)
        if filled is not container:
            if changed is None:
                changed = list(containers)
            changed[index] = filled
    return containers if changed is None else changed


def _container(container: Any) -> Any:
    resources = container.get("resources") if isinstance(container, dict) else None
    limits = resources.get("limits") if isinstance(resources, dict) else None
    if not isinstance(limits, dict) or not isinstance(resources, dict):
        return container
    requests = resources.get("requests") or _EMPTY
    if not isinstance(requests, dict) or all(name in requests for name in limits):
        return container
    return {**container, "resources": {**resources, "requests": {**limits, **requests}}}


def _pod(obj: Object) -> Object:
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        return obj
    filled = pod_spec_defaults(spec)
    status = obj.get("status")
    if isinstance(status, dict) and "phase" in status:
        return obj if filled is spec else {**obj, "spec": filled}
    if status is not None and not isinstance(status, dict):
        return obj if filled is spec else {**obj, "spec": filled}
    return {**obj, "spec": filled, "status": {"phase": "Pending", **(status or _EMPTY)}}


def _with_spec(obj: Object, defaults: Mapping[str, Any], template: bool = True) -> Object:
    spec = obj.get("spec")
    if spec is None:
        spec = _EMPTY
    if not isinstance(spec, dict):
        return obj
    missing = {key: value for key, value in defaults.items() if key not in spec}
    if template:
        filled = template_defaults(spec.get("template"))
        if filled is not spec.get("template"):
            missing["template"] = filled
    return {**obj, "spec": {**spec, **missing}} if missing else obj


def template_defaults(template: Any) -> Any:
    """A pod template with the defaults of its pod spec; anything else as it is."""
    spec = template.get("spec") if isinstance(template, dict) else None
    if not isinstance(spec, dict):
        return template
    filled = pod_spec_defaults(spec)
    return template if filled is spec else {**template, "spec": filled}


def _deployment(obj: Object) -> Object:
    return _with_spec(obj, {"replicas": 1, "minReadySeconds": 0, "revisionHistoryLimit": 10})


def _replica_set(obj: Object) -> Object:
    return _with_spec(obj, {"replicas": 1})


def _stateful_set(obj: Object) -> Object:
    return _with_spec(obj, {"replicas": 1, "podManagementPolicy": "OrderedReady", "revisionHistoryLimit": 10})


def _daemon_set(obj: Object) -> Object:
    return _with_spec(obj, {"revisionHistoryLimit": 10})


def _job_defaults(spec: Object) -> Object:
    """Parallelism 1; completions 1 only where parallelism is not given either; backoffLimit 6, as
    batch/v1."""
    defaults: dict[str, Any] = {"backoffLimit": 6, "completionMode": "NonIndexed", "suspend": False}
    if "parallelism" not in spec:
        defaults["parallelism"] = 1
        if "completions" not in spec:
            defaults["completions"] = 1
    if "backoffLimitPerIndex" in spec:
        defaults["backoffLimit"] = 2**31 - 1
    return defaults


def _job(obj: Object) -> Object:
    spec = obj.get("spec")
    return _with_spec(obj, _job_defaults(spec if isinstance(spec, dict) else _EMPTY))


def _cron_job(obj: Object) -> Object:
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        return obj
    defaults: dict[str, Any] = {
        "concurrencyPolicy": "Allow",
        "suspend": False,
        "successfulJobsHistoryLimit": 3,
        "failedJobsHistoryLimit": 1,
    }
    missing = {key: value for key, value in defaults.items() if key not in spec}
    template = spec.get("jobTemplate")
    if isinstance(template, dict) and isinstance(template.get("spec"), dict):
        filled = _job(template)
        if filled is not template:
            missing["jobTemplate"] = filled
    return {**obj, "spec": {**spec, **missing}} if missing else obj


def _priority_class(obj: Object) -> Object:
    missing = {
        key: value
        for key, value in (("preemptionPolicy", "PreemptLowerPriority"), ("globalDefault", False))
        if key not in obj
    }
    return {**obj, **missing} if missing else obj


def _job_set(obj: Object) -> Object:
    return _with_spec(obj, {"suspend": False}, template=False)


def _leader_worker_set(obj: Object) -> Object:
    return _with_spec(obj, {"replicas": 1, "startupPolicy": "LeaderCreated"}, template=False)


def _bare(obj: Object) -> Object:
    """All of the spec may be left out."""
    return obj if "spec" in obj else {**obj, "spec": {}}


def _namespace(obj: Object) -> Object:
    status = obj.get("status")
    if isinstance(status, dict) and "phase" in status:
        return obj
    return {**obj, "status": {**(status if isinstance(status, dict) else _EMPTY), "phase": "Active"}}


_RULES: dict[str, Callable[[Object], Object]] = {
    "Pod": _pod,
    "Deployment": _deployment,
    "ReplicaSet": _replica_set,
    "StatefulSet": _stateful_set,
    "DaemonSet": _daemon_set,
    "Job": _job,
    "CronJob": _cron_job,
    "JobSet": _job_set,
    "LeaderWorkerSet": _leader_worker_set,
    "PriorityClass": _priority_class,
    "Namespace": _namespace,
    "Queue": _bare,
    "PodGroup": _bare,
}
