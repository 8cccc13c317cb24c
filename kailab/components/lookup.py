"""Lookup of programs: the set of a control plane, in a folder or in the cache; single programs; and the inventory of
both.

A single program is the one named by its caller or by an environment variable, else the one in PATH, else the one in the
cache.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from kailab.components.cache import ComponentCache
from kailab.components.errors import DamagedComponent, MissingComponents, WrongComponent
from kailab.components.pins import PROGRAMS, Pin, addon_pins, kubernetes_version, pins
from kailab.components.versions import reported_version
from kailab.errors import ConnectError, InputError, Where

FOLDER = "KAILAB_COMPONENTS"
"""The environment variable with a folder that has the programs."""


@dataclass(frozen=True)
class ComponentSet:
    """``kubernetes``: the version, with its ``v``; ``paths``: by the names of ``PROGRAMS``."""

    kubernetes: str
    paths: Mapping[str, Path]

    def path(self, name: str) -> Path:
        """One of the programs etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kwok and kubectl."""
        if name not in self.paths:
            raise InputError(f"{name!r} is no program of a control plane; there are {', '.join(PROGRAMS)}")
        return self.paths[name]


def reported_or_unknown(name: str, programs: ComponentSet) -> str:
    """The version of a program of a set, for a record; ``unknown`` with the reason if it can't be found out."""
    try:
        return _reported_once(name, programs.path(name))
    except WrongComponent as error:
        return f"unknown ({error})"


_reported_once = lru_cache(maxsize=64)(reported_version)


def find_components(
    kubernetes: str | None = None, folder: Path | None = None, cache: ComponentCache | None = None
) -> ComponentSet:
    """The set in ``folder`` (None: KAILAB_COMPONENTS), else in the cache; nothing is downloaded or built.

    ``kubernetes``: None for the default, or in a folder for its version. Raises MissingComponents, DamagedComponent,
    WrongComponent, InputError.
    """
    chosen = folder or chosen_folder()
    if chosen is not None:
        return _in_folder(chosen, kubernetes)
    return cached_components(kubernetes_version(kubernetes), cache or ComponentCache())


def cached_components(version: str, cache: ComponentCache) -> ComponentSet:
    """Raises MissingComponents, DamagedComponent."""
    wanted = pins(version)
    # In parallel: computing a checksum releases the interpreter lock.
    with ThreadPoolExecutor() as pool:
        paths = dict(zip(wanted, pool.map(cache.checked, wanted)))
    missing = tuple(pin for pin, path in paths.items() if path is None)
    if missing:
        raise MissingComponents(
            f"programs of a control plane are not here: {', '.join(map(str, missing))}. {how_to_get_components(version)}",
            missing,
        )
    return ComponentSet(version, MappingProxyType({pin.name: path for pin, path in paths.items() if path}))


def chosen_folder() -> Path | None:
    """The folder that the environment names."""
    return Path(os.environ[FOLDER]) if os.environ.get(FOLDER) else None


def how_to_get_components(version: str) -> str:
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
    # The API server represents the set: a user's folder may mix versions.
    version = reported_version("kube-apiserver", paths["kube-apiserver"])
    if kubernetes and version != kubernetes_version(kubernetes):
        raise InputError(
            f"its kube-apiserver is {version}; {kubernetes_version(kubernetes)} was asked for", Where(file=str(folder))
        )
    return ComponentSet(version, MappingProxyType(paths))


def find_program(pin: Pin, variable: str, how: str, path: Path | None = None) -> Path:
    """A program by itself. ``variable``: of the environment, with a path; ``how``: the command that gets it, as half a
    sentence; ``path``: the caller's own, which comes first. Raises ConnectError for a path that is no program, and if
    there is none; DamagedComponent."""
    chosen = path or (Path(os.environ[variable]).expanduser() if os.environ.get(variable) else None)
    if chosen is not None:
        if not (chosen.is_file() and os.access(chosen, os.X_OK)):
            raise ConnectError(f"{chosen} is no {pin.name} program; it was named as one (by {variable} or the caller)")
        return chosen.resolve()
    if (on_path := shutil.which(pin.name)) is not None:
        return Path(on_path)
    if (cached := ComponentCache().checked(pin)) is not None:
        return cached
    raise ConnectError(f"there is no {pin.name} here, neither in PATH nor named by {variable}; {how}")


class Item(NamedTuple):
    """``state``: ``ok``, ``missing``, ``damaged`` or ``wrong`` (not the expected program or version); ``sha256``: as
    recorded, or empty; ``about``: how it was acquired, or what is wrong."""

    name: str
    version: str
    state: str
    sha256: str
    about: str
    path: str


def inventory(
    kubernetes: str | None = None, folder: Path | None = None, cache: ComponentCache | None = None
) -> Iterator[Item]:
    """The programs of a control plane. In a folder each is asked for its version; in the cache its checksum is checked."""
    chosen = folder or chosen_folder()
    for pin in pins(kubernetes):
        yield _in_cache(pin, cache or ComponentCache(), anew=False) if chosen is None else _item_in_folder(pin, chosen)


def addon_inventory(name: str, *, anew: bool = False) -> Iterator[Item]:
    """The programs of an add-on in the cache. ``anew``: compute each checksum again."""
    for pin in addon_pins(name):
        yield _in_cache(pin, ComponentCache(), anew)


def verified_inventory(kubernetes: str | None = None, cache: ComponentCache | None = None) -> Iterator[Item]:
    """The programs of a control plane in the cache, with each checksum computed again."""
    for pin in pins(kubernetes):
        yield _in_cache(pin, cache or ComponentCache(), anew=True)


def _in_cache(pin: Pin, cache: ComponentCache, anew: bool) -> Item:
    path = str(cache.path(pin))
    try:
        program = cache.checked(pin, anew=anew)
    except DamagedComponent as error:
        return Item(pin.name, pin.version, "damaged", "", str(error).removeprefix(f"{path}: "), path)
    entry = cache.entry(pin)
    if program is None or entry is None:
        return Item(pin.name, pin.version, "missing", "", "", path)
    about = f"{entry.how} {entry.since[:10]} from {entry.source}"
    return Item(pin.name, pin.version, "ok", entry.sha256, about, path)


def _item_in_folder(pin: Pin, folder: Path) -> Item:
    path = folder.expanduser().absolute() / pin.name
    if not path.is_file():
        return Item(pin.name, pin.version, "missing", "", "", str(path))
    try:
        version = reported_version(pin.name, path)
    except WrongComponent as error:
        return Item(pin.name, pin.version, "wrong", "", str(error).removeprefix(f"{path}: "), str(path))
    # Users choose the versions in their own folders.
    return Item(pin.name, version, "ok", "", "in a folder of your own", str(path))
