"""What a dispatch policy sees: a job to be sent to a cluster, and each cluster that could take it, at one moment."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from math import inf

import msgspec


class DispatchJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job to be sent. ``gpus``: in all; less than 1 is a share. ``seconds``: its declared run time. ``models``: GPU
    models that it may run on; empty: any. ``home``: its team's cluster. ``at``: the cluster where it waits and from
    which it may be withdrawn; empty for a new job. ``arrived``, ``now``: seconds on one clock. ``sent``: how often it
    was sent before. ``dataset``: empty without one. ``team_holds``: GPUs over all clusters that the team's jobs hold or
    were sent for. ``team_quota``: the team's quota over all clusters, -1 for unlimited.
    """

    name: str
    team: str
    priority: str
    gpus: float
    seconds: int
    models: tuple[str, ...]
    home: str
    at: str
    arrived: int
    now: int
    sent: int
    dataset: str
    team_holds: float
    team_quota: float


class ClusterView:
    """One cluster as one job sees it.

    ``home``: it is the job's home cluster. ``gpus``, ``free``: GPUs of models that the job may run on. ``waiting``:
    GPUs requested by earlier jobs, waiting there or on their way, except those whose queue does not let them start now.
    ``allowed``: its own queue lets the job start now. ``price``: per GPU and hour, None if unknown. ``latency``:
    seconds between the job's home and this cluster. ``move_bytes``: bytes of its data that are not there;
    ``move_cost``: the cost of moving them. ``way``: seconds until the job and its data would be there.
    """

    def __init__(
        self,
        name: str,
        *,
        home: bool,
        gpus: float,
        free: float,
        waiting: float,
        price: float | None,
        latency: float,
        move_bytes: int,
        move_cost: float,
        way: int,
        room_in: Callable[[], float],
        allowed: bool = True,
    ) -> None:
        """``room_in``: returns the estimated seconds until the job has room; called at most once."""
        self.name = name
        self.home = home
        self.gpus = gpus
        self.free = free
        self.waiting = waiting
        self.price = price
        self.latency = latency
        self.move_bytes = move_bytes
        self.move_cost = move_cost
        self.way = way
        self.allowed = allowed
        self._room_in = room_in

    @cached_property
    def wait(self) -> float:
        """Seconds until the job would start here, including transfer. An estimate from declared run times: jobs start
        in order of arrival, and GPUs are one pool in which each queue has its limit. Infinite if it never starts.
        """
        return max(float(self.way), self._room_in())

    @property
    def asked(self) -> bool:
        """True if the policy has read ``wait``."""
        return "wait" in self.__dict__

    def cost(self, job: DispatchJob) -> float:
        """The cost of the job here, with its data. Infinite without a price."""
        return inf if self.price is None else self.price * job.gpus * job.seconds / 3600 + self.move_cost
