"""The criteria of the serving order: why one queue or job is served before another."""

from __future__ import annotations

from enum import StrEnum


class QueueCriterion(StrEnum):
    """Why one queue is served before another, in the order of evaluation."""

    FAIR_SHARE = "fair-share"  # the other queue is above its fair share in every resource
    QUOTA = "quota"  # it stays within its quota with its next job
    PRIORITY = "queue-priority"
    NO_SHARE = "no-share"  # the other queue would hold a resource of which its share is zero
    SHARE_WITH_JOB = "share-with-job"  # it holds the smaller part of its share, including its next job
    SHARE = "share"  # it holds the smaller part of its share, without its next job
    SIZE = "size"  # its share is smaller
    AGE = "queue-age"


class JobCriterion(StrEnum):
    """Why one job is served before another of the same queue."""

    AGED = "aged"  # it has waited longer than ``aged_after``
    SCORE = "score"
    POLICY = "policy"  # a user's policy
    PRIORITY = "priority"
    MINIMUM = "minimum"  # below its minimum of pods comes before at it, and at it before above it
    AGE = "age"
    UID = "uid"
