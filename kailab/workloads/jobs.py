"""Controllers of Jobs and CronJobs, as Kubernetes 1.35 runs them.

A pod that is deleted before it succeeded counts as failed, also towards backoffLimit. Its replacement waits 10 s, doubled by each failure
since the last success, up to 10 min. With ``podReplacementPolicy: Failed`` (and with a podFailurePolicy) a pod counts only after it has
ended.

Pods keep the tracking finalizer until they are counted, so that each is counted exactly once. An annotation of the Job keeps the number
of failures for the back-off, which a real controller keeps in memory, so that a resumed lab waits equally long.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from functools import partial
from typing import Any

from kailab.errors import InputError
from kailab.model.cron import schedule_of, split_zone, zone_of
from kailab.model.objects import (
    Object,
    annotations_of,
    as_owner_reference,
    condition_of,
    full_name,
    has_condition,
    is_active,
    is_ended,
    is_ready,
    is_terminating,
    labels_of,
    metadata_of,
    name_of,
    namespace_of,
    node_of,
    object_key,
    phase_of,
    status_of,
    uid_of,
)
from kailab.model.quantities import parse_count
from kailab.model.times import format_time, parse_time
from kailab.workloads.apps import surplus_pods
from kailab.workloads.controller import Controller, Workbench, ended_at
from kailab.workloads.exclusive_placement import is_placed_exclusively, misplaced_pods, place_exclusively

_LONGEST = 100_000  # the most indexes that a Job may have


def parse_indexes(text: str | None) -> list[int]:
    """The indexes, ascending.

    >>> parse_indexes("0,2-4")
    [0, 2, 3, 4]
    """
    result: list[int] = []
    for part in (text or "").split(","):
        first, _, last = part.partition("-")
        begin = parse_count(first, -1)
        if begin >= 0:
            result.extend(range(begin, min(parse_count(last or first, begin), begin + _LONGEST) + 1))
    return result


def format_indexes(indexes: Iterable[int]) -> str:
    """The text for ascending indexes; runs of three and more as a range.

    >>> format_indexes([0, 2, 3, 4])
    '0,2-4'
    """
    runs: list[list[int]] = []
    for index in indexes:
        if runs and index == runs[-1][1] + 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return ",".join(str(a) if a == b else f"{a},{b}" if b == a + 1 else f"{a}-{b}" for a, b in runs)


# --- pod failure policy and back-off ----------------------------------------------------------------------------------

BACK_OFF_FIRST = 10.0
BACK_OFF_LAST = 600.0


def back_off(failures: int) -> float:
    """Seconds from the last failure until new pods are made, after this many failures since the Job's last success. Source: the Job
    controller of Kubernetes 1.35."""
    return min(BACK_OFF_FIRST * 2.0 ** min(failures - 1, 16), BACK_OFF_LAST) if failures else 0.0


class PodFailureVerdict(Enum):
    """The action of a pod failure policy for a failed pod."""

    COUNT = "Count"
    IGNORE = "Ignore"
    FAIL_INDEX = "FailIndex"
    FAIL_JOB = "FailJob"


def pod_failure_action(job_spec: Object, pod: Object) -> tuple[PodFailureVerdict, str]:
    """The action of the first rule that matches the pod, and a message for the Job's condition."""
    rules = (job_spec.get("podFailurePolicy") or {}).get("rules") or ()
    for number, rule in enumerate(rules):
        codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions")
        matching = f"matching {rule['action']} rule at index {number}"
        if codes and (code := _exit_code(codes, pod)) is not None:
            message = f"Container for pod {full_name(pod)} failed with exit code {code} {matching}"
            return PodFailureVerdict(rule["action"]), message
        if conditions and (kind := _condition(conditions, pod)):
            return PodFailureVerdict(rule["action"]), f"Pod {full_name(pod)} has condition {kind} {matching}"
    return PodFailureVerdict.COUNT, ""


def _exit_code(wanted: dict[str, Any], pod: Object) -> int | None:
    for entry in pod["status"].get("containerStatuses") or ():
        ended = (entry.get("state") or {}).get("terminated")
        # Exit code 0 never matches, not even NotIn.
        if not ended or ended["exitCode"] == 0:
            continue
        if wanted.get("containerName") and wanted["containerName"] != entry["name"]:
            continue
        if (ended["exitCode"] in wanted.get("values", ())) == (wanted.get("operator") == "In"):
            return int(ended["exitCode"])
    return None


