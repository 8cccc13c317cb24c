"""What the search for the steps of one answer, or of the answers of one simulation, may use: a number of tries, and time.

This is the only bound on tries, and the search, the proposals that look ahead and the tries on forks all ask it. ``SearchBudget`` of
the engine is something else: a setting of the scheduler that belongs to its decisions, and it counts so that a run can be repeated.

The time is processor time, so that a busy machine gives the same answer as an idle one; on an idle machine it is how long a user waits,
because tries wait for nothing. It begins with the search, after the cause is known. It is checked between tries, between the cycles of
a try, and within each cycle whenever a job is tried, so a search ends soon after its limit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from kailab.engine.cancellation import cancelled_by
from kailab.lab.answer import IncompleteReason, IncompleteSteps

MOST_TRIES = 60
"""Tries for one answer in a small lab."""
LEAST_TRIES = 2
"""The same in a large one."""
AFFORDABLE_PODS = 12_000
"""The product of tries and pods is kept below this."""


class StepsStopped(Exception):
    """The search has used its time, or Ctrl-C was pressed. It is no ``KailabError``: a proposal that a lab refuses is something else."""


class StepBudget:
    """The budget of the steps of one answer, and the count of what was tried. Answers that share it share the time; tries are counted for
    each.

    ``timeout``: seconds of processor time for the search; None: no limit, 0: nothing is tried, ``math.inf``: as much as is asked for.
    ``interrupted``: whether Ctrl-C was pressed; if it is given, Ctrl-C ends the search as the timeout does, and the answer keeps what was
    found. Without it KeyboardInterrupt goes to the caller. ``on_progress``: called with the number of proposals that were tried, the
    number of those known, and what is tried next. ``safe``: nothing is tried that raises a priority, or that withdraws or ends the
    work of others. ``clock``: seconds.
    """

    def __init__(
        self,
        timeout: float | None = None,
        *,
        interrupted: Callable[[], bool] | None = None,
        on_progress: Callable[[int, int, str], None] = lambda tried, known, proposal: None,
        safe: bool = False,
        clock: Callable[[], float] = time.process_time,
    ) -> None:
        self.timeout = timeout
        self.safe = safe
        self.tried = 0
        self.known = 0
        self.tries_left = MOST_TRIES
        self.stopped: IncompleteReason | None = None
        self._interrupted = interrupted
        self._on_progress = on_progress
        self._clock = clock
        self._end: float | None = None
        self._counts_tries = True
        self._everything = False

    def begin(self, pods: int, everything: bool = False) -> None:
        """Begin the search of one answer. ``pods``: of the lab. ``everything``: where a timeout is given, the number of tries is
        unlimited."""
        self._everything = everything
        self.tried = self.known = 0
        if self.stopped is IncompleteReason.TRIALS:
            self.stopped = None
        self.tries_left = max(LEAST_TRIES, min(MOST_TRIES, AFFORDABLE_PODS // max(1, pods)))
        self._counts_tries = not everything or self.timeout is None
        self.start()

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C was pressed."""
        return self._interrupted is not None and self._interrupted()

    def start(self) -> None:
        """Let the time begin, if it has not."""
        if self._end is None and self.timeout is not None:
            self._end = self._clock() + self.timeout

    def part(self, share: float) -> StepBudget:
        """A part of the time, which begins now, for something before the search. Ctrl-C ends it too."""
        self.start()
        timeout = None if self.timeout is None else self.timeout * share
        part = StepBudget(timeout, interrupted=self._interrupted, clock=self._clock)
        part.start()
        return part

    @property
    def used_up(self) -> bool:
        """Whether no further try is allowed."""
        return self.stopped is not None or (self._counts_tries and self.tries_left <= 0)

    def check(self) -> None:
        """Raise StepsStopped if the time is over or Ctrl-C was pressed."""
        if self.interrupted:
            self.stopped = IncompleteReason.INTERRUPTED
        elif self._end is not None and self._clock() >= self._end:
            self.stopped = IncompleteReason.TIMEOUT
        if self.stopped is not None:
            raise StepsStopped

    def ends_cycles(self) -> AbstractContextManager[None]:
        """A block in which cycles end when the time is over or Ctrl-C was pressed: StepsStopped comes out of them. The block must not
        keep what such a cycle would have changed: it runs on a fork, or only reads decisions."""
        return cancelled_by(self.check)

    def spend(self) -> bool:
        """Count one try. Returns whether it is allowed. Raises StepsStopped."""
        self.check()
        if self._counts_tries:
            self.tries_left -= 1
        return self.tries_left >= 0

    @contextmanager
    def one_more(self) -> Iterator[None]:
        """A block with at least one try, also if their number is used up."""
        stopped, self.tries_left = self.stopped, max(1, self.tries_left)
        if stopped is IncompleteReason.TRIALS:
            self.stopped = None
        try:
            yield
        finally:
            self.stopped = self.stopped or stopped

    def stop(self, error: StepsStopped | KeyboardInterrupt) -> None:
        """End the search for a reason that was raised. Raises KeyboardInterrupt again if the caller wants to have it."""
        if isinstance(error, KeyboardInterrupt):
            if self._interrupted is None:
                raise error
            self.stopped = IncompleteReason.INTERRUPTED

    def skip(self) -> None:
        """Note that a proposal is not tried because the number of tries is used up."""
        if self.stopped is None:
            self.stopped = IncompleteReason.TRIALS

    def report(self, proposal: str) -> None:
        """Report which proposal is tried next. Raises StepsStopped."""
        self.check()
        self._on_progress(self.tried, self.known, proposal)

    @property
    def incomplete(self) -> IncompleteSteps | None:
        """What was not tried and why; None if the search came to its end."""
        if self.stopped is None:
            return None
        return IncompleteSteps(self.stopped, self.tried, self.known, self.timeout, self._everything)
