"""What is another value in two structures, field by field: ``spec.resources.gpu.quota 16 -> 8``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kailab.evidence.canonical import compact

NOTHING: Any = None
"""Stands for what one side does not have."""

_LONGEST = 120


class Change(NamedTuple):
    """One field. ``path``: its place, dots between the steps."""

    path: str
    first: Any
    second: Any

    def __str__(self) -> str:
        return f"{self.path} {shown(self.first)} -> {shown(self.second)}"


def changes(first: Any, second: Any, path: str = "") -> Iterator[Change]:
    """Every field that differs, in the order of the first."""
    if first == second:
        return
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        for key in [*first, *(key for key in second if key not in first)]:
            yield from changes(first.get(key, NOTHING), second.get(key, NOTHING), f"{path}.{key}" if path else str(key))
        return
    # Lists of different length are told as a whole: index by index, one more at the front would change everything.
    if isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        for number, (left, right) in enumerate(zip(first, second)):
            yield from changes(left, right, f"{path}[{number}]")
        return
    yield Change(path, first, second)


def object_changes(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[Change]:
    """Of two states of one object. A queue's resources go by the words that people use: ``gpu quota``."""
    for change in changes(first, second):
        path = change.path.removeprefix("spec.")
        if first.get("kind") == "Queue" and path.startswith("resources."):
            path = " ".join(path.split(".")[1:])
        yield change._replace(path=path)


def shown(value: Any) -> str:
    """A value in a line of text."""
    if value is NOTHING:
        return "nothing"
    text = value if isinstance(value, str) else compact(value).decode()
    text = " ".join(text.split()) or '""'
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
