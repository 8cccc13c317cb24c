"""Workloads: counts, selectors and pod templates of what makes pods."""

from __future__ import annotations

from typing import Any

from kailab.model.kinds import kind_key
from kailab.model.validation.fields import Faults
from kailab.model.validation.pods import check_selector, check_template

_JOB_RESTART = ("OnFailure", "Never")
_REPLICA_SPECS = {
    "PyTorchJob": "pytorchReplicaSpecs",
    "TFJob": "tfReplicaSpecs",
    "XGBoostJob": "xgbReplicaSpecs",
    "JAXJob": "jaxReplicaSpecs",
    "PaddleJob": "paddleReplicaSpecs",
    "MPIJob": "mpiReplicaSpecs",
}


def check_replicated(faults: Faults, obj: dict[str, Any]) -> None:
    """Deployment, ReplicaSet, StatefulSet."""
    spec = faults.mapping(obj, "spec", "spec", required=True)
    if spec is None:
        return
    faults.integer(spec, "replicas", "spec.replicas")
    faults.integer(spec, "minReadySeconds", "spec.minReadySeconds")
    faults.one_of(spec, "podManagementPolicy", "spec.podManagementPolicy", ("OrderedReady", "Parallel"))
    for path, claim in faults.mappings(spec, "volumeClaimTemplates", "spec.volumeClaimTemplates"):
        meta = faults.mapping(claim, "metadata", f"{path}.metadata", required=True)
        if meta is not None:
            faults.text(meta, "name", f"{path}.metadata.name", required=True)
    _check_selected_template(faults, spec)


def check_daemon_set(faults: Faults, obj: dict[str, Any]) -> None:
    spec = faults.mapping(obj, "spec", "spec", required=True)
    if spec is not None:
        _check_selected_template(faults, spec)


def check_job(faults: Faults, obj: dict[str, Any]) -> None:
    spec = faults.mapping(obj, "spec", "spec", required=True)
    if spec is not None:
        _check_job_spec(faults, spec, "spec")


def check_cron_job(faults: Faults, obj: dict[str, Any]) -> None:
    spec = faults.mapping(obj, "spec", "spec", required=True)
    if spec is None:
        return
    faults.text(spec, "schedule", "spec.schedule", required=True)
    faults.one_of(spec, "concurrencyPolicy", "spec.concurrencyPolicy", ("Allow", "Forbid", "Replace"))
    faults.boolean(spec, "suspend", "spec.suspend")
    template = faults.mapping(spec, "jobTemplate", "spec.jobTemplate", required=True)
    inner = faults.mapping(template or {}, "spec", "spec.jobTemplate.spec", required=template is not None)
    if inner is not None:
        _check_job_spec(faults, inner, "spec.jobTemplate.spec")


def check_training_job(faults: Faults, obj: dict[str, Any]) -> None:
    """Kubeflow's jobs: replica specs by role."""
    spec = faults.mapping(obj, "spec", "spec", required=True)
    if spec is None:
        return
    key = _REPLICA_SPECS[kind_key(obj)]
    path = f"spec.{key}"
    roles = faults.mapping(spec, key, path, required=True)
    for role in roles or {}:
        replicas = faults.mapping(roles or {}, role, f"{path}.{role}")
        if replicas is not None:
            faults.integer(replicas, "replicas", f"{path}.{role}.replicas")
            check_template(faults, replicas, f"{path}.{role}")


def check_leader_worker_set(faults: Faults, obj: dict[str, Any]) -> None:
    spec = faults.mapping(obj, "spec", "spec", required=True)
    if spec is None:
        return
    faults.integer(spec, "replicas", "spec.replicas")
    path = "spec.leaderWorkerTemplate"
    template = faults.mapping(spec, "leaderWorkerTemplate", path, required=True)
    if template is None:
        return
    faults.integer(template, "size", f"{path}.size", least=1)
    for key in ("leaderTemplate", "workerTemplate"):
        pod = faults.mapping(template, key, f"{path}.{key}", required=key == "workerTemplate")
        if pod is not None:
            inner = Faults()
            check_template(inner, {"template": pod}, "")
            for field, message in inner.found:
                faults.add(f"{path}.{key}{field.removeprefix('.template')}", message)


def check_ray_cluster(faults: Faults, obj: dict[str, Any]) -> None:
    spec = faults.mapping(obj, "spec", "spec", required=True)
    if spec is None:
        return
    head = faults.mapping(spec, "headGroupSpec", "spec.headGroupSpec", required=True)
    if head is not None:
        check_template(faults, head, "spec.headGroupSpec")
    for path, group in faults.mappings(spec, "workerGroupSpecs", "spec.workerGroupSpecs"):
        for key in ("replicas", "minReplicas", "maxReplicas"):
            faults.integer(group, key, f"{path}.{key}")
        faults.integer(group, "numOfHosts", f"{path}.numOfHosts", least=1)
        check_template(faults, group, path)


def _check_job_spec(faults: Faults, spec: dict[str, Any], path: str) -> None:
    for key in ("parallelism", "completions", "backoffLimit", "ttlSecondsAfterFinished", "backoffLimitPerIndex"):
        faults.integer(spec, key, f"{path}.{key}")
    faults.integer(spec, "activeDeadlineSeconds", f"{path}.activeDeadlineSeconds", least=1)
    mode = faults.one_of(spec, "completionMode", f"{path}.completionMode", ("NonIndexed", "Indexed"))
    if mode == "Indexed" and spec.get("completions") is None:
        faults.add(f"{path}.completions", "is required for an Indexed job")
    faults.boolean(spec, "suspend", f"{path}.suspend")
    check_template(faults, spec, path, _JOB_RESTART)


def _check_selected_template(faults: Faults, spec: dict[str, Any]) -> None:
    """A selector that does not match the template would leave the workload without its own pods."""
    selector = faults.mapping(spec, "selector", "spec.selector", required=True)
    check_template(faults, spec, "spec", ("Always",))
    if selector is None:
        return
    check_selector(faults, selector, "spec.selector")
    wanted = selector.get("matchLabels")
    if not wanted and not selector.get("matchExpressions"):
        faults.add("spec.selector", "is empty; expected matchLabels that select the template's pods")
    template = spec.get("template")
    meta = template.get("metadata") if isinstance(template, dict) else None
    labels = meta.get("labels") if isinstance(meta, dict) else None
    labels = labels if isinstance(labels, dict) else {}
    for name, value in wanted.items() if isinstance(wanted, dict) else ():
        if labels.get(name) != value:
            faults.add(f"spec.selector.matchLabels[{name}]", "does not match the labels of spec.template.metadata")
