"""When a lab is quiet: the one thing in which labs with a virtual clock and labs with a real one differ.

``Settling`` is the seam. ``VirtualSettling`` moves time itself: controllers until they have nothing to do, one
scheduling cycle, one virtual second, again until a cycle changes nothing; then on to the next prompt timer (a
pod becoming ready). Life going on (a run time ending, a protection running out) is left to ``moments``.
``LiveSettling`` (its own module) can only watch: quiet is when nothing has changed for a while and nothing is owed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from kailab.errors import KailabError

CYCLE_SECONDS = 1.0
MAX_CYCLES = 1000  # cycles that changed something, in one settling
MAX_ROUNDS = 1000  # rounds of all controllers without a pause


class NotSettled(KailabError):
    """The lab keeps changing. The text names who changes what."""

    exit_code = 1


class MovedForEver(NotSettled):
    """It keeps changing because the scheduler moves pods for ever, as KAI does."""


class Controller(Protocol):
    """Anything that acts on a cluster."""

    def step(self) -> bool:
        """Handle what came, write what follows from it. True if anything was written."""


class Scheduler(Protocol):
    """A controller that decides. ``step`` is one cycle, left out where nothing has changed since the last."""

    def step(self) -> bool: ...

    @property
    def wake_at(self) -> float | None:
        """When a cycle could decide differently though nothing else changes."""


class Clock(Protocol):
    """The virtual time of a cluster, as settling needs it."""

    def now(self) -> float: ...

    def advance(self, seconds: float) -> None: ...

    def next_timer(self) -> float | None:
        """When the next timer of any sort falls due."""

    def next_prompt(self) -> float | None:
        """When the next timer that settling waits for falls due."""


class Settling(Protocol):
    """How time passes in a lab."""

    def settle(self, between: Callable[[], None] | None = None) -> None:
        """Return when the lab is quiet. ``between``: called after each cycle that changed something; where others act, each time that this
        process did. It leaves the lab as it is. Raises NotSettled."""

    def moments(self, seconds: float, *, before: bool = False, rested: bool = False) -> Iterator[bool]:
        """Let seconds pass, stopping at each moment at which something may have changed, and at the end. ``before``: at the end nobody acts
        yet but what falls due then, where time can be held. Told at each: whether time goes on next, all being done at this moment.
        ``rested``: go on from such a one."""

    def close(self) -> None:
        """Stop watching."""


class VirtualSettling:
    """``describe`` names what the latest cycle changed, for the message of a lab that does not settle. ``retry_at(since)``: when
    the scheduler tries something again that failed, as far as it is to be waited for, with ``since`` the start of settling.
    ``as_kai()`` says why it does not, where KAI does the same."""

    def __init__(
        self,
        clock: Clock,
        controllers: Sequence[Controller],
        scheduler: Scheduler,
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
        self._noting = False  # naming what changes costs time, so only once settling takes long

    def settle(self, between: Callable[[], None] | None = None) -> None:
        changes: Counter[str] = Counter()
        cycles, begun = 0, self._clock.now()
        self._noting = False

        def count() -> None:
            nonlocal cycles
            cycles += 1
            self._noting = cycles > self._max_cycles // 2
            if cycles > self._max_cycles:
                raise self._restless(changes)

        while True:
            for _ in self._to_rest(float("inf"), changes):
                count()
                if between is not None:
                    between()
            due = min((at for at in (self._clock.next_prompt(), self._retry_at(begun)) if at is not None), default=None)
            if due is None:
                return
            if self._noting:
                changes["a prompt timer falls due"] += 1
            # A timer set for a time past falls due at once.
            self._clock.advance(max(0.0, due - self._clock.now()))
            count()

    def moments(self, seconds: float, *, before: bool = False, rested: bool = False) -> Iterator[bool]:
        end = self._clock.now() + seconds
        changes: Counter[str] = Counter()
        still = 0
        while True:
            began = self._clock.now()
            if not rested:
                if not (before and self._clock.now() >= end):
                    for _ in self._to_rest(end, changes, before):
                        yield False
                yield True
            rested = False
            now = self._clock.now()
            if now >= end:
                return
            # Time jumps from one moment at which something is due to the next: an hour of lab time costs what happens
            # in it.
            due = min((at for at in (self._clock.next_timer(), self._wake(now), end) if at is not None), default=end)
            self._clock.advance(max(0.0, due - now))
            # Time must move; a timer that sets itself again for now would hold it for ever.
            still = still + 1 if self._clock.now() <= began else 0
            if still > MAX_ROUNDS:
                raise NotSettled(f"time does not pass: a timer keeps falling due at {now:g}")

    def catch_up(self) -> bool:
        """Have controllers read the cluster, without a cycle. True if any of them wrote anything."""
        return self._controllers_to_rest()

    def close(self) -> None:
        """It watches nothing."""

    def _wake(self, now: float) -> float | None:
        at = self._scheduler.wake_at
        return at if at is not None and at > now else None

    def _to_rest(self, end: float, changes: Counter[str], before: bool = False) -> Iterator[None]:
        """Controllers and cycles until a cycle changes nothing or time is up; a stop after each cycle. ``before``: none at the end itself."""
        while True:
            self._controllers_to_rest()
            changed = self._scheduler.step()
            if changed and self._noting:
                changes.update(dict.fromkeys(self._describe(), 1))
            # What the cycle did may be all that controllers were waiting for, so both have to be still before the lab
            # is.
            followed = self._controllers_to_rest(changes)
            if not changed and not followed:
                return
            yield
            left = end - self._clock.now()
            if left <= 0:
                return
            self._clock.advance(min(CYCLE_SECONDS, left))
            if before and self._clock.now() >= end:
                return

    def _controllers_to_rest(self, changes: Counter[str] | None = None) -> bool:
        """True if any of them wrote anything."""
        wrote = False
        writers: Counter[str] = Counter()
        # In rounds: what one controller writes may be work for one that came before it.
        for _ in range(MAX_ROUNDS):
            again = False
            for controller in self._controllers:
                if controller.step():
                    again = True
                    writers[type(controller).__name__] += 1
            if not again:
                if self._noting and changes is not None:
                    changes.update({f"controller {name} writes": 1 for name in writers})
                return wrote
            wrote = True
        busiest = ", ".join(f"{name} ({count} times)" for name, count in writers.most_common(3))
        raise NotSettled(f"the controllers never come to rest; still writing: {busiest}")

    def _restless(self, changes: Counter[str]) -> NotSettled:
        busiest = "".join(f"\n  {what}: {count} times" for what, count in changes.most_common(5))
        text = f"the lab does not settle: after {self._max_cycles} cycles these keep changing:{busiest}"
        why = self._as_kai()
        return MovedForEver(f"{text}\n{why}") if why else NotSettled(text)
