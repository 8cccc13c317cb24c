"""Manifests as their own kustomization makes them, as far as webhooks need it: its resources, and JSON patches that replace."""

from __future__ import annotations

import copy
import posixpath
from collections.abc import Iterator, Mapping
from typing import Any

from kailab.cluster.protocol import Object
from kailab.components import DamagedComponent, Manifests


def kustomized(manifests: Manifests, folder: str) -> list[Object]:
    """The objects of a folder with a ``kustomization.yaml``, patched. Raises DamagedComponent for what can't be read so."""
    (recipe,) = manifests.objects(f"{folder}/kustomization.yaml")
    found = [one for file in recipe.get("resources") or () for one in manifests.objects(posixpath.join(folder, file))]
    for patch in recipe.get("patches") or ():
        file, target = posixpath.join(folder, patch["path"]), patch.get("target") or {}
        operations = [one for document in manifests.documents(file) for one in document]
        found = [patched(one, operations, file) if _is_meant(one, target) else one for one in found]
    return found


def patched(obj: Object, operations: list[dict[str, Any]], file: str) -> Object:
    """A copy with each operation (RFC 6902) carried out; ``file``: where they stand. Raises DamagedComponent for one that replaces
    nothing."""
    result = copy.deepcopy(obj)
    for operation in operations:
        *above, last = _steps(str(operation.get("path", "")))
        inside: Any = result
        try:
            for step in above:
                inside = inside[int(step) if isinstance(inside, list) else step]
            key = int(last) if isinstance(inside, list) else last
            if operation["op"] != "replace":
                raise KeyError(operation["op"])
            inside[key]  # what replaces must find something
            inside[key] = operation["value"]
        except (KeyError, IndexError, ValueError, TypeError) as error:
            raise DamagedComponent(f"{file}: the patch {operation!r:.200} can't be carried out: {error!r}") from error
    return result


def _steps(path: str) -> Iterator[str]:
    return (step.replace("~1", "/").replace("~0", "~") for step in path.split("/")[1:] or [""])


def _is_meant(obj: Object, target: Mapping[str, str]) -> bool:
    group, _, version = str(obj.get("apiVersion", "")).rpartition("/")
    own = {
        "group": group,
        "version": version,
        "kind": obj.get("kind"),
        "name": obj.get("metadata", {}).get("name"),
    }
    return all(own.get(key) == value for key, value in target.items())
