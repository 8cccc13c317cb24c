"""JobSet: a group of Jobs that start, succeed, fail and start over together."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import Any

from kailab.model.objects import (
    Object,
    annotations_of,
    condition_of,
    has_condition,
    is_terminating,
    labels_of,
    name_of,
    namespace_of,
    pods_of_job,
    scheduling_directives,
    status_of,
    uid_of,
)
from kailab.model.quantities import parse_count
from kailab.workloads.controller import Controller, ended_at, with_metadata
from kailab.workloads.exclusive_placement import placement_annotations, reserved_nodes
from kailab.workloads.jobset_webhook import claim_name, coordinator_endpoint, mounts_volume

PREFIX = "jobset.sigs.k8s.io/"


class JobSetController(Controller):
    def sync(self, owner: Object) -> None:
        bench, spec = self._bench, owner["spec"]
        if is_terminating(owner):
            return
        if has_condition(owner, "Completed", "Failed"):
            self.expire(owner, ended_at(owner, "Completed", "Failed"), spec.get("ttlSecondsAfterFinished"))
            return
        restarts = status_of(owner).get("restarts", 0)
        jobs: dict[str, Object] = {}
        leftovers = False
        for job in bench.owned(owner, "Job"):
            # Jobs of an attempt that is over.
            if parse_count(labels_of(job).get(PREFIX + "restart-attempt")) < restarts:
                bench.delete("Job", job)
                leftovers = True
            else:
                jobs[name_of(job)] = job
        failed = [job for job in jobs.values() if has_condition(job, "Failed")]
        if failed:
            self._failed(owner, failed, restarts)
            return
        if self._succeeded(spec, jobs):
            self._end(owner, jobs.values(), "Completed", "AllJobsCompleted", "jobset completed successfully")
            return
        # Jobs of all attempts have the same names, so the next ones wait until the old ones are gone.
        if self._create_claims(owner) and not leftovers:
            self._create(owner, jobs, restarts)
        self._report(owner)

    def _create(self, owner: Object, jobs: dict[str, Object], restarts: int) -> None:
        bench, spec = self._bench, owner["spec"]
        in_order = (spec.get("startupPolicy") or {}).get("startupPolicyOrder") == "InOrder"
        states = _states(owner, jobs)
        for entry in spec.get("replicatedJobs") or ():
            name, replicas = entry["name"], entry.get("replicas", 1)
            if not all(_reached(states.get(need["name"]), need["status"]) for need in entry.get("dependsOn") or ()):
                continue
            for index in range(replicas):
                job_name = f"{name_of(owner)}-{name}-{index}"
                job = jobs.get(job_name)
                if job is None:
                    if self._create_job(owner, entry, index, job_name, restarts) is None:
                        return
                elif bool(job["spec"].get("suspend")) != bool(spec.get("suspend")):
                    bench.patch("Job", job, {"spec": {"suspend": bool(spec.get("suspend")), **_resumed(spec, entry)}})
            # Later ones wait for these. Suspended Jobs are all made, because none could become ready.
            if in_order and not spec.get("suspend") and not _reached(states.get(name), "Ready"):
                return

    def _create_claims(self, owner: Object) -> bool:
        """Make the claims of ``volumeClaimPolicies`` that do not exist. False if one is refused: no Jobs are made then. Claims outlive the
        Jobs, and those that are to be retained the JobSet, too. Source: JobSet 0.12, pkg/controllers/volume_claim_policy.go."""
        bench, kind = self._bench, "PersistentVolumeClaim"
        for policy in owner["spec"].get("volumeClaimPolicies") or ():
            # The webhook gives a default to a policy without one, the definition to one without a value.
            retained = (policy.get("retentionPolicy") or {}).get("whenDeleted") == "Retain"
            for template in policy.get("templates") or ():
                name = claim_name(owner, template)
                if bench.find(kind, (namespace_of(owner), name)) is not None:
                    continue
                labels = {**labels_of(template), PREFIX + "jobset-name": name_of(owner)}
                metadata = {"name": name, "labels": labels, "annotations": annotations_of(template)}
                claim = {"metadata": metadata, "spec": template.get("spec") or {}}
                if bench.create(owner, kind, claim, owned=not retained) is None:
                    return False
        return True

    def _create_job(self, owner: Object, entry: Object, index: int, job_name: str, restarts: int) -> Object | None:
        labels = _job_labels(owner, entry, index, job_name, restarts)
        template = entry["template"]
        # The defaults of JobSet's webhook, as is restartPolicy OnFailure below.
        job_spec = {"completionMode": "Indexed", **template["spec"]}
        if job_spec["completionMode"] == "Indexed" and job_spec.get("completions") is None:
            job_spec["completions"] = job_spec.get("parallelism", 1)
        placement = placement_annotations(owner, template)
        pod_template = with_metadata(job_spec["template"], labels, {**labels, **placement})
        pod_spec = reserved_nodes(placement, namespace_of(owner), job_name, pod_template["spec"])
        volumes = [*(pod_spec.get("volumes") or ()), *_claimed_volumes(owner, pod_spec)]
        added = {"volumes": volumes} if volumes else {}
        job_spec["template"] = {**pod_template, "spec": {"restartPolicy": "OnFailure", **pod_spec, **added}}
        if owner["spec"].get("suspend"):
            job_spec["suspend"] = True
        return self._bench.create(owner, "Job", {
            "metadata": {
                "name": job_name,
                "labels": {**labels_of(template), **labels},
                "annotations": {**annotations_of(template), **labels, **placement},
            },
            "spec": job_spec,
        })  # fmt: skip

    @staticmethod
    def _succeeded(spec: Object, jobs: dict[str, Object]) -> bool:
        policy = spec.get("successPolicy") or {}
        targets = policy.get("targetReplicatedJobs") or [entry["name"] for entry in spec.get("replicatedJobs") or ()]
        wanted = sum(entry.get("replicas", 1) for entry in spec.get("replicatedJobs") or () if entry["name"] in targets)
        done = sum(
            labels_of(job).get(PREFIX + "replicatedjob-name") in targets and has_condition(job, "Complete")
            for job in jobs.values()
        )
        return done > 0 if policy.get("operator") == "Any" else 0 < wanted <= done

    def _failed(self, owner: Object, failed: Sequence[Object], restarts: int) -> None:
        """Start over or end, as the failure policy says."""
        bench, policy = self._bench, owner["spec"].get("failurePolicy")
        action, job = _failure_action((policy or {}).get("rules") or (), failed)
        counted = status_of(owner).get("restartsCountTowardsMax", restarts)
        reason = ""
        if policy is None:
            reason, message = "FailedJobs", "jobset failed due to one or more job failures"
        elif action == "FailJobSet":
            reason, message = "FailJobSetFailurePolicyAction", "jobset failed due to FailJobSet failure policy action"
        elif action == "RestartJobSet" and counted >= policy.get("maxRestarts", 0):
            reason, message = "ReachedMaxRestarts", "jobset failed due to reaching max number of restarts"
        if reason:
            named = f"{message} (first failed job: {name_of(job)})"
            self._end(owner, bench.owned(owner, "Job"), "Failed", reason, named)
            return
        # Count the restart before anything is deleted: if this is interrupted, the labels identify the old Jobs.
        counts = action != "RestartJobSetAndIgnoreMaxRestarts"
        self.set_status(owner, restarts=restarts + 1, restartsCountTowardsMax=counted + counts)
        bench.delete("Job", *bench.owned(owner, "Job"))

    def _end(self, owner: Object, jobs: Iterable[Object], type: str, reason: str, message: str) -> None:
        self._bench.delete("Job", *(job for job in jobs if not has_condition(job, "Complete", "Failed")))
        self.set_status(owner, (type, True, reason, message), terminalState=type)

    def _report(self, owner: Object) -> None:
        current = {name_of(job): job for job in self._bench.owned(owner, "Job")}
        rows = [
            {key: value for key, value in row.items() if key != "wanted"} for row in _states(owner, current).values()
        ]
        suspended = bool(owner["spec"].get("suspend"))
        conditions = []
        if suspended or condition_of(owner, "Suspended"):
            reason = "SuspendedJobs" if suspended else "ResumeJobs"
            conditions = [("Suspended", suspended, reason, f"jobset is {'suspended' if suspended else 'resumed'}")]
        self.set_status(owner, *conditions, replicatedJobsStatus=rows, restarts=status_of(owner).get("restarts", 0))


def _claimed_volumes(owner: Object, pod_spec: Object) -> list[Object]:
    """The volumes of the JobSet's claims that containers of these pods mount."""
    return [
        {"name": name_of(template), "persistentVolumeClaim": {"claimName": claim_name(owner, template)}}
        for policy in owner["spec"].get("volumeClaimPolicies") or ()
        for template in policy.get("templates") or ()
        if mounts_volume(pod_spec, name_of(template))
    ]


