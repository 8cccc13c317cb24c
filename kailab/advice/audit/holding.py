"""Queues that hold more than their limit, or more that nobody may take back than their quota: bounds that were lowered under work that
runs. The scheduler takes nothing away for it."""

from __future__ import annotations

from collections.abc import Iterable

from kailab.advice.audit.finding import Finding, FindingCode, Severity
from kailab.advice.audit.sharing import RESOURCES, standings
from kailab.engine.decisions import beyond_quota
from kailab.evidence.shares import UNLIMITED
from kailab.lab.picture import Picture
from kailab.lab.wording import amount_text


def above_bounds(picture: Picture) -> Iterable[Finding]:
    """In every resource, at every level of the tree."""
    for resource, named in RESOURCES.items():
        for name, queue in sorted(standings(picture, resource).queues.items()):
            if queue.limit != UNLIMITED and queue.allocated > queue.limit:
                yield Finding(
                    FindingCode.ABOVE_LIMIT,
                    Severity.WARNING,
                    f"{name} holds {amount_text(named, queue.allocated)}, above its limit of {amount_text(named, queue.limit)}: nothing is evicted for that, "
                    "and nothing more of it starts until it holds less.",
                    (f"queue/{name}",),
                    {"resource": named, "allocated": queue.allocated, "limit": queue.limit},
                )
            if beyond_quota(queue.non_preemptible, queue.quota):
                yield Finding(
                    FindingCode.NON_PREEMPTIBLE_ABOVE_QUOTA,
                    Severity.WARNING,
                    f"{name} holds {amount_text(named, queue.non_preemptible)} of non-preemptible work, above its quota of "
                    f"{amount_text(named, queue.quota)}: nobody can take that back.",
                    (f"queue/{name}",),
                    {"resource": named, "non_preemptible": queue.non_preemptible, "quota": queue.quota},
                )
        if not picture.scheduler.knows_queues:
            return
