"""Merging objects with structural sharing: only the dicts on a changed path are copied.

``merge_patch`` is RFC 7386. ``apply_patch`` is the three-way merge of ``kubectl apply``: fields applied before and
absent now are removed, given fields are set, and fields set by others stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kailab.model.patches import keyed, merge_key


def merge_patch(target: Any, patch: Any) -> Any:
    """``target`` with a JSON merge patch applied; ``target`` itself (the same object) if nothing changes.

    >>> merge_patch({"a": 1, "b": {"c": 2, "d": 3}}, {"b": {"c": None}})
    {'a': 1, 'b': {'d': 3}}
    """
    if type(patch) is not dict and not isinstance(patch, Mapping):
        return patch
    # RFC 7386: a mapping replaces a value that is none, and its nulls are dropped.
    fresh = not isinstance(target, dict)
    result: dict[str, Any] = {} if fresh else target
    copied = fresh
    for key, value in patch.items():
        if value is None:
            if key in result:
                if not copied:
                    result, copied = dict(result), True
                del result[key]
            continue
        old = result.get(key)
        kind = type(value)
        # An isinstance check of an abstract class costs more than handling most values, which are strings.
        if kind is not str and (kind is dict or isinstance(value, Mapping)):
            new = merge_patch(old, value)
            if new is old:
                continue
        elif old is value or (key in result and same(old, value)):
            continue
        else:
            new = value
        if not copied:
            result, copied = dict(result), True
        result[key] = new
    return result


def same(a: Any, b: Any) -> bool:
    """Equality of JSON values: true is not 1, but 1.0 is 1."""
    if a is b:
        return True
    if type(a) is str:
        return bool(a == b)
    # Equal booleans are one object in Python, and were recognized above.
    if isinstance(a, bool) or isinstance(b, bool):
        return False
    if isinstance(a, dict) and isinstance(b, dict):
        if a.keys() != b.keys():
            return False
        for key, value in a.items():
            other = b[key]
            # Two states of an object share most parts.
            if value is not other and not same(value, other):
                return False
        return True
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


def apply_patch(live: Any, last: Any, new: Any, name: str = "") -> Any:
    """``live`` after applying ``new``, when ``last`` is what was applied before. Shares what does not change."""
    if isinstance(new, dict) and isinstance(live, dict):
        return _apply_dict(live, last if isinstance(last, dict) else {}, new)
    # Lists without the key, or with duplicate keys, can't be merged by it and are replaced.
    if isinstance(new, list) and isinstance(live, list) and (key := merge_key(name, new, live)):
        return _apply_list(live, last if isinstance(last, list) else [], new, key)
    # The live value if it is equal: callers see by identity that nothing changed.
    return live if same(live, new) else new


def _apply_dict(live: dict[str, Any], last: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    result = live
    for key in last:
        if key not in new and key in result:
            result = {k: v for k, v in result.items() if k != key}
    for key, value in new.items():
        if value is None:
            if key in result:
                result = {k: v for k, v in result.items() if k != key}
            continue
        if key not in result:
            result = {**result, key: _without_nulls(value)}
            continue
        merged = apply_patch(result[key], last.get(key), value, key)
        if merged is not result[key]:
            result = {**result, key: merged}
    return result


def _without_nulls(value: Any) -> Any:
    """A value as it is stored for the first time: without null fields."""
    if isinstance(value, dict) and any(v is None or isinstance(v, dict) for v in value.values()):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return value


def _apply_list(live: list[Any], last: list[Any], new: list[Any], key: str) -> list[Any]:
    before = {item[key]: item for item in last} if keyed(last, key) else {}
    live_items = {item[key]: item for item in live}
    result = [
        apply_patch(live_items[item[key]], before.get(item[key]), item) if item[key] in live_items else item
        for item in new
    ]
    given = {item[key] for item in new}
    # Entries of others stay, after the applied ones.
    result += [item for item in live if item[key] not in given and item[key] not in before]
    # The old list itself if nothing changed: callers see it by identity.
    unchanged = len(result) == len(live) and all(a is b for a, b in zip(result, live, strict=True))
    return live if unchanged else result
