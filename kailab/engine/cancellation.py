"""Cancellation of running cycles.

A cycle of a large cluster takes seconds. Its caller may stop waiting, at a deadline or on Ctrl-C. ``cancelled_by`` names a
function that the cycle calls before each attempt to place a job and before each reason. An exception of that function ends
the cycle, which undoes its changes on the way out. The function sees no decision and cannot change one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_CHECK: ContextVar[Callable[[], None] | None] = ContextVar("cancellation", default=None)


@contextmanager
def cancelled_by(check: Callable[[], None]) -> Iterator[None]:
    """Call ``check`` often during the cycles in this block, in place of a function that an outer block names."""
    before = _CHECK.set(check)
    try:
        yield
    finally:
        _CHECK.reset(before)


def cancellation() -> Callable[[], None]:
    """The function that the innermost block names; without one, a function that does nothing."""
    return _CHECK.get() or _never


def _never() -> None:
    pass
