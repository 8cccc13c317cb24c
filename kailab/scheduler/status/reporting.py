"""Reports in the cluster why work is pending: conditions, events and timestamps, written only when they change.

Earlier reports are read from the objects, so a restarted scheduler repeats nothing. Source: KAI status_updater.RecordJobStatusEvent.

The conditions have KAI's messages. Source: KAI status_updater, common_info job_errors, pod_errors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kailab.cluster.protocol import Cluster, Object
from kailab.cluster.retries import Retries
from kailab.cluster.writes import PatchWrite, Subresource
from kailab.engine.decisions import Decisions, Pending, PendingCode, Pipeline, QueueState, TaskFit
from kailab.engine.snapshot.records import PodGroup, PodSet, Status, SubGroup, Task
from kailab.engine.working.queues import QueueResource
from kailab.errors import NotFound
from kailab.model import labels as names
from kailab.model.objects import conditions_of, involved_of, metadata_of, spec_of, status_of, uid_of
from kailab.model.quantities import format_bytes, format_cpu, parse_count
from kailab.model.times import format_time
from kailab.scheduler.mirror import Mirror
from kailab.scheduler.reading.podgroups import LAST_EVICTION, last_condition, node_pool

UNSCHEDULABLE = "Unschedulable"
UNABLE_GROUP = "Unable to schedule podgroup"
UNABLE_POD = "Unable to schedule pod"
NO_NODES = "no nodes with enough resources were found"


class GroupReason(NamedTuple):
    """Why a PodGroup waits, as its condition says it to programs."""

    reason: str
    message: str


def fit_message(fit: TaskFit) -> str:
    """Why no node fits a task: the number of nodes for each reason, in KAI's order."""
    if not fit.reasons:
        return NO_NODES
    # Sorted as text, as in KAI: "10 ..." comes before "2 ...".
    counted = sorted(f"{count} {reason}" for reason, count in fit.reasons)
    return f"{NO_NODES}: " + ". \n".join(counted) + "."


def group_message(pending: Pending) -> str:
    """The message of a PodGroup's condition, with KAI's code in front if there is one."""
    message = pending.message.rstrip()
    if pending.code is PendingCode.UNSCHEDULABLE:
        return message or UNABLE_GROUP
    # Some of KAI's messages already begin with their code.
    if message.startswith(str(pending.code)):
        return message
    return f"{pending.code}: {message}" + ("" if message.endswith(".") else ".")


def pod_message(task: str, pending: Pending, fits: Mapping[str, TaskFit]) -> str:
    """The message of a pod's condition: its own reason, or that of its group."""
    fit = fits.get(task)
    if fit is not None and (
        fit.reasons or pending.code in (PendingCode.UNSCHEDULABLE, PendingCode.POD_SCHEDULING_ERRORS)
    ):
        return fit_message(fit)
    return group_message(pending) if pending.message else UNABLE_POD


def with_condition(
    current: Sequence[Mapping[str, Any]], new: Mapping[str, Any], now: float
) -> list[Mapping[str, Any]] | None:
    """The list of conditions with one set; None if it is set already. As in Kubernetes, lastTransitionTime changes only with the status."""
    stamp = format_time(now)
    for index, old in enumerate(current):
        if old.get("type") != new["type"]:
            continue
        if all(old.get(key) == value for key, value in new.items()):
            return None
        if old.get("status") == new["status"] and old.get("lastTransitionTime"):
            stamp = old["lastTransitionTime"]
        return [*current[:index], {**new, "lastTransitionTime": stamp}, *current[index + 1 :]]
    return [*current, {**new, "lastTransitionTime": stamp}]


def not_scheduled(message: str, reason: str = UNSCHEDULABLE) -> Object:
    return {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}


