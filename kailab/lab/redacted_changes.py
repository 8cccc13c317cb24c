"""Changes as they may be passed on: the objects in them are cut as in evidence, so that a ticket or a log gets no environment, argument
or credential. What is carried out is the whole of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kailab.evidence.redaction import Redaction


def redacted_data(changes: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """``changes``, in the forms of ``kailab.lab.change``; and where something was cut, ``left_out``: the fields of which."""
    given = list(changes)
    redaction = Redaction()
    # Labels are what selectors go by, and a step may be about any of them; their values are no free text.
    redaction.selected.update(_label_keys(given))
    shown = [_redacted(change, redaction) for change in given]
    return {"changes": shown, **({"left_out": sorted(redaction.fields)} if redaction.fields else {})}


def _redacted(change: Mapping[str, Any], redaction: Redaction) -> dict[str, Any]:
    found = dict(change)
    if "apply" in change:
        found["apply"] = [redaction.object(obj) for obj in change["apply"]]
    if "patch" in change:
        given = change["patch"]
        # Which rules hold for an object is a matter of its kind, which a patch does not say itself.
        cut = redaction.object({"kind": given["kind"], **given["patch"]})
        found["patch"] = {**given, "patch": {key: value for key, value in cut.items() if key in given["patch"]}}
    return found


def _label_keys(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, inside in value.items():
            if key == "labels" and isinstance(inside, Mapping):
                yield from inside
            yield from _label_keys(inside)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _label_keys(one)
