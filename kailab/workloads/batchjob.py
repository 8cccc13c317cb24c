"""Job, as the Job controller of Kubernetes 1.35 runs it.

Of note for a lab where pods are evicted: a pod that is deleted before it succeeded counts as failed, towards
backoffLimit as well; its replacement waits 10 s, doubling with each failure since the last success, up to 10 min. With
``podReplacementPolicy: Failed`` (and with a podFailurePolicy) a pod counts only once it has ended. Pods carry the tracking
finalizer until they are counted, so none is missed or counted twice. The count of failures behind the back-off is kept in an
annotation of the Job (a real controller keeps it in memory), so that a resumed lab waits as long.
"""

from __future__ import annotations

from typing import Any

from kailab.cluster.protocol import Object
from kailab.model.quantities import counted
from kailab.model.times import parse_time
from kailab.workloads import indexes
from kailab.workloads.bench import (
    condition,
    has_condition,
    is_active,
    is_ended,
    is_ready,
    owner_reference,
    set_conditions,
)
from kailab.workloads.controller import Controller
from kailab.workloads.podfailure import Verdict, back_off, judge
from kailab.workloads.replicaset import surplus_order

FINALIZER = "batch.kubernetes.io/job-tracking"
FAILURES = "kailab.dev/job-failures"  # "<failures since the last success>@<time of the last one>"
PER_INDEX = "kailab.dev/index-failures"  # "<index>=<failures>,..."
INDEX = "batch.kubernetes.io/job-completion-index"
INDEX_FAILURES = "batch.kubernetes.io/job-index-failure-count"
_FINALIZERS = [FINALIZER]


def only_ended_count(spec: Object) -> bool:
    """Whether a pod being deleted is waited for before it counts as failed and is replaced."""
    default = "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed"
    return bool(spec.get("podReplacementPolicy", default) == "Failed")


