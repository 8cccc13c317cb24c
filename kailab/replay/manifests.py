"""Make the Job object that a trace job's user would have applied; it is a gang if it has several pods."""

from __future__ import annotations

from typing import Any

from kailab.cluster.protocol import Object
from kailab.errors import InputError
from kailab.model import labels
from kailab.model.objects import shared_labels
from kailab.replay.job import WHOLE, JobProgress, TraceJob

NAMESPACE = "default"
_PLAIN = JobProgress()
PATIENT = 1_000_000
"""A backoffLimit that evictions never use up: each evicted pod counts as a failure of its Job."""
ATTEMPT_FAILED = "AttemptFailed"
"""Why the containers of an attempt end that is not the job's last."""


def pods_of(job: TraceJob, largest: int) -> int:
    """The number of equal pods of a job: as the trace states, or as few as nodes with ``largest`` GPUs allow.

    >>> pods_of(TraceJob(name="a", arrival=0, seconds=1, gpus=12), 8), pods_of(TraceJob(name="b", arrival=0, seconds=1, gpus=1), 8)
    (2, 1)
    """
    if job.mig:
        # A process can use one instance only (NVIDIA's MIG user guide, "CUDA device enumeration").
        return job.pods or job.gpus
    if job.pods or not job.gpus or job.gpus <= largest:
        return job.pods or 1
    return next(
        (pods for pods in range(2, job.gpus + 1) if not job.gpus % pods and job.gpus // pods <= largest), job.gpus
    )


def job_object(
    name: str, job: TraceJob, queue: str, pods: int, *, endless: bool, progress: JobProgress = _PLAIN
) -> Object:
    """The Job object. It starts with all its pods, or with the ``least`` of them. ``pods``: see ``pods_of``. ``endless``: the
    pods do not end by themselves. ``progress``: with a cost of restarts, the Job replaces an evicted or failed pod at once,
    without Kubernetes' back-off.
    """
    # Pods start when they are bound: run times in traces begin at placement.
    notes = {labels.READY_SECONDS: "0"}
    if not endless:
        # How long an elastic job runs is known once its pods do.
        if not job.least:
            notes[labels.RUN_SECONDS] = str(progress.duration(job.seconds, 0, restarted=False))
        if (failure := failure_note(job, progress, 0, restarted=False)) is not None:
            notes[labels.FAIL] = failure
        notes[labels.EXPECTED_SECONDS] = str(progress.duration(job.estimate, 0, restarted=False))
    if job.share != WHOLE and not job.mig:
        notes[labels.GPU_FRACTION] = f"{job.share / WHOLE:g}"
    priority = ((labels.PRIORITY_CLASS, job.priority),) if job.priority else ()
    job_labels = shared_labels(((labels.QUEUE, queue), *priority))
    meta: dict[str, Any] = {"name": name, "namespace": NAMESPACE, "labels": job_labels}
    spec: dict[str, Any] = {"parallelism": pods, "completions": pods, "backoffLimit": PATIENT}
    if pods > 1:
        meta["annotations"] = {labels.BATCH_MIN_MEMBER: str(job.least or pods)}
        # The completion index links an evicted pod with its successor.
        spec["completionMode"] = "Indexed"
    if progress.restart is not None:
        rules: list[Object] = [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]
        if job.attempts:
            rules.append({"action": "Ignore", "onExitCodes": {"operator": "NotIn", "values": [0]}})
        spec["podFailurePolicy"] = {"rules": rules}
    spec["template"] = {"metadata": {"labels": job_labels, "annotations": notes}, "spec": _pod_spec(job, pods)}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}


def failure_note(
    job: TraceJob, progress: JobProgress, before: int, *, restarted: bool, speed: int = WHOLE
) -> str | None:
    """The annotation of a pod that begins after ``before`` seconds of its job's work and fails with its attempt; None if that is the last
    one."""
    end = job.attempt_end(before)
    if end == job.seconds:
        return None
    return f"{progress.duration(end - before, before, restarted=restarted, speed=speed)}:{ATTEMPT_FAILED}"


def _pod_spec(job: TraceJob, pods: int) -> Object:
    requests: dict[str, str] = {}
    if job.cpu_millis:
        requests["cpu"] = f"{job.cpu_millis}m"
    if job.memory_mib:
        requests["memory"] = f"{job.memory_mib}Mi"
    resources: dict[str, Any] = {"requests": requests} if requests else {}
    if job.gpus and (job.mig or job.share == WHOLE):
        if job.gpus % pods:
            raise InputError(
                f"{job.name}: {job.gpus} GPUs in {pods} pods; expected a number of GPUs that divides evenly"
            )
        resource = f"{labels.MIG_PREFIX}{job.mig}" if job.mig else labels.GPU_RESOURCE
        resources["limits"] = {resource: str(job.gpus // pods)}
    spec: dict[str, Any] = {
        "schedulerName": labels.SCHEDULER_NAME,
        "restartPolicy": "Never",
        "tolerations": [{"key": labels.FAKE_NODE_TAINT, "operator": "Exists", "effect": "NoSchedule"}],
        "containers": [{"name": "main", "image": "registry.k8s.io/pause:3.10", "resources": resources}],
    }
    if job.models:
        term = {"matchExpressions": [{"key": labels.GPU_PRODUCT, "operator": "In", "values": list(job.models)}]}
        spec["affinity"] = {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
        }
    return spec
