"""Check the shape of values: types, required fields, bounds and choices.

A check is made once from a description. It takes a value and returns a list of faults, or None if there are none. Field paths are put
together only for faults, so a sound object costs one look at each known field. Fields that a shape does not name are not judged, and
null counts as absent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from kailab.errors import InputError
from kailab.model import quantities, times
from kailab.model.validation.fields import (
    LABEL_RULE,
    LARGEST_INT32,
    LARGEST_INT64,
    MOST_PODS,
    Fault,
    choices_text,
    is_dns_label,
    shown,
)

_MEMORY = re.compile(r"[0-9]{1,9}(\.[0-9]{1,3})?([kmgt](i?b)?|b)?", re.ASCII)
_PLAIN_BYTES = re.compile(r"[0-9]{1,15}b?", re.ASCII)
_FACTOR = re.compile(r"[0-9]{1,4}(\.[0-9]{1,6})?|\.[0-9]{1,6}", re.ASCII)
Check: TypeAlias = Callable[[Any], list[Fault] | None]


def _leaf(kind: type, expected: str) -> Check:
    def check(value: Any) -> list[Fault] | None:
        # The exact type, because bool is a subclass of int, and JSON and YAML yield no other classes.
        return None if type(value) is kind else _wrong(value, expected)

    return check


def whole(least: int, most: int) -> Check:
    """A whole number within bounds, both included."""

    def check(value: Any) -> list[Fault] | None:
        if type(value) is not int:
            return _wrong(value, "a whole number")
        return None if least <= value <= most else _wrong(value, f"{least} to {most}")

    return check


def number(value: Any) -> list[Fault] | None:
    return None if type(value) in (int, float) else _wrong(value, "a number")


def int_or_text(value: Any) -> list[Fault] | None:
    """Kubernetes' IntOrString: a port or its name, a count or a percentage."""
    return None if type(value) in (int, str) else _wrong(value, "a whole number or text")


def number_or_percentage(value: Any) -> list[Fault] | None:
    """A number, or a percentage as text."""
    if type(value) is int:
        return COUNT(value)
    digits = value[:-1] if isinstance(value, str) and value.endswith("%") else ""
    fits = digits.isascii() and digits.isdigit() and len(digits) <= 3
    return None if fits else _wrong(value, "a whole number of 0 or more, or a percentage such as 25%")


def _readable(read: Callable[[Any], object]) -> Check:
    """A value that ``read`` reads without an InputError."""

    def check(value: Any) -> list[Fault] | None:
        try:
            read(value)
        except InputError as error:
            return [Fault("", error.message)]
        return None

    return check


def memory_text(value: Any) -> list[Fault] | None:
    """Memory in the form of Java and Spark: ``512m``, ``4g``. The number of digits is limited so that it can be computed with."""
    if isinstance(value, str) and _MEMORY.fullmatch(value.lower()):
        return None
    return _wrong(value, "an amount of memory such as 512m or 4g")


def memory_or_bytes(value: Any) -> list[Fault] | None:
    """Memory, also in bytes without a unit, so that it may have more digits."""
    return None if isinstance(value, str) and _PLAIN_BYTES.fullmatch(value) else memory_text(value)


def memory_factor(value: Any) -> list[Fault] | None:
    """A part of the memory, as text."""
    if isinstance(value, str) and _FACTOR.fullmatch(value):
        return None
    return [Fault("", f'is {value!r:.80}; expected a part of the memory as text, such as "0.1"')]


def label_names(value: Any) -> list[Fault] | None:
    """A mapping whose keys become parts of pod names."""
    if type(value) is not dict:
        return _wrong(value, "a mapping")
    for name in value:
        if not is_dns_label(name.lower()):
            return [Fault(f"[{name:.80}]", f"is not a name that pods can have; expected {LABEL_RULE}")]
    return None


def anything(value: Any) -> None:
    return None


quantity = _readable(quantities.parse)
time = _readable(times.parse_time)
TEXT = _leaf(str, "text")
FLAG = _leaf(bool, "true or false")
MAPPING = _leaf(dict, "a mapping")
LIST = _leaf(list, "a list")
INT32 = whole(-(2**31), LARGEST_INT32)
INT64 = whole(-LARGEST_INT64 - 1, LARGEST_INT64)
COUNT = whole(0, LARGEST_INT32)
"""A 32-bit count or number of seconds."""
LONG_COUNT = whole(0, LARGEST_INT64)
"""The same in 64 bits."""
PORT = whole(0, 65535)
"""A port of a container, host or Service; 0 where none is chosen yet."""
PODS = whole(0, MOST_PODS)
"""A number of pods, or of objects that make pods, up to the maximum of a lab."""


