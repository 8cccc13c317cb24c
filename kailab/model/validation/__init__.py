"""What an API server would refuse: field checks of one object by itself, and advice about it.

``validate`` gives faults, ``advise`` gives what is allowed but probably not meant. Both take any object that
has apiVersion, kind and metadata, whatever its fields hold, and never raise. They check what kailab reads;
fields it does not know are not judged.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from kailab.model.kinds import KINDS, part
from kailab.model.validation import core
from kailab.model.validation.advice import advise_work
from kailab.model.validation.fields import Fault, Faults, check_metadata
from kailab.model.validation.shapes import Check

__all__ = ["Fault", "advise", "validate", "validate_status"]

MOST_TOLD = 25  # faults of one object


def validate(obj: dict[str, Any], kind: str) -> list[Fault]:
    """What is wrong with an object: (field path, message), in the order of the checks. Empty: nothing.

    ``kind`` is the kind key. Field paths read ``spec.containers[0].resources.limits[nvidia.com/gpu]``.
    """
    faults = Faults()
    check_metadata(faults, obj, kind)
    check = part(kind, "check")
    if check is not None:
        check(faults, obj)
    # The checks with the best words come first: a shape, and decoding, would tell the same again, less well.
    if not faults.found:
        shape = shape_of(kind)
        if shape is not None:
            faults.found.extend(shape(obj) or ())
    if not faults.found:
        _check_record(faults, obj, kind)
    if len(faults.found) > MOST_TOLD:
        more = Fault("", f"and {len(faults.found) - MOST_TOLD} more faults")
        return [*faults.found[:MOST_TOLD], more]
    return faults.found


def validate_status(status: Any, kind: str) -> list[Fault]:
    """As ``validate``, of a status by itself."""
    known = KINDS.get(kind)
    check = core.shape(known.status_schema) if known is not None and known.status_schema else None
    return (check(status) if check is not None else None) or []


def shape_of(kind: str) -> Check | None:
    """The check of the shape of a kind (by its kind key); None for kinds of which none is known."""
    make = part(kind, "shape")
    if make is not None:
        return _made(make)
    known = KINDS.get(kind)
    return core.shape(known.schema) if known is not None and known.schema else None


@cache
def _made(make: Callable[[], Check]) -> Check:
    return make()


def _check_record(faults: Faults, obj: dict[str, Any], kind: str) -> None:
    """Whatever passes can be decoded: no reader of the object needs to think of wrong types. What kailab does not decode is judged
    as far as all objects are alike."""
    import msgspec

    from kailab.model import decoding
    from kailab.model.records import AnyObject

    try:
        decoding.convert(obj, part(kind, "record") or AnyObject)
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at `$")
        faults.add(place.rstrip("`").lstrip("."), message.replace("`", ""))


def advise(obj: dict[str, Any], kind: str) -> list[Fault]:
    """What is allowed but likely a mistake, for an object without faults."""
    faults = Faults()
    advise_work(faults, obj)
    check = part(kind, "advice")
    if check is not None:
        check(faults, obj)
    return faults.found
