"""What runs beside a control plane where it is asked for: another scheduler, an operator. Found, or got."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kailab.components.cache import Cache
from kailab.components.failures import MissingComponents
from kailab.components.getting import Progress, Tell, Way, get_program, told_time
from kailab.components.manifests import Manifests
from kailab.components.pins import MANIFESTS, Pin, addon_pins
from kailab.components.recipes import usual_megabytes, usual_seconds


@dataclass(frozen=True)
class Addon:
    """``version``: of its module, with its ``v``. ``programs``: by name, each in the cache. ``manifests``: what a cluster needs for
    them."""

    name: str
    version: str
    programs: Mapping[str, Path]
    manifests: Manifests


def find_addon(name: str, cache: Cache | None = None) -> Addon:
    """An add-on in the cache; nothing is built. Raises MissingComponents, which says how to get it and what that takes,
    DamagedComponent, InputError."""
    cache, wanted = cache or Cache(), addon_pins(name)
    paths = {pin: cache.checked(pin) for pin in wanted}
    missing = tuple(pin for pin, path in paths.items() if path is None)
    if missing:
        told = ", ".join(map(str, missing))
        raise MissingComponents(f"programs of {name} are not here: {told}. {how_to_get(name, missing)}", missing)
    found = {pin.name: path for pin, path in paths.items() if path is not None}
    manifests = Manifests(found.pop(MANIFESTS))
    return Addon(name, wanted[0].version, found, manifests)


def get_addon(
    name: str,
    *,
    way: Way = Way.any,
    again: bool = False,
    cache: Cache | None = None,
    tell: Tell = lambda text: None,
    progress: Progress | None = None,
) -> Addon:
    """An add-on, once all of it is in the cache. See ``get_components``."""
    for pin in addon_pins(name):
        get_program(pin, way=way, again=again, cache=cache, tell=tell, progress=progress)
    return find_addon(name, cache)


def how_to_get(name: str, missing: tuple[Pin, ...]) -> str:
    """The command, and what it takes."""
    seconds = told_time(sum(map(usual_seconds, missing)))
    return (
        f"`kailab components get --with {name}` builds them with Go, in about {seconds} with nothing built before; they have "
        f"about {sum(map(usual_megabytes, missing))} MB, and Go's caches grow by some GB"
    )