def group_conditions(
    podgroup: Object, pending: Pending, queues: Mapping[str, QueueState], now: float
) -> list[Object] | None:
    """``status.schedulingConditions`` with the condition of this node pool last; None if it is set already."""
    current = list(status_of(podgroup).get("schedulingConditions") or ())
    pool = node_pool(metadata_of(podgroup))
    reasons = _reasons(pending, queues)
    new: Object = {
        "type": "UnschedulableOnNodePool",
        "nodePool": pool,
        "reason": UNSCHEDULABLE,
        "message": group_message(pending),
        "status": "True",
    }
    last = last_condition(podgroup) or {}
    same = all(last.get(key) == value for key, value in new.items())
    # Older readers of KAI's status go by the position in the list, so KAI rewrites a list with several conditions of the pool.
    same = same and all(condition.get("nodePool") != pool for condition in current[:-1])
    # Without the details, whose figures change with every pod.
    if same and _codes(last.get("reasons")) == _codes(reasons):
        return None
    if reasons:
        new["reasons"] = reasons
    new["lastTransitionTime"] = format_time(now)
    # KAI's GetLastSchedulingCondition uses this number.
    new["transitionID"] = str(parse_count(last.get("transitionID")) + 1)
    return [*(condition for condition in current if condition.get("nodePool") != pool), new]


def _codes(reasons: Any) -> list[tuple[Any, Any]]:
    return [(reason.get("reason"), reason.get("message")) for reason in reasons or ()]


def _group_reason(pending: Pending) -> GroupReason | None:
    """KAI's machine-readable reason; None if KAI has no code."""
    if pending.code is PendingCode.UNSCHEDULABLE:
        return None
    return GroupReason(str(pending.code), pending.message.removeprefix(f"{pending.code}: "))


def _reasons(pending: Pending, queues: Mapping[str, QueueState]) -> list[dict[str, Any]]:
    """The entries of a condition's ``reasons``."""
    known = _group_reason(pending)
    if known is None:
        return []
    reason: dict[str, Any] = known._asdict()
    queue = queues.get(pending.queue_context)
    if queue is not None and pending.code in (PendingCode.NON_PREEMPTIBLE_OVER_QUOTA, PendingCode.OVER_LIMIT):
        reason["details"] = {"queueDetails": _queue_details(queue, pending)}
    return [reason]


_RESOURCES: dict[QueueResource, str] = {"GPU": "nvidia.com/gpu", "CPU": "cpu", "Memory": "memory"}


def _queue_details(queue: QueueState, pending: Pending) -> dict[str, Any]:
    """The queue's amounts at the start of the cycle; for the resource that failed, those at the time of the failure."""
    shares = {"nvidia.com/gpu": queue.gpu, "cpu": queue.cpu, "memory": queue.memory}

    def amounts(attribute: str) -> dict[str, str]:
        return {name: _quantity(name, getattr(share, attribute)) for name, share in shares.items()}

    details: dict[str, Any] = {
        "name": queue.name,
        "queueRequestedResources": amounts("requested"),
        "queueDeservedResources": amounts("quota"),
        "queueAllocatedResources": amounts("allocated"),
        "queueAllocatedNonPreemptibleResources": amounts("non_preemptible"),
        "queueResourceLimits": amounts("limit"),
    }
    numbers = pending.numbers
    if "resource" in numbers:
        resource = _RESOURCES[numbers["resource"]]
        over_limit = pending.code is PendingCode.OVER_LIMIT
        field = "queueAllocatedResources" if over_limit else "queueAllocatedNonPreemptibleResources"
        details[field][resource] = _quantity(resource, numbers["allocated"])
        details["podGroupRequestedResources"] = {resource: _quantity(resource, numbers["requested"])}
    return details


def _quantity(resource: str, value: float) -> str:
    # KAI writes -1 for no limit.
    if value < 0:
        return "-1"
    return format_bytes(int(value)) if resource == "memory" else format_cpu(int(value))


_HELD = (Status.ALLOCATED, Status.PIPELINED, Status.BINDING, Status.BOUND, Status.RUNNING)
_UNBOUND = (Status.PENDING, Status.GATED)


def starts_always_matter() -> bool:
    return True