def _condition(patterns: list[dict[str, Any]], pod: Object) -> str:
    there = {entry["type"]: entry["status"] for entry in pod["status"].get("conditions") or ()}
    for pattern in patterns:
        if there.get(pattern["type"]) == pattern.get("status", "True"):
            return str(pattern["type"])
    return ""


# --- counting of pods -------------------------------------------------------------------------------------------------

FINALIZER = "batch.kubernetes.io/job-tracking"
FAILURES = "kailab.dev/job-failures"  # "<failures since the last success>@<time of the last one>"
PER_INDEX = "kailab.dev/index-failures"  # "<index>=<failures>,..."
INDEX = "batch.kubernetes.io/job-completion-index"
INDEX_FAILURES = "batch.kubernetes.io/job-index-failure-count"


def only_ended_count(spec: Object) -> bool:
    """Whether a pod that is being deleted counts as failed, and is replaced, only after it has ended."""
    # A failure policy looks at the end of a pod.
    default = "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed"
    return bool(spec.get("podReplacementPolicy", default) == "Failed")


def index_of(pod: Object) -> int:
    """The completion index of an Indexed Job's pod; -1 if it has none."""
    return parse_count(annotations_of(pod).get(INDEX, ""), -1)


def index_failures(job: Object) -> dict[int, int]:
    """Failures so far by index."""
    note = annotations_of(job).get(PER_INDEX, "")
    pairs = (part.partition("=") for part in note.split(",") if part)
    return {parse_count(index): parse_count(count) for index, _, count in pairs}


def failures_of(job: Object) -> tuple[int, float]:
    """The number of failures since the last success, and the time of the last one."""
    count, _, last = annotations_of(job).get(FAILURES, "").partition("@")
    return parse_count(count), float(parse_count(last))


def _finished(pod: Object) -> float:
    """The end of a pod's last container, else the start of its deletion."""
    ends = [
        parse_time(ended["finishedAt"])
        for entry in pod["status"].get("containerStatuses") or ()
        if (ended := (entry.get("state") or {}).get("terminated")) and ended.get("finishedAt")
    ]
    if ends:
        return max(ends)
    metadata = metadata_of(pod)
    if "deletionTimestamp" in metadata:
        return parse_time(metadata["deletionTimestamp"]) - (metadata.get("deletionGracePeriodSeconds") or 0)
    return parse_time(metadata["creationTimestamp"])


def _is_tracked(pod: Object) -> bool:
    """Whether a pod is not counted yet."""
    return FINALIZER in (metadata_of(pod).get("finalizers") or ())


