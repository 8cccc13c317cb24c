"""Kubeflow's training jobs (PyTorchJob, TFJob, XGBoostJob, JAXJob, PaddleJob): pods by replica type and index.

Pods keep their names; one that was deleted or evicted is made again. A pod that failed is made again with restartPolicy
OnFailure or Always (and ExitCode for codes of 128 and above), up to runPolicy.backoffLimit; otherwise the job fails. The job has succeeded
when its master (Master, Chief, or worker 0) has, or without one when all workers have.

What happens to the pods of a job that has ended says cleanPodPolicy; a job that fails by its backoffLimit or its deadline loses all of them before it has
failed (training-operator, pkg/controller.v1/common/job.go, ReconcileJobs).
"""

from __future__ import annotations

from typing import Any, ClassVar

from kailab.cluster.protocol import Object
from kailab.model.quantities import counted
from kailab.model.times import parse_time
from kailab.workloads.bench import (
    condition,
    has_condition,
    is_active,
    is_ended,
    owner_reference,
    set_conditions,
)
from kailab.workloads.controller import Controller

PREFIX = "training.kubeflow.org/"
RESTARTS = "kailab.dev/restarts"  # pods of a job made again after they failed
_MASTERS = ("Master", "Chief", "Launcher")


def job_conditions(job: Object, *wanted: tuple[str, str, str], now: str) -> list[dict[str, Any]]:
    """Conditions with these (type, reason, message) true; Running and Restarting give way to one another and the end."""
    rivals = {
        "Running": ("Restarting",),
        "Restarting": ("Running",),
        "Succeeded": ("Running", "Restarting"),
        "Failed": ("Running", "Restarting"),
        "Suspended": ("Running", "Restarting"),
    }
    old = (job.get("status") or {}).get("conditions")
    new = [condition(type, "True", reason, message, now) for type, reason, message in wanted]
    for entry in old or ():
        if entry["status"] == "True" and any(entry["type"] in rivals.get(type, ()) for type, _, _ in wanted):
            new.insert(0, condition(entry["type"], "False", entry["reason"], entry["message"], now))
    return set_conditions(old, *new)


