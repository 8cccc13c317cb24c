"""Apply patches in the forms of ``kubectl patch`` to an object, and express the result as a JSON merge patch (RFC 7386), which every
cluster accepts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kailab.errors import InputError
from kailab.model.objects import Object

MERGE_KEYS: Mapping[str, tuple[str, ...]] = {
    "containers": ("name",),
    "initContainers": ("name",),
    "ephemeralContainers": ("name",),
    "volumes": ("name",),
    "env": ("name",),
    "volumeMounts": ("mountPath",),
    "volumeDevices": ("devicePath",),
    "ports": ("containerPort", "port"),
    "conditions": ("type",),
    "addresses": ("type",),
    "ownerReferences": ("uid",),
    "reservedFor": ("uid",),
    "imagePullSecrets": ("name",),
    "secrets": ("name",),
    "hostAliases": ("ip",),
    "hostIPs": ("ip",),
    "podIPs": ("ip",),
    "topologySpreadConstraints": ("topologyKey",),
    "resourceClaims": ("name",),
    "schedulingGates": ("name",),
}
"""Lists of Kubernetes' own kinds with a ``patchMergeKey``. Other lists are replaced as a whole."""
_MERGED_TEXTS = ("finalizers", "podCIDRs")
_DELETE_FROM, _ORDER = "$deleteFromPrimitiveList/", "$setElementOrder/"


def merge_key(name: str, *several: Sequence[Any]) -> str:
    """The merge key of a list of this name, or "" if the list has none or its items lack it."""
    return next((key for key in MERGE_KEYS.get(name, ()) if all(keyed(items, key) for items in several)), "")


def keyed(items: Sequence[Any], key: str) -> bool:
    """True if every item has the key, with a unique text or number."""
    names = [item.get(key) for item in items if isinstance(item, dict)]
    present = len(names) == len(items) and all(isinstance(name, (str, int)) for name in names)
    return present and len(set(map(str, names))) == len(names)


def strategic_patch(target: Any, patch: Mapping[str, Any], where: str = "") -> Object:
    """Kubernetes' strategic merge patch: lists with a merge key are merged item by item. Raises InputError."""
    before: Object = dict(target) if isinstance(target, dict) else {}
    how = patch.get("$patch", "merge")
    if how not in ("merge", "replace", "delete"):
        raise InputError(f"{where or 'the patch'}: $patch: {how!r} is not valid; expected merge, replace or delete")
    if how != "merge":
        return {} if how == "delete" else {key: value for key, value in patch.items() if key != "$patch"}
    for key, value in patch.items():
        inside = f"{where}.{key}".lstrip(".")
        if key in ("$patch", "$retainKeys") or key.startswith(_ORDER):
            continue  # the order of a list does not matter to a scheduler
        if key.startswith(_DELETE_FROM):
            field = key.removeprefix(_DELETE_FROM)
            gone = _list(value, inside)
            before[field] = [item for item in before.get(field) or () if item not in gone]
        elif key.startswith("$"):
            raise InputError(f"{inside}: is no directive of a strategic merge patch")
        elif value is None:
            before.pop(key, None)
        elif isinstance(value, dict):
            before[key] = strategic_patch(before.get(key), value, inside)
        elif isinstance(value, list):
            before[key] = _merged_list(before.get(key) or [], value, key, inside)
        else:
            before[key] = value
    retained = patch.get("$retainKeys")
    return before if retained is None else {key: before[key] for key in before if key in _list(retained, where)}


def _merged_list(live: list[Any], given: list[Any], name: str, where: str) -> list[Any]:
    if name in _MERGED_TEXTS:
        return [*live, *(item for item in given if item not in live)]
    whole = [item for item in given if not (isinstance(item, dict) and set(item) == {"$patch"})]
    if len(whole) < len(given):  # an item with only ``$patch: replace`` applies to the whole list
        return whole
    keys = MERGE_KEYS.get(name, ())
    if not keys:
        return given
    key = merge_key(name, given, live)
    if not key:
        raise InputError(f"{where}: each item has to say which it is, once: {' or '.join(keys)}")
    at = {item[key]: index for index, item in enumerate(live)}
    gone = {item[key] for item in given if item.get("$patch") == "delete"}
    new = [
        strategic_patch(live[at[item[key]]] if item[key] in at else None, item, f"{where}[{item[key]}]")
        for item in given
        if item[key] not in gone
    ]
    named = {item[key] for item in given}
    rest = [item for item in live if item[key] not in named]
    merged: list[Any] = []
    # An API server puts the items that a patch adds first.
    for item in new:
        while rest and item[key] in at and at[rest[0][key]] < at[item[key]]:
            merged.append(rest.pop(0))
        merged.append(item)
    return merged + rest


