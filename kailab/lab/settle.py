"""Settling, and time passing, in a lab.

``Settling`` is the interface. It has two implementations. ``VirtualSettling`` is for clusters with a virtual clock. It repeats three
things until a cycle changes nothing: controllers work until they have nothing to do, the scheduler runs one cycle, one virtual second
passes. Then it moves time on to the next prompt timer (a pod becomes ready). Other timers (a run time or a protection ends) are left to
``moments``. ``live_settling.LiveSettling`` is for real clusters and can only watch: the lab is quiet when nothing has changed for a while
and no change is expected."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from kailab.errors import KailabError
from kailab.undertest.contract import Decider, SteppedPart

_log = logging.getLogger(__name__)

CYCLE_SECONDS = 1.0
MAX_CYCLES = 1000
"""Cycles of one settling that change something."""
MAX_ROUNDS = 1000
"""Rounds of all controllers at one moment."""


class NotSettled(KailabError):
    """The lab keeps changing. The message names the controllers and decisions that change it."""

    exit_code = 1


class EndlessMoves(NotSettled):
    """The lab keeps changing because the scheduler moves pods for ever, as KAI does."""


class Clock(Protocol):
    """The virtual clock of a cluster."""

    def now(self) -> float: ...

    def advance(self, seconds: float) -> None: ...

    def next_timer(self) -> float | None:
        """When the next timer of any sort falls due."""

    def next_prompt(self) -> float | None:
        """When the next timer that settling waits for falls due."""


class Settling(Protocol):
    """How time passes in a lab."""

    def settle(self, between: Callable[[], None] | None = None) -> None:
        """Return when the lab is quiet. ``between``: called after each cycle that changed something, on a real cluster each time that this
        process wrote something; it must not change the lab. Raises NotSettled."""

    def moments(self, seconds: float, *, before: bool = False, rested: bool = False) -> Iterator[bool]:
        """Let seconds pass. Yield at each moment at which something may have changed, and at the end: True if no work is left then,
        so that time passes next. ``before``: with a virtual clock the timers of the last moment fire, but controllers and scheduler do not
        act on them. ``rested``: no work is left at the present moment, so begin by letting time pass."""

    def catch_up(self) -> bool:
        """Let controllers in this process read the cluster, without a cycle. True if any of them wrote anything."""

    def add_controller(self, controller: SteppedPart) -> None:
        """Step a further controller, after the others. Its owner closes it."""

    def close(self) -> None:
        """Stop watching."""


class VirtualSettling:
    """Settling on a virtual clock. ``describe``: names what the latest cycle changed, for NotSettled's message. ``retry_at(since)``: when
    the scheduler retries something that failed, if settling waits for it; ``since`` is the start of settling. ``as_kai``: explains why
    the lab does not settle if KAI would not settle either, else gives an empty text."""

    def __init__(
        self,
        clock: Clock,
        controllers: Sequence[SteppedPart],
        scheduler: Decider,
        describe: Callable[[], list[str]],
        max_cycles: int = MAX_CYCLES,
        retry_at: Callable[[float], float | None] = lambda since: None,
        as_kai: Callable[[], str] = lambda: "",
    ) -> None:
        self._clock = clock
        self._controllers = controllers
        self._scheduler = scheduler
        self._describe = describe
        self._max_cycles = max_cycles
        self._retry_at = retry_at
        self._as_kai = as_kai
        self._describing = False  # describing changes costs time, so it begins once settling takes long

    def settle(self, between: Callable[[], None] | None = None) -> None:
        changes: Counter[str] = Counter()
        cycles, start = 0, self._clock.now()
        self._describing = False

        def count() -> None:
            nonlocal cycles
            cycles += 1
            self._describing = cycles > self._max_cycles // 2
            if cycles > self._max_cycles:
                raise self._not_settled(changes)

        while True:
            for _ in self._run_cycles(float("inf"), changes):
                count()
                if between is not None:
                    between()
            due = min((at for at in (self._clock.next_prompt(), self._retry_at(start)) if at is not None), default=None)
            if due is None:
                _log.debug(
                    "settled after %.1f s of lab time; cycles that changed something: %d",
                    self._clock.now() - start,
                    cycles,
                )
                return
            if self._describing:
                changes["a prompt timer falls due"] += 1
            # A timer set for a time past falls due at once.
            self._clock.advance(max(0.0, due - self._clock.now()))
            count()

    def moments(self, seconds: float, *, before: bool = False, rested: bool = False) -> Iterator[bool]:
        end = self._clock.now() + seconds
        changes: Counter[str] = Counter()
        stuck = 0
        while True:
            began = self._clock.now()
            if not rested:
                if not (before and self._clock.now() >= end):
                    for _ in self._run_cycles(end, changes, before):
                        yield False
                yield True
            rested = False
            now = self._clock.now()
            if now >= end:
                return
            # Time jumps from one timer to the next, so an hour of lab time costs only the work that is done in it.
            due = min(
                (at for at in (self._clock.next_timer(), self._wake_time(now), end) if at is not None), default=end
            )
            self._clock.advance(max(0.0, due - now))
            # A timer that sets itself again for the present moment would stop time for ever.
            stuck = stuck + 1 if self._clock.now() <= began else 0
            if stuck > MAX_ROUNDS:
                raise NotSettled(f"time does not pass: a timer keeps falling due at {now:g}")

    def catch_up(self) -> bool:
        return self._run_controllers()

    def add_controller(self, controller: SteppedPart) -> None:
        self._controllers = (*self._controllers, controller)

    def close(self) -> None:
        """Do nothing, because nothing is watched."""

    def _wake_time(self, now: float) -> float | None:
        at = self._scheduler.wake_at
        return at if at is not None and at > now else None

    def _run_cycles(self, end: float, changes: Counter[str], before: bool = False) -> Iterator[None]:
        """Run controllers and cycles until a cycle changes nothing or ``end`` is reached; yield after each cycle. ``before``: run nothing
        at ``end`` itself."""
        while True:
            self._run_controllers()
            changed = self._scheduler.step()
            if changed and self._describing:
                changes.update(dict.fromkeys(self._describe(), 1))
            # Controllers may act on what the cycle did, so the lab is quiet only if neither changed anything.
            followed = self._run_controllers(changes)
            if not changed and not followed:
                return
            yield
            left = end - self._clock.now()
            if left <= 0:
                return
            self._clock.advance(min(CYCLE_SECONDS, left))
            if before and self._clock.now() >= end:
                return

    def _run_controllers(self, changes: Counter[str] | None = None) -> bool:
        """Run controllers until none has anything to do. True if any of them wrote anything."""
        wrote = False
        writers: list[str] = []
        # In rounds, because a write of one controller may be work for an earlier one.
        for _ in range(MAX_ROUNDS):
            again = False
            for controller in self._controllers:
                if controller.step():
                    again = True
                    writers.append(type(controller).__name__)
            if not again:
                if self._describing and changes is not None:
                    changes.update({f"controller {name} writes": 1 for name in writers})
                return wrote
            wrote = True
        busiest = ", ".join(f"{name} ({count} times)" for name, count in Counter(writers).most_common(3))
        raise NotSettled(f"the controllers never come to rest; still writing: {busiest}")

    def _not_settled(self, changes: Counter[str]) -> NotSettled:
        busiest = "".join(f"\n  {what}: {count} times" for what, count in changes.most_common(5))
        text = f"the lab does not settle: after {self._max_cycles} cycles these keep changing:{busiest}"
        why = self._as_kai()
        return EndlessMoves(f"{text}\n{why}") if why else NotSettled(text)
