"""The pace of a lab on a real cluster: other processes act in their own time, and the lab watches them.

The parts that run in this process (controllers, kailab's scheduler) act whenever there is news, while the lab waits."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from kailab.cluster.protocol import Cluster, LiveNews, Object, WatchEvent
from kailab.lab.pending_changes import KINDS, PendingChanges
from kailab.lab.settle import CYCLE_SECONDS, Controller, NotSettled, Scheduler
from kailab.undertest.contract import OWED_SECONDS, IdleDetector

QUIET_SECONDS = 1.2
DEADLINE_SECONDS = 600.0
BACKOFF_SECONDS = 120.0
"""So long a Job is waited for that has had no pod yet (``PendingChanges.has_unbegun_jobs``)."""

_LOOK_SECONDS = 0.25
_CHECK_SECONDS = 1.0
_GATHER_SECONDS = 0.02  # news comes in bursts: a cycle for all of one beats a cycle for each


class LiveCluster(Cluster, LiveNews, Protocol):
    """A cluster that changes by itself."""


class Operating(Protocol):
    """Who makes objects of kinds of its own in processes beside the cluster."""

    @property
    def kinds(self) -> Sequence[str]: ...

    def check(self) -> None:
        """Raises KailabError where one has ended: what it owes never comes."""


class LiveSettling:
    """``quiet``: seconds without a change that count as quiet once nothing is to come; ``owed``: those after which what is to come
    is not waited for any more. ``considers``: see PendingChanges. ``rest``: whom to ask too, before it is quiet. ``operators``: whose work
    is to be waited for. ``writes``: further kinds whose changes are news.

    ``monotonic`` is the clock of waiting: one that no step of the machine's clock moves."""

    def __init__(
        self,
        cluster: LiveCluster,
        controllers: Sequence[Controller],
        scheduler: Scheduler,
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
        """Return when nothing has changed for a while and nothing is to come. Raises NotSettled."""
        begun = changed_at = self._monotonic()
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
            rested = self._rest is None or self._rest.is_idle()
            now = self._monotonic()
            still = now - changed_at
            # What is to come is a guess about other processes. One that never comes must not hold the lab for ever: after
            # this long without any change the lab counts as quiet all the same.
            patient = still >= max(self._owed_patience, self._quiet) and (
                still >= BACKOFF_SECONDS or not self._pending.has_unbegun_jobs
            )
            if still >= self._quiet and (patient or (rested and not self._is_due(since))):
                return
            if now - begun > self._deadline:
                raise NotSettled(self._restless())
            # Until it may be quiet, not longer; once it is only waited for what is to come, the pause decides.
            self._cluster.wait(min(self._pause(), max(0.01, self._quiet - still) if still < self._quiet else 1.0))

    def moments(self, seconds: float, *, before: bool = False, rested: bool = False) -> Iterator[bool]:
        """Let seconds pass, stopping at each moment at which something has changed, and at the end. Others act when they want, ``before`` or not,
        and never rest."""
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

    # --- inside ------------------------------------------------------------------------------------------------------

    def _act(self) -> bool:
        """Let the parts in this process act on what has come in; True if anything has changed."""
        self._cluster.wait(0.0)
        events = self._watch.poll()
        for event in events:
            if event.kind not in self._writes:
                self._pending.take(event)
        changed = bool([event for event in events if self._noted(event)])
        # Controllers answer each other (a Deployment's ReplicaSet, its pods, their PodGroup): a few rounds follow such
        # a chain to its end, and a bound keeps a quarrel of two from holding the scheduler back.
        for _ in range(5):
            wrote = False
            for controller in self._controllers:
                wrote |= controller.step()
            if not wrote:
                break
            changed = True
        now = self._monotonic()
        # Pods of one gang come one by one over the wire. A cycle for each of them would cost more than the short wait
        # for all.
        if now - self._cycled_at >= _GATHER_SECONDS and self._scheduler.step():
            self._cycled_at = self._monotonic()
            changed = True
        return changed

    def _check_operators(self) -> None:
        # Far oftener than once a second comes news, and a look costs.
        if self._operators is not None and (now := self._monotonic()) - self._checked_at >= _CHECK_SECONDS:
            self._checked_at = now
            self._operators.check()

    def _is_due(self, since: float) -> bool:
        return bool(self._pending.named()) or self._retry_at(since) is not None

    def _noted(self, event: WatchEvent) -> bool:
        if event.kind == "Node":
            return False  # heartbeats are no news
        self._changes[f"{event.kind} {event.object['metadata']['name']}"] += 1
        return True

    def _pause(self) -> float:
        wake = self._scheduler.wake_at
        pause = _LOOK_SECONDS if wake is None else min(_LOOK_SECONDS, max(0.01, wake - self._cluster.now()))
        return min(pause, CYCLE_SECONDS)

    def _restless(self) -> str:
        busiest = "".join(f"\n  {what}: {count} times" for what, count in self._changes.most_common(5))
        pending = "".join(f"\n  {each}" for each in self._pending.named()[:5])
        return f"the lab is not quiet after {self._deadline:g} s; these keep changing:{busiest or ' nothing'}" + (
            f"\nand these are still to come:{pending}" if pending else ""
        )