def one_of(*choices: str) -> Check:
    expected = choices_text(choices)

    def check(value: Any) -> list[Fault] | None:
        return None if isinstance(value, str) and value in choices else _wrong(value, expected)

    return check


def filled(check: Check) -> Check:
    """A text or list that must not be empty."""

    def also(value: Any) -> list[Fault] | None:
        faults = check(value)
        return faults if faults is not None or value else [Fault("", "must not be empty")]

    return also


def items(of: Check) -> Check:
    """A list of values that each satisfy a check."""

    def check(value: Any) -> list[Fault] | None:
        if type(value) is not list:
            return _wrong(value, "a list")
        # The list is created at the first fault, because most objects have none and every field passes through here.
        faults: list[Fault] | None = None
        for index, item in enumerate(value):
            inner = of(item)
            if inner is not None:
                faults = _below(faults, f"[{index}]", inner)
        return faults

    return check


def named(of: Check, key: str = "name") -> Check:
    """A list of mappings with one field that is unique among them."""
    each = items(of)

    def check(value: Any) -> list[Fault] | None:
        # Names are compared only if every item is a mapping.
        faults = each(value)
        if faults is not None:
            return faults
        seen: set[Any] = set()
        for index, item in enumerate(value):
            name = item.get(key)
            if name in seen:
                return [Fault(f"[{index}].{key}", f"{shown(name)} is given twice")]
            seen.add(name)
        return None

    return check


def map_of(of: Check) -> Check:
    """A mapping of any names to values that satisfy a check."""

    def check(value: Any) -> list[Fault] | None:
        if type(value) is not dict:
            return _wrong(value, "a mapping")
        faults: list[Fault] | None = None
        for name, item in value.items():
            inner = of(item) if item is not None else None
            if inner is not None:
                faults = _below(faults, f"[{name:.80}]", inner)
        return faults

    return check


def record(fields: Mapping[str, Check], required: tuple[str, ...] = ()) -> Check:
    """A mapping with these fields, of which ``required`` must be present."""
    known = dict(fields)

    def check(value: Any) -> list[Fault] | None:
        if type(value) is not dict:
            return _wrong(value, "a mapping")
        faults: list[Fault] | None = None
        for name, item in value.items():
            of = known.get(name)
            if of is not None and item is not None:
                inner = of(item)
                if inner is not None:
                    faults = _below(faults, name, inner)
        for name in required:
            if value.get(name) is None:
                faults = _below(faults, name, [Fault("", "is required")])
        return faults

    return check


def with_spec(spec: Check) -> Check:
    """An object whose spec satisfies a check."""
    return record({"spec": spec}, ("spec",))


def both(first: Check, second: Check) -> Check:
    """The faults of the second check, if the first finds none."""

    def check(value: Any) -> list[Fault] | None:
        faults = first(value)
        return second(value) if faults is None else faults

    return check


def later(make: Callable[[], Check]) -> Check:
    """A check that is built at its first use."""
    made: list[Check] = []

    def check(value: Any) -> list[Fault] | None:
        if not made:
            made.append(make())
        return made[0](value)

    return check


def _wrong(value: Any, expected: str) -> list[Fault]:
    return [Fault("", f"{shown(value)} is not valid; expected {expected}")]


def _below(faults: list[Fault] | None, step: str, inner: list[Fault]) -> list[Fault]:
    """Append the faults of a nested value, with its step in front of their paths."""
    moved = [
        Fault(f"{step}{path}" if not path or path.startswith("[") else f"{step}.{path}", message)
        for path, message in inner
    ]
    return moved if faults is None else faults + moved


# --- OpenAPI schemas of CustomResourceDefinitions ---------------------------------------------------------------------


def shape_of_schema(schema: dict[str, Any]) -> Check:
    """The check for an OpenAPI schema. Fields that it does not name are ignored."""
    if schema.get("x-kubernetes-int-or-string"):
        return int_or_text
    match schema.get("type"):
        case "object":
            if "additionalProperties" in schema:
                return map_of(shape_of_schema(schema["additionalProperties"]))
            fields = {name: shape_of_schema(inner) for name, inner in (schema.get("properties") or {}).items()}
            return record(fields, tuple(schema.get("required") or ()))
        case "array":
            return items(shape_of_schema(schema.get("items") or {}))
        case "string":
            if "enum" in schema:
                return one_of(*schema["enum"])
            return time if schema.get("format") == "date-time" else TEXT
        case "integer":
            bits = 31 if schema.get("format") == "int32" else 63
            return whole(int(schema.get("minimum", -(2**bits))), int(schema.get("maximum", 2**bits - 1)))
        case "number":
            return number
        case "boolean":
            return FLAG
    return anything
