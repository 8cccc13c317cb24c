"""Clusters, the links between them and where data lie, as a file declares them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

from kailab.engine.policies.contract import Dispatch, make_policy
from kailab.engine.policies.settings import PolicyChoice
from kailab.errors import InputError
from kailab.model.prices import Prices
from kailab.replay.job import TraceJob
from kailab.replay.plan import ReplayPlan
from kailab.replay.queues import TeamQueues
from kailab.replay.trace import Trace
from kailab.scheduler.observers import Observer
from kailab.scheduler.settings.policies import policy_class

ALL, HELD = "all", "held"
RETRY = 60
"""Seconds after which jobs that stay with the dispatcher are asked for again, at the latest."""


@dataclass(frozen=True, kw_only=True)
class NetworkLink:
    """``latency``: seconds. ``bits``: per second, None without bound. ``per_gigabyte``: price of 10**9 bytes."""

    latency: float = 0.0
    bits: float | None = None
    per_gigabyte: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """``size``: bytes. ``at``: clusters that have it from the beginning. ``teams``: whose jobs need it, where the trace says nothing of one."""

    name: str
    size: int
    at: tuple[str, ...]
    teams: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class ClusterOutage:
    """Nobody reaches a cluster from so many seconds after the first arrival, up to others; what is in it goes on."""

    cluster: str
    begin: int
    end: int


@dataclass(frozen=True, kw_only=True)
class DispatchSettings:
    """``policy``: who decides. ``retry``: see ``RETRY``. ``again``: seconds for which a job has waited in a cluster, after which it is asked for anew and may be taken
    back from there; None: it stays. ``most``: how often."""

    policy: PolicyChoice
    retry: int = RETRY
    again: int | None = None
    most: int = 10


@dataclass(frozen=True, kw_only=True)
class ClusterSite:
    """One cluster. ``plan``: what its lab is made of. ``limit``: GPUs that the dispatcher lets its jobs there ask for at once; None: as many as come.
    ``pay``: for ``all`` of its GPUs all the time, or for those that are ``held``, while they are."""

    name: str
    plan: ReplayPlan
    limit: int | None = None
    pay: str = ALL

    @property
    def queues(self) -> TeamQueues:
        return self.plan.queues

    @property
    def prices(self) -> Prices | None:
        return self.plan.prices


@dataclass(frozen=True, kw_only=True)
class ClusterSites:
    """All of them, with the trace that is replayed over them. ``homes``: team -> the name of its cluster. ``links``: by the two names, in the order of the file;
    ``link``: between all others."""

    file: str
    trace: Trace
    sites: Sequence[ClusterSite]
    homes: Mapping[str, str]
    dispatching: DispatchSettings
    links: Mapping[tuple[str, str], NetworkLink]
    link: NetworkLink
    datasets: Mapping[str, Dataset]
    outages: Sequence[ClusterOutage] = ()
    drawing: bool = False
    """Whether a seed is for a policy of one of them."""
    strangers: Sequence[str] = ()
    """What the file says of teams that have no job in the trace, in words."""

    def between(self, one: str, other: str) -> NetworkLink:
        """Within a cluster nothing takes time."""
        if one == other:
            return NetworkLink()
        return self.links.get((one, other)) or self.links.get((other, one)) or self.link

    def observed(self, observers: Sequence[Observer]) -> ClusterSites:
        """With an observer for the lab of each cluster, in their order."""
        pairs = zip(self.sites, observers, strict=True)
        return replace(self, sites=[replace(one, plan=replace(one.plan, observers=(seen,))) for one, seen in pairs])

    def reached_from(self, name: str, at: int) -> int:
        """From when on a cluster is reached, seconds after the first arrival: ``at`` itself where it is reached then."""
        for one in sorted(self.outages, key=lambda one: one.begin):
            if one.cluster == name and one.begin <= at < one.end:
                at = one.end
        return at

    def dataset_of(self, job: TraceJob) -> Dataset | None:
        if job.dataset:
            return self.datasets[job.dataset]
        return next((one for one in self.datasets.values() if job.team in one.teams), None)


def dispatch_policy(choice: PolicyChoice) -> Dispatch:
    """Loaded, with its parameters. Raises InputError, ExtensionError, PolicyError."""
    if not issubclass(policy_class(choice.name), Dispatch):
        raise InputError(f"policy {choice.name!r} does not dispatch; expected a Dispatch such as spill-over")
    return make_policy(choice, Dispatch)


def seen(path: Any, base: Path) -> Path:
    """A file's path in a file that stands in ``base``."""
    return base / Path(str(path)).expanduser()


# The way of a job to a cluster: the latency between its home and there, and the moving of its data over links that move one dataset after the other.

GIGABYTE = 10**9


class Transfer(NamedTuple):
    """``seconds``: whole ones, rounded up, until the job and its data are there. ``moved``: bytes that are moved for it, from ``source``, at ``cost``."""

    seconds: int
    moved: int = 0
    cost: float = 0.0
    source: str = ""


class TransferPlanner:
    """Which cluster has which data, from when on. What was moved stays there: the next job that needs it finds it, or waits for the same move."""

    def __init__(self, sites: ClusterSites, began: int) -> None:
        """``began``: when the first job arrived."""
        self._sites = sites
        self._began = began
        self._there: dict[tuple[str, str], int] = {
            (data.name, name): 0 for data in sites.datasets.values() for name in data.at
        }
        self._busy: dict[tuple[str, str], int] = {}

    def __getstate__(self) -> dict[str, Any]:
        """To be kept. Links are given anew."""
        return {**self.__dict__, "_sites": None}

    def given(self, sites: ClusterSites) -> None:
        """Of one that was kept."""
        self._sites = sites

    def reached(self, name: str, at: int) -> int:
        """When a cluster is reached from ``at`` on: then, or once an outage is over."""
        return self._began + self._sites.reached_from(name, at - self._began)

    def way(self, data: Dataset | None, home: str, to: str, now: int) -> Transfer:
        """As it would be from now on."""
        latency = ceil(self._sites.between(home, to).latency)
        if data is None:
            return Transfer(latency)
        there = self._there.get((data.name, to))
        if there is not None:
            return Transfer(max(latency, there - now))
        ends = {name: self._end(data, name, to, now) for (own, name) in self._there if own == data.name}
        source = min(ends, key=lambda name: (ends[name], name))
        cost = self._sites.between(source, to).per_gigabyte * data.size / GIGABYTE
        return Transfer(max(latency, ends[source] - now), data.size, cost, source)

    def send(self, data: Dataset | None, home: str, to: str, now: int) -> Transfer:
        """As ``way``, and begun."""
        way = self.way(data, home, to, now)
        if data is not None and way.moved:
            end = self._end(data, way.source, to, now)
            self._there[data.name, to] = end
            self._busy[_pair(way.source, to)] = end
        return way

    def _end(self, data: Dataset, source: str, to: str, now: int) -> int:
        link = self._sites.between(source, to)
        # A copy that is itself on its way is passed on once it has come.
        begin = max(now, self._there[data.name, source], self._busy.get(_pair(source, to), 0))
        # Nobody has a copy begun in a cluster that is not reached.
        begin = self.reached(source, begin)
        seconds = link.latency + (0.0 if link.bits is None else data.size * 8 / link.bits)
        return begin + ceil(seconds)


def _pair(one: str, other: str) -> tuple[str, str]:
    return (one, other) if one < other else (other, one)
