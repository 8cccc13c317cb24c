"""The whole queue tree looked through at once: who is kept short and by whom, what is idle, what can never work."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kailab.advice.audit import checks
from kailab.advice.audit.finding import Audit, Finding, FindingCode, QueueWait, Severity
from kailab.lab.picture import Picture

__all__ = ["Audit", "Finding", "FindingCode", "QueueWait", "Severity", "audit"]

_LOOKS: tuple[Callable[[Picture], Iterable[Finding]], ...] = (
    checks.above_bounds,
    checks.borrowing,
    checks.idle,
    checks.beyond_capacity,
    checks.unusable,
)


def audit(picture: Picture) -> Audit:
    """Everything that is found in a lab at one moment."""
    nowhere = list(checks.fitting_nowhere(picture))
    found = [*nowhere, *(finding for look in _LOOKS for finding in look(picture))]
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
        yield f"{who} knows no queues: nobody is held to a share, so who starves or borrows is not judged"
    elif not picture.scheduler.reports_shares:
        yield f"{who} keeps its fair shares to itself: starvation is judged by quotas, what could be taken back by kailab's rules"
