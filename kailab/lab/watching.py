"""The labs that a condition looks at, so that ``eventually`` and the others know in which lab to let time pass."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kailab.lab.open_lab import OpenLab

# A context variable keeps the labs of tests in several threads apart.
_watched: ContextVar[list[OpenLab] | None] = ContextVar("kailab_watched", default=None)


def note_lab(lab: OpenLab) -> bool:
    """Note that an expectation looks at a lab. True inside a temporal form, where only that form lets time pass."""
    watched = _watched.get()
    if watched is None:
        return False
    if not any(one is lab for one in watched):
        watched.append(lab)
    return True


def in_temporal_form() -> bool:
    """True while a temporal form checks its condition."""
    return _watched.get() is not None


@contextmanager
def watching() -> Iterator[list[OpenLab]]:
    """Collect the labs that expectations look at inside."""
    watched: list[OpenLab] = []
    token = _watched.set(watched)
    try:
        yield watched
    finally:
        _watched.reset(token)
