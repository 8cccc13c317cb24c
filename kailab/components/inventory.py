"""What of the set is here, told program by program."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kailab.components.cache import Cache
from kailab.components.failures import DamagedComponent, WrongComponent
from kailab.components.pins import Pin, addon_pins, pins
from kailab.components.sets import chosen_folder
from kailab.components.versions import reported_version


class Item(NamedTuple):
    """``state``: ``ok``, ``missing``, ``damaged`` or ``wrong`` (not the program or version it should be); ``sha256``: as
    recorded, empty if nothing is; ``about``: how it came, or what is wrong."""

    name: str
    version: str
    state: str
    sha256: str
    about: str
    path: str


def inventory(kubernetes: str | None = None, folder: Path | None = None, cache: Cache | None = None) -> Iterator[Item]:
    """In a folder each program is asked what it is; in the cache its checksum tells."""
    chosen = folder or chosen_folder()
    for pin in pins(kubernetes):
        yield _in_cache(pin, cache or Cache(), anew=False) if chosen is None else _in_folder(pin, chosen)


def addon_inventory(name: str, cache: Cache | None = None, *, anew: bool = False) -> Iterator[Item]:
    """Of an add-on, in the cache. ``anew``: each checksum is taken anew."""
    for pin in addon_pins(name):
        yield _in_cache(pin, cache or Cache(), anew)


def verified(kubernetes: str | None = None, cache: Cache | None = None) -> Iterator[Item]:
    """In the cache, each checksum taken anew."""
    for pin in pins(kubernetes):
        yield _in_cache(pin, cache or Cache(), anew=True)


def _in_cache(pin: Pin, cache: Cache, anew: bool) -> Item:
    path = str(cache.path(pin))
    try:
        found = cache.checked(pin, anew=anew)
    except DamagedComponent as error:
        return Item(pin.name, pin.version, "damaged", "", str(error).removeprefix(f"{path}: "), path)
    entry = cache.entry(pin)
    if found is None or entry is None:
        return Item(pin.name, pin.version, "missing", "", "", path)
    about = f"{entry.how} {entry.since[:10]} from {entry.source}"
    return Item(pin.name, pin.version, "ok", entry.sha256, about, path)


def _in_folder(pin: Pin, folder: Path) -> Item:
    path = folder.expanduser().absolute() / pin.name
    if not path.is_file():
        return Item(pin.name, pin.version, "missing", "", "", str(path))
    try:
        told = reported_version(pin.name, path)
    except WrongComponent as error:
        return Item(pin.name, pin.version, "wrong", "", str(error).removeprefix(f"{path}: "), str(path))
    # Another version of a folder of the user's own choice is his to choose.
    return Item(pin.name, told, "ok", "", "in a folder of your own", str(path))
