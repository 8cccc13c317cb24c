"""Controllers of Kubeflow: training jobs (PyTorchJob, TFJob, XGBoostJob, JAXJob, PaddleJob), MPIJob and TrainJob.

A training job has pods by replica type and index. Pods keep their names; a deleted or evicted pod is made again. A failed pod is made
again with restartPolicy OnFailure or Always (and ExitCode for codes of 128 and above), up to runPolicy.backoffLimit; otherwise the job
fails. The job succeeds with its master (Master, Chief, or worker 0), or without a master when all workers have succeeded. cleanPodPolicy
decides about the pods of an ended job; a job that exceeds its backoffLimit or deadline loses all pods before it fails (source:
training-operator, pkg/controller.v1/common/job.go, ReconcileJobs).

An MPIJob (mpi-operator, v2beta1) has workers, and a launcher Job that is made at once or when the workers are ready. Limits of the run
apply to the launcher, and cleanPodPolicy alone decides about the workers. An MPIJob of version v1 belongs to the training-operator, which
deletes all workers at its backoffLimit or deadline.

A TrainJob (Kubeflow Trainer v2) is a JobSet of the same name, made from the template of a training runtime, the runtimePatches and the
job's own fields.
"""

from __future__ import annotations

from typing import Any, ClassVar

from kailab.cluster.protocol import WatchEvent
from kailab.errors import InputError
from kailab.model.objects import (
    Object,
    annotations_of,
    as_owner_reference,
    conditions_of,
    has_condition,
    is_active,
    is_ended,
    is_ready,
    is_terminating,
    status_of,
)
from kailab.model.patches import strategic_patch
from kailab.model.quantities import parse_count
from kailab.model.times import parse_time
from kailab.workloads.controller import Controller, Reference, make_condition, set_conditions

PREFIX = "training.kubeflow.org/"
RESTARTS = "kailab.dev/restarts"  # pods of a job made again after they failed
_MASTERS = ("Master", "Chief", "Launcher")


def job_conditions(job: Object, *wanted: tuple[str, str, str], now: str) -> list[dict[str, Any]]:
    """The conditions with these (type, reason, message) true; Running and Restarting exclude each other and the end."""
    rivals = {
        "Running": ("Restarting",),
        "Restarting": ("Running",),
        "Succeeded": ("Running", "Restarting"),
        "Failed": ("Running", "Restarting"),
        "Suspended": ("Running", "Restarting"),
    }
    old = status_of(job).get("conditions")
    new = [make_condition(type, "True", reason, message, now) for type, reason, message in wanted]
    for entry in old or ():
        if entry["status"] == "True" and any(entry["type"] in rivals.get(type, ()) for type, _, _ in wanted):
            new.insert(0, make_condition(entry["type"], "False", entry["reason"], entry["message"], now))
    return set_conditions(old, *new)


