"""To which of several clusters a job is sent. Ties go by the order of the file of clusters."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Annotated

from msgspec import Meta

from kailab.engine.policies.contract import Dispatch
from kailab.engine.policies.dispatching import ClusterView, DispatchJob

Seconds = Annotated[float, Meta(ge=0)]

_NO_QUOTA = 0.001
"""GPUs that count as a team's quota where it has none: it comes before others only while it holds nothing."""


class StayHome(Dispatch, frozen=True):
    """Each team's jobs in its own cluster, as without a dispatcher. Where the home can't take a job, it goes as ``ShortestWait`` sends it."""

    def choose(self, job: DispatchJob, clusters: Sequence[ClusterView]) -> str | None:
        home = next((one for one in clusters if one.home), None)
        return (home or _soonest(clusters)).name


class LeastCost(Dispatch, frozen=True):
    """Where it costs least with the moving of its data, of the clusters where it would begin within ``within`` seconds; where none is such, of all.

    Source: Yang et al., "SkyPilot: An Intercloud Broker for Sky Computing", NSDI 2023 (its optimizer, by cost, with egress)."""

    within: Seconds = inf

    def choose(self, job: DispatchJob, clusters: Sequence[ClusterView]) -> str | None:
        soon = clusters
        if self.within < inf:
            soon = [one for one in clusters if one.wait <= self.within] or clusters
        return min(soon, key=lambda one: one.cost(job)).name


class LeastLatency(Dispatch, frozen=True):
    """The nearest to the job's home that has room for it now; where none has, the nearest at which it would begin within ``within`` seconds; where none is such,
    where it begins first.

    Source: the documents' article on multi-cluster scheduling names latency and gives no rule; the nearest that can serve is what anycast does."""

    within: Seconds = 0.0

    def choose(self, job: DispatchJob, clusters: Sequence[ClusterView]) -> str | None:
        there = [one for one in clusters if _room(job, one)] or [one for one in clusters if one.wait <= self.within]
        return min(there, key=lambda one: one.latency).name if there else _soonest(clusters).name


class MostFree(Dispatch, frozen=True):
    """The cluster that has the most free GPUs once those who wait there have theirs.

    Source: Karmada's division of replicas by what is available (replicaDivisionPreference, availableReplicas)."""

    def choose(self, job: DispatchJob, clusters: Sequence[ClusterView]) -> str | None:
        return max(clusters, key=lambda one: one.free - one.waiting).name


class ShortestWait(Dispatch, frozen=True):
    """Where it would begin first, by the estimate, with the way of its data.

    Source: Sabin et al., "Scheduling of Parallel Jobs in a Heterogeneous Multi-Site Environment", JSSPP 2003 (the greedy metascheduler)."""

    def choose(self, job: DispatchJob, clusters: Sequence[ClusterView]) -> str | None:
        return _soonest(clusters).name


class DataGravity(Dispatch, frozen=True):
    """Where its data are, or the fewest bytes have to be moved to; of several the one where it begins first. ``patience``: where it would wait longer than so
    many seconds it goes where it begins first, and the data after it. A job without data goes where it begins first.

    Source: Ranganathan and Foster, "Decoupling Computation and Data Scheduling in Distributed Data-Intensive Applications", HPDC 2002 (JobDataPresent)."""

    patience: Seconds = inf

    def choose(self, job: DispatchJob, clusters: Sequence[ClusterView]) -> str | None:
        least = min(one.move_bytes for one in clusters)
        found = _soonest([one for one in clusters if one.move_bytes == least])
        return found.name if found.wait <= self.patience else _soonest(clusters).name


class SpillOver(Dispatch, frozen=True):
    """At home, unless the job would wait there for longer than ``bound`` seconds: then where it begins first, if that is sooner by more than ``gain`` seconds. Of
    several that begin it equally soon the cheapest.

    Source: de Assuncao, di Costanzo and Buyya, "Evaluating the Cost-Benefit of Using Cloud Computing to Extend the Capacity of Clusters", HPDC 2009."""

    bound: Seconds = 600.0
    gain: Seconds = 0.0

    def choose(self, job: DispatchJob, clusters: Sequence[ClusterView]) -> str | None:
        home = next((one for one in clusters if one.home), None)
        if home is not None and home.wait <= self.bound:
            return home.name
        found = min(clusters, key=lambda one: (one.wait, one.cost(job)))
        return home.name if home is not None and found.wait + self.gain >= home.wait else found.name


class GlobalQueue(Dispatch, frozen=True):
    """One queue over all clusters: a job is sent once a cluster has room for it now, its home first, then the cheapest. Of those that wait the team is first that
    holds the least of its quotas over all clusters.

    Source: the documents' article ("a global queue, routing jobs to the cluster with available capacity, and respecting fair-share quotas across the entire
    infrastructure"); as the central job pool of Hamscher et al., "Evaluation of Job-Scheduling Strategies for Grid Computing", GRID 2000."""

    def choose(self, job: DispatchJob, clusters: Sequence[ClusterView]) -> str | None:
        there = [one for one in clusters if _room(job, one)]
        return min(there, key=lambda one: (not one.home, one.cost(job))).name if there else None

    def turn(self, job: DispatchJob) -> tuple[float, float]:
        if job.team_quota < 0:
            return 0.0, job.arrived
        return job.team_holds / max(job.team_quota, _NO_QUOTA), job.arrived


def _room(job: DispatchJob, one: ClusterView) -> bool:
    return one.allowed and (not job.gpus or one.free - one.waiting >= job.gpus)


def _soonest(clusters: Sequence[ClusterView]) -> ClusterView:
    return min(clusters, key=lambda one: one.wait)
