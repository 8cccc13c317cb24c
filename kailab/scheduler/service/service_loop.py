"""The loop of the scheduler process: cycles while it leads, a warm standby while it does not.

Each turn checks the lease, steps the controllers, runs a cycle when one is due, and reports to metrics and observers. After an error the
loop pauses with exponential backoff and jitter, and starts anew.
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
        # The jitter keeps several candidates from retrying at the same time.
        return exponential_pause(self.failures, self._first, self._longest) + random.uniform(0, self._first)

    def reset(self) -> None:
        self.failures = 0


class CycleTimer(Observer):
    """Measures the phases of cycles. ``phases``: of the latest cycle, name -> seconds, in order; the first is ``update``, which takes in
    changes. ``clock``: seconds that never step."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.phases: dict[str, float] = {}
        self._clock = clock
        self._phase = ""
        self._since = 0.0

    def begin(self, now: float) -> None:
        self._phase, self._since, self.phases = "update", now, {}

    def on_phase(self, name: str) -> None:
        now = self._clock()
        # Added up, because a cycle that is decided again has the same phases twice.
        self.phases[self._phase] = self.phases.get(self._phase, 0.0) + now - self._since
        self._phase, self._since = name, now

    def end(self) -> float:
        """End the cycle. Returns the time."""
        self.on_phase("")
        return self._since


BATCH_SECONDS = 0.05
"""The pause between turns, so that a burst of events is handled together."""

SLICE_SECONDS = 0.5
"""The longest sleep, after which the loop notices a stop or a lost lease."""

BINDING_SECONDS = 1.0
"""More binds are expected for this long after the last one."""

BATCHING_FACTOR = 4.0
MOST_BATCHING_SECONDS = 0.25
"""While pods are being bound, the next turn waits BATCHING_FACTOR times the duration of the last one, at most MOST_BATCHING_SECONDS: a turn
for every few pods would take processor time from the API server."""

log = logging.getLogger("kailab.scheduler")


@dataclass(frozen=True, kw_only=True)
class ServiceSettings(SchedulerComposition):
    """``period``: the least time in seconds between the begins of two cycles. ``identity`` and ``lease``: names for logs and metrics."""

    period: float = 0.1
    ahead: bool = True
    reasons_every: float = 5.0
    identity: str = ""
    lease: str = ""


