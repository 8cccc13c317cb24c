"""The figures of a replay over several clusters: in all, by cluster and by queue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from kailab.replay.accounts import GpuTimeBalance, ReplayedJob, UnstartedJobs
from kailab.replay.clusters.journeys import DispatchedReplay, JobJourney
from kailab.replay.clusters.sites import HELD, ClusterSite
from kailab.replay.costs import ReplayCost
from kailab.replay.job import HOUR, WHOLE
from kailab.replay.run import CompletedReplay
from kailab.replay.sampling import jain_index
from kailab.replay.summary import (
    Distribution,
    Summary,
    SummaryRow,
    costs_of,
    distribution,
    left_out,
    row_of,
    rows_by,
    rows_by_size,
    summarise,
)


class ClusterFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of one cluster.

    ``row``: jobs that are there at the end. ``came``: those of them with another home; ``went``: jobs with their home
    here that are elsewhere. ``bytes_in``: data moved there. ``cost``: of all its GPUs or of those held, as it is paid;
    None without prices. ``unbegun``: why jobs there never began.
    """

    name: str
    fleet: str
    gpus: int
    row: SummaryRow
    came: int
    went: int
    bytes_in: int
    allocated: float
    held: float
    cost: float | None
    pay: str
    goodput: float
    cycles: int
    balance: GpuTimeBalance
    costs: ReplayCost | None
    unbegun: list[UnstartedJobs]


class TeamFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of a queue over all clusters.

    ``home``: home cluster of its teams, empty if they have several. ``away``: jobs sent elsewhere; ``away_hours``: the
    GPU-hours that they demand. ``held``, ``fair``: GPU-hours, summed over clusters. ``cost``: of the GPU time held;
    None if a cluster without prices has jobs of the queue.
    """

    row: SummaryRow
    home: str
    away: int
    away_hours: float
    moved: int
    held: float
    fair: float
    cost: float | None


class DispatchFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of the whole replay.

    ``with_dispatcher``, ``on_way``: jobs that are in no cluster at the end. ``taken_back``: how often jobs were
    withdrawn from a cluster. ``moved``: bytes, at ``move_cost``. ``cost``: clusters and transfers, None if a cluster
    has no prices; ``per_done``: per GPU-hour of work that counts. ``latency_ms``: between home and cluster, the mean
    over jobs sent. ``way``: transfer times in seconds. ``missed``: absolute error in seconds of the waiting time that
    the policy was given; None if it did not ask. ``jain``: Jain's index of GPU time held per fair share, by queue.
    ``faults``: why the figures are invalid.
    """

    trace: str
    form: str
    clusters_file: str
    policy: str
    parameters: dict[str, Any]
    seconds: int
    gpus: int
    in_trace: int
    broken_lines: int
    left_out: dict[str, int]
    total: SummaryRow
    away: int
    away_hours: float
    with_dispatcher: int
    on_way: int
    taken_back: int
    moved: int
    move_cost: float
    cost: float | None
    per_done: float | None
    currency: str
    latency_ms: float
    way: Distribution | None
    missed: Distribution | None
    allocated: float
    allocated_arriving: float
    kwh: float | None
    jain: float | None
    clusters: list[ClusterFigures]
    queues: list[TeamFigures]
    sizes: list[SummaryRow]
    faults: list[str] = []


def figures(replay: DispatchedReplay) -> DispatchFigures:
    """Compute the figures. They do not depend on the machine: equal files give equal text."""
    sites, journeys = replay.sites, replay.journeys
    summaries = {name: summarise(replayed) for name, replayed in replay.clusters.items()}
    costs = {site.name: _cost(site, replay.clusters[site.name]) for site in sites.sites}
    clusters = [_cluster(replay, site, summaries[site.name], costs[site.name]) for site in sites.sites]
    works = [_work(replay, journey) for journey in journeys]
    moving = sum(entry.cost for entry in journeys)
    cost = None if None in costs.values() else sum(entry for entry in costs.values() if entry is not None) + moving
    done = sum(entry.balance.done for entry in clusters) / WHOLE / HOUR
    sent = [entry for entry in journeys if entry.sent]
    energies = [entry.kwh for entry in summaries.values()]
    queues = _queues(replay, summaries, works)
    held, fair = _exact(replay, "held"), _exact(replay, "fair")
    choice = sites.dispatching.policy
    priced = [entry.prices.currency for entry in sites.sites if entry.prices is not None]
    return DispatchFigures(
        trace=sites.trace.file,
        form=sites.trace.form,
        clusters_file=sites.file,
        policy=choice.name,
        parameters=dict(choice.parameters),
        seconds=replay.ended - replay.began,
        gpus=sum(entry.gpus for entry in clusters),
        in_trace=len(sites.trace.jobs),
        broken_lines=len(sites.trace.broken),
        left_out=left_out(sites.trace),
        total=row_of("all", works),
        away=sum(map(_away, journeys)),
        away_hours=_hours([entry for entry in journeys if _away(entry)]),
        with_dispatcher=sum(not entry.at for entry in journeys),
        on_way=sum(bool(entry.at) and entry.work is None for entry in journeys),
        taken_back=sum(entry.taken_back for entry in journeys),
        moved=sum(entry.moved for entry in journeys),
        move_cost=round(moving, 2),
        # Sum the rounded costs, so that the total matches the listed clusters.
        cost=None
        if cost is None
        else round(sum(entry.cost for entry in clusters if entry.cost is not None) + moving, 2),
        per_done=round(cost / done, 4) if cost is not None and done else None,
        currency=priced[0] if priced else "",
        latency_ms=round(1000 * sum(entry.latency for entry in sent) / len(sent), 3) if sent else 0.0,
        way=distribution([entry.way for entry in sent]),
        missed=distribution([missed for entry in sent if (missed := _missed_by(entry)) is not None]),
        allocated=_part([(entry.allocated, entry.gpus) for entry in summaries.values()]),
        allocated_arriving=_part([(entry.allocated_arriving, entry.gpus) for entry in summaries.values()]),
        kwh=None if None in energies else round(sum(entry for entry in energies if entry is not None), 3),
        jain=jain_index([held[name] / own for name, own in fair.items() if own > 0]),
        clusters=clusters,
        queues=queues,
        sizes=rows_by_size(works),
        faults=replay.faults,
    )


