"""What there is to say of work that runs or has failed: where, on whose quota, who could take it, and until when a gang below its minimum may run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kailab.cluster.protocol import Object
from kailab.engine.decisions import beyond_quota
from kailab.evidence.shares import QueueAmounts, queue_ancestry
from kailab.explain.cause import Cause, Code, Ref
from kailab.explain.queues import RESOURCES, borrowing_lines, standings, unused_words
from kailab.explain.subject import Standing
from kailab.explain.wanted import min_member
from kailab.lab.picture import Picture
from kailab.lab.wording import amount_text, gpus, some
from kailab.model.labels import STALE_SINCE
from kailab.model.times import format_time, parse_time


def causes_of_running(standing: Standing) -> tuple[Cause, ...]:
    """What threatens it: the end of its gang's grace, or the owner of the quota that it runs on."""
    return (*_stale(standing), *_borrowing(standing))


def has_failed(standing: Standing) -> Cause:
    """Why it has ended, by its own status."""
    subject = standing.subject
    kind = subject.kind if standing.object is None else standing.object["kind"]
    return Cause(
        Code.FAILED,
        f"{kind} {subject.name} has failed: {standing.failure.rstrip('.')}.",
        (Ref(kind, subject.namespace, subject.name),),
        {"failure": standing.failure},
    )


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
        for level in queue_ancestry(name, parents):
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


def _borrowed(standing: Standing, queue: QueueAmounts) -> Cause:
    lenders = standing.picture.shares.lenders(queue.name)
    unused = standing.picture.shares.unused_beside(queue.name)
    return Cause(
        Code.BORROWING,
        f"{'It' if standing.subject.kind == 'Queue' else f'Its queue {queue.name}'} holds {gpus(queue.allocated)}, {gpus(queue.borrowed)} beyond its quota of "
        f"{gpus(queue.quota)}, {unused_words(standing.picture.shares, queue.name)}; a queue that is owed more may take that back.",
        tuple(Ref("Queue", "", name) for name in (queue.name, *(name for name, _ in unused))),
        {"queue": queue.name, "borrowed": queue.borrowed, "from": dict(lenders), "unused": dict(unused)},
    )


def running_lines(standing: Standing) -> Iterator[str]:
    """On whose quota it runs and who could take it."""
    picture = standing.picture
    if standing.subject.kind == "Queue" or not picture.scheduler.knows_queues:
        return
    names = _queues(standing)
    if not names:
        yield from _firm_lines(standing)
    for name in names:
        queue = picture.shares[name]
        beyond = _beyond(picture, name)
        if not queue.borrowed and not beyond:
            yield f"Its queue {name} holds {gpus(queue.allocated)} of its quota of {gpus(queue.quota)}: no other queue may take that."
        elif not queue.borrowed:
            yield (
                f"Its queue {name} holds {gpus(queue.allocated)} of its quota of {gpus(queue.quota)}, but {some(beyond)}: a queue that is "
                "owed more may take that back."
            )
        yield from borrowing_lines(picture, picture.shares, queue)


def _firm_lines(standing: Standing) -> Iterator[str]:
    """Of work that runs and that is not known as preemptible: whether it can be taken away, and whether quotas cover it."""
    picture = standing.picture
    groups = [group for _, group in _groups(standing)]
    for name in dict.fromkeys(str(group["spec"].get("queue") or "") for group in groups):
        own = [group for group in groups if group["spec"].get("queue") == name]
        firm = not any(standing.is_preemptible(group["metadata"]["uid"]) for group in own)
        if name not in picture.shares:
            firmly = "It can't be taken away, as it is non-preemptible, but its" if firm else "Its"
            yield f"{firmly} queue {name or '(none)'} is not there: no quota covers it."
            continue
        parents = {one.name: one.parent for one in picture.shares.queues.values()}
        above = [
            f"{level} holds {amount_text(resource, queue.non_preemptible)} of such work with a quota of "
            f"{amount_text(resource, queue.quota)}"
            for level in queue_ancestry(name, parents)
            for resource in RESOURCES
            if beyond_quota((queue := standings(picture, resource)[level]).non_preemptible, queue.quota)
        ]
        queue = picture.shares[name]
        covered = (
            f"beyond quotas: {some(above)}"
            if above
            else (
                f"inside quotas: its queue {name} holds {gpus(queue.non_preemptible)} of such work with a quota of {gpus(queue.quota)}"
            )
        )
        yield f"It can't be taken away: it is non-preemptible, {covered}."


def _beyond(picture: Picture, name: str) -> list[str]:
    """What a queue or one above it holds beyond its quota, in any resource."""
    parents = {one.name: one.parent for one in picture.shares.queues.values()}
    return [
        f"{level} holds {amount_text(resource, queue.borrowed)}{' of memory' if resource == 'Memory' else ''} beyond its quota of {amount_text(resource, queue.quota)}"
        for level in queue_ancestry(name, parents)
        for resource in RESOURCES
        if (queue := standings(picture, resource)[level]).borrowed
    ]