class JobController(Controller):
    one_look = True

    def orphaned(self, pod: Object) -> None:
        """Let go of a pod whose Job is gone."""
        self._release([pod])

    def _release(self, pods: list[Object]) -> None:
        for pod in pods:
            meta = pod["metadata"]
            current = self._bench.find("Pod", (meta["namespace"], meta["name"]))
            if current is None or current["metadata"]["uid"] != meta["uid"]:
                continue
            left = [name for name in current["metadata"].get("finalizers") or () if name != FINALIZER]
            if len(left) != len(current["metadata"].get("finalizers") or ()):
                self._bench.patch("Pod", current, {"metadata": {"finalizers": left or None}})

    def sync(self, job: Object) -> None:
        bench, spec = self._bench, job["spec"]
        managed_by = spec.get("managedBy")
        if "deletionTimestamp" in job["metadata"] or (managed_by and managed_by != "kubernetes.io/job-controller"):
            return
        pods = bench.owned(job, "Pod")
        if has_condition(job, "Complete", "Failed"):
            self._release([pod for pod in pods if is_ended(pod) or "deletionTimestamp" in pod["metadata"]])
            self._expire(job)
            return
        job, failure = self._count(job, pods)
        status = job.get("status") or {}
        if failure is None and not has_condition(job, "FailureTarget", "SuccessCriteriaMet"):
            failure = self._verdict(job, pods)
        target = next((c for c in status.get("conditions") or () if c["type"] == "FailureTarget"), None)
        if failure is None and target is not None:
            failure = (target["reason"], target["message"])
        if failure is not None:
            self._end(job, "FailureTarget", "Failed", *failure)
        elif self._is_complete(job):
            self._end(
                job, "SuccessCriteriaMet", "Complete", "CompletionsReached", "Reached expected number of succeeded pods"
            )
        else:
            self._manage(job)

    # --- counting ---------------------------------------------------------------------------------------------------

    def _count(self, job: Object, pods: list[Object]) -> tuple[Object, tuple[str, str] | None]:
        """Count pods that ended since last time; also says why the Job fails, if a failure policy says so."""
        spec = job["spec"]
        patient = only_ended_count(spec)
        succeeded: list[Object] = []
        failed: list[Object] = []
        done: list[Object] = []
        verdict: tuple[str, str] | None = None
        failed_indexes: list[int] = []
        for pod in pods:
            meta = pod["metadata"]
            if FINALIZER not in (meta.get("finalizers") or ()):
                continue
            phase = pod["status"].get("phase")
            leaving = "deletionTimestamp" in meta
            if phase == "Succeeded":
                succeeded.append(pod)
            elif phase == "Failed" or (leaving and (not patient or not pod["spec"].get("nodeName"))):
                if not (leaving and spec.get("suspend")):
                    action, message = judge(spec, pod)
                    if action is Verdict.FAIL_JOB:
                        verdict = verdict or ("PodFailurePolicy", message)
                    if action is Verdict.FAIL_INDEX:
                        failed_indexes.append(_index(pod))
                    if action is not Verdict.IGNORE:
                        failed.append(pod)
            else:
                continue
            done.append(pod)
        if done:
            job = self._record(job, succeeded, failed, failed_indexes)
            self._release(done)
        return job, verdict

    def _record(self, job: Object, succeeded: list[Object], failed: list[Object], failed_now: list[int]) -> Object:
        bench, spec = self._bench, job["spec"]
        status = job.get("status") or {}
        fields: dict[str, Any] = {}
        if spec.get("completionMode") == "Indexed":
            completions = spec.get("completions") or 0
            before = indexes.parse(status.get("completedIndexes"))
            after = sorted({*before, *(i for pod in succeeded if 0 <= (i := _index(pod)) < completions)})
            if after:
                fields["completedIndexes"] = indexes.text(after)
            fields["succeeded"] = len(after) or None
            if "backoffLimitPerIndex" in spec:
                counts = _index_failures(job)
                for pod in failed:
                    counts[_index(pod)] = counts.get(_index(pod), 0) + 1
                if failed:
                    note = ",".join(f"{index}={count}" for index, count in sorted(counts.items()))
                    job = bench.patch(self.kind, job, {"metadata": {"annotations": {PER_INDEX: note}}})
                over = [index for index, count in counts.items() if count > spec["backoffLimitPerIndex"]]
                lost = sorted({*indexes.parse(status.get("failedIndexes")), *over, *failed_now} - set(after))
                fields["failedIndexes"] = indexes.text(lost)
        elif succeeded:
            fields["succeeded"] = status.get("succeeded", 0) + len(succeeded)
        if failed:
            fields["failed"] = status.get("failed", 0) + len(failed)
        job = bench.set_status(self.kind, job, **fields)
        return self._remember(job, succeeded, failed)

    def _remember(self, job: Object, succeeded: list[Object], failed: list[Object]) -> Object:
        """Keep how many failures there were since the last success, and when the last one was."""
        count, last = _failures(job)
        if succeeded:
            latest = max(map(_finished, succeeded))
            failed = [pod for pod in failed if _finished(pod) > latest]
            count, last = 0, 0.0
        for pod in failed:
            count, last = count + 1, max(last, _finished(pod))
        note = f"{count}@{int(last)}" if count else None
        if (job["metadata"].get("annotations") or {}).get(FAILURES) == note:
            return job
        return self._bench.patch(self.kind, job, {"metadata": {"annotations": {FAILURES: note}}})

    # --- the end ----------------------------------------------------------------------------------------------------

    def _verdict(self, job: Object, pods: list[Object]) -> tuple[str, str] | None:
        """Why the Job fails by now, if it does: (reason, message)."""
        spec, status = job["spec"], job.get("status") or {}
        limit = spec.get("backoffLimit", 6)
        exceeded = status.get("failed", 0) > limit
        if not exceeded and spec["template"]["spec"].get("restartPolicy") == "OnFailure":
            restarts = sum(
                c.get("restartCount", 0)
                for pod in pods
                if pod["status"].get("phase") in ("Running", "Pending")
                for c in pod["status"].get("containerStatuses") or ()
            )
            exceeded = restarts > 0 if limit == 0 else restarts >= limit
        if exceeded:
            return "BackoffLimitExceeded", "Job has reached the specified backoff limit"
        deadline = spec.get("activeDeadlineSeconds")
        if deadline is not None and status.get("startTime") and not spec.get("suspend"):
            end = parse_time(status["startTime"]) + deadline
            if self._bench.now >= end:
                return "DeadlineExceeded", "Job was active longer than specified deadline"
        if "backoffLimitPerIndex" in spec:
            lost = indexes.parse(status.get("failedIndexes"))
            most = spec.get("maxFailedIndexes")
            if most is not None and len(lost) > most:
                return "MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes"
            if lost and len(lost) + status.get("succeeded", 0) >= (spec.get("completions") or 0):
                return "FailedIndexes", "Job has failed indexes"
        return None

    def _is_complete(self, job: Object) -> bool:
        spec, status = job["spec"], job.get("status") or {}
        succeeded = status.get("succeeded", 0)
        completions = spec.get("completions")
        if has_condition(job, "SuccessCriteriaMet"):
            return True
        if completions is None:
            return succeeded > 0 and not any(map(is_active, self._bench.owned(job, "Pod")))
        return bool(succeeded >= completions)

    def _end(self, job: Object, target: str, final: str, reason: str, message: str) -> None:
        """Delete what still runs; once nothing is on its way out the Job has its last condition."""
        bench = self._bench
        for pod in bench.owned(job, "Pod"):
            if is_active(pod):
                bench.delete("Pod", pod)
        still = bench.owned(job, "Pod")
        ended = [pod for pod in still if FINALIZER in (pod["metadata"].get("finalizers") or ()) and not is_active(pod)]
        status = job.get("status") or {}
        fields: dict[str, Any] = {}
        # What the end of the Job takes down counts as failed, as in Kubernetes.
        lost = [pod for pod in ended if pod["status"].get("phase") != "Succeeded"]
        if lost:
            fields["failed"] = status.get("failed", 0) + len(lost)
        self._release(ended)
        leaving = [
            pod for pod in bench.owned(job, "Pod") if "deletionTimestamp" in pod["metadata"] and not is_ended(pod)
        ]
        now = bench.stamp()
        conditions = [condition(target, "True", reason, message, now)]
        if not leaving:
            conditions.append(condition(final, "True", reason, message, now))
            if final == "Complete":
                fields["completionTime"] = now
        if not status.get("startTime"):
            fields["startTime"] = now
        job = bench.set_status(
            self.kind,
            job,
            **fields,
            active=None,
            ready=0,
            terminating=len(leaving),
            conditions=set_conditions(status.get("conditions"), *conditions),
        )
        self._expire(job)

    def _expire(self, job: Object) -> None:
        """ttlSecondsAfterFinished: a finished Job goes by itself."""
        ttl = job["spec"].get("ttlSecondsAfterFinished")
        if ttl is None or not has_condition(job, "Complete", "Failed"):
            return
        ended = next(c for c in job["status"]["conditions"] if c["type"] in ("Complete", "Failed"))
        when = parse_time(ended["lastTransitionTime"]) + ttl
        if self._bench.now >= when:
            self._bench.delete(self.kind, job)
        else:
            self._bench.wake_at(job, when, prompt=False)

    # --- the pods ---------------------------------------------------------------------------------------------------

    def _manage(self, job: Object) -> None:
        bench, spec = self._bench, job["spec"]
        status = job.get("status") or {}
        pods = bench.owned(job, "Pod")
        active = [pod for pod in pods if is_active(pod)]
        fields: dict[str, Any] = {}
        suspended = bool(spec.get("suspend"))
        was = any(c["type"] == "Suspended" and c["status"] == "True" for c in status.get("conditions") or ())
        if suspended:
            self._drop(active)
            active = []
            if not was:
                fields["startTime"] = None
        elif status.get("startTime") is None:
            fields["startTime"] = bench.stamp()
        if suspended != was and (suspended or was):
            now = bench.stamp()
            mark = (
                condition("Suspended", "True", "JobSuspended", "Job suspended", now)
                if suspended
                else condition("Suspended", "False", "JobResumed", "Job resumed", now)
            )
            fields["conditions"] = set_conditions(status.get("conditions"), mark)
        if not suspended:
            active = self._adjust(job, pods, active)
        terminating = sum(
            1 for pod in bench.owned(job, "Pod") if "deletionTimestamp" in pod["metadata"] and not is_ended(pod)
        )
        job = bench.set_status(
            self.kind,
            job,
            **fields,
            active=len(active) or None,
            ready=sum(map(is_ready, active)),
            terminating=terminating,
        )
        deadline = spec.get("activeDeadlineSeconds")
        if deadline is not None and not suspended and (began := job["status"].get("startTime")):
            bench.cluster.call_at(
                parse_time(began) + deadline,
                lambda: bench.wake(job),
                prompt=False,
                key=f"job-deadline/{job['metadata']['uid']}",
            )

    def _drop(self, pods: list[Object]) -> None:
        """Delete pods that are not wanted any more: no failures, so they are let go first."""
        self._release(pods)
        for pod in pods:
            self._bench.delete("Pod", pod)

    def _adjust(self, job: Object, pods: list[Object], active: list[Object]) -> list[Object]:
        """Bring the number of active pods to what is wanted; gives the active ones after."""
        bench, spec = self._bench, job["spec"]
        status = job.get("status") or {}
        succeeded = status.get("succeeded", 0)
        completions, parallelism = spec.get("completions"), spec.get("parallelism", 1)
        if completions is None:
            wanted = len(active) if succeeded else parallelism
        else:
            lost = len(indexes.parse(status.get("failedIndexes"))) if "backoffLimitPerIndex" in spec else 0
            wanted = max(0, min(completions - succeeded - lost, parallelism))
        if len(active) > wanted:
            surplus = sorted(active, key=surplus_order)[: len(active) - wanted]
            self._drop(surplus)
            names = {pod["metadata"]["uid"] for pod in surplus}
            return [pod for pod in active if pod["metadata"]["uid"] not in names]
        missing = wanted - len(active)
        if only_ended_count(spec):
            missing -= sum(1 for pod in pods if "deletionTimestamp" in pod["metadata"] and not is_ended(pod))
        if missing <= 0:
            return active
        count, last = _failures(job)
        if count:
            due = last + back_off(count)
            if bench.now < due:
                bench.wake_at(job, due, prompt=True)
                return active
        return active + self._create(job, pods, missing)

    def _create(self, job: Object, pods: list[Object], missing: int) -> list[Object]:
        bench, spec, meta = self._bench, job["spec"], job["metadata"]
        name, uid = meta["name"], meta["uid"]
        labels = {
            "batch.kubernetes.io/controller-uid": uid,
            "batch.kubernetes.io/job-name": name,
            "controller-uid": uid,
            "job-name": name,
        }
        template = spec["template"]
        reference = owner_reference(job)
        created: list[Object] = []
        if spec.get("completionMode") == "Indexed":
            for index in self._free_indexes(job, pods, missing):
                notes = {INDEX: str(index)}
                if "backoffLimitPerIndex" in spec:
                    notes[INDEX_FAILURES] = str(_index_failures(job).get(index, 0))
                suffix = bench.cluster.store.generate_name("Pod", meta["namespace"], f"{name}-{index}-")
                pod = bench.create_pod(
                    job,
                    template,
                    name=suffix,
                    labels={**labels, INDEX: str(index)},
                    annotations=notes,
                    finalizers=_FINALIZERS,
                    reference=reference,
                    spec={
                        "hostname": f"{name}-{index}",
                        "containers": _with_index(template["spec"]["containers"], index),
                    },
                )
                if pod is None:
                    break
                created.append(pod)
            return created
        for _ in range(missing):
            pod = bench.create_pod(job, template, labels=labels, finalizers=_FINALIZERS, reference=reference)
            if pod is None:
                break
            created.append(pod)
        return created

    @staticmethod
    def _free_indexes(job: Object, pods: list[Object], missing: int) -> list[int]:
        status, spec = job.get("status") or {}, job["spec"]
        taken = set(indexes.parse(status.get("completedIndexes"))) | set(indexes.parse(status.get("failedIndexes")))
        taken |= {_index(pod) for pod in pods if is_active(pod)}
        if only_ended_count(spec):
            taken |= {_index(pod) for pod in pods if not is_ended(pod)}
        free = (index for index in range(spec.get("completions") or 0) if index not in taken)
        return [index for index, _ in zip(free, range(missing), strict=False)]


