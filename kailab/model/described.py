"""A file of YAML in the form of a schema, with every fault named by line and field."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from kailab.errors import InputError, InputErrors, Where
from kailab.model import yamltext
from kailab.model.files import read_text
from kailab.model.manifests import line_of
from kailab.model.schema_faults import Fault, faults, read_schema

Faults = Callable[[dict[str, Any], Path], Iterable[Fault]]


def described(file: Path, schema: Path, expected: str, further: Faults) -> dict[str, Any]:
    """``expected``: what the file holds, in words. ``further``: what is wrong with one that has the form, given its folder. Raises
    InputError, or InputErrors with every fault."""
    value, lines = yamltext.read_document(read_text(file), str(file), expected)
    found = list(faults(value, read_schema(schema))) or list(further(value, file.parent))
    if found:
        raise InputErrors.of(
            [InputError(one.message, Where(str(file), line_of(lines, one.path), "", one.path)) for one in found]
        )
    return value


def place_of(file: Path, field: str) -> Where:
    """Where a field stands in a file that was found to be right as a whole, or what it would stand in. Raises InputError."""
    _, lines = yamltext.read_document(read_text(file), str(file), "one document")
    return Where(str(file), line_of(lines, field), "", field)
