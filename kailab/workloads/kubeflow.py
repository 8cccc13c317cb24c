"""Controllers of Kubeflow: training jobs (PyTorchJob, TFJob, XGBoostJob, JAXJob, PaddleJob), MPIJob and TrainJob.

A training job has pods by replica type and index. Pods keep their names; a deleted or evicted pod is made again. A failed pod is made
again with restartPolicy OnFailure or Always (and ExitCode for codes of 128 and above), up to runPolicy.backoffLimit; otherwise the job
fails. The job succeeds with its master (Master, Chief, or worker 0), or without a master when all workers have succeeded. cleanPodPolicy
decides about the pods of an ended job; a job that exceeds its backoffLimit or deadline loses all pods before it fails (source:
training-operator, pkg/controller.v1/common/job.go, ReconcileJobs).

An MPIJob (mpi-operator, v2beta1) has workers, and a launcher Job that is made at once or when the workers are ready. Limits of the run
apply to the launcher, and cleanPodPolicy alone decides about the workers. An MPIJob of version v1 is a training job of the training-operator,
and its launcher a pod.

A TrainJob (Kubeflow Trainer v2) is a JobSet of the same name, made from the template of a training runtime, the runtimePatches and the
job's own fields.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, TypeAlias

from kailab.cluster.protocol import WatchEvent
from kailab.errors import InputError
from kailab.model.kind import Need
from kailab.model.objects import (
    Object,
    annotations_of,
    as_owner_reference,
    condition_of,
    conditions_of,
    has_condition,
    is_active,
    is_ready,
    is_terminating,
    labels_of,
    metadata_of,
    name_of,
    namespace_of,
    object_key,
    phase_of,
    status_of,
)
from kailab.model.patches import strategic_patch
from kailab.model.quantities import parse_count
from kailab.model.times import parse_time
from kailab.model.validation.fields import shown
from kailab.workloads.controller import Controller, Reference, with_metadata

PREFIX = "training.kubeflow.org/"
RESTARTS = "kailab.dev/restarts"  # pods of a job made again after they failed
_MASTERS = ("Master", "Chief", "Launcher")
_RUNNING = frozenset(("Running", "Restarting"))
"""Conditions that exclude each other, and that end with the run."""

Mark: TypeAlias = tuple[str, str]
"""A condition that became true: its type and message. Its reason is the kind of the job with the type."""


class RunController(Controller):
    """What training jobs and MPIJobs have in common: a run policy, and the conditions of their operators."""

    def _run_policy(self, job: Object) -> Object:
        return job["spec"].get("runPolicy") or {}

    def _resume(self, job: Object) -> Object:
        """The deadline of a resumed job begins again."""
        resumed = ("Suspended", False, f"{self.kind}Resumed", f"{self.kind} {name_of(job)} is resumed.")
        return self.set_status(job, resumed, startTime=self._bench.stamp())

    def _clean(self, job: Object) -> None:
        """cleanPodPolicy: delete the pods of an ended job."""
        keep = self._run_policy(job).get("cleanPodPolicy", "None")
        pods = self._bench.owned(job, "Pod") if keep in ("All", "Running") else []
        self._bench.delete("Pod", *(pods if keep == "All" else filter(is_active, pods)))

    def _write_status(self, job: Object, counts: dict[str, dict[str, int]], mark: Mark | None) -> None:
        """Write the status of a job. ``counts``: of pods by role."""
        marks = [("Created", f"{self.kind} {name_of(job)} is created."), *([mark] if mark else [])]
        over = _RUNNING - {mark[0]} if mark else ()
        fields: dict[str, Any] = {"replicaStatuses": counts}
        if not status_of(job).get("startTime") and not self._run_policy(job).get("suspend"):
            fields["startTime"] = self._bench.stamp()
        if mark is not None and mark[0] in ("Succeeded", "Failed"):
            fields["completionTime"] = self._bench.stamp()
        self.set_status(
            job,
            *(
                (condition["type"], False, condition["reason"], condition["message"])
                for condition in conditions_of(job)
                if condition["status"] == "True" and condition["type"] in over
            ),
            *((type, True, f"{self.kind}{type}", message) for type, message in marks),
            **fields,
        )


class TrainingJobController(RunController):
    """Controls the kinds of ``REPLICA_SPECS``, which name the field of the spec with the replicas by role."""

    _restart_policy: ClassVar[str] = "OnFailure"

    def _roles(self, job: Object) -> dict[str, Object]:
        # Masters first, so that their pods are older; the others by name, so that the order in the manifest does not matter.
        roles: dict[str, Object] = job["spec"].get(REPLICA_SPECS[self.kind]) or {}
        return dict(sorted(roles.items(), key=lambda item: (item[0] not in _MASTERS, item[0])))

    def sync(self, job: Object) -> None:
        if is_terminating(job):
            return
        bench = self._bench
        if has_condition(job, "Succeeded", "Failed"):
            self._clean(job)
            self.expire(job, status_of(job).get("completionTime"), self._run_policy(job).get("ttlSecondsAfterFinished"))
            return
        pods = bench.owned(job, "Pod")
        roles = self._roles(job)
        title = f"{self.kind} {name_of(job)}"
        if self._run_policy(job).get("suspend"):
            bench.delete("Pod", *pods)
            self._report(job, roles, ("Suspended", f"{title} is suspended."))
            return
        if has_condition(job, "Suspended"):
            job = self._resume(job)
        failure = ""
        if not (exceeded := self._exceeded(job, pods)):
            job, failure = self._failures(job, pods, roles)
            # A pod that has just failed may exceed the limit.
            exceeded = failure or self._exceeded(job, pods)
        if exceeded:
            if not failure:
                bench.delete("Pod", *pods)
            self._report(job, roles, ("Failed", exceeded))
            return
        if self._succeeded(pods, roles):
            self._report(job, roles, ("Succeeded", f"{title} is successfully completed."))
            return
        # Look again: failed pods are being deleted now.
        self._create(job, bench.owned(job, "Pod"), roles)
        running = [pod for pod in bench.owned(job, "Pod") if phase_of(pod) == "Running" and is_active(pod)]
        lead = list(filter(_is_master, running)) if any(role in _MASTERS for role in roles) else running
        self._report(job, roles, ("Running", f"{title} is running.") if lead else None)

    def _create(self, job: Object, pods: list[Object], roles: dict[str, Object]) -> None:
        bench, name = self._bench, name_of(job)
        there = set(map(name_of, pods))
        wanted: set[str] = set()
        reference = as_owner_reference(job)
        for role, spec in roles.items():
            for index in range(spec.get("replicas", 1)):
                pod_name = f"{name}-launcher" if role == "Launcher" else f"{name}-{role.lower()}-{index}"
                wanted.add(pod_name)
                # A leaving pod counts too: its name is free only when it is gone.
                if pod_name in there:
                    continue
                labels = {
                    PREFIX + "job-name": name,
                    PREFIX + "operator-name": f"{self.kind.lower()}-controller",
                    PREFIX + "replica-type": role.lower(),
                    PREFIX + "replica-index": str(index),
                }
                leads = role == "Worker" and index == 0 and not any(other in _MASTERS for other in roles)
                if role in _MASTERS or leads:
                    labels[PREFIX + "job-role"] = "master"
                policy = spec.get("restartPolicy", self._restart_policy)
                # Kubelets do not know ExitCode: the operator reads the exit code and replaces the pod.
                fields: Object = {"restartPolicy": "Never" if policy == "ExitCode" else policy}
                if (waiting := _first_container(self.kind, role, roles)) is not None:
                    given = (spec["template"].get("spec") or {}).get("initContainers") or ()
                    fields["initContainers"] = [*given, waiting]
                bench.create_pod(job, spec["template"], name=pod_name, labels=labels, reference=reference, spec=fields)
        bench.delete("Pod", *(pod for pod in pods if name_of(pod) not in wanted))

    def _failures(self, job: Object, pods: list[Object], roles: dict[str, Object]) -> tuple[Object, str]:
        """Delete failed pods that are to be replaced. Returns why the job fails, if it does."""
        bench = self._bench
        failures = before = parse_count(annotations_of(job).get(RESTARTS))
        for pod in pods:
            # One that is being deleted was counted before.
            if phase_of(pod) != "Failed" or is_terminating(pod):
                continue
            role = next((role for role in roles if role.lower() == labels_of(pod).get(PREFIX + "replica-type")), "")
            rule = (roles.get(role) or {}).get("restartPolicy", self._restart_policy)
            # Codes from 128 on are signals from outside, so another attempt may succeed.
            if rule in ("OnFailure", "Always") or (rule == "ExitCode" and _exit_code(pod) >= 128):
                failures += 1
                bench.delete("Pod", pod)
            else:
                return job, f"{self.kind} {name_of(job)} is failed because {role} replica(s) failed."
        if failures != before:
            # Count on the job, because the failed pods are gone soon.
            job = bench.patch(self.kind, job, {"metadata": {"annotations": {RESTARTS: str(failures)}}})
        return job, ""

    def _exceeded(self, job: Object, pods: list[Object]) -> str:
        """Why the job has exceeded its deadline or its limit of restarts; empty if it has not."""
        policy, began = self._run_policy(job), status_of(job).get("startTime")
        failed = f"{self.kind} {name_of(job)} has failed because it"
        limit = policy.get("backoffLimit")
        restarts = sum(c.get("restartCount", 0) for p in pods for c in p["status"].get("containerStatuses") or ())
        made_again = parse_count(annotations_of(job).get(RESTARTS))
        if limit is not None and made_again + restarts > limit:
            return f"{failed} has reached the specified backoff limit"
        deadline = policy.get("activeDeadlineSeconds")
        if deadline is not None and began and self.is_due(job, parse_time(began) + deadline):
            return f"{failed} was active longer than specified deadline"
        return ""

    @staticmethod
    def _succeeded(pods: list[Object], roles: dict[str, Object]) -> bool:
        done = [pod for pod in pods if phase_of(pod) == "Succeeded"]
        if any(role in _MASTERS for role in roles):
            return any(_is_master(pod) for pod in done)
        workers = sum(spec.get("replicas", 1) for role, spec in roles.items() if role == "Worker")
        ended = [labels_of(pod) for pod in done if labels_of(pod).get(PREFIX + "replica-type") == "worker"]
        if any(labels.get(PREFIX + "replica-index") == "0" for labels in ended):
            return True
        return 0 < workers <= len(ended)

    def _report(self, job: Object, roles: dict[str, Object], mark: Mark | None) -> None:
        pods = self._bench.owned(job, "Pod")
        counts: dict[str, dict[str, int]] = {}
        for role in roles:
            own = [pod for pod in pods if labels_of(pod).get(PREFIX + "replica-type") == role.lower()]
            row = {
                "active": sum(is_active(pod) and phase_of(pod) == "Running" for pod in own),
                "succeeded": sum(phase_of(pod) == "Succeeded" for pod in own),
                "failed": sum(phase_of(pod) == "Failed" for pod in own),
            }
            counts[role] = {name: count for name, count in row.items() if count}
        self._write_status(job, counts, mark)


def _first_container(kind: str, role: str, roles: dict[str, Object]) -> Object | None:
    """The init container that the training-operator adds to a pod, with its requests; None if it adds none."""
    if kind == "PyTorchJob" and role == "Worker" and "Master" in roles:
        amounts = {"requests": {"cpu": "50m", "memory": "10Mi"}, "limits": {"cpu": "100m", "memory": "20Mi"}}
        return {"name": "init-pytorch", "image": "alpine:3.10", "resources": amounts}
    if kind == "MPIJob" and role == "Launcher":
        small = {"cpu": "100m", "ephemeral-storage": "5Gi", "memory": "512Mi"}
        return {
            "name": "kubectl-delivery",
            "image": "kubeflow/kubectl-delivery",
            "resources": {"requests": small, "limits": small},
        }
    return None


def _is_master(pod: Object) -> bool:
    return labels_of(pod).get(PREFIX + "job-role") == "master"


def _exit_code(pod: Object) -> int:
    """The exit code of the first container with an error in a failed pod; 1 if none has one."""
    for entry in pod["status"].get("containerStatuses") or ():
        ended = (entry.get("state") or {}).get("terminated")
        if ended and ended["exitCode"]:
            return int(ended["exitCode"])
    return 1


REPLICA_SPECS = {
    "PyTorchJob": "pytorchReplicaSpecs",
    "TFJob": "tfReplicaSpecs",
    "XGBoostJob": "xgbReplicaSpecs",
    "JAXJob": "jaxReplicaSpecs",
    "PaddleJob": "paddleReplicaSpecs",
    "MPIJob": "mpiReplicaSpecs",
}

# --- MPIJob -----------------------------------------------------------------------------------------------------------


class MpiJobController(TrainingJobController):
    _restart_policy = "Never"

    def sync(self, job: Object) -> None:
        if is_terminating(job):
            return
        if job["apiVersion"].endswith("/v1"):
            super().sync(job)
            return
        bench, spec, title = self._bench, job["spec"], f"MPIJob {name_of(job)}"
        roles = spec.get("mpiReplicaSpecs") or {}
        launcher = next(iter(bench.owned(job, "Job")), None)
        # Its launcher stays: it is a Job with a time to live of its own.
        if has_condition(job, "Succeeded", "Failed"):
            self._clean(job)
            return
        if self._run_policy(job).get("suspend"):
            bench.delete("Pod", *bench.owned(job, "Pod"))
            if launcher is not None and not launcher["spec"].get("suspend"):
                bench.patch("Job", launcher, {"spec": {"suspend": True}})
            self._report_launcher(job, roles, launcher, ("Suspended", f"{title} is suspended."))
            return
        if has_condition(job, "Suspended"):
            job = self._resume(job)
        self._workers(job, roles.get("Worker") or {})
        ready = sum(is_active(pod) and is_ready(pod) for pod in bench.owned(job, "Pod"))
        all_ready = ready >= (roles.get("Worker") or {}).get("replicas", 0)
        delayed = spec.get("launcherCreationPolicy") == "WaitForWorkersReady"
        if launcher is None and "Launcher" in roles and (all_ready or not delayed):
            launcher = self._launcher(job, roles["Launcher"])
        elif launcher is not None and launcher["spec"].get("suspend"):
            launcher = bench.patch("Job", launcher, {"spec": {"suspend": False}})
        mark = None
        if launcher is not None:
            if has_condition(launcher, "Complete"):
                mark = ("Succeeded", f"{title} successfully completed.")
            elif has_condition(launcher, "Failed"):
                mark = ("Failed", f"{title} has failed")
            elif all_ready and status_of(launcher).get("ready", 0):
                mark = ("Running", f"{title} is running.")
        self._report_launcher(job, roles, launcher, mark)

    def _labels(self, job: Object, role: str) -> dict[str, str]:
        return {
            PREFIX + "job-name": name_of(job),
            PREFIX + "operator-name": "mpi-operator",
            PREFIX + "job-role": role,
        }

    def _workers(self, job: Object, spec: Object) -> None:
        bench, name = self._bench, name_of(job)
        # An ended worker keeps its name: the operator creates only missing ones.
        there = {name_of(pod): pod for pod in bench.owned(job, "Pod")}
        wanted = [f"{name}-worker-{index}" for index in range(spec.get("replicas", 0))]
        # A launcher that also works has number 0.
        first = int(_launcher_works(job))
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
        bench.delete("Pod", *(pod for pod_name, pod in there.items() if pod_name not in wanted))

    def _launcher(self, job: Object, spec: Object) -> Object | None:
        labels = self._labels(job, "launcher")
        if _launcher_works(job):
            labels[PREFIX + "replica-index"] = "0"
        template = with_metadata(spec["template"], labels)
        pod_spec = {**template["spec"], "restartPolicy": spec.get("restartPolicy", "OnFailure")}
        policy = self._run_policy(job)
        # The launcher decides how the MPIJob ends, so the limits of the run apply to this Job.
        limits = ("backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished")
        return self._bench.create(job, "Job", {
            "metadata": {"name": f"{name_of(job)}-launcher", "labels": {"app": name_of(job)}},
            "spec": {
                "template": {**template, "spec": pod_spec},
                **{field: policy[field] for field in limits if field in policy},
            },
        })  # fmt: skip

    def _report_launcher(
        self, job: Object, roles: dict[str, Object], launcher: Object | None, mark: Mark | None
    ) -> None:
        counts: dict[str, dict[str, int]] = {}
        if "Worker" in roles:
            counts["Worker"] = {"active": sum(phase_of(pod) == "Running" for pod in self._bench.owned(job, "Pod"))}
        if launcher is not None:
            status = status_of(launcher)
            counts["Launcher"] = {key: status[key] for key in ("active", "succeeded", "failed") if status.get(key)}
        self._write_status(job, counts, mark)


def _launcher_works(job: Object) -> bool:
    """True if the launcher of the MPIJob also is a worker."""
    return bool(job["spec"].get("runLauncherAsWorker"))


# --- TrainJob ---------------------------------------------------------------------------------------------------------

STEP = "trainer.kubeflow.org/trainjob-ancestor-step"


def needs_of_train_job(obj: Object) -> Iterator[Need]:
    reference = obj["spec"].get("runtimeRef") or {}
    kind, name = reference.get("kind", "ClusterTrainingRuntime"), reference.get("name")
    if name and kind in ("ClusterTrainingRuntime", "TrainingRuntime"):
        text = f"there is no {kind} {shown(name)}: Kubeflow Trainer refuses such a TrainJob; here no pods are made until there is one"
        yield Need((kind,), lambda one: name_of(one) == name, "spec.runtimeRef.name", text)


class TrainJobController(Controller):
    def concerned(self, event: WatchEvent) -> list[Reference]:
        """All TrainJobs, because any may wait for this runtime."""
        return [(self.kind, object_key(job)) for job in self._bench.cluster.list(self.kind)]

    def sync(self, job: Object) -> None:
        if is_terminating(job) or has_condition(job, "Complete", "Failed"):
            return
        bench = self._bench
        job_set = next(iter(bench.owned(job, "JobSet")), None)
        if self._past_deadline(job):
            bench.delete("JobSet", *bench.owned(job, "JobSet"))
            self.set_status(job, ("Failed", True, "DeadlineExceeded", "TrainJob exceeded its active deadline"))
            return
        if job_set is None:
            runtime = self._runtime(job)
            if runtime is None:
                ref = job["spec"].get("runtimeRef") or {}
                message = f"runtime {ref.get('kind', 'ClusterTrainingRuntime')} {ref.get('name', '')!r} not found"
                self.set_status(job, ("Failed", False, "TrainingRuntimeNotSupported", message))
                return
            template = self._patched(job, (runtime["spec"].get("template")) or {})
            if template is None:
                return
            own = with_metadata(template, *self._own_metadata(job))["metadata"]
            job_set = bench.create(job, "JobSet", {
                "metadata": {"name": name_of(job), "labels": own["labels"], "annotations": own["annotations"]},
                "spec": self._job_set_spec(job, runtime, template.get("spec") or {}),
            })  # fmt: skip
            if job_set is None:
                return
        # Only this change is passed on: other fields of a running JobSet are immutable.
        elif bool(job_set["spec"].get("suspend")) != bool(job["spec"].get("suspend")):
            job_set = bench.patch("JobSet", job_set, {"spec": {"suspend": bool(job["spec"].get("suspend"))}})
        self._report(job, job_set)

    @staticmethod
    def _own_metadata(job: Object) -> tuple[Object, Object]:
        """The labels and annotations that the job adds to its JobSet and pods."""
        return job["spec"].get("labels") or {}, job["spec"].get("annotations") or {}

    def _runtime(self, job: Object) -> Object | None:
        ref = job["spec"].get("runtimeRef") or {}
        if ref.get("kind") == "TrainingRuntime":
            return self._bench.find("TrainingRuntime", (namespace_of(job), ref.get("name", "")))
        return self._bench.find("ClusterTrainingRuntime", ("", ref.get("name", "")))

    def _past_deadline(self, job: Object) -> bool:
        """Whether activeDeadlineSeconds have passed. They begin again when the job is resumed. If not, the job is synced again then."""
        deadline = job["spec"].get("activeDeadlineSeconds")
        # The status of a job that was just resumed changes only after this sync, which causes another one.
        if not deadline or job["spec"].get("suspend") or has_condition(job, "Suspended"):
            return False
        resumed = condition_of(job, "Suspended")
        began = resumed["lastTransitionTime"] if resumed else metadata_of(job)["creationTimestamp"]
        return self.is_due(job, parse_time(began) + deadline)

    def _patched(self, job: Object, template: Object) -> Object | None:
        """The runtime's template with the job's patches applied in order. None, with an event, if they can't be applied."""
        for where, given in _patches(job["spec"]):
            jobs = {entry["name"]: entry for entry in (template.get("spec") or {}).get("replicatedJobs") or ()}
            try:
                for entry in (given.get("spec") or {}).get("replicatedJobs") or ():
                    name = entry["name"]
                    if name not in jobs:
                        there = ", ".join(jobs) or "none"
                        raise InputError(f"{where}: the runtime has no replicated job {name!r:.80}; it has: {there}")
                    jobs[name] = strategic_patch(jobs[name], entry, where)
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
        entries = template_spec.get("replicatedJobs") or ()
        replicated = [self._replicated(job, entry, trainer, nodes) for entry in entries]
        result = {**template_spec, "replicatedJobs": replicated}
        if job["spec"].get("suspend"):
            result["suspend"] = True
        return result

    def _replicated(self, job: Object, entry: Object, trainer: Object, nodes: int) -> Object:
        template = entry["template"]
        job_spec = dict(template["spec"])
        pods = with_metadata(job_spec["template"], *self._own_metadata(job))
        if labels_of(template).get(STEP) == "trainer" or entry["name"] == "node":
            job_spec.update(parallelism=nodes, completions=nodes)
            containers = [_overridden(container, trainer) for container in pods["spec"]["containers"]]
            pods["spec"] = {**pods["spec"], "containers": containers}
        job_spec["template"] = pods
        return {**entry, "replicas": entry.get("replicas", 1), "template": {**template, "spec": job_spec}}

    def _report(self, job: Object, job_set: Object) -> None:
        conditions = []
        suspended = bool(job["spec"].get("suspend"))
        if suspended or condition_of(job, "Suspended"):
            reason = "Suspended" if suspended else "Resumed"
            conditions.append(("Suspended", suspended, reason, f"TrainJob is {reason.lower()}"))
        # The condition is Completed in a JobSet and Complete in a TrainJob.
        for type, own_type in (("Completed", "Complete"), ("Failed", "Failed")):
            if has_condition(job_set, type) and (entry := condition_of(job_set, type)):
                conditions.append((own_type, True, entry["reason"], entry["message"]))
        rows = [
            {key: row[key] for key in ("name", "ready", "succeeded", "failed", "active", "suspended")}
            for row in status_of(job_set).get("replicatedJobsStatus") or ()
        ]
        self.set_status(job, *conditions, jobsStatus=rows or None)


def _patches(spec: Object) -> Iterator[tuple[str, Object]]:
    """Patches of the runtime's template, each with its place: ``runtimePatches``, and the fields that Trainer 2.1 (``podTemplateOverrides``)
    and 2.0 (``podSpecOverrides``) had for them."""
    for place, patch in enumerate(spec.get("runtimePatches") or ()):
        where = f"spec.runtimePatches[{place}].trainingRuntimeSpec.template"
        yield where, (patch.get("trainingRuntimeSpec") or {}).get("template") or {}
    for field in ("podTemplateOverrides", "podSpecOverrides"):
        for place, given in enumerate(spec.get(field) or ()):
            pods = {key: value for key, value in given.items() if key != "targetJobs"}
            pods = {"spec": pods} if field == "podSpecOverrides" else pods
            jobs = [
                {"name": target["name"], "template": {"spec": {"template": pods}}}
                for target in given.get("targetJobs") or ()
            ]
            yield f"spec.{field}[{place}]", {"spec": {"replicatedJobs": jobs}}


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