def _index(pod: Object) -> int:
    text = (pod["metadata"].get("annotations") or {}).get(INDEX, "")
    return counted(text, -1)


def _index_failures(job: Object) -> dict[int, int]:
    """Failures so far by index."""
    note = (job["metadata"].get("annotations") or {}).get(PER_INDEX, "")
    pairs = (part.partition("=") for part in note.split(",") if part)
    return {counted(index): counted(count) for index, _, count in pairs}


def _with_index(containers: list[Object], index: int) -> list[Object]:
    variable = {"name": "JOB_COMPLETION_INDEX", "value": str(index)}
    return [{**c, "env": [*(c.get("env") or ()), variable]} for c in containers]


def _failures(job: Object) -> tuple[int, float]:
    note = (job["metadata"].get("annotations") or {}).get(FAILURES, "")
    count, _, last = note.partition("@")
    return counted(count), float(counted(last))


def _finished(pod: Object) -> float:
    """When a pod ended: its last container's end, else when its deletion began."""
    ends = [
        parse_time(ended["finishedAt"])
        for entry in pod["status"].get("containerStatuses") or ()
        if (ended := (entry.get("state") or {}).get("terminated")) and ended.get("finishedAt")
    ]
    if ends:
        return max(ends)
    meta = pod["metadata"]
    if "deletionTimestamp" in meta:
        return parse_time(meta["deletionTimestamp"]) - (meta.get("deletionGracePeriodSeconds") or 0)
    return parse_time(meta["creationTimestamp"])
