"""Check the fields of single objects as an API server does, and give advice about them.

``validate`` returns faults, ``advise`` returns valid fields that are probably mistakes. Both accept any object with
apiVersion, kind and metadata and never raise. They check the fields that kailab reads and ignore others.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from kailab.model.kinds import KINDS, part
from kailab.model.validation import core
from kailab.model.validation.advice import advise_work
from kailab.model.validation.fields import Fault, Faults, check_metadata
from kailab.model.validation.shapes import Check, record

__all__ = ["Fault", "advise", "validate", "validate_status"]

MOST_FAULTS = 25  # faults of one object


def validate(obj: dict[str, Any], kind: str, stored: dict[str, Any] | None = None) -> list[Fault]:
    """Return the faults of an object, (field path, message), in the order of the checks.

    ``kind`` is the kind key. Field paths read ``spec.containers[0].resources.limits[nvidia.com/gpu]``. ``stored``: the object as the
    server has it; it may keep faults by rules that are younger than itself (``Faults.ratchet``).
    """
    faults = _checked(obj, kind)
    if faults.ratcheted:
        # By field, as in Kubernetes: a value that breaks the rule may be exchanged for another one that does.
        kept = {fault.field for fault in _checked(stored, kind).ratcheted} if stored is not None else ()
        faults.found.extend(fault for fault in faults.ratcheted if fault.field not in kept)
    # The checks with the most helpful messages come first; shapes find the same faults with poorer ones.
    if not faults.found:
        shape = shape_of(kind)
        faults.found.extend((shape(obj) if shape is not None else None) or ())
    # The shapes of Kubernetes' own kinds include the metadata.
    if not faults.found and ((known := KINDS.get(kind)) is None or not known.schema):
        faults.found.extend(_shape_of_metadata()(obj) or ())
    if len(faults.found) > MOST_FAULTS:
        more = Fault("", f"and {len(faults.found) - MOST_FAULTS} more faults")
        return [*faults.found[:MOST_FAULTS], more]
    return faults.found


def _checked(obj: dict[str, Any], kind: str) -> Faults:
    faults = Faults()
    check_metadata(faults, obj, kind)
    check = part(kind, "check")
    if check is not None:
        check(faults, obj)
    return faults


def validate_status(status: Any, kind: str) -> list[Fault]:
    """As ``validate``, for a status only."""
    known = KINDS.get(kind)
    check = core.shape(known.status_schema) if known is not None and known.status_schema else None
    return (check(status) if check is not None else None) or []


def shape_of(kind: str) -> Check | None:
    """The shape check of a kind key, or None if no shape is known."""
    make = part(kind, "shape")
    if make is not None:
        return _made(make)
    known = KINDS.get(kind)
    return core.shape(known.schema) if known is not None and known.schema else None


@cache
def _shape_of_metadata() -> Check:
    return record({"metadata": core.shape("V1ObjectMeta")})


@cache
def _made(make: Callable[[], Check]) -> Check:
    return make()


def advise(obj: dict[str, Any], kind: str) -> list[Fault]:
    """Return advice for an object without faults: valid fields that are probably mistakes."""
    faults = Faults()
    advise_work(faults, obj)
    check = part(kind, "advice")
    if check is not None:
        check(faults, obj)
    return faults.found
