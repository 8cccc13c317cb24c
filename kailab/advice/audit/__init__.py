"""Audit the whole queue tree at once: queues that lack GPUs and those that hold them, idle quota, work that can never run.

``checks`` finds, ``finding`` has the records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kailab.advice.audit import checks
from kailab.advice.audit.finding import Audit, AuditFinding, FindingCode, QueueWait, Severity
from kailab.lab.picture import Picture

__all__ = ["Audit", "AuditFinding", "FindingCode", "QueueWait", "Severity", "audit"]

_CHECKS: tuple[Callable[[Picture], Iterable[AuditFinding]], ...] = (
    checks.above_bounds,
    checks.borrowing,
    checks.idle,
    checks.beyond_capacity,
    checks.unusable,
)


def audit(picture: Picture) -> Audit:
    """All findings in a lab at one moment."""
    nowhere = list(checks.fitting_nowhere(picture))
    found = [*nowhere, *(finding for check in _CHECKS for finding in check(picture))]
    found += checks.starved(picture, checks.helpless(picture, nowhere))
    found.sort(key=lambda one: (one.severity.rank, list(FindingCode).index(one.code), one.objects))
    return Audit(
        queues=len(picture.shares.queues),
        findings=tuple(found),
        waits=tuple(checks.waits(picture)),
        unknown=tuple(_unknown(picture)),
    )


def _unknown(picture: Picture) -> Iterable[str]:
    who = picture.scheduler.title
    if not picture.scheduler.knows_queues:
        yield f"{who} has no queues, so starvation and borrowing are not judged"
    elif not picture.scheduler.reports_shares:
        yield f"{who} reports no fair shares: starvation is judged by quotas, and returns by kailab's rules"
