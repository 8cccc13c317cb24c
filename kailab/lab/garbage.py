"""Keeping Python's cyclic garbage collector out of the way while a lab works.

A lab holds hundreds of thousands of objects that live as long as it does and form no cycles. The collector would walk
through all of them again and again while more are made: on a fleet of 500 nodes and 4,000 jobs that took longer than
the work itself.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")

_MUCH = 100_000
_MOMENTS = 1000
_spared_at = -1
"""How many full collections there had been when young objects last counted as old unseen."""


@contextmanager
def collector_off() -> Iterator[None]:
    """No cyclic collection inside; nested use is fine. Reference counting goes on as ever."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            _spare_the_young()
            gc.enable()


def swept(moments: Iterable[T]) -> Iterator[T]:
    """The same moments; after each ``_MOMENTS`` of them what died in cycles meanwhile is taken away, where the collector is off: a replay of weeks has
    hundreds of thousands of them, and each leaves some. Only what is new is looked through."""
    for number, moment in enumerate(moments, 1):
        yield moment
        if number % _MOMENTS == 0 and not gc.isenabled():
            gc.collect(0)


def _spare_the_young() -> None:
    """Count what was made inside as old, if it is much: nearly all of it is to stay, and the first thing a collector does is to look
    through it. Once between two full collections, so that cycles that died inside are found by the next one."""
    global _spared_at
    full = gc.get_stats()[-1]["collections"]
    # What somebody else has frozen would be thawed with it.
    if gc.get_count()[0] < _MUCH or _spared_at == full or gc.get_freeze_count():
        return
    _spared_at = full
    gc.freeze()
    gc.unfreeze()


@contextmanager
def collector_off_for_good() -> Iterator[None]:
    """The same around all that a process does with a lab before it ends: what was made counts as old afterwards, so that none of it is
    looked through. Not to be used again and again in one process: cycles that died inside are found late."""
    with collector_off():
        try:
            yield
        finally:
            gc.freeze()
            gc.unfreeze()
