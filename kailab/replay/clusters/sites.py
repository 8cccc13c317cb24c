"""Clusters, the links between them and the location of datasets, as a file of clusters declares them."""

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
"""Seconds after which the policy is asked again for jobs that wait with the dispatcher."""


@dataclass(frozen=True, kw_only=True)
class NetworkLink:
    """``latency``: seconds. ``bits``: per second, None if unlimited. ``per_gigabyte``: price of 10**9 bytes."""

    latency: float = 0.0
    bits: float | None = None
    per_gigabyte: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """``size``: bytes. ``at``: clusters that have it from the beginning. ``teams``: teams whose jobs need it if the
    trace names no dataset."""

    name: str
    size: int
    at: tuple[str, ...]
    teams: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class ClusterOutage:
    """The dispatcher cannot reach the cluster from ``begin`` to ``end`` (seconds after the first arrival); work inside
    continues."""

    cluster: str
    begin: int
    end: int


@dataclass(frozen=True, kw_only=True)
class DispatchSettings:
    """``policy``: the dispatch policy. ``retry``: see ``RETRY``.

    ``again``: seconds of waiting in a cluster after which the policy is asked again and the job may be withdrawn; None:
    never. ``most``: how often the policy is asked about one job in one cluster, at most.
    """

    policy: PolicyChoice
    retry: int = RETRY
    again: int | None = None
    most: int = 10


@dataclass(frozen=True, kw_only=True)
class ClusterSite:
    """One cluster.

    ``plan``: its lab's plan. ``limit``: maximum GPUs that the dispatcher's jobs there may request at once; None:
    unlimited. ``pay``: ``all``: for all of its GPUs all the time; ``held``: only for GPUs in use.
    """

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
    """All clusters and the trace that is replayed over them.

    ``homes``: maps each team to its home cluster. ``links``: by the names of two clusters; ``link``: between all
    others.
    """

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
    """True if a policy of one of the clusters takes a seed."""
    warnings: Sequence[str] = ()
    """About teams of the file that have no job in the trace, and about jobs with several attempts."""

    def between(self, first: str, second: str) -> NetworkLink:
        """The link between two clusters; within a cluster it takes no time."""
        if first == second:
            return NetworkLink()
        return self.links.get((first, second)) or self.links.get((second, first)) or self.link

    def observed(self, observers: Sequence[Observer]) -> ClusterSites:
        """A copy with one observer for each cluster's lab, in order."""
        pairs = zip(self.sites, observers, strict=True)
        return replace(
            self, sites=[replace(site, plan=replace(site.plan, observers=(observer,))) for site, observer in pairs]
        )

    def reached_from(self, name: str, at: int) -> int:
        """When the cluster can next be reached, in seconds after the first arrival: ``at``, or the end of an outage."""
        for outage in sorted(self.outages, key=lambda outage: outage.begin):
            if outage.cluster == name and outage.begin <= at < outage.end:
                at = outage.end
        return at

    def dataset_of(self, job: TraceJob) -> Dataset | None:
        if job.dataset:
            return self.datasets[job.dataset]
        return next((dataset for dataset in self.datasets.values() if job.team in dataset.teams), None)


def dispatch_policy(choice: PolicyChoice) -> Dispatch:
    """Load a dispatch policy with its parameters. Raises InputError, ExtensionError, PolicyError."""
    if not issubclass(policy_class(choice.name), Dispatch):
        raise InputError(f"policy {choice.name!r} is not a dispatch policy; expected one such as spill-over")
    return make_policy(choice, Dispatch)


def resolve_path(path: Any, base: Path) -> Path:
    """Resolve a path in a file that lies in ``base``."""
    return base / Path(str(path)).expanduser()


GIGABYTE = 10**9


class Transfer(NamedTuple):
    """The transfer of a job to a cluster.

    ``seconds``: until the job and its data are there, rounded up. ``moved``: bytes moved for it from ``source``, at
    ``cost``.
    """

    seconds: int
    moved: int = 0
    cost: float = 0.0
    source: str = ""


class TransferPlanner:
    """Plans transfers and tracks which cluster has which dataset from when on.

    A transfer takes the latency between home and target, and the time to move missing data. A link moves one dataset at
    a time. Data stay where they were moved: the next job that needs them uses that copy, or waits for the same
    transfer.
    """

    def __init__(self, sites: ClusterSites, began: int) -> None:
        """``began``: when the first job arrived."""
        self._sites = sites
        self._began = began
        self._there: dict[tuple[str, str], int] = {
            (data.name, name): 0 for data in sites.datasets.values() for name in data.at
        }
        self._busy: dict[tuple[str, str], int] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the sites; they are supplied again on resume."""
        return {**self.__dict__, "_sites": None}

    def restore(self, sites: ClusterSites) -> None:
        """Supply the sites again after a resume."""
        self._sites = sites

    def reached(self, name: str, at: int) -> int:
        """When a cluster can be reached from ``at`` on."""
        return self._began + self._sites.reached_from(name, at - self._began)

    def plan(self, data: Dataset | None, home: str, to: str, now: int) -> Transfer:
        """The transfer if it began now."""
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
        """Begin the transfer."""
        transfer = self.plan(data, home, to, now)
        if data is not None and transfer.moved:
            end = self._end(data, transfer.source, to, now)
            self._there[data.name, to] = end
            self._busy[_pair(transfer.source, to)] = end
        return transfer

    def _end(self, data: Dataset, source: str, to: str, now: int) -> int:
        link = self._sites.between(source, to)
        # A copy that is still in transfer can be moved on only after it has arrived.
        start = max(now, self._there[data.name, source], self._busy.get(_pair(source, to), 0))
        # No transfer can start from a cluster during its outage.
        start = self.reached(source, start)
        seconds = link.latency + (0.0 if link.bits is None else data.size * 8 / link.bits)
        return start + ceil(seconds)


def _pair(first: str, second: str) -> tuple[str, str]:
    return (first, second) if first < second else (second, first)
