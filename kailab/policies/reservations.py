"""Reservation policies: for which of the jobs without room nodes are kept free."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from kailab.engine.policies.contract import Reservation
from kailab.engine.policies.views import JobView
from kailab.engine.snapshot.records import GPU


class Backfill(Reservation, frozen=True):
    """EASY backfilling: nodes are kept free for the first ``most`` jobs without room, from the earliest moment at which
    each fits. A job behind them starts only if it delays none of them. With ``most`` = 1 this is EASY; large values
    come close to conservative backfilling. ``unknown``: the assumed run time in seconds of jobs that declare none;
    None: they never end.

    Source: Lifka, "The ANL/IBM SP Scheduling System", JSSPP 1995; Mu'alem and Feitelson, "Utilization, Predictability,
    Workloads, and User Runtime Estimates in Scheduling the IBM SP2 with Backfilling", IEEE TPDS 12(6), 2001.
    """

    most: Annotated[int, Meta(ge=1)] = 1
    unknown: Annotated[float, Meta(ge=0)] | None = None

    lasting: ClassVar[bool] = True

    def reserves(self, job: JobView, kept: int) -> bool:
        return kept < self.most

    def at_most(self) -> int:
        return self.most

    def expects(self, job: JobView) -> float | None:
        seconds = Reservation.expects(self, job)
        return self.unknown if seconds is None else seconds


class KeepForLarge(Backfill, frozen=True):
    """Backfilling for large jobs only, wherever they are in the order: those that want at least ``gpus`` at once and
    have waited for ``after`` seconds. All other jobs start wherever they fit.
    """

    gpus: Annotated[float, Meta(gt=0)] = 8
    after: Annotated[float, Meta(ge=0)] = 0

    def reserves(self, job: JobView, kept: int) -> bool:
        waited = 0.0 if job.waiting_since is None else job.now - job.waiting_since
        return kept < self.most and job.wants.gpu >= self.gpus * GPU and waited >= self.after
