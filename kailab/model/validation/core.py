"""Shapes of kinds, and field names of operators' kinds, from three tables that are part of the package.

``core.json`` maps each type to its fields: the name of another type, a scalar, ``[x]`` for a list, ``{x}`` for a mapping, ``=a|b`` for
one of these texts; ``!`` marks a required field. ``python -m tools.core_table`` makes it from the models of the ``kubernetes`` package,
for the types that kinds name (``Kind.schema``). ``kinds.json`` has the other kinds with the fields that kailab reads, written by hand in
the same form and a little more: ``[x by name]`` for a list whose items differ in a field, ``x & y`` for both, ``1..9`` for a whole number
within bounds, ``~x`` for a type of which no field is required; the field ``+`` takes over the fields of another type.

``operators.json`` has names of fields, with types of ``core.json`` where a definition embeds pods or their parts, and the values of fields
that may have only some. ``python -m tools.operator_fields`` makes it.

A table is read at its first use, and a type becomes a check when it is first needed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from kailab.model.validation import shapes
from kailab.model.validation.shapes import Check

TABLE = Path(__file__).with_name("core.json")
KINDS_TABLE = Path(__file__).with_name("kinds.json")
SCALARS: dict[str, Check] = {
    "str": shapes.TEXT,
    "text": shapes.filled(shapes.TEXT),
    "bool": shapes.FLAG,
    "int": shapes.INT32,
    "int64": shapes.INT64,
    "count": shapes.COUNT,
    "long count": shapes.LONG_COUNT,
    "port": shapes.PORT,
    "pods": shapes.PODS,
    "float": shapes.number,
    "quantity": shapes.quantity,
    "share": shapes.number_or_percentage,
    "memory": shapes.memory_text,
    "memory or bytes": shapes.memory_or_bytes,
    "memory factor": shapes.memory_factor,
    "label names": shapes.label_names,
    "mapping": shapes.MAPPING,
    "list": shapes.LIST,
    "int|str": shapes.int_or_text,
    "time": shapes.time,
    "any": shapes.anything,
}


@cache
def shape(type: str) -> Check:
    """The check for a type (``V1PodSpec``) or an expression over types."""
    if type in SCALARS:
        return SCALARS[type]
    first, both, second = type.partition(" & ")
    if both:
        return shapes.both(shape(first), shape(second))
    low, bounds, high = type.partition("..")
    if bounds:
        return shapes.whole(int(low), int(high))
    match type[0]:
        case "[":
            item, by, key = type[1:-1].partition(" by ")
            return shapes.named(shape(item), key) if by else shapes.items(shape(item))
        case "{":
            return shapes.map_of(shape(type[1:-1]))
        case "=":
            return shapes.one_of(*type[1:].split("|"))
        case "~":
            return shapes.record(fields_of(type[1:]))
    return shapes.record(fields_of(type), required_fields(type))


def shape_of_type(type: str) -> Callable[[], Check]:
    """A part ``Kind.shape``: the shape of a type, made at its first use."""
    return partial(shape, type)


def required_fields(type: str) -> tuple[str, ...]:
    return tuple(name[:-1] for name in _entry(type) if name.endswith("!"))


def types() -> Iterable[str]:
    """The names of all types of Kubernetes."""
    return _table(TABLE)


def field_types(type: str) -> dict[str, str]:
    """The fields of a type with their types as in the table."""
    entry = _entry(type)
    own = {name.removesuffix("!"): of for name, of in entry.items() if name != "+"}
    return {**field_types(entry["+"]), **own} if "+" in entry else own


def fields_of(type: str) -> dict[str, Check]:
    """The checks of a type's fields; none is required."""
    return {name: _later(of) for name, of in field_types(type).items()}


LOOSE_POD_SPEC = "LoosePodSpec"
"""The type of a partial pod spec that is completed later: containers and their names may be missing."""


def _later(type: str) -> Check:
    # Built lazily, because types refer to themselves (JSONSchemaProps) and most are never needed.
    return SCALARS.get(type) or shapes.later(lambda: shape(type))


def _entry(type: str) -> dict[str, str]:
    core = _table(TABLE)
    return core[type] if type in core else _table(KINDS_TABLE)[type]


@cache
def _table(path: Path) -> dict[str, dict[str, str]]:
    return json.loads(path.read_text(encoding="utf-8"))


# --- fields of operators' kinds ---------------------------------------------------------------------------------------

OPERATORS_TABLE = Path(__file__).with_name("operators.json")


class OperatorDefinition(NamedTuple):
    """The type of a kind, and the operator version that defines it: ``JobSet v0.12.0``."""

    type: str
    whose: str


def operator_definition(api_version: str, kind: str) -> OperatorDefinition | None:
    """None if the kind or its version is not in the table."""
    entry = _operators_table()["kinds"].get(f"{api_version} {kind}")
    return OperatorDefinition(*entry) if entry else None


def operator_values(api_version: str, kind: str) -> dict[str, list[Any]]:
    """The fields of an operator's kind that may have only some values, with them. Paths have ``*`` for the items of a list or mapping."""
    return _operators_table()["values"].get(f"{api_version} {kind}", {})


def operator_field_types(type: str) -> dict[str, str]:
    """The fields of a type of an operator or of Kubernetes, with their types."""
    fields: dict[str, str] | None = _operators_table()["types"].get(type)
    return field_types(type) if fields is None else fields


@cache
def _operators_table() -> dict[str, Any]:
    return json.loads(OPERATORS_TABLE.read_text(encoding="utf-8"))
