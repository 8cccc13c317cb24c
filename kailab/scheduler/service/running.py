"""The scheduler's loop on a live cluster: controllers, a cycle when one is due, sleep until there is news.

Who loses the lease becomes a standby instead of ending, as others do that can't stop what their threads have begun: here one
thread decides and writes, every write asks for the lease first, and a process that keeps its watches takes over in the time
that the election takes, not in the time that all lists take. What it knew as leader it forgets, and learns anew from the
cluster when its turn comes.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from kailab.cluster.protocol import Cluster, Watch
from kailab.engine.config import EngineConfig
from kailab.errors import ApiError, KailabError
from kailab.grouping import GroupingConfig, PodGrouper
from kailab.model.labels import SCHEDULER_NAME
from kailab.scheduler.binding.claim_allocation import ClaimAllocator
from kailab.scheduler.binding.preparing import Preparation
from kailab.scheduler.binding.reservation import Reservations
from kailab.scheduler.cycle_record import CycleRecord
from kailab.scheduler.loop import Scheduler
from kailab.scheduler.mirror import KINDS
from kailab.scheduler.reading.podgroups import DEFAULT_NODE_POOL
from kailab.scheduler.service.backoff import Backoff
from kailab.scheduler.service.election import Alone, Leadership, steady
from kailab.scheduler.service.guard import GuardedCluster
from kailab.scheduler.service.health import Standing
from kailab.scheduler.service.metrics import Metrics
from kailab.scheduler.status.queue_status import QueueStatus
from kailab.scheduler.usage import UsageParams

BATCH_SECONDS = 0.05
"""Between turns: what comes in a burst is handled together."""

SLICE_SECONDS = 0.5
"""The longest sleep: a stop or a lost lease is noticed by then."""

BINDING_SECONDS = 1.0
"""So long after the last bind more of them are to be expected."""

log = logging.getLogger("kailab.scheduler")


class Part(Protocol):
    """A controller."""

    def step(self) -> bool: ...

    def close(self) -> None: ...


class Follower(Protocol):
    """Told of the cycles while this process leads. ``follows_records``: also what each was decided on."""

    @property
    def follows_records(self) -> bool: ...

    def cycle(self, record: CycleRecord, scheduler: Scheduler) -> None: ...

    def turn(self) -> None:
        """Called often: a chance to write down what has gathered."""

    def close(self) -> None: ...


@dataclass(frozen=True)
class Settings:
    """What runs. ``period``: at least so many seconds from one cycle's begin to the next."""

    config: EngineConfig = field(default_factory=EngineConfig)
    usage: UsageParams = field(default_factory=UsageParams)
    scheduler_names: Sequence[str] = (SCHEDULER_NAME,)
    node_pool: str = DEFAULT_NODE_POOL
    grouping: bool = True
    queue_status: bool = True
    reservations: bool = True
    claims: bool = True
    period: float = 0.1
    identity: str = ""
    lease: str = ""


