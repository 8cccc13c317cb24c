"""What became of each job over several clusters: where it was sent, on which way, and what came of it there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kailab.replay.clusters.declared import DataSet, Sites
from kailab.replay.job import TraceJob
from kailab.replay.replaying import Replayed, job_name
from kailab.replay.work import Work


@dataclass(kw_only=True)
class Journey:
    """What became of a job. ``arrived``: at the dispatcher. ``at``: the name of its cluster, empty while it stays with the dispatcher. ``work``: there, None on its
    way. ``sent``: how often; ``taken_back``: how often after it had waited somewhere, of so many
    ``looks`` at it there. ``moved_to``, ``cost``: bytes moved for it to each cluster, and their price. ``way``: seconds on the last way. ``expected``: seconds from the last
    sending until it begins, as the policy was told; None where it did not ask. ``left``: when it was sent last."""

    number: int
    job: TraceJob
    home: str
    data: DataSet | None
    arrived: int
    at: str = ""
    work: Work | None = None
    sent: int = 0
    taken_back: int = 0
    looks: int = 0
    moved_to: dict[str, int] = field(default_factory=dict)
    cost: float = 0.0
    way: int = 0
    left: int = 0
    expected: float | None = None
    latency: float = 0.0

    @property
    def moved(self) -> int:
        return sum(self.moved_to.values())

    @property
    def name(self) -> str:
        """In the lab: another for each cluster that it was sent to, so that none meets its own traces."""
        name = job_name(self.number)
        return name if self.sent <= 1 else f"{name}-{self.sent}"


@dataclass(frozen=True, kw_only=True)
class Dispatched:
    """What came of it. ``journeys``: of all jobs that arrived, in that order. ``clusters``: name -> what came of its part. ``cut``: when it would have
    been cut off; who would have arrived then has not."""

    sites: Sites
    journeys: Sequence[Journey]
    clusters: dict[str, Replayed]
    began: int
    ended: int
    cut: int
