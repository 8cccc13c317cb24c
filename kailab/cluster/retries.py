"""Pauses between retries, by key: a key that always fails is tried rarely, and delays no other key."""

from __future__ import annotations

from typing import Generic, TypeVar

K = TypeVar("K")

FIRST_SECONDS = 0.5
LONGEST_SECONDS = 30.0
TRIES = 3
"""After this many failures in a row nobody waits for the next try: the trouble is not temporary."""


def exponential_pause(failures: int, first: float, longest: float) -> float:
    """The pause after this many failures in a row: ``first`` seconds, doubled with each further failure, at most ``longest``."""
    return min(longest, first * 2.0 ** min(failures - 1, 1000))


class Retries(Generic[K]):
    """Pauses by key: ``first`` seconds after the first failure, twice as long after each further one, at most
    ``longest``.

    Times are the cluster's ``now``. There is no jitter: the same failures at the same times give the same pauses.
    """

    def __init__(self, first: float = FIRST_SECONDS, longest: float = LONGEST_SECONDS) -> None:
        self._first, self._longest = first, longest
        self._failures: dict[K, int] = {}
        self._until: dict[K, float] = {}
        self._failed_at: dict[K, float] = {}

    def carry_on(self, other: Retries[K]) -> None:
        """Take over the failures that another one remembers."""
        self._failures |= other._failures
        self._until |= other._until
        self._failed_at |= other._failed_at

    def failed(self, key: K, now: float) -> float:
        """Record a failure. Returns the time of the next try."""
        self._failures[key] = count = self._failures.get(key, 0) + 1
        self._failed_at[key] = now
        self._until[key] = now + exponential_pause(count, self._first, self._longest)
        return self._until[key]

    def forget(self, key: K) -> None:
        """Forget the failures of a key: it succeeded, or need not be tried any more."""
        self._failures.pop(key, None)
        self._until.pop(key, None)
        self._failed_at.pop(key, None)

    def failures(self, key: K) -> int:
        """The number of failures in a row."""
        return self._failures.get(key, 0)

    def worth_waiting(self, key: K, since: float) -> bool:
        """True if the next try may still change something: the key did not fail since ``since``, or fewer than
        ``TRIES`` times in a row."""
        return self._failed_at.get(key, since) < since or self._failures.get(key, 0) < TRIES

    def due_since(self, since: float) -> float | None:
        """The end of the next pause among the keys worth waiting for."""
        return min((at for key, at in self._until.items() if self.worth_waiting(key, since)), default=None)

    def is_paused(self, key: K, now: float) -> bool:
        """True if the key's pause is not over."""
        return now < self._until.get(key, now)

    def due(self, now: float) -> list[K]:
        """Keys whose pause is over, in the order of their failures, each reported once."""
        keys = [key for key, until in self._until.items() if until <= now]
        # The count of failures stays, so that the next failure in a row has a longer pause.
        for key in keys:
            del self._until[key]
        return keys

    @property
    def next_at(self) -> float | None:
        """The end of the next pause; None: no key has one."""
        return min(self._until.values(), default=None)