def _failure_action(rules: Sequence[Object], failed: Sequence[Object]) -> tuple[str, Object]:
    """The action of the first rule that a failed Job matches, and the first Job that failed so. Source: JobSet 0.12,
    pkg/controllers/failure_policy.go."""
    in_order = sorted(failed, key=lambda job: (condition_of(job, "Failed") or {}).get("lastTransitionTime", ""))
    for rule in rules:
        for job in in_order:
            if _matches(rule, job):
                return rule["action"], job
    return "RestartJobSet", in_order[0]


def _matches(rule: Object, job: Object) -> bool:
    end = condition_of(job, "Failed") or {}
    reasons, patterns, targets = (
        rule.get(field) or ()
        for field in ("onJobFailureReasons", "onJobFailureMessagePatterns", "targetReplicatedJobs")
    )
    return (
        (not reasons or end.get("reason") in reasons)
        and (not patterns or any(_found(pattern, str(end.get("message", ""))) for pattern in patterns))
        and (not targets or labels_of(job).get(PREFIX + "replicatedjob-name") in targets)
    )


def _found(pattern: str, message: str) -> bool:
    try:
        return re.search(pattern, message) is not None
    except re.error:
        return False


def _resumed(spec: Object, entry: Object) -> Object:
    """Fields that may have changed while the JobSet was suspended, for Jobs that are resumed; empty for Jobs that stop."""
    if spec.get("suspend"):
        return {}
    changed = scheduling_directives(entry["template"]["spec"]["template"])
    return {"template": changed} if changed else {}


