"""Validate each object of a manifest once, although reading it and the admission of an embedded cluster both ask.

The defaults of a kind make no fault in an object without faults (``tests/model/test_defaults.py``), so an object that was valid when it was
read is valid with its defaults.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from kailab.model.labels import LAST_APPLIED
from kailab.model.objects import Object

# Valid objects by their parts. The object is kept so that the ids of its parts stay their own.
_valid: ContextVar[dict[tuple[Any, ...], Object] | None] = ContextVar("valid", default=None)


@contextmanager
def validated_once() -> Iterator[None]:
    """Remember valid objects in the block. No object may change in it."""
    token = _valid.set({})
    try:
        yield
    finally:
        _valid.reset(token)


def remember_valid(obj: Object, kind: str) -> None:
    """Remember that an object has no faults. ``kind`` is the kind key."""
    valid = _valid.get()
    if valid is not None:
        valid[_parts(obj, kind)] = obj


def is_known_valid(obj: Object, kind: str) -> bool:
    """True if `apply` made this object from one that was remembered: with the same parts, the namespace and the record of the object."""
    valid = _valid.get()
    if valid is None:
        return False
    known = valid.pop(_parts(obj, kind), None)
    return known is not None and _is_equal_metadata(obj["metadata"], known["metadata"])


def _parts(obj: Object, kind: str) -> tuple[Any, ...]:
    # Who applies an object may not set its status, so there the status is another one.
    return (kind, *((field, id(value)) for field, value in obj.items() if field not in ("metadata", "status")))


def _is_equal_metadata(given: Object, known: Object) -> bool:
    for field, value in given.items():
        if field == "namespace" and field not in known:
            continue
        if field == "annotations":
            value = {key: text for key, text in value.items() if key != LAST_APPLIED} or known.get(field)
        if known.get(field) != value:
            return False
    return True
