"""Image archives in a folder: which images each has, as ``docker save`` or an OCI layout tells it."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from kailab.errors import InputError, Where
from kailab.model.files import LARGEST_FILE

_ENDINGS = (".tar", ".tar.gz", ".tgz")
_NAMES = ("io.containerd.image.name", "org.opencontainers.image.ref.name")


class Archive(NamedTuple):
    """``images``: their full names, as ``registry/name:tag``."""

    path: Path
    images: tuple[str, ...]


def packed(folder: Path) -> list[Path]:
    """Files of a folder, and of ``images`` in it, that are packed."""
    places = [folder, folder / "images"]
    return [file for place in places if place.is_dir() for file in sorted(place.iterdir()) if _is_packed(file)]


def archive(path: Path) -> Archive | None:
    """None: it is packed, and no archive of images. Raises InputError for one that is damaged or names no image."""
    try:
        with tarfile.open(path) as packed:
            found = _tables(packed)
    except (OSError, tarfile.TarError, EOFError, ValueError) as error:
        raise InputError(f"can't be read as an archive: {error}", Where(file=str(path))) from None
    if not found:
        return None
    names = tuple(dict.fromkeys(name for table in found.items() for name in _names(*table)))
    if not names:
        raise InputError("its images have no names; save them by name (docker save NAME:TAG)", Where(file=str(path)))
    return Archive(path, names)


def _is_packed(file: Path) -> bool:
    return file.is_file() and file.name.endswith(_ENDINGS)


def _tables(packed: tarfile.TarFile) -> dict[str, Any]:
    found = {}
    for member in packed:
        name = member.name.removeprefix("./")
        if name in ("manifest.json", "index.json") and (content := packed.extractfile(member)) is not None:
            found[name] = json.loads(content.read(LARGEST_FILE))
    return found


def _names(table: str, content: Any) -> Iterator[str]:
    if table == "manifest.json" and isinstance(content, list):
        for one in content:
            yield from one.get("RepoTags") or ()
    elif isinstance(content, dict):
        for one in content.get("manifests") or ():
            told = one.get("annotations") or {}
            # A reference may be a bare tag, which names nothing.
            yield from [str(told[key]) for key in _NAMES if ":" in str(told.get(key, ""))][:1]
