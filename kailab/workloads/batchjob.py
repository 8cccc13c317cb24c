"""Job, as the Job controller of Kubernetes 1.35 runs it.

Of note for a lab where pods are evicted: a pod that is deleted before it succeeded counts as failed, towards
backoffLimit as well; its replacement waits 10 s, doubling with each failure since the last success, up to 10 min. With
``podReplacementPolicy: Failed`` (and with a podFailurePolicy) a pod counts only once it has ended. How pods are counted says
``jobcounts``.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from kailab.cluster.protocol import Object
from kailab.model.times import parse_time
from kailab.workloads import indexes
from kailab.workloads.bench import (
    Workbench,
    condition,
    has_condition,
    is_active,
    is_ended,
    is_ready,
    owner_reference,
    set_conditions,
)
from kailab.workloads.controller import Controller
from kailab.workloads.jobcounts import (
    FINALIZER,
    INDEX,
    INDEX_FAILURES,
    JobCounts,
    failures_of,
    index_failures,
    index_of,
    only_ended_count,
)
from kailab.workloads.podfailure import back_off
from kailab.workloads.replicaset import surplus_order

_FINALIZERS = [FINALIZER]


class JobController(Controller):
    one_look = True

    def __init__(self, bench: Workbench, kind: str) -> None:
        super().__init__(bench, kind)
        self._counts = JobCounts(bench, kind)

    def orphaned(self, pod: Object) -> None:
        """Let go of a pod whose Job is gone."""
        self._counts.release([pod])

    def sync(self, job: Object) -> None:
        bench, spec = self._bench, job["spec"]
        managed_by = spec.get("managedBy")
        # spec.managedBy hands a Job to another controller (MultiKueue's, for example), which does all of it.
        if "deletionTimestamp" in job["metadata"] or (managed_by and managed_by != "kubernetes.io/job-controller"):
            return
        pods = bench.owned(job, "Pod")
        if has_condition(job, "Complete", "Failed"):
            # An ended Job counts no more, but its pods can't go before somebody takes the finalizer off.
            self._counts.release([pod for pod in pods if is_ended(pod) or "deletionTimestamp" in pod["metadata"]])
            self._expire(job)
            return
        job, failure = self._counts.count(job, pods)
        status = job.get("status") or {}
        # A verdict stands once it is given: what the end of the Job does to its pods must not make another one.
        if failure is None and not has_condition(job, "FailureTarget", "SuccessCriteriaMet"):
            failure = self._verdict(job, pods)
        # The reason is read back from the Job, so that the end goes on with it after a pause or in a resumed lab.
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
            # Kubernetes' pastBackoffLimitOnFailure: a limit of n allows n - 1 restarts, and 0 allows none.
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
            # Indexes that are lost fail the Job only when the others are through: they had a right to be tried.
            if lost and len(lost) + status.get("succeeded", 0) >= (spec.get("completions") or 0):
                return "FailedIndexes", "Job has failed indexes"
        return None

    def _is_complete(self, job: Object) -> bool:
        spec, status = job["spec"], job.get("status") or {}
        succeeded = status.get("succeeded", 0)
        completions = spec.get("completions")
        # Met once, also where pods of it changed since.
        if has_condition(job, "SuccessCriteriaMet"):
            return True
        if completions is None:
            # A work queue: the first success says that the queue is empty, and the others end by themselves.
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
        self._counts.release(ended)
        leaving = [
            pod for pod in bench.owned(job, "Pod") if "deletionTimestamp" in pod["metadata"] and not is_ended(pod)
        ]
        now = bench.stamp()
        conditions = [condition(target, "True", reason, message, now)]
        # As since Kubernetes 1.31: the target's condition comes at once, the last one after the last pod.
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
        was = has_condition(job, "Suspended")
        if suspended:
            self._drop(active)
            active = []
            if not was:
                # A Job that is resumed begins anew, its deadline with it.
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
        leaving = [pod for pod in bench.owned(job, "Pod") if "deletionTimestamp" in pod["metadata"]]
        terminating = sum(not is_ended(pod) for pod in leaving)
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
            # A key of its own: ``wake_at`` has one timer for each owner, and this would take the place of the back-off.
            bench.cluster.call_at(
                parse_time(began) + deadline,
                partial(bench.wake, job),
                prompt=False,
                key=f"job-deadline/{job['metadata']['uid']}",
            )

    def _drop(self, pods: list[Object]) -> None:
        """Delete pods that are not wanted any more: no failures, so they are let go first."""
        self._counts.release(pods)
        for pod in pods:
            self._bench.delete("Pod", pod)

    def _adjust(self, job: Object, pods: list[Object], active: list[Object]) -> list[Object]:
        """Bring the number of active pods to what is wanted; gives the active ones after."""
        bench, spec = self._bench, job["spec"]
        status = job.get("status") or {}
        succeeded = status.get("succeeded", 0)
        completions, parallelism = spec.get("completions"), spec.get("parallelism", 1)
        if completions is None:
            # No pods are made after the first success. Those that run may end.
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
            # Pods that are leaving still have their places.
            missing -= sum(1 for pod in pods if "deletionTimestamp" in pod["metadata"] and not is_ended(pod))
        if missing <= 0:
            return active
        count, last = failures_of(job)
        if count:
            due = last + back_off(count)
            if bench.now < due:
                # Prompt, since the pods are certain to come: who settles waits for them.
                bench.wake_at(job, due, prompt=True)
                return active
        return active + self._create(job, pods, missing)

    def _create(self, job: Object, pods: list[Object], missing: int) -> list[Object]:
        bench, spec, meta = self._bench, job["spec"], job["metadata"]
        name, uid = meta["name"], meta["uid"]
        labels = {
            "batch.kubernetes.io/controller-uid": uid,
            "batch.kubernetes.io/job-name": name,
            # The names without a prefix are older, and still set by Kubernetes.
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
                    notes[INDEX_FAILURES] = str(index_failures(job).get(index, 0))
                # The index is in the name, as Kubernetes does it; the rest is random there.
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
        taken |= {index_of(pod) for pod in pods if is_active(pod)}
        if only_ended_count(spec):
            taken |= {index_of(pod) for pod in pods if not is_ended(pod)}
        free = (index for index in range(spec.get("completions") or 0) if index not in taken)
        return [index for index, _ in zip(free, range(missing), strict=False)]


def _with_index(containers: list[Object], index: int) -> list[Object]:
    variable = {"name": "JOB_COMPLETION_INDEX", "value": str(index)}
    return [{**c, "env": [*(c.get("env") or ()), variable]} for c in containers]
