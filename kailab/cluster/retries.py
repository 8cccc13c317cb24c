"""When to try again what failed, each thing at its own pace: one that always fails is not hammered, and delays nobody else."""

from __future__ import annotations

from typing import Generic, TypeVar

K = TypeVar("K")

FIRST_SECONDS = 0.5
LONGEST_SECONDS = 30.0
TRIES = 3
"""Failures in a row after which nobody waits for the next try: it is no passing trouble."""


def exponential_pause(failures: int, first: float, longest: float) -> float:
    """The pause after this many failures in a row: ``first`` seconds, doubled with each further failure, at most ``longest``."""
    return min(longest, first * 2.0 ** min(failures - 1, 1000))


class Retries(Generic[K]):
    """Pauses by key: ``first`` seconds after the first failure, twice as long after each further one, ``longest`` at most.

    Times are a cluster's ``now``. No jitter: the same failures at the same times give the same pauses."""

    def __init__(self, first: float = FIRST_SECONDS, longest: float = LONGEST_SECONDS) -> None:
        self._first, self._longest = first, longest
        self._failures: dict[K, int] = {}
        self._until: dict[K, float] = {}
        self._failed_at: dict[K, float] = {}

    def carry_on(self, other: Retries[K]) -> None:
        """Remember what another remembers, too."""
        self._failures |= other._failures
        self._until |= other._until
        self._failed_at |= other._failed_at

    def failed(self, key: K, now: float) -> float:
        """Note a failure. Returns the time at which to try again."""
        self._failures[key] = count = self._failures.get(key, 0) + 1
        self._failed_at[key] = now
        self._until[key] = now + exponential_pause(count, self._first, self._longest)
        return self._until[key]

    def done(self, key: K) -> None:
        """It went well, or need not be tried any more."""
        self._failures.pop(key, None)
        self._until.pop(key, None)
        self._failed_at.pop(key, None)

    def failures(self, key: K) -> int:
        """How many there were in a row."""
        return self._failures.get(key, 0)

    def worth_waiting(self, key: K, since: float) -> bool:
        """Whether its next try may yet change something: it did not fail from ``since`` on, or fewer than ``TRIES`` times in a row."""
        return self._failed_at.get(key, since) < since or self._failures.get(key, 0) < TRIES

    def due_since(self, since: float) -> float | None:
        """When the next pause is over of those worth waiting for."""
        return min((at for key, at in self._until.items() if self.worth_waiting(key, since)), default=None)

    def held(self, key: K, now: float) -> bool:
        """Whether its pause is not over."""
        return now < self._until.get(key, now)

    def due(self, now: float) -> list[K]:
        """Those whose pause is over, in the order in which they failed, each told once."""
        found = [key for key, until in self._until.items() if until <= now]
        # The count of failures stays: the next one in a row has a longer pause.
        for key in found:
            del self._until[key]
        return found

    @property
    def next_at(self) -> float | None:
        """When the next pause is over; None: nothing waits."""
        return min(self._until.values(), default=None)
