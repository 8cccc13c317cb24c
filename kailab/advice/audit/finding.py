"""What an audit gives: findings, and how long work of each queue waits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any


class Severity(StrEnum):
    """``error``: work waits for good, or for what it is entitled to. ``warning``: it may, or will once somebody asks. ``info``: worth
    knowing."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"

    @property
    def rank(self) -> int:
        """0: the most severe."""
        return list(Severity).index(self)


class FindingCode(StrEnum):
    """What is found."""

    STARVED = "Starved"  # holds less than its due, and waits
    ABOVE_LIMIT = "AboveLimit"  # holds more than its limit, which was lowered
    NON_PREEMPTIBLE_ABOVE_QUOTA = "NonPreemptibleAboveQuota"  # holds more that nobody may take back than its quota
    BORROWING = "Borrowing"  # holds more than its quota
    IDLE_QUOTA = "IdleQuota"  # nobody uses what it owns
    QUOTA_BEYOND_CAPACITY = "QuotaBeyondCapacity"  # quotas add up to more than there is
    QUEUE_MISSING = "QueueMissing"  # work names a queue that is not there
    QUEUE_PARENT_MISSING = "QueueParentMissing"
    QUEUE_NOT_LEAF = "QueueNotLeaf"
    QUEUE_HAS_NO_RESOURCES = "QueueHasNoResources"
    LIMIT_ZERO = "LimitZero"
    NOT_GROUPED = "NotGrouped"  # its pods can't have a PodGroup, so that no cycle looks at them
    SCHEDULER_MISSING = "SchedulerMissing"  # its pods name a scheduler that is not there
    NODE_POOL_NOT_SERVED = "NodePoolNotServed"
    FITS_NOWHERE = "FitsNowhere"  # no emptied cluster holds it


@dataclass(frozen=True)
class Finding:
    """``objects``: ``queue/NAME``, ``podgroup/NAMESPACE/NAME`` ..., the one that it is about first. ``numbers``: what the sentence is
    made of, in engine units (milli-GPU, millicores, bytes)."""

    code: FindingCode
    severity: Severity
    sentence: str
    objects: tuple[str, ...] = ()
    numbers: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class QueueWait:
    """PodGroups of one queue that wait, for how many seconds: since they were made, or last evicted as a whole. ``longest``: the
    name of the one that waits longest."""

    queue: str
    groups: int
    longest: str
    seconds: float
    p50: float
    p99: float


@dataclass(frozen=True)
class Audit:
    """Findings by severity, then code, then object; queues by their longest wait. ``unknown``: what could not be judged."""

    queues: int
    findings: tuple[Finding, ...]
    waits: tuple[QueueWait, ...]
    unknown: tuple[str, ...] = ()

    def at_least(self, severity: Severity) -> list[Finding]:
        """Findings that are as severe, or more."""
        return [one for one in self.findings if one.severity.rank <= severity.rank]

    def data(self) -> dict[str, Any]:
        """For programs."""
        counts = {str(severity): sum(one.severity is severity for one in self.findings) for severity in Severity}
        return {
            "queues": self.queues,
            "counts": counts,
            "findings": [asdict(one) for one in self.findings],
            "waits": [asdict(one) for one in self.waits],
            "unknown": list(self.unknown),
        }
