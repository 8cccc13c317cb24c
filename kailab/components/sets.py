"""The whole set of programs: found where it is, or got."""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType

from kailab.components.cache import Cache
from kailab.components.failures import MissingComponents
from kailab.components.pins import PROGRAMS, kubernetes_version, pins
from kailab.components.versions import reported_version
from kailab.errors import InputError, Where

FOLDER = "KAILAB_COMPONENTS"
"""The environment variable that names a folder with the programs in it."""


class Place(StrEnum):
    """Where a program was found."""

    folder = "folder"
    cache = "cache"


@dataclass(frozen=True)
class ComponentSet:
    """``kubernetes``: the version, with its ``v``; ``paths``: by the names of ``PROGRAMS``; ``place``: where they are."""

    kubernetes: str
    paths: Mapping[str, Path]
    place: Place = Place.cache

    def path(self, name: str) -> Path:
        """Of etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kwok or kubectl."""
        if name not in self.paths:
            raise InputError(f"{name!r} is no program of a control plane; there are {', '.join(PROGRAMS)}")
        return self.paths[name]


def find_components(
    kubernetes: str | None = None, folder: Path | None = None, cache: Cache | None = None
) -> ComponentSet:
    """The set in ``folder`` (None: as KAILAB_COMPONENTS says), else in the cache; nothing is downloaded or built.

    ``kubernetes``: None for the default, or in a folder for what is there. Raises MissingComponents, DamagedComponent,
    WrongComponent, InputError.
    """
    chosen = folder or chosen_folder()
    if chosen is not None:
        return _in_folder(chosen, kubernetes)
    return in_cache(kubernetes_version(kubernetes), cache or Cache())


def in_cache(version: str, cache: Cache) -> ComponentSet:
    """Raises MissingComponents, DamagedComponent."""
    wanted = pins(version)
    # Side by side: taking a checksum leaves the interpreter to other threads.
    with ThreadPoolExecutor() as pool:
        paths = dict(zip(wanted, pool.map(cache.checked, wanted)))
    missing = tuple(pin for pin, path in paths.items() if path is None)
    if missing:
        raise MissingComponents(
            f"programs of a control plane are not here: {', '.join(map(str, missing))}. {how_to_get(version)}", missing
        )
    return ComponentSet(version, MappingProxyType({pin.name: path for pin, path in paths.items() if path}))


def chosen_folder() -> Path | None:
    """As the environment says."""
    return Path(os.environ[FOLDER]) if os.environ.get(FOLDER) else None


def how_to_get(version: str) -> str:
    return (
        f"`kailab components get --kubernetes {version}` downloads them, or builds them with Go; "
        f"or name a folder that has them with --components or {FOLDER}"
    )


def _in_folder(folder: Path, kubernetes: str | None) -> ComponentSet:
    folder = folder.expanduser().absolute()
    if not folder.is_dir():
        raise InputError("no such folder of programs", Where(file=str(folder)))
    paths = {name: folder / name for name in PROGRAMS}
    lacking = [name for name, path in paths.items() if not (path.is_file() and os.access(path, os.X_OK))]
    if lacking:
        missing = tuple(pin for pin in pins(kubernetes) if pin.name in lacking)
        raise MissingComponents(f"{folder}: not in this folder, or not executable: {', '.join(lacking)}", missing)
    # The API server stands for the set: a folder of the user's own may mix versions.
    there = reported_version("kube-apiserver", paths["kube-apiserver"])
    if kubernetes and there != kubernetes_version(kubernetes):
        raise InputError(
            f"its kube-apiserver is {there}; {kubernetes_version(kubernetes)} was asked for", Where(file=str(folder))
        )
    return ComponentSet(there, MappingProxyType(paths), Place.folder)