def json_patch(target: Object, operations: Sequence[Any]) -> Object:
    """Apply a JSON patch (RFC 6902). Raises InputError that names the operation that failed."""
    done: Any = target
    for number, operation in enumerate(operations):
        try:
            done = _operated(done, operation)
        except InputError as error:
            raise InputError(f"[{number}]: {error.message}") from None
    if not isinstance(done, dict):
        raise InputError("what is left is no object")
    return done


def _operated(target: Any, step: Any) -> Any:
    if not isinstance(step, dict) or not isinstance(step.get("op"), str) or not isinstance(step.get("path"), str):
        raise InputError('expected an operation, as in {"op": "replace", "path": "/spec/replicas", "value": 3}')
    operation, path = step["op"], step["path"]
    if operation in ("move", "copy") and not isinstance(step.get("from"), str):
        raise InputError(f"{operation}: from is missing; expected a path")
    if operation in ("add", "replace", "test") and "value" not in step:
        raise InputError(f"{operation} {path}: value is missing")
    if operation == "add":
        return _put(target, _steps(path), step["value"], path)
    if operation == "replace":
        _at(target, _steps(path), path)
        return _put(_without(target, _steps(path), path), _steps(path), step["value"], path)
    if operation == "remove":
        return _without(target, _steps(path), path)
    if operation == "test":
        if (seen := _at(target, _steps(path), path)) != step["value"]:
            raise InputError(f"test {path}: is {seen!r:.80}, not {step['value']!r:.80}")
        return target
    if operation in ("move", "copy"):
        value = _at(target, _steps(step["from"]), step["from"])
        left = _without(target, _steps(step["from"]), step["from"]) if operation == "move" else target
        return _put(left, _steps(path), value, path)
    raise InputError(f"op: {operation!r} is not valid; expected add, remove, replace, move, copy or test")


def _steps(path: str) -> list[str]:
    if path and not path.startswith("/"):
        raise InputError(f"{path!r} is no JSON pointer; expected one such as /spec/replicas")
    return [step.replace("~1", "/").replace("~0", "~") for step in path.split("/")[1:]]


def _at(target: Any, steps: Sequence[str], path: str) -> Any:
    for step in steps:
        if isinstance(target, dict) and step in target:
            target = target[step]
        elif isinstance(target, list):
            target = target[_index(target, step, path, len(target) - 1)]
        else:
            raise InputError(f"{path}: is not there")
    return target


def _put(target: Any, steps: Sequence[str], value: Any, path: str) -> Any:
    if not steps:
        return value
    step, *further = steps
    if isinstance(target, list):
        if further:
            index = _index(target, step, path, len(target) - 1)
            return [*target[:index], _put(target[index], further, value, path), *target[index + 1 :]]
        index = len(target) if step == "-" else _index(target, step, path, len(target))
        return [*target[:index], value, *target[index:]]
    if not isinstance(target, dict) or (further and step not in target):
        raise InputError(f"{path}: there is nothing to hold it")
    return {**target, step: _put(target[step], further, value, path) if further else value}


def _without(target: Any, steps: Sequence[str], path: str) -> Any:
    if not steps:
        return None
    _at(target, steps, path)
    step, *further = steps
    if isinstance(target, list):
        index = _index(target, step, path, len(target) - 1)
        kept = [_without(target[index], further, path)] if further else []
        return [*target[:index], *kept, *target[index + 1 :]]
    if further:
        return {**target, step: _without(target[step], further, path)}
    return {key: item for key, item in target.items() if key != step}


def _index(items: list[Any], step: str, path: str, most: int) -> int:
    if not (step.isascii() and step.isdigit() and int(step) <= most):
        raise InputError(f"{path}: there is no item {step} of {len(items)}")
    return int(step)


def _list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise InputError(f"{where}: expected a list, not {value!r:.60}")
    return value


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> Object:
    """The JSON merge patch from one object to another."""
    patch: Object = {key: None for key in before if key not in after}
    for key, value in after.items():
        old = before.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            if inner := difference(old, value):
                patch[key] = inner
        elif key not in before or type(old) is not type(value) or old != value:
            patch[key] = value
    return patch
