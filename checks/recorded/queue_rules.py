"""Runs recorded checks of single queue rules (fairshare.json) through the engine's own functions, and reads recorded
queues.

The rules: which queue may reclaim from which, limits and quotas, and which of two queues is served first. Each runner
returns differences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kailab.engine.queueing.capacity import over_limit, over_quota
from kailab.engine.queueing.order import queue_before
from kailab.engine.search.reclaimable import (
    Demand,
    QueueBalances,
    ReclaimedAmounts,
    above_allocatable,
    can_reclaim_from,
    owed_quota,
    stays_within_share,
)
from kailab.engine.snapshot.records import GPU, Queue, ResourceShare
from kailab.engine.working.queues import RESOURCES, Amounts, QueueTree, WQueue


def scaled(resource: str, value: float) -> int:
    """A recorded amount (devices, millicores, bytes; -1: unlimited) in engine units."""
    return -1 if value == -1 else round(value * (GPU if resource == "gpu" else 1))


def name_of(raw: Mapping[str, Any]) -> str:
    return str(raw["uid"] or raw["name"])


def queue_of(raw: Mapping[str, Any]) -> Queue:
    def share(resource: str) -> ResourceShare:
        part = raw[resource]
        return ResourceShare(
            quota=scaled(resource, part["deserved"]),
            limit=scaled(resource, part["max_allowed"]),
            weight=float(part["over_quota_weight"]),
        )

    return Queue(
        name=name_of(raw),
        uid=raw["uid"],
        parent=raw.get("parent", ""),
        priority=raw["priority"],
        created=float(raw.get("creation_order", 0)),
        gpu=share("gpu"),
        cpu=share("cpu"),
        memory=share("memory"),
    )


NAMES = ("cpu", "memory", "gpu")
Raw = Mapping[str, Any]


def amounts(raw: Raw) -> Amounts:
    """Recorded amounts (devices, millicores, bytes) as the engine's triple."""
    return (round(raw.get("cpu", 0)), round(raw.get("memory", 0)), round(raw.get("gpu", 0) * GPU))


def queue_tree(raws: Iterable[Raw]) -> QueueTree:
    """The recorded queues with what they hold and are due."""
    raws = list(raws)
    built = QueueTree(queue_of(raw) for raw in raws)
    for raw in raws:
        _fill(built.queues[name_of(raw)], raw)
    return built


def _fill(queue: WQueue, raw: Raw) -> None:
    def column(key: str) -> list[int]:
        return list(amounts({name: raw[name].get(key, 0) for name in NAMES}))

    queue.allocated = column("allocated")
    queue.non_preemptible = column("allocated_non_preemptible")
    queue.request = column("request")
    queue.set_fair_share(column("fair_share"))


def _asked(wanted: Amounts) -> frozenset[int]:
    return frozenset(r for r in RESOURCES if wanted[r] > 0)


def _demand(given: Raw, queues: QueueTree) -> Demand:
    reclaimer = given["reclaimer"]
    wanted = amounts(reclaimer["required"])
    return Demand(queues.queues[reclaimer["queue"]], wanted, _asked(wanted), reclaimer["preemptible"])


def _difference(ours: object, recorded: object) -> list[str]:
    return [] if ours == recorded else [f"{ours}, KAI had {recorded}"]


def can_reclaim_resources(case: Raw) -> list[str]:
    queues = queue_tree(case["input"]["queues"])
    return _difference(stays_within_share(_demand(case["input"], queues)), case["output"])


def filter_victim(case: Raw) -> list[str]:
    given = case["input"]
    queues = queue_tree(given["queues"])
    ours = can_reclaim_from(queues, _demand(given, queues), queues.queues[given["reclaimee_queue"]])
    return _difference(ours, case["output"])


def reclaimable(case: Raw) -> list[str]:
    given = case["input"]
    queues = queue_tree(given["queues"])
    yields = {
        queues.queues[name]: [ReclaimedAmounts(amounts(victim), _asked(amounts(victim))) for victim in victims]
        for name, victims in given["reclaimees_by_queue"].items()
    }
    ours = QueueBalances(queues).is_reclaimable(_demand(given, queues), yields, given["saturation_multiplier"])
    return _difference(ours, case["output"])


