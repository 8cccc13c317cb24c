"""``--field-selector`` and ``--sort-by``: which of the objects are shown, and in which order."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from kailab.errors import InputError

if TYPE_CHECKING:
    from kailab.cli.jsonpath import Path

Object = dict[str, Any]
_TERM = re.compile(r"\s*([A-Za-z][\w./-]*?)\s*(==|=|!=)\s*(\S*)\s*")

field_selector = click.option(
    "--field-selector",
    default="",
    show_default=False,
    help="Only objects with these values, of any field: status.phase=Pending,spec.nodeName!=a100-0.",
)
sort_by = click.option(
    "--sort-by", default="", show_default=False, help="Order by a field: .metadata.creationTimestamp."
)


class ByFields:
    """Whether an object has the values. A field that is not there has the value ""."""

    def __init__(self, text: str) -> None:
        """Raises InputError."""
        self._terms = _terms(text)

    def __call__(self, obj: Object) -> bool:
        from kailab.model.kind import field_of

        return all((_text(field_of(obj, field)) == value) is wanted for field, wanted, value in self._terms)

    def absent(self, objects: Sequence[Object]) -> list[str]:
        """Fields that are held against a value and that none of the objects has: most likely mistyped."""
        from kailab.model.kind import field_of

        if not objects:
            return []
        asked = dict.fromkeys(field for field, _, value in self._terms if value)
        return [field for field in asked if all(field_of(obj, field) is None for obj in objects)]


def _terms(text: str) -> list[tuple[str, bool, str]]:
    """(field, whether it has to have the value, value)."""
    terms = []
    for part in text.split(",") if text else []:
        term = _TERM.fullmatch(part)
        if term is None:
            raise InputError(f"--field-selector: {part!r}: expected FIELD=VALUE or FIELD!=VALUE")
        terms.append((term[1], term[2] != "!=", term[3]))

    return terms


def _text(value: Any) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def in_order(objects: Sequence[Object], path: Path) -> list[Object]:
    """Those without the field first; numbers by size, also those in text. Raises InputError where none has the field."""
    found = {id(obj): path.values(obj) for obj in objects}
    if objects and not any(found.values()):
        raise InputError(f"--sort-by: none of the objects has the field {path.text}")
    return sorted(objects, key=lambda obj: [_rank(value) for value in found[id(obj)][:1]])


def _rank(value: Any) -> tuple[int, list[tuple[int, float, str]]]:
    if isinstance(value, bool | int | float):
        return (0, [(0, value, "")])
    # As people count: node-9 comes before node-10.
    parts = re.split(r"(\d{1,15})", value) if isinstance(value, str) else [str(value)]
    return (1, [(0, float(part), "") if part.isdecimal() else (1, 0.0, part) for part in parts if part])
