"""MPIJob: workers as pods, and a launcher that is a Job of its own, made at once or when the workers are ready.

As the mpi-operator runs it (v2beta1): what limits the run limits the launcher, and cleanPodPolicy alone says whether workers go with it. An MPIJob of
version v1 is the training-operator's, which takes all workers down at its backoffLimit or deadline.
"""

from __future__ import annotations

from typing import Any

from kailab.cluster.protocol import Object
from kailab.workloads.bench import condition, has_condition, is_active, is_ready, owner_reference, set_conditions
from kailab.workloads.controller import Controller
from kailab.workloads.kubeflow import PREFIX, job_conditions

_OPERATOR = "mpi-operator"


class MpiJobController(Controller):
    def sync(self, job: Object) -> None:
        if "deletionTimestamp" in job["metadata"]:
            return
        bench, spec, name = self._bench, job["spec"], job["metadata"]["name"]
        roles = spec.get("mpiReplicaSpecs") or {}
        policy = spec.get("runPolicy") or {}
        launcher = next(iter(bench.owned(job, "Job")), None)
        # Its launcher stays: as a Job of its own it goes by its own time to live.
        if has_condition(job, "Succeeded", "Failed"):
            self._clean(job, policy)
            return
        if policy.get("suspend"):
            for pod in bench.owned(job, "Pod"):
                bench.delete("Pod", pod)
            if launcher is not None and not launcher["spec"].get("suspend"):
                bench.patch("Job", launcher, {"spec": {"suspend": True}})
            self._report(job, roles, launcher, ("Suspended", "MPIJobSuspended", f"MPIJob {name} is suspended."))
            return
        if has_condition(job, "Suspended"):
            job = self._resume(job)
        self._workers(job, roles.get("Worker") or {})
        workers = [pod for pod in bench.owned(job, "Pod") if is_active(pod)]
        all_ready = sum(map(is_ready, workers)) >= (roles.get("Worker") or {}).get("replicas", 0)
        delayed = spec.get("launcherCreationPolicy") == "WaitForWorkersReady"
        if launcher is None and "Launcher" in roles and (all_ready or not delayed):
            launcher = self._launcher(job, roles["Launcher"])
        elif launcher is not None and launcher["spec"].get("suspend"):
            launcher = bench.patch("Job", launcher, {"spec": {"suspend": False}})
        mark = None
        if launcher is not None:
            if has_condition(launcher, "Complete"):
                mark = ("Succeeded", "MPIJobSucceeded", f"MPIJob {name} successfully completed.")
            elif has_condition(launcher, "Failed"):
                if job["apiVersion"].endswith("/v1") and _at_limit(launcher):
                    for pod in bench.owned(job, "Pod"):
                        bench.delete("Pod", pod)
                mark = ("Failed", "MPIJobFailed", f"MPIJob {name} has failed")
            elif all_ready and (launcher.get("status") or {}).get("ready", 0):
                mark = ("Running", "MPIJobRunning", f"MPIJob {name} is running.")
        self._report(job, roles, launcher, mark)

    def _labels(self, job: Object, role: str) -> dict[str, str]:
        return {
            PREFIX + "job-name": job["metadata"]["name"],
            PREFIX + "operator-name": _OPERATOR,
            PREFIX + "job-role": role,
        }

    def _workers(self, job: Object, spec: Object) -> None:
        bench, name = self._bench, job["metadata"]["name"]
        # A worker that ended keeps its name: the operator makes one only where there is none.
        there = {pod["metadata"]["name"]: pod for pod in bench.owned(job, "Pod")}
        wanted = [f"{name}-worker-{index}" for index in range(spec.get("replicas", 0))]
        # A launcher that works, too, is number 0.
        first = int(_works(job))
        for index, pod_name in enumerate(wanted, first):
            if pod_name not in there:
                labels = {**self._labels(job, "worker"), PREFIX + "replica-index": str(index)}
                bench.create_pod(
                    job,
                    spec["template"],
                    name=pod_name,
                    labels=labels,
                    reference=owner_reference(job),
                    spec={"restartPolicy": spec.get("restartPolicy", "Never"), "hostname": pod_name, "subdomain": name},
                )
        for pod_name, pod in there.items():
            if pod_name not in wanted:
                bench.delete("Pod", pod)

    def _launcher(self, job: Object, spec: Object) -> Object | None:
        name = job["metadata"]["name"]
        labels = self._labels(job, "launcher")
        if _works(job):
            labels[PREFIX + "replica-index"] = "0"
        template = spec["template"]
        meta = template.get("metadata") or {}
        policy = job["spec"].get("runPolicy") or {}
        job_spec: dict[str, Any] = {
            "template": {
                **template,
                "metadata": {**meta, "labels": {**(meta.get("labels") or {}), **labels}},
                "spec": {**template["spec"], "restartPolicy": spec.get("restartPolicy", "OnFailure")},
            }
        }
        # The launcher decides how the MPIJob ends, so what limits the run limits this Job.
        for field in ("backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished"):
            if field in policy:
                job_spec[field] = policy[field]
        return self._bench.create(
            job, "Job", {"metadata": {"name": f"{name}-launcher", "labels": {"app": name}}, "spec": job_spec}
        )

    def _resume(self, job: Object) -> Object:
        now, name = self._bench.stamp(), job["metadata"]["name"]
        mark = condition("Suspended", "False", "MPIJobResumed", f"MPIJob {name} is resumed.", now)
        conditions = set_conditions((job.get("status") or {}).get("conditions"), mark)
        return self._bench.set_status(self.kind, job, conditions=conditions, startTime=now)

    def _clean(self, job: Object, policy: Object) -> None:
        keep = policy.get("cleanPodPolicy", "None")
        if keep in ("All", "Running"):
            for pod in self._bench.owned(job, "Pod"):
                if keep == "All" or is_active(pod):
                    self._bench.delete("Pod", pod)

    def _report(
        self, job: Object, roles: dict[str, Object], launcher: Object | None, mark: tuple[str, str, str] | None
    ) -> None:
        bench, now, name = self._bench, self._bench.stamp(), job["metadata"]["name"]
        workers = bench.owned(job, "Pod")
        rows: dict[str, dict[str, int]] = {}
        if "Worker" in roles:
            rows["Worker"] = {"active": sum(p["status"].get("phase") == "Running" for p in workers)}
        if launcher is not None:
            status = launcher.get("status") or {}
            rows["Launcher"] = {key: status[key] for key in ("active", "succeeded", "failed") if status.get(key)}
        wanted = [("Created", "MPIJobCreated", f"MPIJob {name} is created.")]
        if mark is not None:
            wanted.append(mark)
        fields: dict[str, Any] = {"replicaStatuses": rows, "conditions": job_conditions(job, *wanted, now=now)}
        if not (job.get("status") or {}).get("startTime") and not (job["spec"].get("runPolicy") or {}).get("suspend"):
            fields["startTime"] = now
        if mark is not None and mark[0] in ("Succeeded", "Failed"):
            fields["completionTime"] = now
        bench.set_status(self.kind, job, **fields)


def _at_limit(launcher: Object) -> bool:
    """Whether it failed by its deadline or its backoffLimit."""
    conditions = (launcher.get("status") or {}).get("conditions") or ()
    return any(
        one["type"] == "Failed" and one["reason"] in ("DeadlineExceeded", "BackoffLimitExceeded") for one in conditions
    )


def _works(job: Object) -> bool:
    """Whether its launcher is one of its workers."""
    return bool(job["spec"].get("runLauncherAsWorker"))
