"""Dispatch policies: the cluster to which a job is sent. Ties go by the order of the file of clusters."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Annotated

from msgspec import Meta

from kailab.engine.policies.contract import Dispatch
from kailab.engine.policies.dispatching import ClusterView, DispatchJob

Seconds = Annotated[float, Meta(ge=0)]

_NO_QUOTA = 0.001
"""GPUs that count as the quota of a team without one, so that it comes before others only while it holds nothing."""


class StayHome(Dispatch, frozen=True):
    """Each team's jobs stay in its own cluster, as without a dispatcher. A job that its home cannot take goes as with
    ``ShortestWait``.
    """

    def choose(self, job: DispatchJob, clusters: Sequence[ClusterView]) -> str | None:
        home = next((cluster for cluster in clusters if cluster.home), None)
        return (home or _soonest(clusters)).name


class LeastCost(Dispatch, frozen=True):
    """The cheapest cluster, data transfer included, among those where the job starts within ``within`` seconds; among
    all if there is none.

    Source: Yang et al., "SkyPilot: An Intercloud Broker for Sky Computing", NSDI 2023 (its optimizer, by cost, with
    egress).
    """

    within: Seconds = inf

    def choose(self, job: DispatchJob, clusters: Sequence[ClusterView]) -> str | None:
        soon = clusters
        if self.within < inf:
            soon = [cluster for cluster in clusters if cluster.wait <= self.within] or clusters
        return min(soon, key=lambda cluster: cluster.cost(job)).name


class LeastLatency(Dispatch, frozen=True):
    """The nearest cluster to the job's home that has room now; else the nearest where it starts within ``within``
    seconds; else where it starts first.

    Source: the documents' article on multi-cluster scheduling names latency without a rule; anycast picks the
    nearest that can serve.
    """

    within: Seconds = 0.0

    def choose(self, job: DispatchJob, clusters: Sequence[ClusterView]) -> str | None:
        usable = [cluster for cluster in clusters if _has_room(job, cluster)] or [
            cluster for cluster in clusters if cluster.wait <= self.within
        ]
        return min(usable, key=lambda cluster: cluster.latency).name if usable else _soonest(clusters).name


class MostFree(Dispatch, frozen=True):
    """The cluster with the most free GPUs after its waiting jobs are served.

    Source: Karmada's division of replicas by what is available (replicaDivisionPreference, availableReplicas).
    """

    def choose(self, job: DispatchJob, clusters: Sequence[ClusterView]) -> str | None:
        return max(clusters, key=lambda cluster: cluster.free - cluster.waiting).name


class ShortestWait(Dispatch, frozen=True):
    """The cluster where the job is estimated to start first, data transfer included.

    Source: Sabin et al., "Scheduling of Parallel Jobs in a Heterogeneous Multi-Site Environment", JSSPP 2003 (the
    greedy metascheduler).
    """

    def choose(self, job: DispatchJob, clusters: Sequence[ClusterView]) -> str | None:
        return _soonest(clusters).name


class DataGravity(Dispatch, frozen=True):
    """The cluster with the job's data, or to which the fewest bytes have to be moved; of several, the one where it
    starts first. A job that would wait there for more than ``patience`` seconds, or that has no data, goes where it
    starts first.

    Source: Ranganathan and Foster, "Decoupling Computation and Data Scheduling in Distributed Data-Intensive
    Applications", HPDC 2002 (JobDataPresent).
    """

    patience: Seconds = inf

    def choose(self, job: DispatchJob, clusters: Sequence[ClusterView]) -> str | None:
        least = min(cluster.move_bytes for cluster in clusters)
        nearest = _soonest([cluster for cluster in clusters if cluster.move_bytes == least])
        return nearest.name if nearest.wait <= self.patience else _soonest(clusters).name


class SpillOver(Dispatch, frozen=True):
    """The home cluster, unless the job would wait there for more than ``bound`` seconds and starts elsewhere more than
    ``gain`` seconds sooner. Of clusters with the same start the cheapest.

    Source: de Assuncao, di Costanzo and Buyya, "Evaluating the Cost-Benefit of Using Cloud Computing to Extend the
    Capacity of Clusters", HPDC 2009.
    """

    bound: Seconds = 600.0
    gain: Seconds = 0.0

    def choose(self, job: DispatchJob, clusters: Sequence[ClusterView]) -> str | None:
        home = next((cluster for cluster in clusters if cluster.home), None)
        if home is not None and home.wait <= self.bound:
            return home.name
        soonest = min(clusters, key=lambda cluster: (cluster.wait, cluster.cost(job)))
        return home.name if home is not None and soonest.wait + self.gain >= home.wait else soonest.name


class GlobalQueue(Dispatch, frozen=True):
    """One queue over all clusters: a job is sent once a cluster has room for it, its home first, then the cheapest.
    Among waiting jobs, the team that holds the smallest part of its quotas over all clusters is first.

    Source: the documents' article ("a global queue, routing jobs to the cluster with available capacity, and
    respecting fair-share quotas across the entire infrastructure"), like the central job pool of Hamscher et al.,
    "Evaluation of Job-Scheduling Strategies for Grid Computing", GRID 2000.
    """

    def choose(self, job: DispatchJob, clusters: Sequence[ClusterView]) -> str | None:
        with_room = [cluster for cluster in clusters if _has_room(job, cluster)]
        return min(with_room, key=lambda cluster: (not cluster.home, cluster.cost(job))).name if with_room else None

    def turn(self, job: DispatchJob) -> tuple[float, float]:
        if job.team_quota < 0:
            return 0.0, job.arrived
        return job.team_holds / max(job.team_quota, _NO_QUOTA), job.arrived


def _has_room(job: DispatchJob, cluster: ClusterView) -> bool:
    return cluster.allowed and (not job.gpus or cluster.free - cluster.waiting >= job.gpus)


def _soonest(clusters: Sequence[ClusterView]) -> ClusterView:
    return min(clusters, key=lambda cluster: cluster.wait)
