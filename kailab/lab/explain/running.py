"""What there is to say of work that runs: where, on whose quota, who could take it, and until when a gang below its minimum may run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kailab.cluster.protocol import Object
from kailab.evidence.shares import NOBODY, QueueStanding, lineage
from kailab.lab.explain.cause import Cause, Code, Ref
from kailab.lab.explain.queues import borrowing_lines
from kailab.lab.explain.subject import Standing
from kailab.lab.explain.wanted import min_member
from kailab.lab.wording import gpus, some
from kailab.model.labels import STALE_SINCE
from kailab.model.times import format_time, parse_time


def causes_of_running(standing: Standing) -> tuple[Cause, ...]:
    """What threatens it: the end of its gang's grace, or the owner of the quota that it runs on."""
    return (*_stale(standing), *_borrowing(standing))


def _groups(standing: Standing) -> Iterator[tuple[str, Object]]:
    names = dict.fromkeys((row.name.partition("/")[0], row.podgroup) for row in standing.running if row.podgroup)
    for name in names:
        group = standing.picture.podgroups.get(name)
        if group is not None:
            yield "/".join(name), group


def _stale(standing: Standing) -> Iterable[Cause]:
    for full, group in _groups(standing):
        since = (group["metadata"].get("annotations") or {}).get(STALE_SINCE)
        if not since:
            continue
        least = min_member(group)
        running = sum(bool(row.node) for row in standing.picture.by_group[full] if row.phase in ("Pending", "Running"))
        record = standing.records.get(group["metadata"]["uid"])
        # The PodGroup's own grace goes before the configured one, as in the engine.
        own = None if record is None else record.staleness_grace
        grace = standing.lab.config.staleness_grace if own is None else own
        ends = parse_time(since) + grace
        rest = max(0.0, ends - standing.picture.now)
        then = (
            "its grace does not end"
            if grace < 0
            else f"unless it is whole again, all of it is evicted in {rest:.4g} s, at {format_time(ends)}"
        )
        yield Cause(
            Code.STALE_GANG,
            f"{least} pods of PodGroup {full} must run together, and {running} run since {since}: {then}.",
            (Ref("PodGroup", *full.split("/", 1)),),
            {"minMember": least, "running": running, "since": since, "grace": grace, "seconds": rest},
        )
        return


def _borrowing(standing: Standing) -> Iterable[Cause]:
    """By the lowest queue above it that holds more than its quota."""
    picture = standing.picture
    if not picture.scheduler.knows_queues:
        return
    shares = picture.shares
    parents = {one.name: one.parent for one in shares.queues.values()}
    for name in _queues(standing):
        for level in lineage(name, parents):
            queue = shares[level]
            if queue.borrowed and queue.borrowed > 0:
                yield _borrowed(standing, queue)
                return


def _queues(standing: Standing) -> list[str]:
    """Of its running work that may be taken away."""
    if standing.subject.kind == "Queue":
        return [standing.subject.name]
    firm = {
        group["metadata"]["uid"]
        for _, group in _groups(standing)
        if not standing.is_preemptible(group["metadata"]["uid"])
    }
    found = [group["spec"].get("queue", "") for _, group in _groups(standing) if group["metadata"]["uid"] not in firm]
    return list(dict.fromkeys(name for name in found if name in standing.picture.shares))


def _borrowed(standing: Standing, queue: QueueStanding) -> Cause:
    lenders = standing.picture.shares.lenders(queue.name)
    each = [
        f"{gpus(amount)} that no queue's quota covers"
        if lender == NOBODY
        else f"{gpus(amount)} of the quota of {lender}"
        for lender, amount in lenders
    ]
    owners = [lender for lender, _ in lenders if lender != NOBODY]
    taken = f"; {some(owners)} may take that back" if owners else "; a queue below its share may take that"
    return Cause(
        Code.BORROWING,
        f"{'It' if standing.subject.kind == 'Queue' else f'Its queue {queue.name}'} holds {gpus(queue.allocated)}, {gpus(queue.borrowed)} beyond its quota of "
        f"{gpus(queue.quota)}: {', '.join(each)}{taken}.",
        tuple(Ref("Queue", "", name) for name in (queue.name, *owners)),
        {"queue": queue.name, "borrowed": queue.borrowed, "from": dict(lenders)},
    )


def running_lines(standing: Standing) -> Iterator[str]:
    """On whose quota it runs and who could take it."""
    picture = standing.picture
    if standing.subject.kind == "Queue" or not picture.scheduler.knows_queues:
        return
    names = _queues(standing)
    if not names and standing.running:
        yield "It can't be taken away: it is non-preemptible, inside the quota of its queue."
    for name in names:
        queue = picture.shares[name]
        if not queue.borrowed:
            yield f"Its queue {name} holds {gpus(queue.allocated)} of its quota of {gpus(queue.quota)}: no other queue may take that."
        yield from borrowing_lines(picture, picture.shares, queue)
