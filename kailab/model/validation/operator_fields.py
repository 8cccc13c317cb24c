"""The fields of operators' kinds, from a table that was made from their definitions.

The table (``operators.json``) has names of fields only, with the types of Kubernetes' own table where a definition has pods and their parts;
``tools/operator_fields.py`` makes it. What a field may hold stands with the kind (``Kind.shape``).
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from kailab.model.validation import core

TABLE = Path(__file__).with_name("operators.json")


class Definition(NamedTuple):
    """The type of a kind, and whose it is: ``JobSet v0.12.0``."""

    type: str
    whose: str


def definition(api_version: str, kind: str) -> Definition | None:
    """None for a kind, or a version of it, that is not in the table."""
    found = _table()["kinds"].get(f"{api_version} {kind}")
    return Definition(*found) if found else None


def typed(type: str) -> dict[str, str]:
    """The fields of a type, of the operators' or of Kubernetes' own, each with its own type."""
    fields: dict[str, str] | None = _table()["types"].get(type)
    return core.typed(type) if fields is None else fields


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = json.loads(TABLE.read_text(encoding="utf-8"))
    return table
