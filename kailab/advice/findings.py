"""The findings of an audit: a code, how severe it is, a sentence with its numbers and objects, and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Severity(StrEnum):
    """``error``: work waits although its queue is entitled to run it, or can never run. ``warning``: this may happen, for example with the next
    request. ``info``: a state worth knowing."""

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
    ORPHANED = "Orphaned"  # runs, and its queue, PodGroup or owner is gone
    MODEL_FULL = "ModelFull"  # work waits for GPU models that are full, while others are free
    IDLE_QUOTA = "IdleQuota"  # nobody uses a part of its quota
    QUOTA_BEYOND_MODELS = "QuotaBeyondModels"  # its quota counts GPUs of models that none of its work can use
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
    units (milli-GPU, millicores, bytes). ``do``: what to do about it, if the sentence does not say it."""

    code: FindingCode
    severity: Severity
    sentence: str
    objects: tuple[str, ...] = ()
    numbers: Mapping[str, Any] = field(default_factory=dict)
    do: str = ""
