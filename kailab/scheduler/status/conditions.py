"""Conditions of pods and PodGroups, with KAI's messages. Source: KAI status_updater, common_info job_errors, pod_errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kailab.cluster.protocol import Object
from kailab.engine.decisions import Pending, PendingCode, QueueShare, QueueState, TaskFit
from kailab.engine.working.queues import QueueResource
from kailab.model.objects import status_of
from kailab.model.quantities import format_bytes, format_cpu, parse_count
from kailab.model.times import format_time
from kailab.scheduler.reading.podgroups import last_condition, node_pool

UNSCHEDULABLE = "Unschedulable"
UNABLE_GROUP = "Unable to schedule podgroup"
UNABLE_POD = "Unable to schedule pod"
NO_NODES = "no nodes with enough resources were found"

Condition = dict[str, Any]


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


def not_scheduled(message: str, reason: str = UNSCHEDULABLE) -> Condition:
    return {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}


def group_conditions(
    podgroup: Object, pending: Pending, queues: Mapping[str, QueueState], now: float
) -> list[Condition] | None:
    """``status.schedulingConditions`` with the condition of this node pool last; None if it is set already."""
    current = list(status_of(podgroup).get("schedulingConditions") or ())
    pool = node_pool(podgroup["metadata"])
    reasons = _reasons(pending, queues)
    new: Condition = {
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


def _reasons(pending: Pending, queues: Mapping[str, QueueState]) -> list[dict[str, Any]]:
    """KAI's machine-readable reasons; empty if KAI has no code."""
    if pending.code is PendingCode.UNSCHEDULABLE:
        return []
    prefix = f"{pending.code}: "
    reason: dict[str, Any] = {"reason": str(pending.code), "message": pending.message.removeprefix(prefix)}
    queue = queues.get(pending.queue_context)
    if queue is not None and pending.code in (PendingCode.NON_PREEMPTIBLE_OVER_QUOTA, PendingCode.OVER_LIMIT):
        reason["details"] = {"queueDetails": _queue_details(queue, pending)}
    return [reason]


_RESOURCES: dict[QueueResource, str] = {"GPU": "nvidia.com/gpu", "CPU": "cpu", "Memory": "memory"}


def _queue_details(queue: QueueState, pending: Pending) -> dict[str, Any]:
    """The queue's amounts at the start of the cycle; for the resource that failed, those at the time of the failure."""
    shares = {"nvidia.com/gpu": queue.gpu, "cpu": queue.cpu, "memory": queue.memory}

    def amounts(attribute: str) -> dict[str, str]:
        return {name: _amount(name, share, attribute) for name, share in shares.items()}

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


def _amount(resource: str, share: QueueShare, attribute: str) -> str:
    return _quantity(resource, getattr(share, attribute))


def _quantity(resource: str, value: float) -> str:
    # KAI writes -1 for no limit.
    if value < 0:
        return "-1"
    return format_bytes(int(value)) if resource == "memory" else format_cpu(int(value))