def _two(given: Raw) -> tuple[WQueue, WQueue]:
    """The reclaimer's and the victim's queue of a strategy, without a tree."""
    mine, theirs = WQueue(queue_of(given["reclaimer_queue"])), WQueue(queue_of(given["reclaimee_queue"]))
    _fill(mine, given["reclaimer_queue"])
    _fill(theirs, given["reclaimee_queue"])
    return mine, theirs


def maintain_fair_share(case: Raw) -> list[str]:
    given = case["input"]
    _, theirs = _two(given)
    return _difference(above_allocatable(theirs, amounts(given["reclaimee_remaining_share"])), case["output"])


def guarantee_deserved_quota(case: Raw) -> list[str]:
    given = case["input"]
    mine, theirs = _two(given)
    wanted, left = amounts(given["reclaimer_resources"]), amounts(given["reclaimee_remaining_share"])
    return _difference(owed_quota(mine.allocated, wanted, mine, theirs, left), case["output"])


def _wanted(tasks: Iterable[Raw], gpu_memory: int) -> Amounts:
    total = [0, 0, 0]
    for task in tasks:
        asked = list(amounts(task["request"]))
        if task["gpu_memory_mib"]:
            asked[2] += round(task["gpu_devices"] * task["gpu_memory_mib"] * GPU / gpu_memory)
        total = [left + right for left, right in zip(total, asked, strict=True)]
    return (total[0], total[1], total[2])


def _capacity_difference(case: Raw, wanted: Amounts, with_limit: bool) -> list[str]:
    given, output = case["input"], case["output"]
    queue = queue_tree(given["queues"]).queues[given["job"]["queue"]]
    refusal = over_limit(queue, wanted) if with_limit else None
    if refusal is None and given["job"]["preemptibility"] == "non-preemptible":
        refusal = over_quota(queue, wanted)
    reason = str(refusal.code) if refusal else ""
    return _difference((refusal is None, reason), (output["schedulable"], output["reason"]))


def is_job_over_queue_capacity(case: Raw) -> list[str]:
    given = case["input"]
    return _capacity_difference(
        case, _wanted(given["tasks_to_allocate"], given["max_node_gpu_memory_mib"]), with_limit=True
    )


def is_non_preemptible_job_over_quota(case: Raw) -> list[str]:
    given = case["input"]
    return _capacity_difference(
        case, _wanted(given["tasks_to_allocate"], given["max_node_gpu_memory_mib"]), with_limit=False
    )


def is_task_allocation_on_node_over_capacity(case: Raw) -> list[str]:
    return _capacity_difference(case, amounts(case["input"]["required_on_node"]), with_limit=True)


def queue_order(case: Raw) -> list[str]:
    """-1: left first. Ties are decided by age and UID, which these inputs do not have."""
    given = case["input"]
    left, right = (WQueue(queue_of(given[side])) for side in ("l_queue", "r_queue"))
    _fill(left, given["l_queue"])
    _fill(right, given["r_queue"])
    ours, _ = queue_before(
        left,
        right,
        amounts(given["l_job_required"]),
        amounts(given["r_job_required"]),
        _victims(given["l_victims"]),
        _victims(given["r_victims"]),
        list(amounts(given["total"])),
    )
    return _difference("left first" if ours else "right first", "left first" if case["output"] < 0 else "right first")


def _victims(jobs: Iterable[Raw]) -> Amounts:
    total = [0, 0, 0]
    for job in jobs:
        for resource, amount in zip(RESOURCES, amounts(job.get("allocated", {})), strict=True):
            total[resource] += amount
    return (total[0], total[1], total[2])


KINDS: dict[str, Callable[[Raw], list[str]]] = {
    "can_reclaim_resources": can_reclaim_resources,
    "filter_victim": filter_victim,
    "reclaimable": reclaimable,
    "maintain_fair_share_strategy": maintain_fair_share,
    "guarantee_deserved_quota_strategy": guarantee_deserved_quota,
    "is_job_over_queue_capacity": is_job_over_queue_capacity,
    "is_non_preemptible_job_over_quota": is_non_preemptible_job_over_quota,
    "is_task_allocation_on_node_over_capacity": is_task_allocation_on_node_over_capacity,
    "queue_order": queue_order,
}