class TrainingJobController(Controller):
    """The controller of one kind of training job; ``field`` of its spec has the replicas by role."""

    field: ClassVar[str]

    @property
    def _operator(self) -> str:
        return f"{self.kind.lower()}-controller"

    def _roles(self, job: Object) -> dict[str, Object]:
        # Masters first, so that their pods are older; the others by name, so that the order in the manifest does not matter.
        roles: dict[str, Object] = job["spec"].get(self.field) or {}
        return dict(sorted(roles.items(), key=lambda item: (item[0] not in _MASTERS, item[0])))

    def _run_policy(self, job: Object) -> Object:
        policy: Object = job["spec"].get("runPolicy") or {}
        return policy

    def sync(self, job: Object) -> None:
        if is_terminating(job):
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
        # A pod that has just failed may exceed the limit.
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
        # Look again: failed pods are being deleted now.
        self._create(job, bench.owned(job, "Pod"), roles)
        running = [p for p in bench.owned(job, "Pod") if p["status"].get("phase") == "Running" and is_active(p)]
        lead = [p for p in running if _is_master(p)] if any(role in _MASTERS for role in roles) else running
        mark = ("Running", f"{self.kind}Running", f"{self.kind} {name} is running.") if lead else None
        self._report(job, roles, mark)

    def _create(self, job: Object, pods: list[Object], roles: dict[str, Object]) -> None:
        bench, name = self._bench, job["metadata"]["name"]
        there = {pod["metadata"]["name"]: pod for pod in pods}
        wanted: dict[str, None] = {}
        reference = as_owner_reference(job)
        for role, spec in roles.items():
            for index in range(spec.get("replicas", 1)):
                pod_name = f"{name}-{role.lower()}-{index}"
                wanted[pod_name] = None
                # A leaving pod counts too: its name is free only when it is gone.
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
                    # Kubelets do not know ExitCode: the operator reads the exit code and replaces the pod.
                    spec={"restartPolicy": "Never" if policy == "ExitCode" else policy},
                )
        for pod_name, pod in there.items():
            if pod_name not in wanted:
                bench.delete("Pod", pod)

    def _failures(self, job: Object, pods: list[Object], roles: dict[str, Object]) -> tuple[Object, str]:
        """Delete failed pods that are to be replaced. Returns why the job fails, if it does."""
        bench = self._bench
        notes = job["metadata"].get("annotations") or {}
        before = parse_count(notes.get(RESTARTS))
        failures = before
        for pod in pods:
            if pod["status"].get("phase") != "Failed":
                continue
            role = next((r for r in roles if r.lower() == pod["metadata"]["labels"].get(PREFIX + "replica-type")), "")
            rule = (roles.get(role) or {}).get("restartPolicy", "OnFailure")
            code = _exit_code(pod)
            # It was counted when it was deleted.
            if is_terminating(pod):
                continue
            # Codes from 128 on are signals from outside, so another attempt may succeed.
            if rule in ("OnFailure", "Always") or (rule == "ExitCode" and code >= 128):
                failures += 1
                bench.delete("Pod", pod)
            else:
                return job, f"{self.kind} {job['metadata']['name']} is failed because {role} replica(s) failed."
        if failures != before:
            # Count on the job, because the failed pods are gone soon.
            job = bench.patch(self.kind, job, {"metadata": {"annotations": {RESTARTS: str(failures)}}})
        return job, ""

    def _exceeded(self, job: Object, pods: list[Object]) -> str:
        """Why the job has exceeded its deadline or its limit of restarts; empty if it has not."""
        policy, status = self._run_policy(job), job.get("status") or {}
        failed = f"{self.kind} {job['metadata']['name']} has failed because it"
        limit = policy.get("backoffLimit")
        restarts = sum(c.get("restartCount", 0) for p in pods for c in p["status"].get("containerStatuses") or ())
        made_again = parse_count(annotations_of(job).get(RESTARTS))
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
        """The deadline of a resumed job begins again."""
        now, name = self._bench.stamp(), job["metadata"]["name"]
        mark = make_condition("Suspended", "False", f"{self.kind}Resumed", f"{self.kind} {name} is resumed.", now)
        conditions = set_conditions(status_of(job).get("conditions"), mark)
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
        done = status_of(job).get("completionTime")
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
        if not status_of(job).get("startTime") and not self._run_policy(job).get("suspend"):
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


# --- MPIJob -----------------------------------------------------------------------------------------------------------

_OPERATOR = "mpi-operator"


