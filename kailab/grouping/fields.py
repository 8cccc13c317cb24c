"""Reads fields of objects of unknown shape.

Each reader follows a path of keys and returns the value, or None if the path does not exist. A value of another type raises GroupingError
with its path, as Kubernetes' unstructured accessors do.
"""

from __future__ import annotations

import re
from typing import Any, TypeVar

from kailab.cluster.protocol import Object
from kailab.grouping.records import GroupingError
from kailab.model.objects import full_name

_INTEGER = re.compile(r"[+-]?[0-9]+")
T = TypeVar("T")


def group_version(api_version: str) -> tuple[str, str]:
    """``apps/v1`` -> ``("apps", "v1")``; ``v1`` -> ``("", "v1")``."""
    group, slash, version = api_version.rpartition("/")
    return (group, version) if slash else ("", api_version)


def title(obj: Object) -> str:
    """Kind and name of an object for messages: ``JobSet default/js``."""
    return f"{obj.get('kind') or 'object'} {full_name(obj)}"


def whole_number(text: str, what: str, least: int | None = None) -> int:
    """A whole number in the text of a label or annotation. ``what`` names it in the error. Raises GroupingError."""
    # Counts of a PodGroup are int32.
    if not isinstance(text, str) or not _INTEGER.fullmatch(text) or abs(int(text)) >= 2**31:
        raise GroupingError(f"{what}: {text!r} is not a whole number")
    value = int(text)
    if least is not None and value < least:
        raise GroupingError(f"{what}: {value} is too small, expected {least} or more")
    return value


def integer(obj: Any, *path: str) -> int | None:
    return _typed(int, "a whole number", obj, path)


def string(obj: Any, *path: str) -> str | None:
    return _typed(str, "a string", obj, path)


def boolean(obj: Any, *path: str) -> bool | None:
    return _typed(bool, "true or false", obj, path)


def mapping(obj: Any, *path: str) -> dict[str, Any] | None:
    return _typed(dict, "an object", obj, path)


def objects(obj: Any, *path: str) -> list[dict[str, Any]] | None:
    value: list[dict[str, Any]] | None = _typed(list, "a list", obj, path)
    for index, item in enumerate(value or ()):
        if not isinstance(item, dict):
            raise _wrong((*path, str(index)), "an object", item)
    return value


def strings(obj: Any, *path: str) -> list[str] | None:
    value = _walk(obj, path)
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise _wrong(path, "a list of strings", value)
    return value


def _typed(kind: type[T], expected: str, obj: Any, path: tuple[str, ...]) -> T | None:
    value = _walk(obj, path)
    if value is None:
        return None
    # Python takes True for an int.
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise _wrong(path, expected, value)
    return value


def _walk(obj: Any, path: tuple[str, ...]) -> Any:
    for depth, key in enumerate(path):
        if obj is None:
            return None
        if not isinstance(obj, dict):
            raise _wrong(path[:depth], "an object", obj)
        obj = obj.get(key)
    return obj


def _wrong(path: tuple[str, ...], expected: str, value: Any) -> GroupingError:
    return GroupingError(f"{'.'.join(path)}: expected {expected}, not {value!r}")
