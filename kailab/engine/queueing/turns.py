"""What puts those who wait where they are in the serving order, as records: decided by ``order``, told by ``serving``. The places
themselves are ``decisions.Turn``."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class QueueCriterion(StrEnum):
    """What put one queue before another, in the order in which it is asked."""

    FAIR_SHARE = "fair-share"  # the other is above its fair share in every resource
    QUOTA = "quota"  # with its next job it stays within its quota
    PRIORITY = "queue-priority"
    NO_SHARE = "no-share"  # the other would hold something of which it may have nothing
    SHARE_WITH_JOB = "share-with-job"  # it holds the smaller part of its share, its next job counted
    SHARE = "share"  # the same, without the job
    SIZE = "size"  # its share is smaller
    AGE = "queue-age"


class JobCriterion(StrEnum):
    """What put one job before another of its queue."""

    AGED = "aged"  # it has waited for long enough to come before all others
    SCORE = "score"
    POLICY = "policy"  # a policy that another distribution brings
    PRIORITY = "priority"
    MINIMUM = "minimum"  # below its minimum of pods comes before at it, and that before above it
    AGE = "age"
    UID = "uid"


PROMISED = "promised"
"""Room was made, or was to be made, for the one before: it goes first."""


class Earlier(msgspec.Struct, frozen=True, kw_only=True):
    """A queue that is served before another. ``over``: that queue, or the ancestor of it beside which this one stands.
    ``podgroup``: whose turn is next there."""

    queue: str
    over: str
    podgroup: str
    because: str