class MpiJobController(Controller):
    def sync(self, job: Object) -> None:
        if is_terminating(job):
            return
        bench, spec, name = self._bench, job["spec"], job["metadata"]["name"]
        roles = spec.get("mpiReplicaSpecs") or {}
        policy = spec.get("runPolicy") or {}
        launcher = next(iter(bench.owned(job, "Job")), None)
        # Its launcher stays: it is a Job with a time to live of its own.
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
            elif all_ready and status_of(launcher).get("ready", 0):
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
        # An ended worker keeps its name: the operator creates only missing ones.
        there = {pod["metadata"]["name"]: pod for pod in bench.owned(job, "Pod")}
        wanted = [f"{name}-worker-{index}" for index in range(spec.get("replicas", 0))]
        # A launcher that also works has number 0.
        first = int(_works(job))
        for index, pod_name in enumerate(wanted, first):
            if pod_name not in there:
                labels = {**self._labels(job, "worker"), PREFIX + "replica-index": str(index)}
                bench.create_pod(
                    job,
                    spec["template"],
                    name=pod_name,
                    labels=labels,
                    reference=as_owner_reference(job),
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
        # The launcher decides how the MPIJob ends, so the limits of the run apply to this Job.
        for field in ("backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished"):
            if field in policy:
                job_spec[field] = policy[field]
        return self._bench.create(
            job, "Job", {"metadata": {"name": f"{name}-launcher", "labels": {"app": name}}, "spec": job_spec}
        )

    def _resume(self, job: Object) -> Object:
        now, name = self._bench.stamp(), job["metadata"]["name"]
        mark = make_condition("Suspended", "False", "MPIJobResumed", f"MPIJob {name} is resumed.", now)
        conditions = set_conditions(status_of(job).get("conditions"), mark)
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
        if not status_of(job).get("startTime") and not (job["spec"].get("runPolicy") or {}).get("suspend"):
            fields["startTime"] = now
        if mark is not None and mark[0] in ("Succeeded", "Failed"):
            fields["completionTime"] = now
        bench.set_status(self.kind, job, **fields)


def _at_limit(launcher: Object) -> bool:
    """Whether it failed because of its deadline or backoffLimit."""
    conditions = conditions_of(launcher)
    return any(
        one["type"] == "Failed" and one["reason"] in ("DeadlineExceeded", "BackoffLimitExceeded") for one in conditions
    )


def _works(job: Object) -> bool:
    """Whether its launcher is one of its workers."""
    return bool(job["spec"].get("runLauncherAsWorker"))


# --- TrainJob ---------------------------------------------------------------------------------------------------------

STEP = "trainer.kubeflow.org/trainjob-ancestor-step"


class TrainJobController(Controller):
    def concerned(self, event: WatchEvent) -> list[Reference]:
        """All TrainJobs, because any may wait for this runtime."""
        jobs = self._bench.cluster.list(self.kind)
        return [(self.kind, (job["metadata"]["namespace"], job["metadata"]["name"])) for job in jobs]

    def sync(self, job: Object) -> None:
        if is_terminating(job) or has_condition(job, "Complete", "Failed"):
            return
        bench = self._bench
        job_set = next(iter(bench.owned(job, "JobSet")), None)
        if self._past_deadline(job):
            for made in bench.owned(job, "JobSet"):
                bench.delete("JobSet", made)
            message = "TrainJob exceeded its active deadline"
            self._mark(job, make_condition("Failed", "True", "DeadlineExceeded", message, bench.stamp()))
            return
        if job_set is None:
            runtime = self._runtime(job)
            if runtime is None:
                ref = job["spec"].get("runtimeRef") or {}
                message = f"runtime {ref.get('kind', 'ClusterTrainingRuntime')} {ref.get('name', '')!r} not found"
                self._mark(
                    job, make_condition("Failed", "False", "TrainingRuntimeNotSupported", message, bench.stamp())
                )
                return
            template = self._patched(job, (runtime["spec"].get("template")) or {})
            if template is None:
                return
            meta, own = template.get("metadata") or {}, job["spec"]
            job_set = bench.create(job, "JobSet", {
                "metadata": {"name": job["metadata"]["name"],
                             "labels": {**(meta.get("labels") or {}), **(own.get("labels") or {})},
                             "annotations": {**(meta.get("annotations") or {}), **(own.get("annotations") or {})}},
                "spec": self._job_set_spec(job, runtime, template.get("spec") or {}),
            })  # fmt: skip
            if job_set is None:
                return
        # Only this change is passed on: other fields of a running JobSet are immutable.
        elif bool(job_set["spec"].get("suspend")) != bool(job["spec"].get("suspend")):
            job_set = bench.patch("JobSet", job_set, {"spec": {"suspend": bool(job["spec"].get("suspend"))}})
        self._report(job, job_set)

    def _runtime(self, job: Object) -> Object | None:
        ref = job["spec"].get("runtimeRef") or {}
        kind, name = ref.get("kind", "ClusterTrainingRuntime"), ref.get("name", "")
        if kind == "TrainingRuntime":
            return self._bench.find(kind, (job["metadata"]["namespace"], name))
        return self._bench.find("ClusterTrainingRuntime", ("", name))

    def _past_deadline(self, job: Object) -> bool:
        """Whether activeDeadlineSeconds have passed. They begin again when the job is resumed. If not, the job is synced again then."""
        deadline = job["spec"].get("activeDeadlineSeconds")
        # The status of a job that was just resumed changes only after this sync, which causes another one.
        if not deadline or job["spec"].get("suspend") or has_condition(job, "Suspended"):
            return False
        conditions = conditions_of(job)
        resumed = [c["lastTransitionTime"] for c in conditions if c["type"] == "Suspended" and c["status"] == "False"]
        end = parse_time(resumed[0] if resumed else job["metadata"]["creationTimestamp"]) + deadline
        if self._bench.now >= end:
            return True
        self._bench.wake_at(job, end, prompt=False)
        return False

    def _patched(self, job: Object, template: Object) -> Object | None:
        """The runtime's template with the job's runtimePatches applied in order. None, with an event, if they can't be applied."""
        for place, patch in enumerate(job["spec"].get("runtimePatches") or ()):
            given = (patch.get("trainingRuntimeSpec") or {}).get("template") or {}
            where = f"spec.runtimePatches[{place}].trainingRuntimeSpec.template"
            jobs = {one["name"]: one for one in (template.get("spec") or {}).get("replicatedJobs") or ()}
            try:
                for one in (given.get("spec") or {}).get("replicatedJobs") or ():
                    if one["name"] not in jobs:
                        there = ", ".join(jobs) or "none"
                        raise InputError(
                            f"{where}: the runtime has no replicated job {one['name']!r:.80}; it has: {there}"
                        )
                    jobs[one["name"]] = strategic_patch(jobs[one["name"]], one, where)
                metadata = strategic_patch(template.get("metadata"), given.get("metadata") or {}, where)
            except InputError as error:
                self._bench.cluster.event(job, "Warning", "RuntimePatchFailed", str(error), "trainjob-controller")
                return None
            template = {
                "metadata": metadata,
                "spec": {**(template.get("spec") or {}), "replicatedJobs": list(jobs.values())},
            }
        return template

    def _job_set_spec(self, job: Object, runtime: Object, template_spec: Object) -> Object:
        spec = runtime["spec"]
        trainer = job["spec"].get("trainer") or {}
        nodes = trainer.get("numNodes") or ((spec.get("mlPolicy") or {}).get("numNodes")) or 1
        replicated = [
            self._replicated(job, entry, trainer, nodes) for entry in template_spec.get("replicatedJobs") or ()
        ]
        result = {**template_spec, "replicatedJobs": replicated}
        if job["spec"].get("suspend"):
            result["suspend"] = True
        return result

    def _replicated(self, job: Object, entry: Object, trainer: Object, nodes: int) -> Object:
        template = entry["template"]
        meta = template.get("metadata") or {}
        is_trainer = (meta.get("labels") or {}).get(STEP) == "trainer" or entry["name"] == "node"
        pods = template["spec"]["template"]
        inner = pods.get("metadata") or {}
        labels = {**(inner.get("labels") or {}), **(job["spec"].get("labels") or {})}
        notes = {**(inner.get("annotations") or {}), **(job["spec"].get("annotations") or {})}
        pod_spec = pods["spec"]
        job_spec = dict(template["spec"])
        if is_trainer:
            job_spec.update(parallelism=nodes, completions=nodes)
            pod_spec = {**pod_spec, "containers": [_overridden(c, trainer) for c in pod_spec["containers"]]}
        job_spec["template"] = {**pods, "metadata": {**inner, "labels": labels, "annotations": notes}, "spec": pod_spec}
        return {**entry, "replicas": entry.get("replicas", 1), "template": {**template, "spec": job_spec}}

    def _report(self, job: Object, job_set: Object) -> None:
        now = self._bench.stamp()
        marks = []
        suspended = bool(job["spec"].get("suspend"))
        if suspended or any(c["type"] == "Suspended" for c in conditions_of(job)):
            reason = "Suspended" if suspended else "Resumed"
            marks.append(make_condition("Suspended", str(suspended), reason, f"TrainJob is {reason.lower()}", now))
        for type in ("Completed", "Failed"):
            for entry in conditions_of(job_set):
                if entry["type"] == type and entry["status"] == "True":
                    # The condition is Completed in a JobSet and Complete in a TrainJob.
                    name = "Complete" if type == "Completed" else type
                    marks.append(make_condition(name, "True", entry["reason"], entry["message"], now))
        rows = [
            {key: row[key] for key in ("name", "ready", "succeeded", "failed", "active", "suspended")}
            for row in status_of(job_set).get("replicatedJobsStatus") or ()
        ]
        job = self._bench.set_status(self.kind, job, jobsStatus=rows or None)
        if marks:
            self._mark(job, *marks)

    def _mark(self, job: Object, *marks: dict[str, Any]) -> None:
        old = status_of(job).get("conditions")
        self._bench.set_status(self.kind, job, conditions=set_conditions(old, *marks))


def _overridden(container: Object, trainer: Object) -> Object:
    """The trainer's container with the values of the TrainJob."""
    if container["name"] not in ("node", "trainer"):
        return container
    changes: dict[str, Any] = {key: trainer[key] for key in ("image", "command", "args") if key in trainer}
    if "resourcesPerNode" in trainer:
        changes["resources"] = trainer["resourcesPerNode"]
    if "env" in trainer:
        given = {entry["name"] for entry in trainer["env"]}
        # The TrainJob's value of an environment variable wins; others stay.
        changes["env"] = [e for e in container.get("env") or () if e["name"] not in given] + list(trainer["env"])
    return {**container, **changes}
