"""Quotas that promise more than there is: of children beyond their parent's, of the queues at the top beyond the fleet's."""

from __future__ import annotations

from collections.abc import Iterable

from kailab.advice.audit.finding import Finding, FindingCode, Severity
from kailab.advice.audit.sharing import RESOURCES, Resource, standings
from kailab.evidence.shares import UNLIMITED, QueueAmounts
from kailab.lab.picture import Picture
from kailab.lab.wording import amount_text, some


def beyond_capacity(picture: Picture) -> Iterable[Finding]:
    """Per resource. Quotas without bound at the top are left out: they are meant to take what there is."""
    totals = {one.resource: one.total for one in picture.present.divisions if not one.parent}
    for resource in RESOURCES:
        shares = standings(picture, resource)
        for parent in ("", *sorted({queue.parent for queue in shares.queues.values()} & shares.queues.keys())):
            bound = totals.get(RESOURCES[resource]) if not parent else shares[parent].quota
            if bound is not None and bound != UNLIMITED:
                # A queue whose parent is missing stands at the top, and owns nothing there.
                yield from _beyond(
                    resource, parent, bound, [one for one in shares.children(parent) if one.parent == parent]
                )
        if not picture.scheduler.knows_queues:
            return


def _beyond(resource: Resource, parent: str, bound: float, children: list[QueueAmounts]) -> Iterable[Finding]:
    named = RESOURCES[resource]
    promised = sum(queue.quota for queue in children if queue.quota != UNLIMITED)
    endless = [queue.name for queue in children if queue.quota == UNLIMITED] if parent else []
    if promised <= bound and not endless:
        return
    whose = f"the quota of {parent}" if parent else "what the available nodes have"
    largest = sorted(children, key=lambda queue: (queue.quota != UNLIMITED, -queue.quota, queue.name))
    each = [f"{queue.name} {amount_text(named, queue.quota)}" for queue in largest if queue.quota]
    told = "no bound" if endless else amount_text(named, promised)
    yield Finding(
        FindingCode.QUOTA_BEYOND_CAPACITY,
        Severity.WARNING,
        f"{named} quotas {f'below {parent}' if parent else 'at the top'} add up to {told}; {whose} is "
        f"{amount_text(named, bound)} ({some(each)}).",
        tuple(f"queue/{name}" for name in ((parent,) if parent else ()) + tuple(queue.name for queue in children)),
        {
            "resource": named,
            "promised": UNLIMITED if endless else promised,
            "bound": bound,
            "quotas": {queue.name: queue.quota for queue in children},
        },
    )