class JobCounts:
    """Counts ended pods of Jobs into their status."""

    def __init__(self, bench: Workbench, kind: str) -> None:
        self._bench = bench
        self.kind = kind

    def count(self, job: Object, pods: list[Object]) -> tuple[Object, tuple[str, str] | None]:
        """Count pods that ended since the last call. Returns the Job, and (reason, message) if a failure policy fails it."""
        spec = job["spec"]
        patient = only_ended_count(spec)
        succeeded: list[Object] = []
        failed: list[Object] = []
        done: list[Object] = []
        verdict: tuple[str, str] | None = None
        failed_indexes: list[int] = []
        for pod in pods:
            if not _is_tracked(pod):
                continue
            phase = phase_of(pod)
            leaving = is_terminating(pod)
            if phase == "Succeeded":
                succeeded.append(pod)
            # No kubelet ends a pod without a node, so it counts as soon as it is deleted.
            elif phase == "Failed" or (leaving and (not patient or not node_of(pod))):
                # Pods that a suspended Job deletes have not failed.
                if not (leaving and spec.get("suspend")):
                    action, message = pod_failure_action(spec, pod)
                    if action is PodFailureVerdict.FAIL_JOB:
                        verdict = verdict or ("PodFailurePolicy", message)
                    if action is PodFailureVerdict.FAIL_INDEX:
                        failed_indexes.append(index_of(pod))
                    if action is not PodFailureVerdict.IGNORE:
                        failed.append(pod)
            else:
                continue
            # Uncounted pods are released too, because nothing waits for them.
            done.append(pod)
        if done:
            # Write the status before the finalizer is removed: otherwise a pod could be gone without being counted.
            job = self._record(job, succeeded, failed, failed_indexes)
            self.release(done)
        return job, verdict

    def _record(self, job: Object, succeeded: list[Object], failed: list[Object], failed_now: list[int]) -> Object:
        bench, spec = self._bench, job["spec"]
        status = job.get("status") or {}
        fields: dict[str, Any] = {}
        if spec.get("completionMode") == "Indexed":
            completions = spec.get("completions") or 0
            before = parse_indexes(status.get("completedIndexes"))
            # An index counts once, even if several of its pods succeeded.
            after = sorted({*before, *(i for pod in succeeded if 0 <= (i := index_of(pod)) < completions)})
            if after:
                fields["completedIndexes"] = format_indexes(after)
            fields["succeeded"] = len(after) or None
            if "backoffLimitPerIndex" in spec:
                counts = index_failures(job)
                for pod in failed:
                    counts[index_of(pod)] = counts.get(index_of(pod), 0) + 1
                if failed:
                    note = ",".join(f"{index}={count}" for index, count in sorted(counts.items()))
                    job = bench.patch(self.kind, job, {"metadata": {"annotations": {PER_INDEX: note}}})
                over = [index for index, count in counts.items() if count > spec["backoffLimitPerIndex"]]
                # An index that has succeeded has not failed, whatever happened to its other pods.
                lost = sorted({*parse_indexes(status.get("failedIndexes")), *over, *failed_now} - set(after))
                fields["failedIndexes"] = format_indexes(lost)
        elif succeeded:
            fields["succeeded"] = status.get("succeeded", 0) + len(succeeded)
        if failed:
            fields["failed"] = status.get("failed", 0) + len(failed)
        job = bench.set_status(self.kind, job, **fields)
        return self._remember(job, succeeded, failed)

    def _remember(self, job: Object, succeeded: list[Object], failed: list[Object]) -> Object:
        """Store the number of failures since the last success, and the time of the last one."""
        count, last = failures_of(job)
        if succeeded:
            # A success clears the failures before it, but not those after it, even if both are counted at once.
            latest = max(map(_finished, succeeded))
            failed = [pod for pod in failed if _finished(pod) > latest]
            count, last = 0, 0.0
        for pod in failed:
            count, last = count + 1, max(last, _finished(pod))
        note = f"{count}@{int(last)}" if count else None
        if annotations_of(job).get(FAILURES) == note:
            return job
        return self._bench.patch(self.kind, job, {"metadata": {"annotations": {FAILURES: note}}})

    def release(self, pods: list[Object]) -> None:
        """Remove the finalizer of pods that are counted or never will be."""
        for pod in pods:
            current = self._bench.find("Pod", object_key(pod))
            if current is not None and uid_of(current) == uid_of(pod) and _is_tracked(current):
                left = [name for name in metadata_of(current)["finalizers"] if name != FINALIZER]
                self._bench.patch("Pod", current, {"metadata": {"finalizers": left or None}})


# --- Job --------------------------------------------------------------------------------------------------------------

_FINALIZERS = [FINALIZER]


