"""Shapes of Kubernetes' own kinds, and field names of operators' kinds, from two tables that are part of the package.

``core.json`` maps each type to its fields: the name of another type, a scalar, ``[x]`` for a list, ``{x}`` for a mapping, ``=a|b`` for
one of these texts; ``!`` marks a required field. ``python -m tools.core_table`` makes it from the models of the ``kubernetes`` package,
for the types that kinds name (``Kind.schema``). ``operators.json`` has names of fields, with types of ``core.json`` where a definition
embeds pods or their parts, and the values of fields that may have only some. ``python -m tools.operator_fields`` makes it.

A table is read at its first use, and a type becomes a check when it is first needed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from kailab.model.validation import shapes
from kailab.model.validation.shapes import Check

TABLE = Path(__file__).with_name("core.json")
SCALARS: dict[str, Check] = {
    "str": shapes.TEXT,
    "bool": shapes.FLAG,
    "int": shapes.INT32,
    "int64": shapes.INT64,
    "count": shapes.COUNT,
    "port": shapes.PORT,
    "pods": shapes.PODS,
    "float": shapes.number,
    "quantity": shapes.quantity,
    "share": shapes.share,
    "int|str": shapes.int_or_text,
    "time": shapes.time,
    "any": shapes.anything,
}


@cache
def shape(type: str) -> Check:
    """The check for a type (``V1PodSpec``) or an expression over types."""
    if type in SCALARS:
        return SCALARS[type]
    if type[0] == "[":
        return shapes.items(shape(type[1:-1]))
    if type[0] == "=":
        return shapes.one_of(*type[1:].split("|"))
    if type[0] == "{":
        return shapes.table(shape(type[1:-1]))
    return shapes.record(fields_of(type), required_fields(type))


def required_fields(type: str) -> tuple[str, ...]:
    """The fields that a type must have."""
    return tuple(name[:-1] for name in _table()[type] if name.endswith("!"))


def types() -> Iterable[str]:
    """The names of all types."""
    return _table()


def field_types(type: str) -> dict[str, str]:
    """The fields of a type with their types as in the table."""
    return {name.removesuffix("!"): of for name, of in _table()[type].items()}


def fields_of(type: str) -> dict[str, Check]:
    """The checks of a type's fields; none is required."""
    return {name: _later(of) for name, of in field_types(type).items()}


def loose_pod_spec() -> Check:
    """A partial pod spec that is completed later: containers and their names may be missing."""
    containers = shapes.items(shapes.record(fields_of("V1Container")))
    return shapes.record({**fields_of("V1PodSpec"), "containers": containers})


def _later(type: str) -> Check:
    # Built lazily, because types refer to themselves (JSONSchemaProps) and most are never needed.
    return SCALARS.get(type) or shapes.later(lambda: shape(type))


@cache
def _table() -> dict[str, dict[str, str]]:
    return json.loads(TABLE.read_text(encoding="utf-8"))


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