def _cost(site: ClusterSite, replayed: CompletedReplay) -> float | None:
    """The cost as it is paid, not rounded."""
    exact = costs_of(replayed)
    if exact is None:
        return None
    return exact.cost - exact.idle_cost if site.pay == HELD else exact.cost


def _cluster(replay: DispatchedReplay, site: ClusterSite, summary: Summary, cost: float | None) -> ClusterFigures:
    name = site.name
    replayed: CompletedReplay = replay.clusters[name]
    present = [journey for journey in replay.journeys if journey.at == name]
    return ClusterFigures(
        name=name,
        fleet=summary.fleet,
        gpus=summary.gpus,
        row=summary.total,
        came=sum(journey.home != name for journey in present),
        went=sum(journey.home == name and _away(journey) for journey in replay.journeys),
        bytes_in=sum(journey.moved_to.get(name, 0) for journey in replay.journeys),
        allocated=summary.allocated,
        held=round(replayed.accounts.held_time / WHOLE / HOUR, 3),
        cost=None if cost is None else round(cost, 2),
        pay=site.pay,
        goodput=summary.goodput,
        cycles=summary.cycles,
        balance=summary.balance,
        costs=summary.costs,
        unbegun=summary.unbegun,
    )


def _queues(replay: DispatchedReplay, summaries: dict[str, Summary], works: Sequence[ReplayedJob]) -> list[TeamFigures]:
    of_job = {id(work.job): work.queue for work in works}
    homes: dict[str, set[str]] = {}
    journeys: dict[str, list[JobJourney]] = {}
    for journey in replay.journeys:
        queue = of_job[id(journey.job)]
        homes.setdefault(queue, set()).add(journey.home)
        journeys.setdefault(queue, []).append(journey)
    unpriced_clusters = [name for name, summary in summaries.items() if summary.costs is None]
    rows = []
    for row in rows_by(works, lambda work: work.queue):
        sent_away = [journey for journey in journeys[row.name] if _away(journey)]
        fair = [
            journey for summary in summaries.values() for journey in summary.fairness.queues if journey.name == row.name
        ]
        costs = [
            journey.cost
            for summary in summaries.values()
            if summary.costs
            for journey in summary.costs.queues
            if journey.name == row.name
        ]
        unpriced = len(unpriced_clusters) == len(summaries) or any(
            work.queue == row.name
            for name in unpriced_clusters
            for work in replay.clusters[name].accounts.works.values()
        )
        rows.append(
            TeamFigures(
                row=row,
                home=next(iter(homes[row.name])) if len(homes[row.name]) == 1 else "",
                away=len(sent_away),
                away_hours=_hours(sent_away),
                moved=sum(journey.moved for journey in journeys[row.name]),
                held=round(sum(journey.held for journey in fair), 3),
                fair=round(sum(journey.fair for journey in fair), 3),
                cost=None if unpriced else round(sum(costs), 2),
            )
        )
    return rows


def _exact(replay: DispatchedReplay, field: str) -> Counter[str]:
    """GPU-hours of each queue over all clusters, not rounded."""
    sums: Counter[str] = Counter()
    for replayed in replay.clusters.values():
        for queue in replayed.fairness.queues:
            sums[queue.name] += getattr(queue, field)
    return sums


def _work(replay: DispatchedReplay, journey: JobJourney) -> ReplayedJob:
    """The job in its cluster; for a job in no cluster, one that has not begun."""
    if journey.work is not None:
        return journey.work
    queue = replay.sites.sites[0].queues.of_team[journey.job.team]
    return ReplayedJob(journey.name, journey.job, queue, max(1, journey.job.pods), journey.arrived)


def _part(parts: Sequence[tuple[float, int]]) -> float:
    """The mean weighted by GPUs."""
    gpus = sum(weight for _, weight in parts)
    return round(sum(value * weight for value, weight in parts) / gpus, 4) if gpus else 0.0


def _away(journey: JobJourney) -> bool:
    return bool(journey.at) and journey.at != journey.home


def _missed_by(journey: JobJourney) -> float | None:
    """By how many seconds a job began earlier or later than expected; None if it did not begin, or nothing was expected."""
    if journey.work is None or journey.work.began is None:
        return None
    if journey.expected is None or journey.expected == float("inf"):
        return None
    return abs(journey.work.began - journey.sent_at - journey.expected)


def _hours(journeys: Sequence[JobJourney]) -> float:
    return round(sum(journey.job.demand for journey in journeys) / WHOLE / HOUR, 3)
