"""What a replay over several clusters is told by: as one, by cluster and by queue over all of them."""

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
    left_out,
    row_of,
    rows_by,
    rows_by_size,
    spread,
    summarise,
)


class ClusterFigures(msgspec.Struct, frozen=True, kw_only=True):
    """``row``: of the jobs that are there in the end. ``came``: of them those whose home is another; ``went``: jobs whose home it is and that are elsewhere.
    ``bytes_in``: moved there. ``cost``: of all its GPUs, or of those held, as it is paid; None without prices.
    ``unbegun``: why jobs there never began."""

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
    """Of a queue over all clusters. ``home``: of its teams, empty where they have several. ``away``: jobs sent elsewhere than home, and ``away_hours``: the GPU-hours that
    they ask for. ``held``, ``fair``: GPU-hours, as in a replay on one cluster, summed up. ``cost``: of what it held; None where it
    has jobs in a cluster without prices."""

    row: SummaryRow
    home: str
    away: int
    away_hours: float
    moved: int
    held: float
    fair: float
    cost: float | None


class DispatchFigures(msgspec.Struct, frozen=True, kw_only=True):
    """``with_dispatcher``, ``on_way``: jobs that are in no cluster in the end. ``taken_back``: how often jobs were taken from a cluster where they waited. ``moved``: bytes, at
    ``move_cost``. ``cost``: of all clusters and of moving, None where one has no prices; ``per_done``: by GPU-hours of work that counts. ``latency_ms``: between home and cluster, in the mean over the jobs
    that were sent. ``way``: seconds. ``missed``: by how much jobs that began did so earlier or later than the policy was told as it sent them, in
    seconds; None where it did not ask. ``jain``: of GPU time held by fair share, over queues, each over all clusters."""

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


def figures(found: DispatchedReplay) -> DispatchFigures:
    """Nothing in it depends on the machine: the same files give the same text."""
    sites, journeys = found.sites, found.journeys
    told = {name: summarise(replayed) for name, replayed in found.clusters.items()}
    costs = {site.name: _cost(site, found.clusters[site.name]) for site in sites.sites}
    clusters = [_cluster(found, site, told[site.name], costs[site.name]) for site in sites.sites]
    works = [_work(found, one) for one in journeys]
    moving = sum(one.cost for one in journeys)
    cost = None if None in costs.values() else sum(one for one in costs.values() if one is not None) + moving
    done = sum(one.balance.done for one in clusters) / WHOLE / HOUR
    sent = [one for one in journeys if one.sent]
    energies = [one.kwh for one in told.values()]
    queues = _queues(found, told, works)
    held, fair = _exact(found, "held"), _exact(found, "fair")
    choice = sites.dispatching.policy
    priced = [one.prices.currency for one in sites.sites if one.prices is not None]
    return DispatchFigures(
        trace=sites.trace.file,
        form=sites.trace.form,
        clusters_file=sites.file,
        policy=choice.name,
        parameters=dict(choice.parameters),
        seconds=found.ended - found.began,
        gpus=sum(one.gpus for one in clusters),
        in_trace=len(sites.trace.jobs),
        broken_lines=len(sites.trace.broken),
        left_out=left_out(sites.trace),
        total=row_of("all", works),
        away=sum(map(_away, journeys)),
        away_hours=_hours([one for one in journeys if _away(one)]),
        with_dispatcher=sum(not one.at for one in journeys),
        on_way=sum(bool(one.at) and one.work is None for one in journeys),
        taken_back=sum(one.taken_back for one in journeys),
        moved=sum(one.moved for one in journeys),
        move_cost=round(moving, 2),
        # So that it is the sum of what is told of the clusters.
        cost=None if cost is None else round(sum(one.cost for one in clusters if one.cost is not None) + moving, 2),
        per_done=round(cost / done, 4) if cost is not None and done else None,
        currency=priced[0] if priced else "",
        latency_ms=round(1000 * sum(one.latency for one in sent) / len(sent), 3) if sent else 0.0,
        way=spread([one.way for one in sent]),
        missed=spread([abs(one.work.began - one.left - one.expected) for one in sent if _foretold(one)]),  # type: ignore[union-attr, operator]
        allocated=_part([(one.allocated, one.gpus) for one in told.values()]),
        allocated_arriving=_part([(one.allocated_arriving, one.gpus) for one in told.values()]),
        kwh=None if None in energies else round(sum(one for one in energies if one is not None), 3),
        jain=jain_index([held[name] / own for name, own in fair.items() if own > 0]),
        clusters=clusters,
        queues=queues,
        sizes=rows_by_size(works),
    )


