"""Work that waits though no emptied cluster would hold it."""

from __future__ import annotations

from collections.abc import Iterable

from kailab.advice.audit.finding import Finding, FindingCode, Severity
from kailab.engine.decisions import PendingCode, TaskAmounts
from kailab.lab.picture import Picture
from kailab.lab.wording import count, gpus, some


def fitting_nowhere(picture: Picture) -> Iterable[Finding]:
    """By the engine, which is loaded only where something waits."""
    if not picture.pending:
        return
    from kailab.engine.report import unplaceable

    present = picture.reckoned()
    moment = present.moment()
    for one in unplaceable.unplaceable_groups(moment.snapshot, moment.config, moment.now):
        names = sorted(present.podgroup(uid) for uid in one.podgroups)
        size = f"{one.pods} pods that start together" if one.pods > 1 else "1 pod"
        alike = f"Each of {count(len(names), 'pod group')} ({some(names)}; " if len(names) > 1 else f"{names[0]} ("
        yield Finding(
            FindingCode.FITS_NOWHERE,
            Severity.ERROR,
            f"{alike}{size}, {gpus(one.gpu)}) would find no room on the emptied cluster either: {one.message}.",
            tuple(f"podgroup/{name}" for name in names),
            {"pods": one.pods, "gpu": one.gpu, "placed": one.placed, "groups": len(names)},
        )


def helpless(picture: Picture, nowhere: Iterable[Finding]) -> dict[str, TaskAmounts]:
    """Queue -> what of its work asks for that no share would help: it fits nowhere, or lacks pods of its own."""
    known = {name.partition("/")[2] for finding in nowhere for name in finding.objects}
    found: dict[str, TaskAmounts] = {}
    for name, entry in picture.pending.items():
        if name in known or entry.reason == PendingCode.NOT_READY:
            sums = found.get(entry.queue, TaskAmounts())
            found[entry.queue] = TaskAmounts(
                gpu=sums.gpu + sum(one.gpu for one in entry.amounts),
                cpu=sums.cpu + sum(one.cpu for one in entry.amounts),
                memory=sums.memory + sum(one.memory for one in entry.amounts),
            )
    return found
