"""Work that a queue refuses whatever room there is: by its limit, or by its quota if the work is non-preemptible, at each level of the tree.

``engine.relaxing.queue_rules`` finds the rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from kailab.engine.decisions import PendingCode as Reason
from kailab.engine.relaxing.queue_rules import RefusingRule, refusing_rules
from kailab.engine.relaxing.rules import LimitsLifted, QueueField, QuotasRaised, Relaxation
from kailab.engine.snapshot.records import ALLOCATED, UNLIMITED, PodSet, SubGroup
from kailab.evidence.wording import amount_text, capitalized, some
from kailab.explain.causes.refusal import Refusal
from kailab.explain.causes.waiting_group import WaitingPodGroup
from kailab.lab.answer import CauseCode, ObjectRef

NAMES: Mapping[str, str] = {"gpu": "GPUs", "cpu": "CPU", "memory": "memory"}
"""Names of resources, by the fields of queues and amounts."""


def quota_words(resource: str, quota: float) -> str:
    """``a quota of 4 GPUs``, ``an unlimited quota``."""
    return "an unlimited quota" if quota == UNLIMITED else f"a quota of {amount_text(resource, quota)}"


def queue_ref(name: str) -> ObjectRef:
    return ObjectRef("Queue", "", name)


class PodsTogether(NamedTuple):
    """How many pods of a group wait, and how many of them must be placed at once; 1 or less if each is placed by itself."""

    waiting: int
    together: int

    @classmethod
    def of(cls, group: WaitingPodGroup) -> PodsTogether:
        record, waiting = group.record, len(group.pending_tasks)
        if record is None:
            return cls(waiting, waiting)
        running = Counter(task.subgroup for task in group.tasks if ALLOCATED[task.status])
        podsets = list(_podsets(record.root))
        if len(podsets) == 1:
            return cls(waiting, podsets[0].min_available - running.total())
        missing = sum(max(0, podset.min_available - running[podset.name]) for podset in podsets)
        # Which of several groups have to be complete, their own minimum decides.
        return cls(waiting, waiting if missing and record.root.groups else missing)

    def want(self, amount: str) -> str:
        """``its 4 pods, which start together, want 8 GPUs``; ``its next pod wants 1 GPU``; ``it wants 1 GPU``."""
        if self.together > 1:
            return f"its {self.together} pods, which start together, want {amount}"
        return f"its next pod wants {amount}" if self.waiting > 1 else f"it wants {amount}"


def _podsets(group: SubGroup) -> Iterator[PodSet]:
    yield from group.podsets
    for inner in group.groups:
        yield from _podsets(inner)


@dataclass(frozen=True, kw_only=True)
class QueueBoundRefusal(Refusal):
    """A comparison of what a queue holds, and of what work in it wants beside that, with an amount of the queue. ``own_queue``: the queue
    of the work, which may be below ``queue``."""

    queue: str
    own_queue: str
    resource: QueueField
    held: int
    wanted: int
    pods: PodsTogether

    @property
    def title(self) -> str:
        """``queue science, above its queue biology,``."""
        return (
            f"queue {self.queue}"
            if self.queue == self.own_queue
            else f"queue {self.queue}, above its queue {self.own_queue},"
        )

    @property
    def wants(self) -> str:
        """``it wants 1 GPU``."""
        return self.pods.want(self.text(self.wanted))

    def text(self, amount: float) -> str:
        """An amount of the resource."""
        return amount_text(self.resource, amount)


@dataclass(frozen=True, kw_only=True)
class LimitExceeded(QueueBoundRefusal):
    """The queue would hold more than its limit."""

    FACTS: ClassVar[tuple[str, ...]] = ("queue", "resource", "limit", "held", "wanted")
    code: CauseCode = CauseCode.OVER_LIMIT
    limit: int

    @property
    def holds(self) -> bool:
        return 0 <= self.limit < self.held + self.wanted

    @property
    def sentence(self) -> str:
        limit = self.text(self.limit)
        if self.wanted > self.limit:
            return capitalized(f"{self.title} can't hold more than its limit of {limit}, and {self.wants}.")
        return capitalized(f"{self.title} holds {self.text(self.held)} of its limit of {limit}; {self.wants} more.")

    def lifted(self) -> tuple[Relaxation, ...]:
        return (LimitsLifted((self.queue,), (self.resource,)),)


@dataclass(frozen=True, kw_only=True)
class QuotaExceeded(QueueBoundRefusal):
    """Non-preemptible work would exceed the quota of the queue. ``held``: what such work holds already."""

    FACTS: ClassVar[tuple[str, ...]] = ("queue", "resource", "quota", "held", "wanted")
    code: CauseCode = CauseCode.NON_PREEMPTIBLE_OVER_QUOTA
    quota: int

    @property
    def holds(self) -> bool:
        return 0 <= self.quota < self.held + self.wanted

    @property
    def sentence(self) -> str:
        return (
            f"It is non-preemptible, so it has to stay within quotas: {self.title} has a quota of {self.text(self.quota)}, such work holds "
            f"{self.text(self.held)} of it, and {self.wants} more."
        )

    def lifted(self) -> tuple[Relaxation, ...]:
        return (QuotasRaised((self.queue,), (self.resource,)),)


@dataclass(frozen=True, kw_only=True)
class QueueResourcesMissing(QueueBoundRefusal):
    """The queue has no resources block, or none for resources that the work wants. ``resource``: the first of ``resources``."""

    FACTS: ClassVar[tuple[str, ...]] = ("queue", "resources")
    code: CauseCode = CauseCode.QUEUE_HAS_NO_RESOURCES
    resources: tuple[QueueField, ...]
    has_others: bool

    @property
    def holds(self) -> bool:
        return self.wanted > 0

    @property
    def sentence(self) -> str:
        if self.has_others:
            names = some([NAMES[resource] for resource in self.resources])
            text = f"{self.title} has no {names} in its resources, so its limit of that is 0"
        else:
            text = f"{self.title} has no resources block, so all its limits are 0: nothing runs in it"
        return capitalized(f"{text}, and {self.wants}.")

    def lifted(self) -> tuple[Relaxation, ...]:
        return (LimitsLifted((self.queue,), self.resources),)


def find_missing_queue_resources(group: WaitingPodGroup) -> Iterable[Refusal]:
    """A queue has no resources block, or none for a resource that the work requests."""
    lacking: dict[str, list[RefusingRule]] = {}
    for rule in _rules(group):
        if _is_missing(group, rule):
            lacking.setdefault(rule.queue, []).append(rule)
    for queue, rules in lacking.items():
        resources = tuple(rule.resource for rule in rules)
        yield QueueResourcesMissing(
            **_shared(group, rules[0]), resources=resources, has_others=bool(_resources(group, queue))
        )


def find_exceeded_bounds(group: WaitingPodGroup) -> Iterable[Refusal]:
    """The queue, or one above it, would hold more than its limit, or more non-preemptible work than its quota, in the order in which the
    scheduler reports them. If larger quotas alone let it run, because it would evict work of its own queue, the quotas come first."""
    rules = _rules(group)
    quotas = [rule for rule in rules if rule.reason == Reason.NON_PREEMPTIBLE_OVER_QUOTA]
    if (
        0 < len(quotas) < len(rules)
        and group.relaxed_cycles is not None
        and group.relaxed_cycles(*(rule.lifted() for rule in quotas)).further
    ):
        rules.sort(key=lambda rule: rule not in quotas)
    for rule in rules:
        if rule.reason == Reason.NON_PREEMPTIBLE_OVER_QUOTA:
            yield QuotaExceeded(**_shared(group, rule), quota=rule.bound)
        elif not _is_missing(group, rule):
            yield LimitExceeded(**_shared(group, rule), limit=rule.bound)


def _rules(group: WaitingPodGroup) -> list[RefusingRule]:
    return [] if group.relaxed_cycles is None else refusing_rules(group.relaxed_cycles)


def _is_missing(group: WaitingPodGroup, rule: RefusingRule) -> bool:
    """Whether a limit is 0 because the queue's object has no block for the resource."""
    return rule.reason == Reason.OVER_LIMIT and rule.bound == 0 and rule.resource not in _resources(group, rule.queue)


def _shared(group: WaitingPodGroup, rule: RefusingRule) -> dict[str, Any]:
    return {
        "queue": rule.queue, "own_queue": group.queue, "resource": rule.resource, "held": rule.held, "wanted": rule.wanted,
        "pods": PodsTogether.of(group), "objects": (queue_ref(rule.queue),),
    }  # fmt: skip


def _resources(group: WaitingPodGroup, queue: str) -> frozenset[str]:
    """The resources for which a queue's object has a block."""
    spec = group.lab.cluster.get("Queue", queue).get("spec") or {}
    return frozenset(name for name, block in (spec.get("resources") or {}).items() if block)
