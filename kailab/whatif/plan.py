"""What applying manifests would change: fields, object by object, and the consequence for all work, with the plan to apply later.

The objects are applied to a fork and compared with those of the lab, so fields that a server fills in are no changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from kailab.cluster.protocol import Object
from kailab.errors import InputError, NotFound
from kailab.lab.change import Apply
from kailab.lab.intake import NamedText, load_sources, named_texts
from kailab.lab.lab import Lab
from kailab.model.kinds import is_namespaced
from kailab.model.labels import LAST_APPLIED
from kailab.model.manifests import Manifest, Notice
from kailab.model.objects import metadata_of, name_of, namespace_of
from kailab.model.patches import merge_key
from kailab.whatif.alternatives import Alternative, WhatIf, what_if
from kailab.whatif.plan_files import ChangePlan, digests_of

HIDDEN = "(not shown)"
_SERVER_METADATA = frozenset({"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink"})


class FieldDiff(msgspec.Struct, frozen=True, omit_defaults=True):
    """``before`` None: the field is new; ``after`` None: it is removed. Values of environment variables are hidden."""

    path: str
    before: Any = None
    after: Any = None


class ObjectDiff(msgspec.Struct, frozen=True):
    kind: str
    namespace: str
    name: str
    action: Literal["create", "change", "unchanged"]
    fields: tuple[FieldDiff, ...] = ()


class Diff(msgspec.Struct, frozen=True):
    """``consequence``: None if nothing changes. ``notices``: about the manifests."""

    objects: tuple[ObjectDiff, ...]
    consequence: WhatIf | None
    notices: tuple[Notice, ...]
    plan: ChangePlan

    @property
    def changes(self) -> bool:
        return any(obj.action != "unchanged" for obj in self.objects)

    @property
    def warnings(self) -> tuple[str, ...]:
        """The notices as text."""
        return tuple(map(str, self.notices))

    def data(self) -> dict[str, Any]:
        """For programs."""
        return {
            "changes": self.changes,
            "objects": msgspec.to_builtins(self.objects),
            "consequence": None if self.consequence is None else self.consequence.data(),
            "notices": [notice.data() for notice in self.notices],
            "warnings": list(self.warnings),
        }


def diff_manifests(
    lab: Lab,
    sources: Sequence[Path | str | NamedText],
    namespace: str = "default",
    seconds: float = 0.0,
    *,
    strict: bool = True,
) -> Diff:
    """What applying manifests would change, and its consequence after ``seconds`` of lab time. The lab does not change. ``strict``:
    refuse, as ``Lab.apply`` does, manifests that can never work. Raises InputError(s) for manifests, NotSettled."""
    texts = [text for source in sources for text in named_texts(source)]
    manifests = load_sources(texts, namespace=namespace).manifests
    if not manifests:
        raise InputError(f"no objects in {', '.join(text.name for text in texts) or 'nothing'}")
    with lab.fork() as copy:
        before = [_stored(copy, manifest, namespace) for manifest in manifests]
        notices = copy.apply(*texts, namespace=namespace, strict=strict).notices
        objects = tuple(
            _object_diff(manifest, old, _stored(copy, manifest, namespace), namespace)
            for manifest, old in zip(manifests, before, strict=True)
        )
    consequence = None
    if any(obj.action != "unchanged" for obj in objects):
        change = Apply(tuple(manifests.objects), namespace, tuple(texts))
        consequence = what_if(lab, [Alternative("the manifests", (change,))], seconds)
    plan = ChangePlan(objects=digests_of(lab), time=lab.now, namespace=namespace, strict=strict, texts=tuple(texts))
    return Diff(objects, consequence, tuple(notices), plan)


def _stored(lab: Lab, manifest: Manifest, namespace: str) -> Object | None:
    obj = manifest.object
    space = (namespace_of(obj) or namespace) if is_namespaced(manifest.kind, obj) else None
    if not metadata_of(obj).get("name"):
        return None
    try:
        return lab.cluster.get(manifest.kind, name_of(obj), space)
    except NotFound:
        return None


def _object_diff(manifest: Manifest, before: Object | None, after: Object | None, namespace: str) -> ObjectDiff:
    obj = manifest.object
    space = str(namespace_of(obj) or namespace) if is_namespaced(manifest.kind, obj) else ""
    name = str(metadata_of(obj).get("name") or f"{metadata_of(obj).get('generateName')}*")
    if before is None:
        fields = tuple(_leaves(_user_fields(obj), ""))
        return ObjectDiff(manifest.kind, space, name, "create", fields)
    changes = tuple(_changes(_user_fields(before), _user_fields(after or {}), "", ""))
    return ObjectDiff(manifest.kind, space, name, "change" if changes else "unchanged", changes)


def _user_fields(obj: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an object that a user sets: without its identity, its status, and the metadata that the server sets."""
    meta = {key: value for key, value in (obj.get("metadata") or {}).items() if key not in _SERVER_METADATA}
    notes = {key: value for key, value in (meta.get("annotations") or {}).items() if key != LAST_APPLIED}
    meta = {key: value for key, value in meta.items() if key not in ("name", "namespace", "annotations")}
    if notes:
        meta["annotations"] = notes
    rest = {key: value for key, value in obj.items() if key not in ("apiVersion", "kind", "metadata", "status")}
    return {**({"metadata": meta} if meta else {}), **rest}


def _changes(before: Any, after: Any, path: str, field: str) -> Iterator[FieldDiff]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys((*before, *after)):
            inside = _inside(path, str(key))
            if key not in after:
                yield from (FieldDiff(leaf.path, leaf.after) for leaf in _leaves(before[key], inside))
            elif key not in before:
                yield from _leaves(after[key], inside)
            else:
                yield from _changes(before[key], after[key], inside, str(key))
        return
    lists = isinstance(before, list) and isinstance(after, list) and before != after
    if lists and (key := merge_key(field, before, after)):
        old, new = ({str(item[key]): item for item in items} for items in (before, after))
        yield from _changes(old, new, path, "")
        return
    if type(before) is not type(after) or before != after:
        hidden = _is_hidden(path)
        yield FieldDiff(path, HIDDEN if hidden else before, HIDDEN if hidden else after)


def _leaves(value: Any, path: str) -> Iterator[FieldDiff]:
    """Each value inside a new value."""
    if isinstance(value, dict) and value:
        for key, inside in value.items():
            yield from _leaves(inside, _inside(path, str(key)))
    elif isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        key = merge_key(path.rpartition(".")[2], value)
        for number, item in enumerate(value):
            yield from _leaves(item, f"{path}[{item[key] if key else number}]")
    else:
        yield FieldDiff(path, None, HIDDEN if _is_hidden(path) else value)


def _inside(path: str, key: str) -> str:
    plain = key.replace("-", "").replace("_", "").isalnum() and path
    if not path:
        return key
    return f"{path}.{key}" if plain else f"{path}[{key}]"


def _is_hidden(path: str) -> bool:
    """True for values of environment variables and data of Secrets, because users paste a diff into tickets and CI logs."""
    return (".env" in path and path.endswith(".value")) or path.startswith(("data", "stringData", "binaryData"))
