"""Which labs a condition looks at, so that ``eventually`` and its like know whose time to let pass."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kailab.lab.lab import Lab

# A context variable, so that tests in threads of one process don't see each other's labs.
_watched: ContextVar[list[Lab] | None] = ContextVar("kailab_watched", default=None)


def note(lab: Lab) -> bool:
    """An expectation looks at a lab. True inside a temporal form: there time passes only from outside."""
    watched = _watched.get()
    if watched is None:
        return False
    if not any(one is lab for one in watched):
        watched.append(lab)
    return True


def inside() -> bool:
    """True while a temporal form checks its condition."""
    return _watched.get() is not None


@contextmanager
def watching() -> Iterator[list[Lab]]:
    """Collects the labs that are looked at inside."""
    watched: list[Lab] = []
    token = _watched.set(watched)
    try:
        yield watched
    finally:
        _watched.reset(token)
