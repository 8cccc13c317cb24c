"""The work of an elastic job: its pods share it, and it goes on as fast as the pods that run allow.

While at least its ``least`` pods run, the work that is done stays done, because the other pods have the state of one that
goes; only the cost of a restart comes with each change of the pods. When fewer run, the job starts again from its last
save.

Source: Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning", OSDI 2021, and Peng et
al., "Optimus", EuroSys 2018, for a throughput that depends on the number of workers.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from kailab.replay.job import WHOLE, JobProgress


class Stint(NamedTuple):
    """What ``pods`` pods did together: seconds of the job's work, and seconds for which they worked."""

    ran: int
    running: int
    pods: int


NONE = Stint(0, 0, 0)


class ElasticWork:
    """The work of one job of ``seconds``.

    ``done``: seconds of work that count, up to the last change of the pods. ``saved``: seconds of work that need not be
    repeated when too few pods are left. ``together``: uids of the pods that work since ``since``, at ``speed``
    thousandths of a second of the job's work in a second. ``regrouped``: other pods worked before them. ``ended``: when these ended.
    """

    __slots__ = ("done", "ended", "regrouped", "saved", "seconds", "since", "speed", "together")

    def __init__(self, seconds: int) -> None:
        self.seconds = seconds
        self.done = 0
        self.saved = 0
        self.together: frozenset[str] = frozenset()
        self.since = 0
        self.ended = 0
        self.speed = WHOLE
        self.regrouped = False

    @property
    def remaining_seconds(self) -> int:
        """Seconds of work after the last change of the pods."""
        return self.seconds - self.done

    def begin(self, uids: Collection[str], now: int, speed: int) -> None:
        """Let these pods work together from ``now`` on."""
        self.together, self.since, self.speed = frozenset(uids), now, speed

    def stint(self, now: int, progress: JobProgress, *, endless: bool) -> Stint:
        """What the pods have done together by ``now``, never more than what is left."""
        if not self.together:
            return NONE
        elapsed = now - self.since
        ran = progress.work(elapsed, self.done, restarted=self.regrouped, speed=self.speed)
        running = progress.running(elapsed, self.done, restarted=self.regrouped, speed=self.speed)
        if not endless:
            ran, running = (
                min(ran, self.remaining_seconds),
                min(running, -(-self.remaining_seconds * WHOLE // self.speed)),
            )
        return Stint(ran, running, len(self.together))

    def end(self, now: int, progress: JobProgress, *, endless: bool) -> Stint:
        """End the pods' work together at ``now``."""
        stint = self.stint(now, progress, endless=endless)
        if self.together:
            saved = progress.saved(now - self.since, self.done, restarted=self.regrouped, speed=self.speed)
            if saved > self.done:
                self.saved = min(saved, self.done + stint.ran)
            self.done += stint.ran
            self.together, self.regrouped, self.ended = frozenset(), True, now
        return stint

    def lose(self) -> int:
        """Go back to the last save. Returns the seconds of work that are lost."""
        lost, self.done = self.done - self.saved, self.saved
        return lost

    def until_end(self, progress: JobProgress) -> int:
        """Seconds from ``since`` until all work is done."""
        return progress.duration(self.remaining_seconds, self.done, restarted=self.regrouped, speed=self.speed)
