"""Clusters, the links between them and where data lie, as a file declares them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kailab.engine.policies.contract import Dispatch, make_policy
from kailab.engine.policies.settings import PolicyChoice
from kailab.errors import InputError
from kailab.model.prices import Prices
from kailab.replay.job import TraceJob
from kailab.replay.plan import Plan
from kailab.replay.queues import Queues
from kailab.replay.trace import Trace
from kailab.scheduler.observers import Observer
from kailab.scheduler.settings.policies import policy_class

ALL, HELD = "all", "held"
RETRY = 60
"""Seconds after which jobs that stay with the dispatcher are asked for again, at the latest."""


@dataclass(frozen=True, kw_only=True)
class Link:
    """``latency``: seconds. ``bits``: per second, None without bound. ``per_gigabyte``: price of 10**9 bytes."""

    latency: float = 0.0
    bits: float | None = None
    per_gigabyte: float = 0.0


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """``size``: bytes. ``at``: clusters that have it from the beginning. ``teams``: whose jobs need it, where the trace says nothing of one."""

    name: str
    size: int
    at: tuple[str, ...]
    teams: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Outage:
    """Nobody reaches a cluster from so many seconds after the first arrival, up to others; what is in it goes on."""

    cluster: str
    begin: int
    end: int


@dataclass(frozen=True, kw_only=True)
class Dispatching:
    """``policy``: who decides. ``retry``: see ``RETRY``. ``again``: seconds for which a job has waited in a cluster, after which it is asked for anew and may be taken
    back from there; None: it stays. ``most``: how often."""

    policy: PolicyChoice
    retry: int = RETRY
    again: int | None = None
    most: int = 10


@dataclass(frozen=True, kw_only=True)
class Site:
    """One cluster. ``plan``: what its lab is made of. ``limit``: GPUs that the dispatcher lets its jobs there ask for at once; None: as many as come.
    ``pay``: for ``all`` of its GPUs all the time, or for those that are ``held``, while they are."""

    name: str
    plan: Plan
    limit: int | None = None
    pay: str = ALL

    @property
    def queues(self) -> Queues:
        return self.plan.queues

    @property
    def prices(self) -> Prices | None:
        return self.plan.prices


@dataclass(frozen=True, kw_only=True)
class Sites:
    """All of them, with the trace that is replayed over them. ``homes``: team -> the name of its cluster. ``links``: by the two names, in the order of the file;
    ``link``: between all others."""

    file: str
    trace: Trace
    sites: Sequence[Site]
    homes: Mapping[str, str]
    dispatching: Dispatching
    links: Mapping[tuple[str, str], Link]
    link: Link
    datasets: Mapping[str, DataSet]
    outages: Sequence[Outage] = ()
    drawing: bool = False
    """Whether a seed is for a policy of one of them."""
    strangers: Sequence[str] = ()
    """What the file says of teams that have no job in the trace, in words."""

    def between(self, one: str, other: str) -> Link:
        """Within a cluster nothing takes time."""
        if one == other:
            return Link()
        return self.links.get((one, other)) or self.links.get((other, one)) or self.link

    def observed(self, observers: Sequence[Observer]) -> Sites:
        """With an observer for the lab of each cluster, in their order."""
        pairs = zip(self.sites, observers, strict=True)
        return replace(self, sites=[replace(one, plan=replace(one.plan, observers=(seen,))) for one, seen in pairs])

    def reached_from(self, name: str, at: int) -> int:
        """From when on a cluster is reached, seconds after the first arrival: ``at`` itself where it is reached then."""
        for one in sorted(self.outages, key=lambda one: one.begin):
            if one.cluster == name and one.begin <= at < one.end:
                at = one.end
        return at

    def dataset_of(self, job: TraceJob) -> DataSet | None:
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
