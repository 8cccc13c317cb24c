"""The loop of the scheduler process: cycles while it leads, a warm standby while it does not.

Each turn renews the view of the lease, steps the controllers, runs a cycle when one is due, and reports to metrics and observers. After
errors it pauses with exponential backoff and jitter.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kailab.cluster.protocol import Cluster, Watch
from kailab.cluster.retries import exponential_pause
from kailab.errors import ApiError, KailabError
from kailab.scheduler.composition import SchedulerAssembly, SchedulerComposition
from kailab.scheduler.loop import Scheduler
from kailab.scheduler.mirror import KINDS
from kailab.scheduler.observers import Observer, Observers
from kailab.scheduler.service.election import Leadership, NoElection, steady_seconds
from kailab.scheduler.service.guard import GuardedCluster
from kailab.scheduler.service.health import LoopHealth
from kailab.scheduler.service.metrics import SchedulerMetrics


class Backoff:
    """Pauses in seconds between tries. Call ``next`` after each failure and ``reset`` after a success."""

    def __init__(self, first: float, longest: float) -> None:
        self._first, self._longest = first, longest
        self.failures = 0
        """The number of failures in a row."""

    def next(self) -> float:
        self.failures += 1
        # The random part keeps several candidates from beginning anew in step.
        return exponential_pause(self.failures, self._first, self._longest) + random.uniform(0, self._first)

    def reset(self) -> None:
        self.failures = 0


class CycleTimer(Observer):
    """``clock``: seconds that never step. ``phases``: of the latest cycle, name -> seconds, in the order in which they began; the first,
    ``update``, is taking in what has changed."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.phases: dict[str, float] = {}
        self._clock = clock
        self._phase = ""
        self._since = 0.0

    def begin(self, now: float) -> None:
        self._phase, self._since, self.phases = "update", now, {}

    def on_phase(self, name: str) -> None:
        now = self._clock()
        # Added up: a cycle that is decided again has the same phases twice.
        self.phases[self._phase] = self.phases.get(self._phase, 0.0) + now - self._since
        self._phase, self._since = name, now

    def end(self) -> float:
        """When it was."""
        self.on_phase("")
        return self._since


BATCH_SECONDS = 0.05
"""Between turns: what comes in a burst is handled together."""

SLICE_SECONDS = 0.5
"""The longest sleep: a stop or a lost lease is noticed by then."""

BINDING_SECONDS = 1.0
"""So long after the last bind more of them are to be expected."""

GATHERING = 4.0
GATHERING_SECONDS = 0.25
"""While pods are being bound the next turn waits so many times as long as the last one took, at most so long: a turn for every few pods costs
processor time that the server beside it needs."""

log = logging.getLogger("kailab.scheduler")


@dataclass(frozen=True, kw_only=True)
class ServiceSettings(SchedulerComposition):
    """What runs, and how. ``period``: at least so many seconds from one cycle's begin to the next."""

    period: float = 0.1
    ahead: bool = True
    identity: str = ""
    lease: str = ""


