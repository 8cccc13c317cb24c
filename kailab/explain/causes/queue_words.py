"""Queues, amounts and other work in words, for causes that stand in queue rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kailab.engine.decisions import Decisions, QueueShare, QueueState
from kailab.engine.snapshot.records import ALLOCATED, UNLIMITED
from kailab.explain.cause import Ref
from kailab.explain.causes.case import Case
from kailab.lab.owners import work_title
from kailab.lab.wording import amount_text, some
from kailab.model.times import format_time

NAMES: Mapping[str, str] = {"gpu": "GPUs", "cpu": "CPU", "memory": "memory"}
"""Of resources, by the fields of queues and amounts."""


def quota_words(resource: str, quota: float) -> str:
    """``a quota of 4 GPUs``, ``an unlimited quota``."""
    return "an unlimited quota" if quota == UNLIMITED else f"a quota of {amount_text(resource, quota)}"


def queue_title(case: Case, name: str) -> str:
    """``queue science, above its queue biology``."""
    return f"queue {name}" if name == case.queue else f"queue {name}, above its queue {case.queue},"


def queue_ref(name: str) -> Ref:
    return Ref("Queue", "", name)


def share(decisions: Decisions, queue: str, resource: str) -> QueueShare:
    """Where a queue stands in one resource as a trial begins."""
    found: QueueShare = getattr(_state(decisions, queue), resource)
    return found


def _state(decisions: Decisions, queue: str) -> QueueState:
    return next(state for state in decisions.queues if state.name == queue)


def podgroup_ref(case: Case, podgroup: str) -> Ref:
    """By UID."""
    record = case.standing.records[podgroup]
    return Ref("PodGroup", record.namespace, record.name)


def wants(case: Case, wanted: str) -> str:
    """``its 4 pods, which start together, want 8 GPUs``; ``its next pod wants 1 GPU``; ``it wants 1 GPU``."""
    together = _together(case)
    if together > 1:
        return f"its {together} pods, which start together, want {wanted}"
    return f"its next pod wants {wanted}" if len(case.waiting) > 1 else f"it wants {wanted}"


def _together(case: Case) -> int:
    """How many of its waiting pods have to be placed at once; 1 where each goes by itself."""
    record = case.record
    if record is None or record.root.groups or len(record.root.podsets) != 1:
        return len(case.waiting)
    return record.root.podsets[0].min_available - sum(ALLOCATED[task.status] for task in case.tasks)


def workload_title(case: Case, podgroup: str) -> str:
    """What a PodGroup (by UID) is of: ``Deployment api``."""
    record = case.standing.records.get(podgroup)
    if record is None:
        return "pods of another scheduler"
    return work_title(case.picture, f"{record.namespace}/{record.name}")


def workload_titles(case: Case, podgroups: Iterable[str]) -> str:
    """The first few of them, each once."""
    return some(list(dict.fromkeys(workload_title(case, uid) for uid in podgroups)))


def end(case: Case, until: float) -> str:
    """``until 12:00:00 (for another 90 s)``."""
    rest = max(0.0, until - case.moment.now)
    return f"until {format_time(until)} (for another {rest:.4g} s)"
