"""Looking again and again until something is as it should be, or the time is up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import tenacity

T = TypeVar("T")
POLL_SECONDS = 0.1


def look_until(
    look: Callable[[], T],
    enough: Callable[[T], bool],
    seconds: float,
    *,
    pause: Callable[[tenacity.RetryCallState], float] | float = POLL_SECONDS,
    sleep: Callable[[float], object] | None = None,
) -> T:
    """What was seen last. ``pause``: seconds between looks, or tenacity's way to tell them. ``sleep``: how to pass them (a live
    cluster's ``wait`` wakes with its news). What ``look`` raises ends it."""
    how: dict[str, Any] = {} if sleep is None else {"sleep": sleep}
    seen: T = tenacity.Retrying(
        retry=tenacity.retry_if_result(lambda result: not enough(result)),
        stop=tenacity.stop_after_delay(seconds),
        wait=pause if callable(pause) else tenacity.wait_fixed(pause),
        # When the time is up the caller gets the last look, and judges it; an exception would lose it.
        retry_error_callback=lambda state: state.outcome.result() if state.outcome is not None else None,
        **how,
    )(look)
    return seen


def wait_until(
    done: Callable[[], bool],
    seconds: float,
    pause: float = POLL_SECONDS,
    sleep: Callable[[float], object] | None = None,
) -> bool:
    """False: it did not come true."""
    return bool(look_until(done, bool, seconds, pause=pause, sleep=sleep))