class SchedulerService:
    """One candidate over one cluster. ``run`` until ``stop``; or ``turn`` by ``turn`` where somebody else keeps time.

    ``observers`` makes, at the begin of each term, who is told what happens in it. ``check``: asked before each turn of ``run``; what it
    raises ends it. ``clock``: seconds that never step; ``rest`` sleeps.
    """

    def __init__(
        self,
        cluster: Cluster,
        settings: ServiceSettings | None = None,
        leadership: Leadership | None = None,
        *,
        metrics: SchedulerMetrics | None = None,
        standing: LoopHealth | None = None,
        observers: Callable[[Cluster], Iterable[Observer]] = lambda cluster: (),
        check: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = steady_seconds,
        rest: Callable[[float], None] = time.sleep,
    ) -> None:
        self.settings = settings or ServiceSettings()
        self.leadership = leadership or NoElection()
        self.metrics = metrics or SchedulerMetrics()
        self.standing = standing or LoopHealth(clock)
        self.cluster = GuardedCluster(cluster, lambda: self.leadership.leading)
        self._composed: SchedulerAssembly | None = None
        self._observers_of = observers
        self._check = check
        self._clock = clock
        self._rest = rest
        self._term = 0
        self._warm: Watch | None = None
        self._ending = False
        self._backoff = Backoff(0.5, 30.0)
        self._retry = Backoff(0.2, 10.0)
        self._next_cycle = 0.0
        self._bound_at = float("-inf")
        self._gathers_until = 0.0
        self._timer = CycleTimer(clock)
        self._observers = self._observed_by()
        self._complained = ""
        self.metrics.watches(self.cluster)

    @property
    def scheduler(self) -> Scheduler | None:
        """While this process leads."""
        return None if self._composed is None else self._composed.scheduler

    # --- life --------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Until ``stop``, or until ``check`` raises."""
        try:
            while not self._ending:
                self._check()
                pause = self.turn()
                # A burst is let gather; then whatever is next: news, a time that was waited for, or a look around.
                self._rest(BATCH_SECONDS)
                if pause > BATCH_SECONDS and not self._ending:
                    self.cluster.wait(min(pause - BATCH_SECONDS, SLICE_SECONDS))
        finally:
            self.close()

    def stop(self) -> None:
        """Let ``run`` end after the turn it is in. Only sets a flag, so that a signal handler may call it: a lock could be
        held by the very thread that it interrupts."""
        self._ending = True

    def close(self) -> None:
        """Put down what is held; nothing is written any more but what the observers keep."""
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
        # In slices: a stop is noticed, and the health server sees that the loop is not hung.
        end = self._clock() + pause
        while not self._ending and (left := end - self._clock()) > 0:
            self.standing.turned()
            self._rest(min(left, SLICE_SECONDS))
        return 0.0

    def _stand_by(self) -> float:
        """Keep in sync with the cluster, and wait."""
        if self._composed is not None:
            log.warning("the lease is lost: nothing is written any more; standing by")
            self._put_down()
        if self._warm is None:
            self._warm = self.cluster.watch(KINDS)
            self.standing.synced = True
        # What comes in is thrown away: polling keeps the watch from growing, and the lists from having to be made
        # again.
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
        if self._composed is not None and self._term != self.leadership.term:
            self._put_down()  # the lease was lost and won again while a cycle ran
        composed = self._composed or self._take_up()
        scheduler = composed.scheduler
        begun = self._clock()
        if begun < self._gathers_until:
            return self._gathers_until - begun
        wrote = False
        for controller in composed.controllers.values():
            wrote |= controller.step()
        cycles = scheduler.cycles
        now = self._clock()
        due_now = now >= self._next_cycle
        if due_now:
            wrote |= self._cycle(scheduler, now)
        self._observers.on_turn()
        # Otherwise no queue can stand differently, and looking at all of them costs something.
        if wrote or scheduler.cycles != cycles:
            self.metrics.queues.objects(self.cluster.list("Queue"))
        if self._binding():
            end = self._clock()
            self._gathers_until = end + min(GATHERING * (end - begun), GATHERING_SECONDS)
        # What was written is news for the next turn, so that comes at once.
        if wrote:
            return 0.0
        if due_now and not self.cluster.under_way:
            # Counted only where a cycle could have run, and nothing is under way: by this count others see that the scheduler has come to rest.
            self.metrics.idled()
        left = max(0.0, self._next_cycle - self._clock())
        wake_at = scheduler.wake_at
        due = SLICE_SECONDS if wake_at is None else max(0.0, wake_at - self.cluster.now())
        return max(left, due)

    # --- cycles ------------------------------------------------------------------------------------------------------

    def _cycle(self, scheduler: Scheduler, now: float) -> bool:
        before = scheduler.cycles
        self._timer.begin(now)
        wrote = scheduler.step()
        if scheduler.cycles == before:
            return wrote
        end = self._timer.end()
        self.metrics.phases(self._timer.phases, end - now, self.settings.config.actions)
        record = scheduler.history.latest
        assert record is not None
        if record.failures:
            # A server in trouble may refuse thousands at once, for one reason.
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

    def _binding(self) -> bool:
        """Whether pods are being bound, one cycle after the other: what nobody waits for is written afterwards."""
        if self.cluster.under_way:
            self._bound_at = self._clock()
        return self._clock() - self._bound_at < BINDING_SECONDS

    def _observed_by(self, *others: Observer) -> Observers:
        return Observers((self._timer, self.metrics, *others), self._tell)

    def _tell(self, telling: Callable[[], None]) -> None:
        """Who only looks on must not hold up the scheduler."""
        try:
            telling()
        except KailabError as error:
            if self._complained != str(error):
                self._complained = str(error)
                log.warning("%s", error)

    # --- terms -------------------------------------------------------------------------------------------------------

    def _take_up(self) -> SchedulerAssembly:
        self._term = self.leadership.term
        try:
            self._observers = self._observed_by(*self._observers_of(self.cluster))
            composed = self._composed = self.settings.over(self.cluster, self._observers, self._binding)
            self.metrics.queues.objects(self.cluster.list("Queue"))
        # What was made so far is put down, observers included; the error goes to ``turn``.
        except BaseException:
            self._put_down()
            raise
        if self._warm is not None:
            self._warm.close()
            self._warm = None
        self.standing.synced = True
        self._next_cycle = self._gathers_until = 0.0
        identity = self.settings.identity
        self._becomes(f"leading as {identity}" if identity else "leading", True)
        return composed

    def _put_down(self) -> None:
        # Both are let go of before anything is told or closed: a failure there must not leave them half in use.
        observers, self._observers = self._observers, self._observed_by()
        composed, self._composed = self._composed, None
        observers.on_end()
        if composed is not None:
            composed.close()
