"""CronJob: a Job at each time its schedule names, in virtual time (its timers are not prompt)."""

from __future__ import annotations

from kailab.cluster.protocol import Object
from kailab.errors import InputError
from kailab.model.cron import Cron, zone_of
from kailab.model.times import format_time, parse_time
from kailab.workloads.bench import has_condition
from kailab.workloads.controller import Controller


class CronJobController(Controller):
    def sync(self, owner: Object) -> None:
        if "deletionTimestamp" in owner["metadata"]:
            return
        bench, spec = self._bench, owner["spec"]
        self._tidy(owner)
        try:
            schedule, zone = Cron(spec["schedule"]), zone_of(spec.get("timeZone"))
        except InputError as error:
            bench.cluster.event(owner, "Warning", "UnparseableSchedule", str(error), "cronjob-controller")
            return
        now = bench.now
        if not spec.get("suspend"):
            status = owner.get("status") or {}
            # From the last start that was due, not from the last that was looked at: so none is lost, nor made twice.
            since = parse_time(status.get("lastScheduleTime") or owner["metadata"]["creationTimestamp"])
            following = schedule.after(since, zone)
            if following is not None and following <= now:
                # Only the last of those that were missed is made up for, however many they are. Where clocks are set back, the
                # way backwards may pass one over.
                owner = self._start(owner, max(following, schedule.latest(now, zone)))
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
            return bench.set_status(self.kind, owner, lastScheduleTime=format_time(due))
        running = [job for job in bench.owned(owner, "Job") if not has_condition(job, "Complete", "Failed")]
        policy = spec.get("concurrencyPolicy", "Allow")
        if running and policy == "Forbid":
            # It stays due: the last start that was missed is made up for as soon as the run before has ended, within startingDeadlineSeconds.
            return owner
        if policy == "Replace":
            for job in running:
                bench.delete("Job", job)
        template = spec["jobTemplate"]
        meta = template.get("metadata") or {}
        # Named by the minute, as Kubernetes does it: a start that is tried again finds its Job there.
        name = f"{owner['metadata']['name']}-{int(due) // 60}"
        annotations = {
            **(meta.get("annotations") or {}),
            "batch.kubernetes.io/cronjob-scheduled-timestamp": format_time(due),
        }
        if bench.find("Job", (owner["metadata"]["namespace"], name)) is None:
            bench.create(owner, "Job", {
                "metadata": {"name": name, "labels": dict(meta.get("labels") or {}), "annotations": annotations},
                "spec": template["spec"],
            })  # fmt: skip
        return bench.set_status(self.kind, owner, lastScheduleTime=format_time(due))

    def _tidy(self, owner: Object) -> None:
        """Delete finished Jobs beyond the history limits, the oldest first."""
        spec = owner["spec"]
        jobs = self._bench.owned(owner, "Job")
        for condition, limit in (
            ("Complete", spec.get("successfulJobsHistoryLimit", 3)),
            ("Failed", spec.get("failedJobsHistoryLimit", 1)),
        ):
            ended = [job for job in jobs if has_condition(job, condition)]
            for job in ended[: max(len(ended) - limit, 0)]:
                self._bench.delete("Job", job)

    def _report(self, owner: Object) -> None:
        jobs = self._bench.owned(owner, "Job")
        active = [
            {"apiVersion": "batch/v1", "kind": "Job", "name": job["metadata"]["name"],
             "namespace": job["metadata"]["namespace"], "uid": job["metadata"]["uid"]}
            for job in jobs if not has_condition(job, "Complete", "Failed")
        ]  # fmt: skip
        done = [t for job in jobs if (t := (job.get("status") or {}).get("completionTime"))]
        last = max([*done, (owner.get("status") or {}).get("lastSuccessfulTime") or ""])
        self._bench.set_status(self.kind, owner, active=active or None, lastSuccessfulTime=last or None)