class StatusReporter:
    """Reports for one scheduler. ``wrote``: whether the last ``report`` wrote anything."""

    def __init__(
        self, cluster: Cluster, mirror: Mirror, starts_matter: Callable[[], bool] = starts_always_matter
    ) -> None:
        """``starts_matter`` returns whether a policy or min-runtime reads start times; their annotation is written only then."""
        self._cluster = cluster
        self._mirror = mirror
        self._starts_matter = starts_matter
        self._starts_written = starts_matter()
        self._reported: dict[str, Pending] = {}
        self._promised: dict[str, Pipeline] = {}
        self._recorded: set[tuple[str, str, str]] | None = None
        self._queues: Mapping[str, QueueState] = {}
        self._patches: list[tuple[str, PatchWrite]] = []
        self._retries: Retries[None] = Retries()
        self.wrote = False

    def carry_on(self, other: StatusReporter) -> None:
        """Take over the state of another reporter."""
        self._reported, self._promised, self._queues = other._reported, other._promised, other._queues
        self._recorded = None if other._recorded is None else set(other._recorded)
        self._starts_written = other._starts_written
        self._retries.carry_on(other._retries)

    def go_on_from(self, pending: Iterable[Pending]) -> None:
        """Count these as already reported, over the same cluster."""
        self._reported = {entry.podgroup: entry for entry in pending}

    def report(self, decisions: Decisions, bound: Iterable[str], evicted: Iterable[str]) -> None:
        """``bound``, ``evicted``: UIDs of PodGroups whose pods were bound or evicted successfully."""
        self.wrote = False
        self._queues = {queue.name: queue for queue in decisions.queues}
        self._timestamps(decisions, set(bound), list(evicted))
        promised = {pipeline.task: pipeline for pipeline in decisions.pipelines}
        for task, pipeline in promised.items():
            before = self._promised.get(task)
            # Each cycle repeats its promises; only new ones are reported.
            if before is None or before.node != pipeline.node:
                self._pipelined(pipeline)
        self._promised = promised
        reported: dict[str, Pending] = {}
        for pending in decisions.pending:
            uid = pending.podgroup
            if self._reported.get(uid) != pending:
                self._report_pending(pending, promised, decisions.now)
            reported[uid] = pending
        # Remove the conditions of groups that are no longer pending.
        for uid in [uid for uid in self._mirror.conditioned if uid not in reported]:
            given_up = uid not in self._mirror.podgroups  # its condition stays
            if not given_up and not any(task.status in _UNBOUND for task in self._mirror.members(uid)):
                self._patch_group(uid, {"status": {"schedulingConditions": None}}, "status")
        failed = self._write()
        # The next report repeats what could not be written.
        for uid in failed:
            reported.pop(uid, None)
        if failed:
            self._retries.failed(None, decisions.now)
        else:
            self._retries.forget(None)
        self._reported = reported

    @property
    def retry_at(self) -> float | None:
        """When to repeat a report that could not be written."""
        return self._retries.next_at

    def _write(self) -> list[str]:
        """Send the queued patches. Returns the PodGroups (by UID) whose patches failed and must be repeated."""
        patches, self._patches = self._patches, []
        outcomes = self._cluster.write_all([[patch] for _, patch in patches])
        failed = []
        for (uid, _), outcome in zip(patches, outcomes, strict=True):
            if outcome.error is None:
                self.wrote = True
            elif not isinstance(outcome.error, NotFound):
                failed.append(uid)
        return failed

    # --- PodGroups ---------------------------------------------------------------------------------------------------

    def _timestamps(self, decisions: Decisions, bound: set[str], evicted: list[str]) -> None:
        """Write the annotations for last start, last eviction and stale since."""
        stamp = format_time(decisions.now)
        changes: dict[str, dict[str, str | None]] = self._starts(decisions, bound, stamp)
        for uid in evicted:
            changes.setdefault(uid, {})[LAST_EVICTION] = stamp
        for uid in decisions.stale:
            record = self._mirror.podgroups.get(uid)
            if record is not None and record.stale_since is None:
                # Written once: the grace period counts from it, also after a restart.
                changes.setdefault(uid, {})[names.STALE_SINCE] = stamp
                self._event(uid, "StaleJob", _stale_message(record, self._mirror.members(uid)))
        stale = set(decisions.stale)
        for uid in self._mirror.marked_stale:
            members = [task.uid for task in self._mirror.members(uid)]
            # A gang with a pod that is held back stays stale.
            if uid not in stale and not any(map(self._mirror.held_back_reason, members)):
                changes.setdefault(uid, {})[names.STALE_SINCE] = None
        for uid, change in changes.items():
            self._patch_group(uid, {"metadata": {"annotations": change}})

    def _starts(self, decisions: Decisions, bound: set[str], stamp: str) -> dict[str, dict[str, str | None]]:
        """The start annotations of bound PodGroups. If start times begin to matter now, also those of running PodGroups: the time at which
        their first pod was scheduled."""
        matters = self._starts_matter()
        changes: dict[str, dict[str, str | None]] = {}
        # A min-runtime or policy was set while work was running.
        if matters and not self._starts_written:
            for uid, record in self._mirror.podgroups.items():
                since = self._scheduled_since(uid) if record.last_start is None else ""
                if since:
                    changes[uid] = {names.LAST_START: since}
        self._starts_written = matters
        if matters:
            changes |= {uid: {names.LAST_START: stamp} for uid in decisions.started if uid in bound}
        return changes

    def _scheduled_since(self, uid: str) -> str:
        times = [
            condition.get("lastTransitionTime") or ""
            for task in self._mirror.members(uid)
            for condition in conditions_of(self._mirror.pods.get(task.uid) or {})
            if condition["type"] == "PodScheduled" and condition["status"] == "True"
        ]
        return min(filter(None, times), default="")

    def _patch_group(self, uid: str, patch: dict[str, Any], subresource: Subresource = "") -> None:
        obj = self._mirror.podgroup_objects.get(uid)
        if obj is not None:
            self._patch(uid, "PodGroup", metadata_of(obj), patch, subresource)

    def _patch(
        self, podgroup: str, kind: str, metadata: Mapping[str, Any], patch: dict[str, Any], subresource: Subresource
    ) -> None:
        """Queue a patch that reports about a PodGroup; all are sent together at the end of the report."""
        # By UID: an object that was created again under the name since this cycle began has nothing of this report.
        meant = {**patch, "metadata": {**patch.get("metadata", {}), "uid": metadata["uid"]}}
        write = PatchWrite(kind, metadata["name"], metadata.get("namespace"), meant, subresource)
        self._patches.append((podgroup, write))

    def _event(self, uid: str, reason: str, message: str) -> None:
        obj = self._mirror.podgroup_objects.get(uid)
        if obj is not None:
            self._cluster.event(obj, "Normal", reason, message)
            self.wrote = True

    # --- pending work -------------------------------------------------------------------------------------------------

    def reasons(self, decisions: Decisions) -> dict[str, GroupReason]:
        """The reasons that ``report`` would write on PodGroups without a condition, by UID."""
        return {
            pending.podgroup: reason
            for pending in decisions.pending
            if pending.code not in (PendingCode.PIPELINED, PendingCode.NOT_READY)
            and not self._holds_a_place(pending.podgroup)
            and (reason := _group_reason(pending)) is not None
        }

    def _holds_a_place(self, podgroup: str) -> bool:
        return any(task.status in _HELD for task in self._mirror.members(podgroup))

    def _report_pending(self, pending: Pending, promised: Mapping[str, Pipeline], now: float) -> None:
        """Write the conditions and events of one pending PodGroup."""
        uid = pending.podgroup
        podgroup = self._mirror.podgroup_objects.get(uid)
        if podgroup is None or pending.code is PendingCode.PIPELINED:
            return
        # As in KAI's recordJobNotReadyEvent, there are no conditions while pods are missing.
        if pending.code is PendingCode.NOT_READY:
            self._report_not_ready(podgroup, uid, pending)
            return
        changed = False
        fits = {fit.task: fit for fit in pending.fits}
        for task in pending.tasks:
            if task in promised:
                continue
            changed |= self._mark(task, pod_message(task, pending, fits), podgroup, now)
        if self._holds_a_place(uid):
            # As in KAI, the condition of a group stays while some of its pods hold a place.
            if changed:
                self._event(uid, UNSCHEDULABLE, group_message(pending))
            return
        conditions = group_conditions(podgroup, pending, self._queues, now)
        if conditions is not None:
            self._patch_group(uid, {"status": {"schedulingConditions": conditions}}, "status")
            self._event(uid, UNSCHEDULABLE, group_message(pending))

    def _mark(self, uid: str, message: str, podgroup: Object, now: float) -> bool:
        """Set PodScheduled=False on a pod. Returns whether that changes its conditions."""
        pod = self._mirror.pods.get(uid)
        if pod is None:
            return False
        conditions = with_condition(conditions_of(pod), not_scheduled(message), now)
        if conditions is None:
            return False
        self._cluster.event(pod, "Warning", UNSCHEDULABLE, message)
        self.wrote = True
        # KAI's markUnschedulable: without the condition a cluster autoscaler adds no node for the pod.
        if spec_of(podgroup).get("markUnschedulable") is not False:
            self._patch(uid_of(podgroup), "Pod", metadata_of(pod), {"status": {"conditions": conditions}}, "status")
        return True

    def _report_not_ready(self, podgroup: Object, uid: str, pending: Pending) -> None:
        """Write an event, unless the cluster already has it."""
        record = self._mirror.podgroups.get(uid)
        members = self._mirror.members(uid)
        message = _not_ready_message(record, members) if record is not None else pending.message
        # Listed once, on demand: on a real cluster this is a request.
        if self._recorded is None:
            self._recorded = {
                (involved_of(event).get("uid", ""), event["reason"], event.get("message", ""))
                for event in self._cluster.list("Event")
                if event.get("reason") == "NotReady"
            }
        key = (uid, "NotReady", message)
        if key not in self._recorded:
            self._recorded.add(key)
            self._cluster.event(podgroup, "Normal", "NotReady", message)
            self.wrote = True

    def _pipelined(self, pipeline: Pipeline) -> None:
        pod = self._mirror.pods.get(pipeline.task)
        # A moved victim gets its new place with another pod; for this pod the eviction is reported.
        if pod is not None and not pipeline.moved:
            name = self._mirror.pod_name(pipeline.task)
            self._cluster.event(pod, "Normal", "Pipelined", f"Pod {name} was pipelined to node {pipeline.node}")
            self.wrote = True