def _job_labels(owner: Object, entry: Object, index: int, job_name: str, restarts: int) -> dict[str, str]:
    """Labels of a Job and of its pods; the pods have them as annotations too."""
    name, spec = name_of(owner), owner["spec"]
    group = _group(entry)
    before, total = _place(spec["replicatedJobs"], entry)
    before_in_group, in_group = _place([other for other in spec["replicatedJobs"] if _group(other) == group], entry)
    marks = {
        "jobset-name": name,
        "jobset-uid": uid_of(owner),
        "replicatedjob-name": entry["name"],
        "replicatedjob-replicas": str(entry.get("replicas", 1)),
        "job-index": str(index),
        "job-key": hashlib.sha1(f"{namespace_of(owner)}/{job_name}".encode(), usedforsecurity=False).hexdigest(),
        "job-global-index": str(before + index),
        "global-replicas": str(total),
        "group-name": group,
        "group-replicas": str(in_group),
        "job-group-index": str(before_in_group + index),
        "restart-attempt": str(restarts),
    }
    if spec.get("coordinator") is not None:
        marks["coordinator"] = coordinator_endpoint(owner)
    return {PREFIX + key: value for key, value in marks.items()}


def _group(entry: Object) -> str:
    return str(entry.get("groupName") or "default")


def _place(entries: Sequence[Object], entry: Object) -> tuple[int, int]:
    """How many Jobs come before those of this entry, and how many there are in all."""
    replicas = [other.get("replicas", 1) for other in entries]
    at = next(number for number, other in enumerate(entries) if other["name"] == entry["name"])
    return sum(replicas[:at]), sum(replicas)


def _states(owner: Object, jobs: dict[str, Object]) -> dict[str, dict[str, Any]]:
    """Counts of a JobSet's Jobs by replicated job, in the form of its status."""
    rows: dict[str, dict[str, Any]] = {}
    for entry in owner["spec"].get("replicatedJobs") or ():
        row = {"name": entry["name"], "ready": 0, "succeeded": 0, "failed": 0, "active": 0, "suspended": 0}
        row["wanted"] = entry.get("replicas", 1)
        for index in range(entry.get("replicas", 1)):
            job = jobs.get(f"{name_of(owner)}-{entry['name']}-{index}")
            if job is None:
                continue
            status, needed = job.get("status") or {}, pods_of_job(job["spec"])
            row["succeeded"] += has_condition(job, "Complete")
            row["failed"] += has_condition(job, "Failed")
            row["suspended"] += has_condition(job, "Suspended")
            row["active"] += bool(status.get("active"))
            row["ready"] += not has_condition(job, "Complete", "Failed") and (
                status.get("ready", 0) + status.get("succeeded", 0) >= needed
            )
        rows[entry["name"]] = row
    return rows


def _reached(row: dict[str, Any] | None, state: str) -> bool:
    """True if all Jobs of a replicated job are Ready (or done), or Complete."""
    if row is None:
        return False
    there = row["succeeded"] + (row["ready"] if state == "Ready" else 0)
    return bool(there >= row["wanted"])
