"""Keeping Python's cyclic garbage collector out of the way while a lab works.

A lab holds hundreds of thousands of objects that live as long as it does and form no cycles. The collector would walk
through all of them again and again while more are made: on a fleet of 500 nodes and 4,000 jobs that took longer than
the work itself.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_off() -> Iterator[None]:
    """No cyclic collection inside; nested use is fine. Reference counting goes on as ever."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


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
