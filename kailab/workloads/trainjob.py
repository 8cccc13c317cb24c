"""TrainJob (Kubeflow Trainer v2): a JobSet of the same name, from a training runtime's template, the runtimePatches and the job's own wishes."""

from __future__ import annotations

from typing import Any

from kailab.cluster.protocol import Object, WatchEvent
from kailab.errors import InputError
from kailab.model.patches import strategic_patch
from kailab.model.times import parse_time
from kailab.workloads.bench import Reference, condition, has_condition, set_conditions
from kailab.workloads.controller import Controller

STEP = "trainer.kubeflow.org/trainjob-ancestor-step"


class TrainJobController(Controller):
    def concerned(self, event: WatchEvent) -> list[Reference]:
        """All: any may have waited for this runtime."""
        jobs = self._bench.cluster.list(self.kind)
        return [(self.kind, (job["metadata"]["namespace"], job["metadata"]["name"])) for job in jobs]

    def sync(self, job: Object) -> None:
        if "deletionTimestamp" in job["metadata"] or has_condition(job, "Complete", "Failed"):
            return
        bench = self._bench
        job_set = next(iter(bench.owned(job, "JobSet")), None)
        if self._past_deadline(job):
            for made in bench.owned(job, "JobSet"):
                bench.delete("JobSet", made)
            message = "TrainJob exceeded its active deadline"
            self._mark(job, condition("Failed", "True", "DeadlineExceeded", message, bench.stamp()))
            return
        if job_set is None:
            runtime = self._runtime(job)
            if runtime is None:
                ref = job["spec"].get("runtimeRef") or {}
                message = f"runtime {ref.get('kind', 'ClusterTrainingRuntime')} {ref.get('name', '')!r} not found"
                self._mark(job, condition("Failed", "False", "TrainingRuntimeNotSupported", message, bench.stamp()))
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
        # Of what changes later only this is handed down: what a running JobSet is made of is immutable.
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
        """Whether activeDeadlineSeconds are over, which begin anew where it is resumed; else it is looked at again then."""
        deadline = job["spec"].get("activeDeadlineSeconds")
        # One that has just been resumed says so in its status only after this look, and is looked at again then.
        if not deadline or job["spec"].get("suspend") or has_condition(job, "Suspended"):
            return False
        conditions = (job.get("status") or {}).get("conditions") or ()
        resumed = [c["lastTransitionTime"] for c in conditions if c["type"] == "Suspended" and c["status"] == "False"]
        end = parse_time(resumed[0] if resumed else job["metadata"]["creationTimestamp"]) + deadline
        if self._bench.now >= end:
            return True
        self._bench.wake_at(job, end, prompt=False)
        return False

    def _patched(self, job: Object, template: Object) -> Object | None:
        """The runtime's template with what the job's runtimePatches say, one after the other. None where they can't be carried out, which an event tells."""
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
        if suspended or any(c["type"] == "Suspended" for c in (job.get("status") or {}).get("conditions") or ()):
            reason = "Suspended" if suspended else "Resumed"
            marks.append(condition("Suspended", str(suspended), reason, f"TrainJob is {reason.lower()}", now))
        for type in ("Completed", "Failed"):
            for entry in (job_set.get("status") or {}).get("conditions") or ():
                if entry["type"] == type and entry["status"] == "True":
                    # A JobSet says Completed where a TrainJob says Complete.
                    name = "Complete" if type == "Completed" else type
                    marks.append(condition(name, "True", entry["reason"], entry["message"], now))
        rows = [
            {key: row[key] for key in ("name", "ready", "succeeded", "failed", "active", "suspended")}
            for row in (job_set.get("status") or {}).get("replicatedJobsStatus") or ()
        ]
        job = self._bench.set_status(self.kind, job, jobsStatus=rows or None)
        if marks:
            self._mark(job, *marks)

    def _mark(self, job: Object, *marks: dict[str, Any]) -> None:
        old = (job.get("status") or {}).get("conditions")
        self._bench.set_status(self.kind, job, conditions=set_conditions(old, *marks))


def _overridden(container: Object, trainer: Object) -> Object:
    """The trainer's container with what the TrainJob asks for instead."""
    if container["name"] not in ("node", "trainer"):
        return container
    changes: dict[str, Any] = {key: trainer[key] for key in ("image", "command", "args") if key in trainer}
    if "resourcesPerNode" in trainer:
        changes["resources"] = trainer["resourcesPerNode"]
    if "env" in trainer:
        given = {entry["name"] for entry in trainer["env"]}
        # Of a variable that both name the TrainJob's counts; the others stay.
        changes["env"] = [e for e in container.get("env") or () if e["name"] not in given] + list(trainer["env"])
    return {**container, **changes}
