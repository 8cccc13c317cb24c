"""The metrics of a lab at one moment."""

from __future__ import annotations

from collections import Counter

from kailab.evidence.metrics.families import EventTally, FleetUse, MetricGroup, MetricsSnapshot, WaitingGroup
from kailab.evidence.shares import QueueTreeShares
from kailab.lab.lab import Lab
from kailab.lab.picture import Picture
from kailab.model.multimap import multimap
from kailab.model.objects import metadata_of, name_of, spec_of
from kailab.model.times import parse_time


def sample_metrics(lab: Lab, recorded: MetricsSnapshot | None = None) -> MetricsSnapshot:
    """A lab keeps evictions but no other decisions, so counts of decisions and past waits come from ``recorded`` (the last of
    ``snapshots_over_time``), else they are left out."""
    picture = lab.picture()
    queues = picture.cluster.list("Queue")
    fleet = FleetUse(
        gpus=sum(picture.accounts.offered(node) for node in picture.nodes.values()),
        used=sum(picture.used.values()),
        largest_free=max(
            (picture.accounts.offered(node) - picture.used.get(name, 0) for name, node in picture.nodes.items()),
            default=0,
        ),
    )
    return MetricsSnapshot(
        t=picture.now - lab.opened,
        shares=_shares(picture),
        display={name_of(queue): text for queue in queues if (text := spec_of(queue).get("displayName"))},
        waiting=_waiting(picture, lab.opened),
        pods=Counter((row.queue, row.phase) for row in picture.rows),
        fleet=fleet,
        tally=_tally(picture) if recorded is None else recorded.tally,
    )


def _shares(picture: Picture) -> dict[str, QueueTreeShares]:
    if not picture.scheduler.knows_queues:
        return {"gpu": picture.shares}
    queues, fair = picture.present.queues, picture.scheduler.reports_shares
    return {
        "gpu": picture.shares,
        "cpu": QueueTreeShares.counted(queues, fair=fair, resource="cpu"),
        "memory": QueueTreeShares.counted(queues, fair=fair, resource="memory"),
    }


def _waiting(picture: Picture, opened: float) -> tuple[WaitingGroup, ...]:
    """Pods without a PodGroup count as groups of one."""
    rows = multimap((row.group, row) for row in picture.rows if row.phase == "Pending" and not row.node)
    waiting = []
    for name, pods in rows.items():
        since = min(parse_time(metadata_of(picture.pods_by_name[row.name])["creationTimestamp"]) for row in pods)
        group = _group(picture, name, pods[0].queue)
        waiting.append(WaitingGroup(group, picture.code_of(pods[0]), since - opened, len(pods)))
    return tuple(waiting)


def _group(picture: Picture, name: str, queue: str) -> MetricGroup:
    namespace, _, own = name.partition("/")
    obj = picture.podgroups.get((namespace, own))
    if obj is None:
        return MetricGroup(name, queue)
    spec = obj.get("spec") or {}
    return MetricGroup(name, queue, spec.get("priorityClassName", ""), spec.get("minMember") or 1)


def _tally(picture: Picture) -> EventTally:
    tally = EventTally()
    for entry in picture.log.evictions:
        tally.evict(entry, _group(picture, entry.podgroup, entry.queue).priority)
    there = {"/".join(name) for name in picture.podgroups}
    tally.evicted = {group: actions for group, actions in tally.evicted.items() if group in there}
    return tally
