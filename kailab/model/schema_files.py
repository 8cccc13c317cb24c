"""Check documents against a JSON schema and report each fault with its field, and with its line for YAML files.

The schemas use one keyword of kailab's own: ``expected``, beside a ``pattern`` or ``oneOf``, describes the accepted form in messages.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from kailab.errors import InputError, InputErrors, Where
from kailab.model import yamltext
from kailab.model.files import read_text
from kailab.model.manifests import line_of
from kailab.model.suggestions import closest_names
from kailab.model.times import duration_seconds
from kailab.model.validation.fields import shown

_WORDS = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "object": "a mapping",
    "array": "a list",
    "boolean": "true or false",
}


class SchemaFault(NamedTuple):
    """``path``: the field, as ``steps[2].expect``."""

    path: str
    message: str


@cache
def read_schema(path: Path) -> Mapping[str, Any]:
    """A JSON schema that comes with kailab."""
    return json.loads(path.read_text("utf-8"))


def find_schema_faults(value: Any, schema: Mapping[str, Any]) -> Iterator[SchemaFault]:
    """All faults, in order of their fields."""
    import jsonschema  # slow to import, and only files of kailab's own forms need it

    validator = jsonschema.Draft202012Validator(schema)
    for error in sorted(validator.iter_errors(value), key=lambda e: list(map(str, e.absolute_path))):
        yield from _faults_of_error(error)


def find_duration_faults(text: str | None, path: str, *, whole: bool = False, least: int = 1) -> Iterator[SchemaFault]:
    """Find faults of a duration (``90s``, ``14d``) or None. ``whole``: accept only whole seconds, at least ``least``."""
    if text is None:
        return
    try:
        seconds = duration_seconds(text, days=True)
    except InputError as error:
        yield SchemaFault(path, error.message)
        return
    if whole and (seconds < least or seconds != int(seconds)):
        yield SchemaFault(path, f"{text}: expected whole seconds, {'one' if least else 'none'} or more")


def join_path(path: str, key: str) -> str:
    """The path of a field within another."""
    if not re.fullmatch(r"[A-Za-z0-9_-]+", key):
        return f"{path}[{key:.80}]"
    return f"{path}.{key}" if path else key


def _faults_of_error(error: Any) -> Iterator[SchemaFault]:
    path = ""
    for part in error.absolute_path:
        path = f"{path}[{part}]" if isinstance(part, int) else join_path(path, part)
    rule, expected, value = error.validator, error.validator_value, error.instance
    if rule == "additionalProperties":
        known = error.schema.get("properties", {})
        patterns = error.schema.get("patternProperties", {})
        for key in value:
            if key not in known and not any(re.search(pattern, key) for pattern in patterns):
                yield SchemaFault(join_path(path, key), _unknown(key, known, patterns))
    elif rule == "required":
        missing = [key for key in expected if key not in value]
        key = missing[0] if len(missing) == 1 else next(k for k in missing if repr(k) in error.message)
        yield SchemaFault(join_path(path, key), "is required")
    else:
        yield SchemaFault(path, _message(rule, expected, shown(value), error.schema) or error.message[:200])


def _unknown(key: str, known: Mapping[str, Any], patterns: Mapping[str, Any]) -> str:
    # For keys with a pattern, the schema of their values describes the accepted form.
    for described in patterns.values():
        if "expected" in described:
            return str(described["expected"])
    close = closest_names(key, known)
    hint = f"did you mean {close[0]}?" if close else f"expected one of {', '.join(known)}"
    return f"unknown field; {hint}"


def _types(expected: str | list[str]) -> str:
    names = [expected] if isinstance(expected, str) else expected
    return " or ".join(_WORDS.get(name, name) for name in names)


def _message(rule: str, expected: Any, shown: str, schema: Mapping[str, Any]) -> str | None:
    """The message for a violated rule of the schema, or None."""
    match rule:
        case "type":
            return f"{shown} is not valid; expected {_types(expected)}"
        case "const":
            return f"{shown} is not valid; expected {expected!r}"
        case "enum":
            return f"{shown} is not valid; expected {' or '.join(map(str, expected))}"
        case "minimum":
            return f"{shown} is too small; expected {expected} or more"
        case "maximum":
            return f"{shown} is too large; expected {expected} at most"
        case "exclusiveMinimum":
            return f"{shown} is too small; expected more than {expected}"
        case "minItems" | "minProperties":
            return "is empty; expected at least one"
        case "maxItems":
            return f"is too long; expected {expected} at most"
        case "minLength":
            return "is empty; expected text"
        case "maxLength":
            return f"is too long; expected {expected} characters at most"
        case "pattern":
            return f"{shown} is not valid; expected {schema.get('expected', 'lower-case letters, digits and -')}"
        case "uniqueItems":
            return "has an entry twice; expected each once"
        case "oneOf" if "expected" in schema:
            return f"{shown} is not valid; expected {schema['expected']}"
    return None


# --- YAML files with a schema -----------------------------------------------------------------------------------------

FindFaults = Callable[[dict[str, Any], Path], Iterable[SchemaFault]]


def read_schema_file(file: Path, schema: Path, expected: str, further: FindFaults) -> dict[str, Any]:
    """Read a YAML file and check it against a schema. ``expected`` describes its content in messages. ``further`` finds faults of a document
    that satisfies the schema, given its folder. Raises InputError, or InputErrors with every fault."""
    value, lines = yamltext.read_document(read_text(file), str(file), expected)
    faults = list(find_schema_faults(value, read_schema(schema))) or list(further(value, file.parent))
    raise_schema_faults(faults, lines, str(file))
    return value


def raise_schema_faults(faults: Iterable[SchemaFault], lines: yamltext.Lines, file: str, title: str = "") -> None:
    """Raise InputError or InputErrors with every fault, if there are any. ``lines``: of the document; ``title``: names it in messages."""
    errors = [InputError(message, Where(file, line_of(lines, path), title, path)) for path, message in faults]
    if errors:
        raise InputErrors.of(errors)


def field_place(file: Path, field: str) -> Where:
    """The location of a field in a valid file, or of its closest existing parent. Raises InputError."""
    _, lines = yamltext.read_document(read_text(file), str(file), "one document")
    return Where(str(file), line_of(lines, field), "", field)
