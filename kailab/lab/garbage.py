"""Keep Python's cyclic garbage collector out of the way while a lab works.

A lab holds hundreds of thousands of objects that live as long as the lab and form no cycles. The collector would walk through all of them
again and again while more are made: on a fleet of 500 nodes and 4,000 jobs that took longer than the work itself.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")

_MANY_OBJECTS = 100_000
_MOMENTS = 1000
_aged_at = -1
"""The number of full collections when young objects were last moved to the oldest generation."""


@contextmanager
def collector_off() -> Iterator[None]:
    """No cyclic collection inside. Nested use is fine."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            _age_new_objects()
            gc.enable()


def collect_regularly(moments: Iterable[T]) -> Iterator[T]:
    """Pass the moments on, and collect the youngest generation after each ``_MOMENTS`` of them if the collector is off. A replay of weeks
    has hundreds of thousands of moments, and each leaves some cycles. Objects that exist before the first moment are not collected."""
    if not gc.isenabled():
        _age_new_objects()
    for number, moment in enumerate(moments, 1):
        yield moment
        if number % _MOMENTS == 0 and not gc.isenabled():
            gc.collect(0)


def _age_new_objects() -> None:
    """If many objects were made, move them to the oldest generation: nearly all of them stay, and the collector would walk through them
    first. This happens at most once between two full collections, so that the next one finds the cycles that have died."""
    global _aged_at
    full = gc.get_stats()[-1]["collections"]
    # gc.unfreeze would also release objects that other code has frozen.
    if gc.get_count()[0] < _MANY_OBJECTS or _aged_at == full or gc.get_freeze_count():
        return
    _aged_at = full
    gc.freeze()
    gc.unfreeze()


@contextmanager
def collector_off_for_good() -> Iterator[None]:
    """As ``collector_off``, for a process that ends after its work with a lab: new objects are moved to the oldest generation, so that they
    are not collected. Do not use it repeatedly in one process, because dead cycles would be found late."""
    with collector_off():
        try:
            yield
        finally:
            gc.freeze()
            gc.unfreeze()
