"""What a dispatch policy is shown: a job that is to be sent to a cluster, and each cluster that could take it, at one moment."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from math import inf

import msgspec


class DispatchJob(msgspec.Struct, frozen=True, kw_only=True):
    """``gpus``: in all; less than 1 is a share of one. ``seconds``: how long it runs, as it tells. ``models``: of GPUs that it may run on, any where
    empty. ``home``: the cluster of its team. ``at``: where it waits already and may be taken from, empty where it is new. ``arrived``, ``now``:
    seconds on one clock. ``sent``: how often it was sent somewhere before. ``dataset``: empty without one. ``team_holds``: GPUs over all clusters that
    its jobs hold or were sent for; ``team_quota``: promised there, -1 without bound."""

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
    """One cluster, as it stands to one job. ``home``: it is the job's. ``gpus``, ``free``: of the models that the job may run on. ``waiting``: GPUs that jobs
    before it ask for, there or on their way; without those whose queue does not let them begin now. ``allowed``: its own queue lets it begin now. ``price``: of a GPU for an hour, None where nothing tells it. ``latency``: seconds between the job's home and it.
    ``move_bytes``: of its data that are not there; ``move_cost``: what that costs. ``way``: seconds until the job and its data would be there."""

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
        """``seconds_until_room``: seconds until there is room for it, as far as that can be told; asked at most once."""
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
        """Seconds until the job would begin here: on its way, and until there is room. An estimate, by the run times that jobs tell, as if jobs began in the
        order in which they came and GPUs were one heap, of which each queue has its limit. Infinite where that is never."""
        return max(float(self.way), self._room_in())

    @property
    def asked(self) -> bool:
        """Whether the policy has looked at ``wait``."""
        return "wait" in self.__dict__

    def cost(self, job: DispatchJob) -> float:
        """What the job would cost here with its data. A cluster without a price costs more than all others."""
        return inf if self.price is None else self.price * job.gpus * job.seconds / 3600 + self.move_cost