class JobController(Controller):
    ignores_own_writes = True

    def __init__(self, bench: Workbench, kind: str) -> None:
        super().__init__(bench, kind)
        self._counts = JobCounts(bench, kind)

    def orphaned(self, pod: Object) -> None:
        """Remove the finalizer of a pod whose Job is gone."""
        self._counts.release([pod])

    def sync(self, job: Object) -> None:
        bench, spec = self._bench, job["spec"]
        managed_by = spec.get("managedBy")
        # With spec.managedBy another controller (MultiKueue, for example) does everything.
        if is_terminating(job) or (managed_by and managed_by != "kubernetes.io/job-controller"):
            return
        pods = bench.owned(job, "Pod")
        if has_condition(job, "Complete", "Failed"):
            # An ended Job counts no pods, but their finalizers must be removed.
            self._counts.release([pod for pod in pods if is_ended(pod) or is_terminating(pod)])
            self._expire(job)
            return
        job, failure = self._counts.count(job, pods)
        # The verdict stays: ending the Job changes its pods, which must not change the verdict.
        if failure is None and not has_condition(job, "FailureTarget", "SuccessCriteriaMet"):
            failure = self._verdict(job, pods)
        # Read the reason from the Job, so that its end goes on later or in a resumed lab.
        target = condition_of(job, "FailureTarget")
        if failure is None and target is not None:
            failure = (target["reason"], target["message"])
        if failure is not None:
            self._end(job, "FailureTarget", "Failed", *failure)
        elif (rule := _success_rule(job)) is not None:
            self._end(job, "SuccessCriteriaMet", "Complete", "SuccessPolicy", f"Matched rules at index {rule}")
        elif self._is_complete(job):
            self._end(
                job, "SuccessCriteriaMet", "Complete", "CompletionsReached", "Reached expected number of succeeded pods"
            )
        else:
            self._manage(job)

    # --- the end ----------------------------------------------------------------------------------------------------

    def _verdict(self, job: Object, pods: list[Object]) -> tuple[str, str] | None:
        """Why the Job has failed by now, as (reason, message); None if it has not."""
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
            lost = parse_indexes(status.get("failedIndexes"))
            most = spec.get("maxFailedIndexes")
            if most is not None and len(lost) > most:
                return "MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes"
            # Failed indexes fail the Job only when all others have ended.
            if lost and len(lost) + status.get("succeeded", 0) >= (spec.get("completions") or 0):
                return "FailedIndexes", "Job has failed indexes"
        return None

    def _is_complete(self, job: Object) -> bool:
        spec, status = job["spec"], job.get("status") or {}
        succeeded = status.get("succeeded", 0)
        completions = spec.get("completions")
        # The criterion stays met, even if pods have changed since.
        if has_condition(job, "SuccessCriteriaMet"):
            return True
        if completions is None:
            # A work queue: the first success means that the queue is empty, and the other pods end by themselves.
            return succeeded > 0 and not any(map(is_active, self._bench.owned(job, "Pod")))
        return bool(succeeded >= completions)

    def _end(self, job: Object, target: str, final: str, reason: str, message: str) -> None:
        """Delete running pods; once none is being deleted, set the Job's last condition."""
        bench = self._bench
        bench.delete("Pod", *filter(is_active, bench.owned(job, "Pod")))
        ended = [pod for pod in bench.owned(job, "Pod") if _is_tracked(pod) and not is_active(pod)]
        status = job.get("status") or {}
        fields: dict[str, Any] = {}
        # Pods that the end of the Job deletes count as failed, as in Kubernetes.
        lost = [pod for pod in ended if phase_of(pod) != "Succeeded"]
        if lost:
            fields["failed"] = status.get("failed", 0) + len(lost)
        self._counts.release(ended)
        leaving = [pod for pod in bench.owned(job, "Pod") if is_terminating(pod) and not is_ended(pod)]
        conditions = [(target, True, reason, message)]
        # As since Kubernetes 1.31: first the target's condition, and after the last pod the final one.
        if not leaving:
            conditions.append((final, True, reason, message))
            if final == "Complete":
                fields["completionTime"] = bench.stamp()
        if not status.get("startTime"):
            fields["startTime"] = bench.stamp()
        job = self.set_status(job, *conditions, **fields, active=None, ready=0, terminating=len(leaving))
        self._expire(job)

    def _expire(self, job: Object) -> None:
        self.expire(job, ended_at(job, "Complete", "Failed"), job["spec"].get("ttlSecondsAfterFinished"))

    # --- the pods ---------------------------------------------------------------------------------------------------

    def _manage(self, job: Object) -> None:
        bench, spec = self._bench, job["spec"]
        status = job.get("status") or {}
        pods = bench.owned(job, "Pod")
        active = list(filter(is_active, pods))
        fields: dict[str, Any] = {}
        suspended = bool(spec.get("suspend"))
        was = has_condition(job, "Suspended")
        if suspended:
            self._drop(active)
            active = []
            if not was:
                # The deadline of a resumed Job begins again.
                fields["startTime"] = None
        elif status.get("startTime") is None:
            fields["startTime"] = bench.stamp()
        conditions = []
        if suspended != was:
            word = "suspended" if suspended else "resumed"
            conditions = [("Suspended", suspended, f"Job{word.capitalize()}", f"Job {word}")]
        if not suspended:
            active = self._adjust(job, pods, active)
        terminating = sum(is_terminating(pod) and not is_ended(pod) for pod in bench.owned(job, "Pod"))
        ready = sum(map(is_ready, active))
        job = self.set_status(
            job, *conditions, **fields, active=len(active) or None, ready=ready, terminating=terminating
        )
        deadline = spec.get("activeDeadlineSeconds")
        if deadline is not None and not suspended and (began := job["status"].get("startTime")):
            # A key of its own, because ``wake_at`` keeps one timer for each owner, and this one would replace that of the back-off.
            bench.cluster.call_at(
                parse_time(began) + deadline,
                partial(bench.wake, job),
                prompt=False,
                key=f"job-deadline/{uid_of(job)}",
            )

    def _drop(self, pods: list[Object]) -> None:
        """Delete surplus pods. They are no failures, so their finalizer is removed first."""
        self._counts.release(pods)
        self._bench.delete("Pod", *pods)

    def _adjust(self, job: Object, pods: list[Object], active: list[Object]) -> list[Object]:
        """Create or delete pods until the number of active ones is right. Returns the active ones."""
        bench, spec = self._bench, job["spec"]
        if is_placed_exclusively(spec["template"]) and (astray := misplaced_pods(bench.cluster, active)):
            bench.delete("Pod", *astray)
            return [pod for pod in active if pod not in astray]
        status = job.get("status") or {}
        succeeded = status.get("succeeded", 0)
        completions, parallelism = spec.get("completions"), spec.get("parallelism", 1)
        if completions is None:
            # No new pods after the first success; running ones may end.
            wanted = len(active) if succeeded else parallelism
        else:
            lost = len(parse_indexes(status.get("failedIndexes"))) if "backoffLimitPerIndex" in spec else 0
            wanted = max(0, min(completions - succeeded - lost, parallelism))
        if len(active) > wanted:
            surplus = surplus_pods(active, wanted)
            self._drop(surplus)
            dropped = set(map(uid_of, surplus))
            return [pod for pod in active if uid_of(pod) not in dropped]
        missing = wanted - len(active)
        if only_ended_count(spec):
            # Pods that are being deleted still count.
            missing -= sum(1 for pod in pods if is_terminating(pod) and not is_ended(pod))
        if missing <= 0:
            return active
        count, last = failures_of(job)
        if count:
            due = last + back_off(count)
            if bench.now < due:
                # Prompt, because the pods are certain to come, so settling waits for them.
                bench.wake_at(job, due, prompt=True)
                return active
        return active + self._create(job, pods, missing)

    def _create(self, job: Object, pods: list[Object], missing: int) -> list[Object]:
        bench, spec = self._bench, job["spec"]
        name, uid = name_of(job), uid_of(job)
        labels = {
            "batch.kubernetes.io/controller-uid": uid,
            "batch.kubernetes.io/job-name": name,
            # Names without prefix are older, and Kubernetes still sets them.
            "controller-uid": uid,
            "job-name": name,
        }
        template = spec["template"]
        reference = as_owner_reference(job)
        created: list[Object] = []
        if spec.get("completionMode") == "Indexed":
            for index in self._free_indexes(job, pods, missing):
                notes = {INDEX: str(index)}
                if "backoffLimitPerIndex" in spec:
                    notes[INDEX_FAILURES] = str(index_failures(job).get(index, 0))
                # As in Kubernetes, the name has the index and a random suffix; here the suffix is not random.
                suffix = bench.cluster.store.generate_name("Pod", namespace_of(job), f"{name}-{index}-")
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
                    webhook=lambda pod: place_exclusively(bench.cluster, pod, [*pods, *created]),
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
        taken = set(parse_indexes(status.get("completedIndexes"))) | set(parse_indexes(status.get("failedIndexes")))
        taken |= {index_of(pod) for pod in pods if is_active(pod)}
        if only_ended_count(spec):
            taken |= {index_of(pod) for pod in pods if not is_ended(pod)}
        free = (index for index in range(spec.get("completions") or 0) if index not in taken)
        return [index for index, _ in zip(free, range(missing), strict=False)]


