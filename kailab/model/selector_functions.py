"""What selectors of devices do with values: CEL's operators, and Kubernetes' functions for quantities and versions."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from kailab.errors import InputError
from kailab.model.quantities import parse
from kailab.model.semver import Semver

EQUAL: dict[str, Callable[[Any, Any], Any]] = {"==": operator.eq, "!=": operator.ne}
ORDER: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class CannotTell(Exception):
    """A selector has no value for a device: it lacks an attribute, or has one of another type."""


TYPES: dict[str, type] = {"text": str, "number": int, "truth": bool, "quantity": Fraction, "version": Semver}
NAMES = {kind: name for name, kind in TYPES.items()}


def kind_of(value: Any) -> str:
    return NAMES.get(type(value), "map")


def truth_of(value: Any) -> bool:
    if not isinstance(value, bool):
        raise CannotTell(f"a {kind_of(value)} where true or false is needed")
    return value


def compared(compare: Callable[[Any, Any], Any], sign: str, left: Any, right: Any) -> bool:
    """CEL compares like with like; things of two types are never equal."""
    # By exact type: to Python, True == 1.
    if type(left) is not type(right):
        if sign in EQUAL:
            return sign == "!="
        raise CannotTell(f"{kind_of(left)} {sign} {kind_of(right)}")
    if sign in ORDER and isinstance(left, (Fraction, Semver)):
        raise CannotTell(f"{sign} does not compare a {kind_of(left)}")
    return bool(compare(left, right))


def looked_up(table: Any, key: str) -> Any:
    if not isinstance(table, Mapping) or key not in table:
        raise CannotTell(f"no such attribute: {key}")
    return table[key]


def _matches(text: str, pattern: str) -> bool:
    try:
        # CEL has RE2, which finds a match anywhere in the text, too. Where the two differ in syntax is not looked at.
        return re.search(pattern, text) is not None
    except re.error as error:
        raise CannotTell(f"{pattern!r} is no regular expression: {error}") from None


def _quantity(text: Any) -> Fraction:
    try:
        return parse(text)
    except InputError:
        raise CannotTell(f"{text!r} is no quantity") from None


def _semver(text: Any) -> Semver:
    try:
        return Semver.parse(text)
    except InputError:
        raise CannotTell(f"{text!r} is no semantic version") from None


def _is(read: Callable[[Any], Any]) -> Callable[[Any], bool]:
    def test(text: Any) -> bool:
        try:
            read(text)
        except CannotTell:
            return False
        return True

    return test


FUNCTIONS: dict[str, tuple[str, str, Callable[[Any], Any]]] = {
    "quantity": ("text", "quantity", _quantity),
    "isQuantity": ("text", "truth", _is(_quantity)),
    "semver": ("text", "version", _semver),
    "isSemver": ("text", "truth", _is(_semver)),
    "size": ("", "number", len),
}
_ORDERED = ("quantity", "version")
METHODS: dict[tuple[str, int], tuple[tuple[str, ...], str, Callable[..., Any]]] = {
    ("startsWith", 1): (("text",), "truth", str.startswith),
    ("endsWith", 1): (("text",), "truth", str.endswith),
    ("contains", 1): (("text",), "truth", lambda text, part: part in text),
    ("matches", 1): (("text",), "truth", _matches),
    ("lowerAscii", 0): (("text",), "text", str.lower),
    ("upperAscii", 0): (("text",), "text", str.upper),
    ("size", 0): (("text",), "number", len),
    ("compareTo", 1): (_ORDERED, "number", lambda a, b: (a > b) - (a < b)),
    ("isGreaterThan", 1): (_ORDERED, "truth", operator.gt),
    ("isLessThan", 1): (_ORDERED, "truth", operator.lt),
    ("sign", 0): (("quantity",), "number", lambda a: (a > 0) - (a < 0)),
    ("add", 1): (("quantity",), "quantity", operator.add),
    ("sub", 1): (("quantity",), "quantity", operator.sub),
    ("major", 0): (("version",), "number", lambda version: version.major),
    ("minor", 0): (("version",), "number", lambda version: version.minor),
    ("patch", 0): (("version",), "number", lambda version: version.patch),
}