def podsets(group: SubGroup) -> list[PodSet]:
    """All leaves of a subgroup tree."""
    return [*group.podsets, *(podset for child in group.groups for podset in podsets(child))]


def _counts(members: Iterable[Task], statuses: tuple[Status, ...]) -> dict[str, int]:
    return Counter(task.subgroup or "default" for task in members if task.status in statuses)


def _not_ready_message(record: PodGroup, members: list[Task]) -> str:
    alive, gated = _counts(members, (*_HELD, *_UNBOUND)), _counts(members, (Status.GATED,))
    message = "Job is not ready for scheduling."
    for podset in podsets(record.root):
        exist, held = alive.get(podset.name, 0), gated.get(podset.name, 0)
        if exist - held >= podset.min_available:
            continue
        group = "" if podset.name == "default" else f" for SubGroup {podset.name}"
        end = "" if podset.name == "default" else "."
        message += f" Waiting for {podset.min_available} pods{group}, currently {exist} exist, {held} are gated{end}"
    return message


def _stale_message(record: PodGroup, members: list[Task]) -> str:
    active = _counts(members, (*_HELD, Status.RELEASING))
    sets = podsets(record.root)
    message = (
        f"Job is stale. {sum(active.get(podset.name, 0) for podset in sets)} pods are active, "
        f"minMember is {sum(podset.min_available for podset in sets)}"
    )
    for podset in sets:
        if podset.name != "default" and active.get(podset.name, 0) < podset.min_available:
            message += (
                f", subGroup {podset.name} minMember is {podset.min_available} "
                f"and {active.get(podset.name, 0)} pods are active"
            )
    return message
