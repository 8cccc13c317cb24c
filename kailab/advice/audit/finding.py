"""The records of an audit: findings, and waiting times by queue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any


class Severity(StrEnum):
    """``error``: work waits for good, or for its entitlement. ``warning``: it may, or will with the next request. ``info``: worth knowing."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"

    @property
    def rank(self) -> int:
        """0: the most severe."""
        return list(Severity).index(self)


class FindingCode(StrEnum):
    """Codes of findings, in the order in which they are listed."""

    STARVED = "Starved"  # holds less than its due while work waits
    ABOVE_LIMIT = "AboveLimit"  # holds more than its limit, which has been lowered
    NON_PREEMPTIBLE_ABOVE_QUOTA = "NonPreemptibleAboveQuota"  # holds more non-preemptible work than its quota
    BORROWING = "Borrowing"  # holds more than its quota
    IDLE_QUOTA = "IdleQuota"  # nobody uses a part of its quota
    QUOTA_BEYOND_CAPACITY = "QuotaBeyondCapacity"  # quotas add up to more than the fleet, or the parent's quota
    QUEUE_MISSING = "QueueMissing"  # work names a queue that does not exist
    QUEUE_PARENT_MISSING = "QueueParentMissing"
    QUEUE_NOT_LEAF = "QueueNotLeaf"
    QUEUE_HAS_NO_RESOURCES = "QueueHasNoResources"
    LIMIT_ZERO = "LimitZero"
    NOT_GROUPED = "NotGrouped"  # no PodGroup can be made for its pods, so no cycle looks at them
    SCHEDULER_MISSING = "SchedulerMissing"  # its pods name a scheduler that does not exist
    NODE_POOL_NOT_SERVED = "NodePoolNotServed"
    FITS_NOWHERE = "FitsNowhere"  # does not fit on the empty cluster


@dataclass(frozen=True)
class AuditFinding:
    """``objects``: ``queue/NAME``, ``podgroup/NAMESPACE/NAME`` ..., the main object first. ``numbers``: those of the sentence, in engine
    units (milli-GPU, millicores, bytes)."""

    code: FindingCode
    severity: Severity
    sentence: str
    objects: tuple[str, ...] = ()
    numbers: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class QueueWait:
    """Pending PodGroups of one queue and their waiting times in seconds, since they were made or last evicted as a whole. ``longest``: the
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
    findings: tuple[AuditFinding, ...]
    waits: tuple[QueueWait, ...]
    unknown: tuple[str, ...] = ()

    def at_least(self, severity: Severity) -> list[AuditFinding]:
        """Findings of at least this severity."""
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