def as_json(found: DispatchFigures) -> dict[str, Any]:
    """Plain values."""
    data: dict[str, Any] = msgspec.to_builtins(found)
    return data


def _cost(site: ClusterSite, replayed: CompletedReplay) -> float | None:
    """As it is paid, not rounded."""
    exact = costs_of(replayed)
    if exact is None:
        return None
    return exact.cost - exact.idle_cost if site.pay == HELD else exact.cost


def _cluster(found: DispatchedReplay, site: ClusterSite, told: Summary, cost: float | None) -> ClusterFigures:
    name = site.name
    replayed: CompletedReplay = found.clusters[name]
    there = [one for one in found.journeys if one.at == name]
    return ClusterFigures(
        name=name,
        fleet=told.fleet,
        gpus=told.gpus,
        row=told.total,
        came=sum(one.home != name for one in there),
        went=sum(one.home == name and _away(one) for one in found.journeys),
        bytes_in=sum(one.moved_to.get(name, 0) for one in found.journeys),
        allocated=told.allocated,
        held=round(replayed.accounts.held_time / WHOLE / HOUR, 3),
        cost=None if cost is None else round(cost, 2),
        pay=site.pay,
        goodput=told.goodput,
        cycles=told.cycles,
        balance=told.balance,
        costs=told.costs,
        unbegun=told.unbegun,
    )


def _queues(found: DispatchedReplay, told: dict[str, Summary], works: Sequence[ReplayedJob]) -> list[TeamFigures]:
    of_job = {id(work.job): work.queue for work in works}
    homes: dict[str, set[str]] = {}
    journeys: dict[str, list[JobJourney]] = {}
    for one in found.journeys:
        queue = of_job[id(one.job)]
        homes.setdefault(queue, set()).add(one.home)
        journeys.setdefault(queue, []).append(one)
    free = [name for name, each in told.items() if each.costs is None]
    rows = []
    for row in rows_by(works, lambda work: work.queue):
        own = [one for one in journeys[row.name] if _away(one)]
        fair = [one for each in told.values() for one in each.fairness.queues if one.name == row.name]
        costs = [one.cost for each in told.values() if each.costs for one in each.costs.queues if one.name == row.name]
        unpriced = len(free) == len(told) or any(
            work.queue == row.name for name in free for work in found.clusters[name].accounts.works.values()
        )
        rows.append(
            TeamFigures(
                row=row,
                home=next(iter(homes[row.name])) if len(homes[row.name]) == 1 else "",
                away=len(own),
                away_hours=_hours(own),
                moved=sum(one.moved for one in journeys[row.name]),
                held=round(sum(one.held for one in fair), 3),
                fair=round(sum(one.fair for one in fair), 3),
                cost=None if unpriced else round(sum(costs), 2),
            )
        )
    return rows


def _exact(found: DispatchedReplay, field: str) -> Counter[str]:
    """GPU-hours of each queue over all clusters, not rounded."""
    sums: Counter[str] = Counter()
    for replayed in found.clusters.values():
        for one in replayed.fairness.queues:
            sums[one.name] += getattr(one, field)
    return sums


def _work(found: DispatchedReplay, one: JobJourney) -> ReplayedJob:
    """As it stands; of a job that is in no cluster, one that has not begun."""
    if one.work is not None:
        return one.work
    queue = found.sites.sites[0].queues.of_team[one.job.team]
    return ReplayedJob(one.name, one.job, queue, max(1, one.job.pods), one.arrived)


def _part(parts: Sequence[tuple[float, int]]) -> float:
    """The mean, each counted as often as it has GPUs."""
    gpus = sum(number for _, number in parts)
    return round(sum(part * number for part, number in parts) / gpus, 4) if gpus else 0.0


def _away(one: JobJourney) -> bool:
    return bool(one.at) and one.at != one.home


def _foretold(one: JobJourney) -> bool:
    return (
        one.work is not None and one.work.began is not None and one.expected is not None and one.expected < float("inf")
    )


def _hours(journeys: Sequence[JobJourney]) -> float:
    return round(sum(one.job.demand for one in journeys) / WHOLE / HOUR, 3)