def _success_rule(job: Object) -> int | None:
    """The number of the first rule of the success policy that the completed indexes meet. Source: Kubernetes' matchSuccessPolicy."""
    rules = (job["spec"].get("successPolicy") or {}).get("rules")
    if not rules:
        return None
    done = set(parse_indexes(status_of(job).get("completedIndexes")))
    for number, rule in enumerate(rules):
        named = rule.get("succeededIndexes")
        among = done & set(parse_indexes(named)) if named is not None else done
        needed = rule.get("succeededCount") or len(parse_indexes(named))
        if needed and len(among) >= needed:
            return number
    return None


def _with_index(containers: list[Object], index: int) -> list[Object]:
    variable = {"name": "JOB_COMPLETION_INDEX", "value": str(index)}
    return [{**c, "env": [*(c.get("env") or ()), variable]} for c in containers]


# --- CronJob: a Job at each time of its schedule, in virtual time; its timers are not prompt --------------------------


class CronJobController(Controller):
    def sync(self, owner: Object) -> None:
        if is_terminating(owner):
            return
        bench, spec = self._bench, owner["spec"]
        self._tidy(owner)
        try:
            own_zone, times = split_zone(spec["schedule"])
            schedule, zone = schedule_of(times), zone_of(spec.get("timeZone") if own_zone is None else own_zone)
        except InputError as error:
            bench.cluster.event(owner, "Warning", "UnparseableSchedule", str(error), "cronjob-controller")
            return
        if own_zone is not None:
            text = "the schedule names a time zone (TZ or CRON_TZ), which is not officially supported; use timeZone"
            bench.cluster.event(owner, "Warning", "UnsupportedSchedule", text, "cronjob-controller")
        now = bench.now
        if not spec.get("suspend"):
            status = owner.get("status") or {}
            # Count from the last due start, not from the last check, so that no start is lost or made twice.
            since = parse_time(status.get("lastScheduleTime") or metadata_of(owner)["creationTimestamp"])
            following = schedule.after(since, zone)
            if following is not None and following <= now:
                # Only the last missed start is made up for. Where clocks are set back, the search backwards may skip one.
                due = max(following, schedule.latest(now, zone, since=since))
                owner = self._start(owner, due)
                following = schedule.after(due, zone)
                if following is not None and following <= now:
                    following = schedule.after(now, zone)
            if following is not None:
                bench.wake_at(owner, following, prompt=False)
        self._report(owner)

    def _start(self, owner: Object, due: float) -> Object:
        bench, spec = self._bench, owner["spec"]
        deadline = spec.get("startingDeadlineSeconds")
        if deadline is not None and bench.now > due + deadline:
            bench.cluster.event(
                owner, "Warning", "MissSchedule", "Missed scheduled time to start a job", "cronjob-controller"
            )
            return self.set_status(owner, lastScheduleTime=format_time(due))
        running = [job for job in bench.owned(owner, "Job") if not has_condition(job, "Complete", "Failed")]
        policy = spec.get("concurrencyPolicy", "Allow")
        if running and policy == "Forbid":
            # It stays due: the last missed start follows as soon as the previous run has ended, within startingDeadlineSeconds.
            return owner
        if policy == "Replace":
            bench.delete("Job", *running)
        template = spec["jobTemplate"]
        # Named by the minute, as in Kubernetes, so that a repeated start finds its Job.
        name = f"{name_of(owner)}-{int(due) // 60}"
        scheduled = {"batch.kubernetes.io/cronjob-scheduled-timestamp": format_time(due)}
        if bench.find("Job", (namespace_of(owner), name)) is None:
            bench.create(owner, "Job", {
                "metadata": {"name": name, "labels": dict(labels_of(template)),
                             "annotations": {**annotations_of(template), **scheduled}},
                "spec": template["spec"],
            })  # fmt: skip
        return self.set_status(owner, lastScheduleTime=format_time(due))

    def _tidy(self, owner: Object) -> None:
        """Delete the oldest finished Jobs beyond the history limits."""
        spec = owner["spec"]
        jobs = self._bench.owned(owner, "Job")
        for condition, limit in (
            ("Complete", spec.get("successfulJobsHistoryLimit", 3)),
            ("Failed", spec.get("failedJobsHistoryLimit", 1)),
        ):
            ended = [job for job in jobs if has_condition(job, condition)]
            self._bench.delete("Job", *ended[: max(len(ended) - limit, 0)])

    def _report(self, owner: Object) -> None:
        jobs = self._bench.owned(owner, "Job")
        active = [
            {"apiVersion": "batch/v1", "kind": "Job", "name": name_of(job), "namespace": namespace_of(job), "uid": uid_of(job)}
            for job in jobs if not has_condition(job, "Complete", "Failed")
        ]  # fmt: skip
        done = [t for job in jobs if (t := status_of(job).get("completionTime"))]
        last = max([*done, status_of(owner).get("lastSuccessfulTime") or ""])
        self.set_status(owner, active=active or None, lastSuccessfulTime=last or None)
