"""How long to pause before trying again: longer each time, with jitter, up to a bound."""

from __future__ import annotations

import tenacity


class Backoff:
    """Seconds. ``next`` after each failure, ``reset`` once it goes well again."""

    def __init__(self, first: float, longest: float) -> None:
        # The random part keeps several candidates from beginning anew in step.
        self._wait = tenacity.wait_exponential(first, longest) + tenacity.wait_random(0, first)
        self._state = tenacity.RetryCallState(tenacity.Retrying(), None, (), {})
        self._state.attempt_number = 0

    @property
    def failures(self) -> int:
        """In a row."""
        return self._state.attempt_number

    def next(self) -> float:
        self._state.attempt_number += 1
        return float(self._wait(self._state))

    def reset(self) -> None:
        self._state.attempt_number = 0