class TrainingJobController(Controller):
    """One kind of training job; ``field`` of its spec has the replicas by role."""

    field: ClassVar[str]

    @property
    def _operator(self) -> str:
        return f"{self.kind.lower()}-controller"

    def _roles(self, job: Object) -> dict[str, Object]:
        # Masters first, so that their pods are the older ones; the rest by name, whatever order the manifest has.
        roles: dict[str, Object] = job["spec"].get(self.field) or {}
        return dict(sorted(roles.items(), key=lambda item: (item[0] not in _MASTERS, item[0])))

    def _run_policy(self, job: Object) -> Object:
        policy: Object = job["spec"].get("runPolicy") or {}
        return policy

    def sync(self, job: Object) -> None:
        if "deletionTimestamp" in job["metadata"]:
            return
        bench = self._bench
        pods = bench.owned(job, "Pod")
        if has_condition(job, "Succeeded", "Failed"):
            self._clean(job, pods)
            return
        roles = self._roles(job)
        name = job["metadata"]["name"]
        if self._run_policy(job).get("suspend"):
            for pod in pods:
                bench.delete("Pod", pod)
            self._report(job, roles, ("Suspended", f"{self.kind}Suspended", f"{self.kind} {name} is suspended."))
            return
        if has_condition(job, "Suspended"):
            job = self._resume(job)
        if failure := self._exceeded(job, pods):
            self._fail_at_limit(job, pods, roles, failure)
            return
        job, failure = self._failures(job, pods, roles)
        # A pod that has just failed may have been one too many.
        if not failure and (exceeded := self._exceeded(job, pods)):
            self._fail_at_limit(job, pods, roles, exceeded)
            return
        if failure:
            self._report(job, roles, ("Failed", f"{self.kind}Failed", failure), ended=True)
            return
        if self._succeeded(pods, roles):
            message = f"{self.kind} {name} is successfully completed."
            self._report(job, roles, ("Succeeded", f"{self.kind}Succeeded", message), ended=True)
            return
        # Asked once more: pods that failed are on their way out now.
        self._create(job, bench.owned(job, "Pod"), roles)
        running = [p for p in bench.owned(job, "Pod") if p["status"].get("phase") == "Running" and is_active(p)]
        lead = [p for p in running if _is_master(p)] if any(role in _MASTERS for role in roles) else running
        mark = ("Running", f"{self.kind}Running", f"{self.kind} {name} is running.") if lead else None
        self._report(job, roles, mark)

    def _create(self, job: Object, pods: list[Object], roles: dict[str, Object]) -> None:
        bench, name = self._bench, job["metadata"]["name"]
        there = {pod["metadata"]["name"]: pod for pod in pods}
        wanted: dict[str, None] = {}
        reference = owner_reference(job)
        for role, spec in roles.items():
            for index in range(spec.get("replicas", 1)):
                pod_name = f"{name}-{role.lower()}-{index}"
                wanted[pod_name] = None
                # Also one that is leaving: the next may have its name only when it is gone.
                if pod_name in there:
                    continue
                labels = {
                    PREFIX + "job-name": name,
                    PREFIX + "operator-name": self._operator,
                    PREFIX + "replica-type": role.lower(),
                    PREFIX + "replica-index": str(index),
                }
                if role in _MASTERS:
                    labels[PREFIX + "job-role"] = role.lower() if role == "Launcher" else "master"
                elif not any(other in _MASTERS for other in roles) and role == "Worker" and index == 0:
                    labels[PREFIX + "job-role"] = "master"
                elif self.kind == "MPIJob":
                    labels[PREFIX + "job-role"] = role.lower()
                policy = spec.get("restartPolicy", "OnFailure" if self.kind != "MPIJob" else "Never")
                bench.create_pod(
                    job,
                    spec["template"],
                    name=pod_name,
                    labels=labels,
                    reference=reference,
                    # No kubelet knows ExitCode: the operator looks at the code and makes the pod again.
                    spec={"restartPolicy": "Never" if policy == "ExitCode" else policy},
                )
        for pod_name, pod in there.items():
            if pod_name not in wanted:
                bench.delete("Pod", pod)

    def _failures(self, job: Object, pods: list[Object], roles: dict[str, Object]) -> tuple[Object, str]:
        """Make room for pods that are to be made again; says why the job fails, if it does."""
        bench = self._bench
        notes = job["metadata"].get("annotations") or {}
        before = counted(notes.get(RESTARTS))
        failures = before
        for pod in pods:
            if pod["status"].get("phase") != "Failed":
                continue
            role = next((r for r in roles if r.lower() == pod["metadata"]["labels"].get(PREFIX + "replica-type")), "")
            rule = (roles.get(role) or {}).get("restartPolicy", "OnFailure")
            code = _exit_code(pod)
            # Counted already when it was told to go.
            if "deletionTimestamp" in pod["metadata"]:
                continue
            # Codes from 128 on are signals: something from outside ended it, so another try may go well.
            if rule in ("OnFailure", "Always") or (rule == "ExitCode" and code >= 128):
                failures += 1
                bench.delete("Pod", pod)
            else:
                return job, f"{self.kind} {job['metadata']['name']} is failed because {role} replica(s) failed."
        if failures != before:
            # On the job itself, since the pods that failed are gone soon, and with them what could be counted.
            job = bench.patch(self.kind, job, {"metadata": {"annotations": {RESTARTS: str(failures)}}})
        return job, ""

    def _exceeded(self, job: Object, pods: list[Object]) -> str:
        """Why the job has come to its deadline or to its limit of restarts; empty if to neither."""
        policy, status = self._run_policy(job), job.get("status") or {}
        failed = f"{self.kind} {job['metadata']['name']} has failed because it"
        limit = policy.get("backoffLimit")
        restarts = sum(c.get("restartCount", 0) for p in pods for c in p["status"].get("containerStatuses") or ())
        made_again = counted((job["metadata"].get("annotations") or {}).get(RESTARTS))
        if limit is not None and made_again + restarts > limit:
            return f"{failed} has reached the specified backoff limit"
        deadline = policy.get("activeDeadlineSeconds")
        if deadline is not None and status.get("startTime"):
            end = parse_time(status["startTime"]) + deadline
            if self._bench.now >= end:
                return f"{failed} was active longer than specified deadline"
            self._bench.wake_at(job, end, prompt=False)
        return ""

    def _fail_at_limit(self, job: Object, pods: list[Object], roles: dict[str, Object], message: str) -> None:
        for pod in pods:
            self._bench.delete("Pod", pod)
        self._report(job, roles, ("Failed", f"{self.kind}Failed", message), ended=True)

    def _resume(self, job: Object) -> Object:
        """A job that was suspended begins anew, its deadline with it."""
        now, name = self._bench.stamp(), job["metadata"]["name"]
        mark = condition("Suspended", "False", f"{self.kind}Resumed", f"{self.kind} {name} is resumed.", now)
        conditions = set_conditions((job.get("status") or {}).get("conditions"), mark)
        return self._bench.set_status(self.kind, job, conditions=conditions, startTime=now)

    @staticmethod
    def _succeeded(pods: list[Object], roles: dict[str, Object]) -> bool:
        done = [pod for pod in pods if pod["status"].get("phase") == "Succeeded"]
        if any(role in _MASTERS for role in roles):
            return any(_is_master(pod) for pod in done)
        workers = sum(spec.get("replicas", 1) for role, spec in roles.items() if role == "Worker")
        finished = [p for p in done if p["metadata"]["labels"].get(PREFIX + "replica-type") == "worker"]
        if any(p["metadata"]["labels"].get(PREFIX + "replica-index") == "0" for p in finished):
            return True
        return 0 < workers <= len(finished)

    def _clean(self, job: Object, pods: list[Object]) -> None:
        policy = self._run_policy(job)
        keep = policy.get("cleanPodPolicy", "None")
        if keep in ("All", "Running"):
            for pod in pods:
                if keep == "All" or is_active(pod):
                    self._bench.delete("Pod", pod)
        ttl = policy.get("ttlSecondsAfterFinished")
        done = (job.get("status") or {}).get("completionTime")
        if ttl is not None and done:
            when = parse_time(done) + ttl
            if self._bench.now >= when:
                self._bench.delete(self.kind, job)
            else:
                self._bench.wake_at(job, when, prompt=False)

    def _report(
        self, job: Object, roles: dict[str, Object], mark: tuple[str, str, str] | None, *, ended: bool = False
    ) -> None:
        bench, now = self._bench, self._bench.stamp()
        pods = bench.owned(job, "Pod")
        counts: dict[str, dict[str, int]] = {}
        for role in roles:
            own = [p for p in pods if p["metadata"]["labels"].get(PREFIX + "replica-type") == role.lower()]
            row = {
                "active": sum(is_active(p) and p["status"].get("phase") == "Running" for p in own),
                "succeeded": sum(p["status"].get("phase") == "Succeeded" for p in own),
                "failed": sum(p["status"].get("phase") == "Failed" for p in own),
            }
            counts[role] = {name: count for name, count in row.items() if count}
        wanted = [("Created", f"{self.kind}Created", f"{self.kind} {job['metadata']['name']} is created.")]
        if mark is not None:
            wanted.append(mark)
        fields: dict[str, Any] = {"replicaStatuses": counts, "conditions": job_conditions(job, *wanted, now=now)}
        if not (job.get("status") or {}).get("startTime") and not self._run_policy(job).get("suspend"):
            fields["startTime"] = now
        if ended:
            fields["completionTime"] = now
        bench.set_status(self.kind, job, **fields)


def _is_master(pod: Object) -> bool:
    labels = pod["metadata"].get("labels") or {}
    return labels.get(PREFIX + "job-role") in ("master", "launcher")


def _exit_code(pod: Object) -> int:
    if not is_ended(pod):
        return 0
    for entry in pod["status"].get("containerStatuses") or ():
        ended = (entry.get("state") or {}).get("terminated")
        if ended and ended["exitCode"]:
            return int(ended["exitCode"])
    return 1


class PyTorchJobController(TrainingJobController):
    field = "pytorchReplicaSpecs"


class TFJobController(TrainingJobController):
    field = "tfReplicaSpecs"


class XGBoostJobController(TrainingJobController):
    field = "xgbReplicaSpecs"


class JAXJobController(TrainingJobController):
    field = "jaxReplicaSpecs"


class PaddleJobController(TrainingJobController):
    field = "paddleReplicaSpecs"
