"""What a Job has counted of its pods: successes and failures, by index too, and what its back-off goes by.

Pods carry the tracking finalizer until they are counted, so none is missed or counted twice. The count of failures behind the
back-off is kept in an annotation of the Job (a real controller keeps it in memory), so that a resumed lab waits as long.
"""

from __future__ import annotations

from typing import Any

from kailab.cluster.protocol import Object
from kailab.model.quantities import counted
from kailab.model.times import parse_time
from kailab.workloads import indexes
from kailab.workloads.bench import Workbench
from kailab.workloads.podfailure import Verdict, judge

FINALIZER = "batch.kubernetes.io/job-tracking"
FAILURES = "kailab.dev/job-failures"  # "<failures since the last success>@<time of the last one>"
PER_INDEX = "kailab.dev/index-failures"  # "<index>=<failures>,..."
INDEX = "batch.kubernetes.io/job-completion-index"
INDEX_FAILURES = "batch.kubernetes.io/job-index-failure-count"


def only_ended_count(spec: Object) -> bool:
    """Whether a pod being deleted is waited for before it counts as failed and is replaced."""
    # A failure policy judges by how a pod ended, so it has to have ended.
    default = "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed"
    return bool(spec.get("podReplacementPolicy", default) == "Failed")


def index_of(pod: Object) -> int:
    """The completion index of an Indexed Job's pod; -1 if it has none."""
    text = (pod["metadata"].get("annotations") or {}).get(INDEX, "")
    return counted(text, -1)


def index_failures(job: Object) -> dict[int, int]:
    """Failures so far by index."""
    note = (job["metadata"].get("annotations") or {}).get(PER_INDEX, "")
    pairs = (part.partition("=") for part in note.split(",") if part)
    return {counted(index): counted(count) for index, _, count in pairs}


def failures_of(job: Object) -> tuple[int, float]:
    """How many there were since the last success, and when the last one was."""
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


class JobCounts:
    """Counts the pods of Jobs, into their status."""

    def __init__(self, bench: Workbench, kind: str) -> None:
        self._bench = bench
        self.kind = kind

    def count(self, job: Object, pods: list[Object]) -> tuple[Object, tuple[str, str] | None]:
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
            # A pod that no node has is ended by nobody: it counts as soon as it is to go.
            elif phase == "Failed" or (leaving and (not patient or not pod["spec"].get("nodeName"))):
                # What a suspended Job takes down did not fail.
                if not (leaving and spec.get("suspend")):
                    action, message = judge(spec, pod)
                    if action is Verdict.FAIL_JOB:
                        verdict = verdict or ("PodFailurePolicy", message)
                    if action is Verdict.FAIL_INDEX:
                        failed_indexes.append(index_of(pod))
                    if action is not Verdict.IGNORE:
                        failed.append(pod)
            else:
                continue
            # Also those that don't count: they keep nothing waiting.
            done.append(pod)
        if done:
            # On record first, then let go: the other way round a pod could be gone that nobody has counted.
            job = self._record(job, succeeded, failed, failed_indexes)
            self.release(done)
        return job, verdict

    def _record(self, job: Object, succeeded: list[Object], failed: list[Object], failed_now: list[int]) -> Object:
        bench, spec = self._bench, job["spec"]
        status = job.get("status") or {}
        fields: dict[str, Any] = {}
        if spec.get("completionMode") == "Indexed":
            completions = spec.get("completions") or 0
            before = indexes.parse(status.get("completedIndexes"))
            # An index counts once, however many pods of it succeeded.
            after = sorted({*before, *(i for pod in succeeded if 0 <= (i := index_of(pod)) < completions)})
            if after:
                fields["completedIndexes"] = indexes.text(after)
            fields["succeeded"] = len(after) or None
            if "backoffLimitPerIndex" in spec:
                counts = index_failures(job)
                for pod in failed:
                    counts[index_of(pod)] = counts.get(index_of(pod), 0) + 1
                if failed:
                    note = ",".join(f"{index}={count}" for index, count in sorted(counts.items()))
                    job = bench.patch(self.kind, job, {"metadata": {"annotations": {PER_INDEX: note}}})
                over = [index for index, count in counts.items() if count > spec["backoffLimitPerIndex"]]
                # An index that has succeeded is not lost, whatever other pods of it did.
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
        count, last = failures_of(job)
        if succeeded:
            # A success wipes out what failed before it, not what failed after it, though both are counted in one look.
            latest = max(map(_finished, succeeded))
            failed = [pod for pod in failed if _finished(pod) > latest]
            count, last = 0, 0.0
        for pod in failed:
            count, last = count + 1, max(last, _finished(pod))
        note = f"{count}@{int(last)}" if count else None
        if (job["metadata"].get("annotations") or {}).get(FAILURES) == note:
            return job
        return self._bench.patch(self.kind, job, {"metadata": {"annotations": {FAILURES: note}}})

    def release(self, pods: list[Object]) -> None:
        """Let pods go that are counted, or that never will be."""
        for pod in pods:
            meta = pod["metadata"]
            current = self._bench.find("Pod", (meta["namespace"], meta["name"]))
            if current is None or current["metadata"]["uid"] != meta["uid"]:
                continue
            left = [name for name in current["metadata"].get("finalizers") or () if name != FINALIZER]
            if len(left) != len(current["metadata"].get("finalizers") or ()):
                self._bench.patch("Pod", current, {"metadata": {"finalizers": left or None}})
