"""Changes in a form that may be passed on: objects are redacted as in evidence, so that tickets and logs contain no environment variables,
arguments or credentials. The unredacted changes are carried out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kailab.evidence.redaction import Redaction


def redacted_data(changes: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """``changes``, in the forms of ``kailab.lab.change``, redacted; ``left_out``, if something was cut: the fields."""
    given = list(changes)
    redaction = Redaction()
    # Selectors and steps refer to labels, and their values are no free text.
    redaction.selected.update(_label_keys(given))
    shown = [_redacted(change, redaction) for change in given]
    return {"changes": shown, **({"left_out": sorted(redaction.fields)} if redaction.fields else {})}


def _redacted(change: Mapping[str, Any], redaction: Redaction) -> dict[str, Any]:
    result = dict(change)
    if "apply" in change:
        result["apply"] = [redaction.object(obj) for obj in change["apply"]]
    if "patch" in change:
        given = change["patch"]
        # The rules depend on the kind, which the patch itself does not contain.
        cut = redaction.object({"kind": given["kind"], **given["patch"]})
        result["patch"] = {**given, "patch": {key: value for key, value in cut.items() if key in given["patch"]}}
    return result


def _label_keys(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, inside in value.items():
            if key == "labels" and isinstance(inside, Mapping):
                yield from inside
            yield from _label_keys(inside)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _label_keys(item)
