"""The YAML of a Go module that a cluster needs for its programs (CRDs, webhooks), in one archive beside them."""

from __future__ import annotations

import fnmatch
import zipfile
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from kailab.components.errors import BuildFailed, DamagedComponent
from kailab.model.yamltext import read_documents

_NO_TIME = (1980, 1, 1, 0, 0, 0)  # the earliest time of the format: the same files make the same bytes


def write_manifests(archive: Path, module: Path, folders: Sequence[str]) -> None:
    """Write the YAML below ``folders`` of a module into an archive. Raises BuildFailed if there is none."""
    _write(archive, module, folders, "*.y*ml", "YAML")


def write_files(archive: Path, module: Path, folders: Sequence[str]) -> None:
    """Write all files below ``folders`` of a module into an archive. Raises BuildFailed if there are none."""
    _write(archive, module, folders, "*", "file")


def _write(archive: Path, module: Path, folders: Sequence[str], pattern: str, noun: str) -> None:
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as target:
        for folder in folders:
            files = sorted(path for path in (module / folder).rglob(pattern) if path.is_file())
            if not files:
                raise BuildFailed(f"{module.name}: there is no {noun} in {folder}")
            for path in files:
                entry = zipfile.ZipInfo(path.relative_to(module).as_posix(), _NO_TIME)
                target.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)


class ComponentManifests:
    """The YAML of an archive that ``write_manifests`` wrote."""

    def __init__(self, archive: Path) -> None:
        self.archive = archive

    @cached_property
    def _texts(self) -> dict[str, str]:
        try:
            with zipfile.ZipFile(self.archive) as source:
                return {name: source.read(name).decode("utf-8") for name in source.namelist()}
        except (OSError, zipfile.BadZipFile, UnicodeDecodeError) as error:
            raise DamagedComponent(f"{self.archive}: can't be read: {error}") from error

    @property
    def files(self) -> tuple[str, ...]:
        """Paths, relative to the module."""
        return tuple(self._texts)

    def objects(self, pattern: str) -> list[dict[str, Any]]:
        """The objects in files whose path matches ``pattern``, as ``config/crd/bases/*.yaml``, in order. The caller may
        change them. Raises DamagedComponent if there is no such file."""
        return [document for document in self.documents(pattern) if isinstance(document, dict)]

    def documents(self, pattern: str) -> list[Any]:
        """As ``objects``, including documents that are no objects, such as a list of patches."""
        names = [name for name in self._texts if fnmatch.fnmatchcase(name, pattern)]
        if not names:
            raise DamagedComponent(f"{self.archive}: has no file {pattern}")
        return [document for name in names for document, _ in read_documents(self._texts[name], name)]
