"""For whom a place is kept free among those that find none."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from kailab.engine.policies.contract import Reservation
from kailab.engine.policies.views import JobView
from kailab.engine.snapshot.records import GPU


class Backfill(Reservation, frozen=True):
    """EASY backfilling: the first jobs that find no room, ``most`` of them, each get the earliest place there is for them; whoever comes behind starts only
    where no such place comes later by it. One is EASY; many are near to conservative backfilling. ``unknown``: how long a job is taken to run that does not
    tell, in seconds; left out, it is never counted upon to end.

    Source: Lifka, "The ANL/IBM SP Scheduling System", JSSPP 1995; Mu'alem and Feitelson, "Utilization, Predictability, Workloads, and User Runtime Estimates
    in Scheduling the IBM SP2 with Backfilling", IEEE TPDS 12(6), 2001."""

    most: Annotated[int, Meta(ge=1)] = 1
    unknown: Annotated[float, Meta(ge=0)] | None = None

    def reserves(self, job: JobView, kept: int) -> bool:
        return kept < self.most

    def expects(self, job: JobView) -> float | None:
        told = Reservation.expects(self, job)
        return self.unknown if told is None else told


class KeepForLarge(Backfill, frozen=True):
    """The same for large jobs alone, wherever they stand in the order: those that want ``gpus`` or more at once, and have waited for ``after`` seconds. All
    others start wherever they fit."""

    gpus: Annotated[float, Meta(gt=0)] = 8
    after: Annotated[float, Meta(ge=0)] = 0

    def reserves(self, job: JobView, kept: int) -> bool:
        waited = 0.0 if job.waiting_since is None else job.now - job.waiting_since
        return kept < self.most and job.wants.gpu >= self.gpus * GPU and waited >= self.after