class SchedulerService:
    """One candidate over one cluster. Call ``run``, which returns after ``stop``, or ``turn`` repeatedly.

    ``observers`` makes the observers at the start of each term as leader. ``check`` is called before each turn of ``run``; its error ends
    the run. ``clock``: seconds that never step; ``rest`` sleeps.
    """

    def __init__(
        self,
        cluster: Cluster,
        settings: ServiceSettings | None = None,
        leadership: Leadership | None = None,
        *,
        metrics: SchedulerMetrics | None = None,
        health: LoopHealth | None = None,
        observers: Callable[[Cluster], Iterable[Observer]] = lambda cluster: (),
        check: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = steady_seconds,
        rest: Callable[[float], None] = time.sleep,
    ) -> None:
        self.settings = settings or ServiceSettings()
        self.leadership = leadership or NoElection()
        self.metrics = metrics or SchedulerMetrics()
        self.health = health or LoopHealth(clock)
        self.cluster = GuardedCluster(cluster, lambda: self.leadership.leading)
        self._assembly: SchedulerAssembly | None = None
        self._observers_of = observers
        self._check = check
        self._clock = clock
        self._rest = rest
        self._term = 0
        self._standby_watch: Watch | None = None
        self._ending = False
        self._backoff = Backoff(0.5, 30.0)
        self._retry = Backoff(0.2, 10.0)
        self._next_cycle = 0.0
        self._bound_at = float("-inf")
        self._batching_until = 0.0
        self._timer = CycleTimer(clock)
        self._observers = self._observed_by()
        self._reported = ""
        self.metrics.add_cluster(self.cluster)

    @property
    def scheduler(self) -> Scheduler | None:
        """The scheduler while this process leads, else None."""
        return None if self._assembly is None else self._assembly.scheduler

    # --- lifecycle ----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run until ``stop``, or until ``check`` raises."""
        try:
            while not self._ending:
                self._check()
                pause = self.turn()
                # First let a burst of events arrive, then wait for an event or the next due time.
                self._rest(BATCH_SECONDS)
                if pause > BATCH_SECONDS and not self._ending:
                    self.cluster.wait(min(pause - BATCH_SECONDS, SLICE_SECONDS))
        finally:
            self.close()

    def stop(self) -> None:
        """Let ``run`` end after its current turn. Only sets a flag, because a signal handler must not take a lock."""
        self._ending = True

    def close(self) -> None:
        """Close the scheduler and the watches. After this only observers write."""
        self._end_term()
        if self._standby_watch is not None:
            self._standby_watch.close()
            self._standby_watch = None

    # --- a turn ------------------------------------------------------------------------------------------------------

    def turn(self) -> float:
        """Take one turn of the loop. Returns the seconds to wait for events."""
        self.health.turned()
        try:
            pause = self._lead() if self.leadership.leading else self._stand_by()
        except Exception as error:
            return self._recover(error)
        self.health.trouble = ""
        self._backoff.reset()
        return pause

    def _recover(self, error: Exception) -> float:
        """Drop all soft state and start anew after a pause. The cluster's objects hold everything else."""
        self.metrics.count_failure(error)
        self._end_term()
        pause = self._backoff.next()
        self.health.trouble = str(error) or type(error).__name__
        message = f"{self.health.trouble}; starting again in {pause:.1f} s"
        if isinstance(error, ApiError):
            log.warning("%s", message)
        else:
            log.error("%s", message, exc_info=error)
        # In slices, to notice a stop and to report health.
        end = self._clock() + pause
        while not self._ending and (remaining := end - self._clock()) > 0:
            self.health.turned()
            self._rest(min(remaining, SLICE_SECONDS))
        return 0.0

    def _stand_by(self) -> float:
        """Keep the watches in sync and wait for the lease."""
        if self._assembly is not None:
            log.warning("the lease is lost: nothing is written any more; standing by")
            self._end_term()
        if self._standby_watch is None:
            self._standby_watch = self.cluster.watch(KINDS)
            self.health.synced = True
        # The events are dropped; polling keeps the queue of the watch short and its lists current.
        self._standby_watch.poll()
        holder = self.leadership.holder
        other_leads = holder and holder != self.settings.identity
        role = f"standing by; {holder} leads" if other_leads else "standing by; nobody leads"
        self._set_role(role, False)
        return SLICE_SECONDS

    def _set_role(self, role: str, leading: bool) -> None:
        self.metrics.set_leading(self.settings.lease, leading)
        if self.health.role != role:
            log.info("%s", role)
            self.health.role = role

    def _lead(self) -> float:
        if self._assembly is not None and self._term != self.leadership.term:
            self._end_term()  # the lease was lost and won again while a cycle ran
        assembly = self._assembly or self._begin_term()
        scheduler = assembly.scheduler
        begun = self._clock()
        if begun < self._batching_until:
            return self._batching_until - begun
        wrote = False
        for controller in assembly.controllers.values():
            wrote |= controller.step()
        cycles = scheduler.cycles
        now = self._clock()
        due_now = now >= self._next_cycle
        if due_now:
            wrote |= self._cycle(scheduler, now)
        self._observers.on_turn()
        # Otherwise no queue has changed.
        if wrote or scheduler.cycles != cycles:
            self.metrics.queues.set_queues(self.cluster.list("Queue"))
        if self._binding():
            end = self._clock()
            self._batching_until = end + min(BATCHING_FACTOR * (end - begun), MOST_BATCHING_SECONDS)
        # The next turn handles the events of these writes at once.
        if wrote:
            return 0.0
        if due_now and not self.cluster.under_way:
            # A cycle could have run and nothing is under way. Readers of this metric see that the scheduler is idle.
            self.metrics.count_idle_turn()
        until_cycle = max(0.0, self._next_cycle - self._clock())
        wake_at = scheduler.wake_at
        due = SLICE_SECONDS if wake_at is None else max(0.0, wake_at - self.cluster.now())
        return max(until_cycle, due)

    # --- cycles ------------------------------------------------------------------------------------------------------

    def _cycle(self, scheduler: Scheduler, now: float) -> bool:
        before = scheduler.cycles
        self._timer.begin(now)
        wrote = scheduler.step()
        if scheduler.cycles == before:
            return wrote
        end = self._timer.end()
        self.metrics.observe_cycle(self._timer.phases, end - now, self.settings.config.actions)
        record = scheduler.history.latest
        assert record is not None
        if record.failures:
            # A server may refuse thousands of writes for one reason.
            for failure in record.failures[:3]:
                log.warning("%s", failure.message)
            if len(record.failures) > 3:
                log.warning("... and %d more that were not carried out", len(record.failures) - 3)
        pause = 0.0
        if scheduler.unreachable:
            pause = self._retry.next()
        else:
            self._retry.reset()
        # After a long cycle the loop pauses as long as the cycle took, up to a second, for the cluster and other threads.
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
        """Whether pods are being bound. Less urgent writes wait until afterwards."""
        if self.cluster.under_way:
            self._bound_at = self._clock()
        return self._clock() - self._bound_at < BINDING_SECONDS

    def _observed_by(self, *others: Observer) -> Observers:
        return Observers((self._timer, self.metrics, *others), self._guard)

    def _guard(self, call: Callable[[], None]) -> None:
        """Call an observer. Its error is logged and does not stop the scheduler."""
        try:
            call()
        except KailabError as error:
            if self._reported != str(error):
                self._reported = str(error)
                log.warning("%s", error)

    # --- terms -------------------------------------------------------------------------------------------------------

    def _begin_term(self) -> SchedulerAssembly:
        self._term = self.leadership.term
        try:
            self._observers = self._observed_by(*self._observers_of(self.cluster))
            assembly = self._assembly = self.settings.over(self.cluster, self._observers, self._binding)
            self.metrics.queues.set_queues(self.cluster.list("Queue"))
        # ``turn`` handles the error.
        except BaseException:
            self._end_term()
            raise
        if self._standby_watch is not None:
            self._standby_watch.close()
            self._standby_watch = None
        self.health.synced = True
        self._next_cycle = self._batching_until = 0.0
        identity = self.settings.identity
        self._set_role(f"leading as {identity}" if identity else "leading", True)
        return assembly

    def _end_term(self) -> None:
        # Both are dropped first, so that an error below does not leave them in use.
        observers, self._observers = self._observers, self._observed_by()
        assembly, self._assembly = self._assembly, None
        observers.on_end()
        if assembly is not None:
            assembly.close()
