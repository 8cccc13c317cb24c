"""Settling of a lab on a real cluster, in which other processes act in their own time.

The parts that run in this process (controllers, kailab's scheduler) act on watch events while the lab waits."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from kailab.cluster.protocol import Cluster, LiveUpdates, Object, WatchEvent
from kailab.lab.pending_changes import KINDS, PendingChanges
from kailab.lab.settle import CYCLE_SECONDS, NotSettled
from kailab.undertest.contract import OWED_SECONDS, Decider, IdleDetector, SteppedPart

_log = logging.getLogger(__name__)

QUIET_SECONDS = 1.2
DEADLINE_SECONDS = 600.0
BACKOFF_SECONDS = 120.0
"""How long to wait for a Job that has had no pod yet (``PendingChanges.has_unbegun_jobs``)."""

_LOOK_SECONDS = 0.25
_CHECK_SECONDS = 1.0
_GATHER_SECONDS = 0.02  # news comes in bursts: a cycle for all of one beats a cycle for each


class LiveCluster(Cluster, LiveUpdates, Protocol):
    """A cluster that changes by itself."""


class Operating(Protocol):
    """Operators that run as processes beside the cluster."""

    @property
    def kinds(self) -> Sequence[str]: ...

    def check(self) -> None:
        """Raises KailabError if one has ended: the changes that it was to make never come."""


class LiveSettling:
    """``quiet``: seconds without a change after which the lab is quiet if no change is expected; ``owed``: seconds without a change after
    which it is quiet though changes are expected. ``considers``: see PendingChanges. ``rest``: the idle detector of the scheduler, which
    must be idle too. ``operators``: their work is waited for. ``writes``: further kinds whose changes count as changes.

    ``monotonic``: measures waiting, so that a step of the machine's clock does not matter."""

    def __init__(
        self,
        cluster: LiveCluster,
        controllers: Sequence[SteppedPart],
        scheduler: Decider,
        *,
        considers: Callable[[Object], bool],
        rest: IdleDetector | None = None,
        operators: Operating | None = None,
        writes: Sequence[str] = (),
        quiet: float = QUIET_SECONDS,
        owed: float = OWED_SECONDS,
        deadline: float = DEADLINE_SECONDS,
        monotonic: Callable[[], float] = time.monotonic,
        retry_at: Callable[[float], float | None] = lambda since: None,
    ) -> None:
        self._cluster = cluster
        self._controllers = controllers
        self._scheduler = scheduler
        self._rest = rest
        self._quiet = quiet
        self._owed_patience = owed
        self._deadline = deadline
        self._monotonic = monotonic
        self._retry_at = retry_at
        self._operators = operators
        operated = () if operators is None else tuple(operators.kinds)
        self._watch = cluster.watch((*KINDS, *operated, *writes))
        self._writes = frozenset(writes)
        self._pending = PendingChanges(considers, operated)
        self._cycled_at = self._checked_at = float("-inf")
        self._changes: Counter[str] = Counter()

    def close(self) -> None:
        self._watch.close()

    def settle(self, between: Callable[[], None] | None = None) -> None:
        """Return when nothing has changed for a while and no change is expected. Raises NotSettled."""
        start = changed_at = self._monotonic()
        since = self._cluster.now()
        self._changes.clear()
        while True:
            if self._act():
                changed_at = self._monotonic()
                if self._rest is not None:
                    self._rest.changed()
                if between is not None:
                    between()
            self._check_operators()
            idle = self._rest is None or self._rest.is_idle()
            now = self._monotonic()
            still = now - changed_at
            # An expected change is a guess about other processes. If it never comes, the lab must settle all the same.
            patience_over = still >= max(self._owed_patience, self._quiet) and (
                still >= BACKOFF_SECONDS or not self._pending.has_unbegun_jobs
            )
            if still >= self._quiet and (patience_over or (idle and not self._is_due(since))):
                _log.debug("settled after %.1f s, of which %.1f s without a change", now - start, still)
                return
            if now - start > self._deadline:
                raise NotSettled(self._describe_changes())
            self._cluster.wait(min(self._pause(), max(0.01, self._quiet - still) if still < self._quiet else 1.0))

    def moments(self, seconds: float, *, before: bool = False, rested: bool = False) -> Iterator[bool]:
        """Let seconds pass, stopping at each moment at which something has changed, and at the end. ``before`` and ``rested`` have no effect,
        because other processes act at any time; always gives False."""
        end = self._monotonic() + seconds
        self._act()
        while True:
            yield False
            while True:
                left = end - self._monotonic()
                if left <= 0:
                    self._act()
                    yield False
                    return
                self._cluster.wait(min(left, self._pause()))
                if self._act():
                    break

    def catch_up(self) -> bool:
        return False

    # --- inside ------------------------------------------------------------------------------------------------------

    def _act(self) -> bool:
        """Let the parts in this process act on what has come in; True if anything has changed."""
        self._cluster.wait(0.0)
        events = self._watch.poll()
        for event in events:
            if event.kind not in self._writes:
                self._pending.take(event)
        changed = bool([event for event in events if self._counts(event)])
        # One controller acts on what another wrote (a Deployment's ReplicaSet, its pods, their PodGroup), which takes a few rounds. The
        # bound keeps two controllers that undo each other's writes from holding the scheduler back.
        for _ in range(5):
            wrote = False
            for controller in self._controllers:
                wrote |= controller.step()
            if not wrote:
                break
            changed = True
        now = self._monotonic()
        # Pods of one gang arrive one by one. A short wait for all costs less than a cycle for each.
        if now - self._cycled_at >= _GATHER_SECONDS and self._scheduler.step():
            self._cycled_at = self._monotonic()
            changed = True
        return changed

    def _check_operators(self) -> None:
        # Events come far more often than once a second, and the check costs time.
        if self._operators is not None and (now := self._monotonic()) - self._checked_at >= _CHECK_SECONDS:
            self._checked_at = now
            self._operators.check()

    def _is_due(self, since: float) -> bool:
        return bool(self._pending.named()) or self._retry_at(since) is not None

    def _counts(self, event: WatchEvent) -> bool:
        if event.kind == "Node":
            return False  # heartbeats are no changes
        self._changes[f"{event.kind} {event.object['metadata']['name']}"] += 1
        return True

    def _pause(self) -> float:
        wake = self._scheduler.wake_at
        pause = _LOOK_SECONDS if wake is None else min(_LOOK_SECONDS, max(0.01, wake - self._cluster.now()))
        return min(pause, CYCLE_SECONDS)

    def _describe_changes(self) -> str:
        busiest = "".join(f"\n  {what}: {count} times" for what, count in self._changes.most_common(5))
        pending = "".join(f"\n  {each}" for each in self._pending.named()[:5])
        return f"the lab is not quiet after {self._deadline:g} s; these keep changing:{busiest or ' nothing'}" + (
            f"\nand these are still expected:{pending}" if pending else ""
        )