class Service:
    """One candidate over one cluster. ``run`` until ``stop``; or ``turn`` by ``turn`` where somebody else keeps time.

    ``followers`` makes, at the begin of each term, who is told of its cycles. ``clock``: seconds that never step; ``rest`` sleeps.
    """

    def __init__(
        self,
        cluster: Cluster,
        settings: Settings | None = None,
        leadership: Leadership | None = None,
        *,
        metrics: Metrics | None = None,
        standing: Standing | None = None,
        followers: Callable[[Cluster], Iterable[Follower]] = lambda cluster: (),
        clock: Callable[[], float] = steady,
        rest: Callable[[float], None] = time.sleep,
    ) -> None:
        self.settings = settings or Settings()
        self.leadership = leadership or Alone()
        self.metrics = metrics or Metrics()
        self.standing = standing or Standing(clock)
        self.cluster = GuardedCluster(cluster, lambda: self.leadership.leading)
        self.scheduler: Scheduler | None = None
        self._followers_of = followers
        self._followers: list[Follower] = []
        self._controllers: list[Part] = []
        self._clock = clock
        self._rest = rest
        self._term = 0
        self._warm: Watch | None = None
        self._ending = False
        self._backoff = Backoff(0.5, 30.0)
        self._retry = Backoff(0.2, 10.0)
        self._next_cycle = 0.0
        self._bound_at = float("-inf")
        self._phase = ""
        self._phase_at = 0.0
        self._phases: dict[str, float] = {}
        self._complained = ""
        self.metrics.watches(self.cluster)

    # --- life --------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Until ``stop``."""
        while not self._ending:
            pause = self.turn()
            # A burst is let gather; then whatever is next: news, a time that was waited for, or a look around.
            self._rest(BATCH_SECONDS)
            if pause > BATCH_SECONDS and not self._ending:
                self.cluster.wait(min(pause - BATCH_SECONDS, SLICE_SECONDS))
        self.close()

    def stop(self) -> None:
        """Let ``run`` end after the turn it is in. Only sets a flag, so that a signal handler may call it: a lock could be
        held by the very thread that it interrupts."""
        self._ending = True

    def close(self) -> None:
        """Put down what is held; nothing is written any more but what the followers keep."""
        self._put_down()
        if self._warm is not None:
            self._warm.close()
            self._warm = None

    # --- a turn ------------------------------------------------------------------------------------------------------

    def turn(self) -> float:
        """One turn of the loop. Seconds for which nothing is to be done unless there is news."""
        self.standing.turned()
        try:
            pause = self._lead() if self.leadership.leading else self._stand_by()
        except Exception as error:
            return self._trouble(error)
        self.standing.trouble = ""
        self._backoff.reset()
        return pause

    def _trouble(self, error: Exception) -> float:
        """Whatever it was, the cluster is what is true: forget all, and begin anew after a while."""
        self.metrics.failed(error)
        self._put_down()
        pause = self._backoff.next()
        self.standing.trouble = str(error) or type(error).__name__
        said = f"{self.standing.trouble}; beginning anew in {pause:.1f} s"
        if isinstance(error, ApiError):
            log.warning("%s", said)
        else:
            log.error("%s", said, exc_info=error)
        end = self._clock() + pause
        while not self._ending and (left := end - self._clock()) > 0:
            self.standing.turned()
            self._rest(min(left, SLICE_SECONDS))
        return 0.0

    def _stand_by(self) -> float:
        """Keep in sync with the cluster, and wait."""
        if self.scheduler is not None:
            log.warning("the lease is lost: nothing is written any more; standing by")
            self._put_down()
        if self._warm is None:
            self._warm = self.cluster.watch(KINDS)
            self.standing.synced = True
        self._warm.poll()
        holder = self.leadership.holder
        others = holder and holder != self.settings.identity
        role = f"standing by; {holder} leads" if others else "standing by; nobody leads"
        self._becomes(role, False)
        return SLICE_SECONDS

    def _becomes(self, role: str, leading: bool) -> None:
        self.metrics.stands(self.settings.lease, leading)
        if self.standing.role != role:
            log.info("%s", role)
            self.standing.role = role

    def _lead(self) -> float:
        if self.scheduler is not None and self._term != self.leadership.term:
            self._put_down()  # the lease was lost and won again while a cycle ran
        if self.scheduler is None:
            self._take_up()
        scheduler = self.scheduler
        assert scheduler is not None
        wrote = False
        for controller in self._controllers:
            wrote |= controller.step()
        cycles = scheduler.cycles
        now = self._clock()
        due_now = now >= self._next_cycle
        if due_now:
            wrote |= self._cycle(scheduler, now)
        for follower in self._followers:
            self._followed(follower.turn)
        if wrote or scheduler.cycles != cycles:
            self.metrics.queues.objects(self.cluster.list("Queue"))
        if wrote:
            return 0.0
        if due_now:
            self.metrics.idled()
        left = max(0.0, self._next_cycle - self._clock())
        wake_at = scheduler.wake_at
        due = SLICE_SECONDS if wake_at is None else max(0.0, wake_at - self.cluster.now())
        return max(left, due)

    # --- cycles ------------------------------------------------------------------------------------------------------

    def _cycle(self, scheduler: Scheduler, now: float) -> bool:
        before = scheduler.cycles
        self._phase, self._phase_at, self._phases = "update", now, {}
        wrote = scheduler.step()
        if scheduler.cycles == before:
            return wrote
        self._on_phase("")
        end = self._phase_at
        self.metrics.phases(self._phases, end - now, self.settings.config.actions)
        record = scheduler.history.latest
        assert record is not None
        if record.failures:
            for failure in record.failures[:3]:
                log.warning("%s", failure.message)
            if len(record.failures) > 3:
                log.warning("... and %d more that were not carried out", len(record.failures) - 3)
        pause = 0.0
        if scheduler.unreachable:
            pause = self._retry.next()
        else:
            self._retry.reset()
        # Long cycles leave the cluster and the other threads as much time as they took, up to a second.
        self._next_cycle = max(now + self.settings.period, end + max(pause, min(end - now, 1.0)))
        decisions = record.decisions
        if decisions.binds:
            self._bound_at = end
        if decisions.binds or decisions.evictions:
            log.info(
                "cycle %d: %d bound, %d evicted, %d promised, %d groups wait, %.3f s",
                record.number,
                len(decisions.binds),
                len(decisions.evictions),
                len(decisions.pipelines),
                len(decisions.pending),
                end - now,
            )
        return wrote

    def _cycles_run(self) -> int:
        return self.scheduler.cycles if self.scheduler is not None else 0

    def _binding(self) -> bool:
        """Whether pods are being bound, one cycle after the other: what nobody waits for is written afterwards."""
        return self._clock() - self._bound_at < BINDING_SECONDS

    def _on_phase(self, name: str) -> None:
        now = self._clock()
        self._phases[self._phase] = self._phases.get(self._phase, 0.0) + now - self._phase_at
        self._phase, self._phase_at = name, now

    def _on_cycle(self, record: CycleRecord) -> None:
        assert self.scheduler is not None
        self.metrics.cycle(record, self.scheduler, self.settings.node_pool)
        for follower in self._followers:
            self._followed(partial(follower.cycle, record, self.scheduler))

    def _followed(self, telling: Callable[[], None]) -> None:
        """Who only looks on must not hold up the scheduler."""
        try:
            telling()
        except KailabError as error:
            if self._complained != str(error):
                self._complained = str(error)
                log.warning("%s", error)

    # --- terms -------------------------------------------------------------------------------------------------------

    def _take_up(self) -> None:
        settings = self.settings
        self._term = self.leadership.term
        names = tuple(settings.scheduler_names)
        try:
            if settings.grouping:
                grouping = GroupingConfig(scheduler_names=names)
                self._controllers.append(PodGrouper(self.cluster, grouping, self._cycles_run))
            if settings.queue_status:
                self._controllers.append(QueueStatus(self.cluster, self._binding))
            preparations: list[Preparation] = []
            if settings.claims:
                preparations.append(ClaimAllocator(self.cluster))
            if settings.reservations:
                preparations.append(Reservations(self.cluster))
            self._controllers.extend(preparations)
            self.scheduler = Scheduler(
                self.cluster,
                settings.config,
                self._on_cycle,
                usage=settings.usage,
                on_phase=self._on_phase,
                scheduler_names=names,
                node_pool=settings.node_pool,
                preparations=preparations,
                sparing=True,
            )
            self.metrics.queues.objects(self.cluster.list("Queue"))
            self._followers.extend(self._followers_of(self.cluster))
            if any(follower.follows_records for follower in self._followers):
                self.scheduler.follow_records()
        except BaseException:
            self._put_down()
            raise
        if self._warm is not None:
            self._warm.close()
            self._warm = None
        self.standing.synced = True
        self._next_cycle = 0.0
        self.metrics.began_to_lead()
        self._becomes(f"leading as {settings.identity}" if settings.identity else "leading", True)

    def _put_down(self) -> None:
        for follower in self._followers:
            self._followed(follower.close)
        parts: list[Part] = list(self._controllers)
        self._followers, self._controllers = [], []
        scheduler, self.scheduler = self.scheduler, None
        self.metrics.leads_no_more()
        for part in parts:
            part.close()
        if scheduler is not None:
            scheduler.close()
