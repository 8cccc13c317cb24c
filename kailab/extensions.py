"""What other distributions bring, by entry points: found by name, loaded when it is named, never before.

Reading the entry points of all distributions takes a while, so nothing here runs until a name is asked for that kailab does not
have itself, or all names are listed. Loading one runs code of the distribution that brings it. Names come from options and
configuration files; a manifest never loads anything.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, Final, Literal, NamedTuple

from kailab.errors import ExtensionError, KailabError, describe_error

SCHEDULERS: Final = "kailab.schedulers"
BACKENDS: Final = "kailab.backends"
KINDS: Final = "kailab.kinds"
POLICIES: Final = "kailab.policies"
Group = Literal["kailab.schedulers", "kailab.backends", "kailab.kinds", "kailab.policies"]
GROUPS: tuple[Group, ...] = (SCHEDULERS, BACKENDS, KINDS, POLICIES)


class Extension(NamedTuple):
    """One entry point. ``target``: ``module:attribute``."""

    group: str
    name: str
    target: str
    distribution: str
    version: str

    @property
    def told(self) -> str:
        """For messages: what it is and whose."""
        return f"{self.group} {self.name!r} of {self.distribution} {self.version}"

    def load(self) -> Any:
        """The object that it names. Runs code of its distribution. Raises ExtensionError, whatever that code raises."""
        from importlib import metadata  # takes longer to import than a command that needs none of it

        try:
            return metadata.EntryPoint(self.name, self.target, self.group).load()
        except (Exception, SystemExit) as error:
            raise ExtensionError(f"{self.told} can't be loaded ({self.target}): {describe_error(error)}") from error


class BrokenDistribution(NamedTuple):
    """A distribution whose entry points can't be read."""

    distribution: str
    why: str


class ExtensionState(NamedTuple):
    """For listings. ``state``: ``ok``, or why it can't be used."""

    extension: Extension
    state: str


def find_extension(group: Group, name: str, built_in: Iterable[str] = ()) -> Extension | None:
    """The extension of this name, not loaded; None if there is none. Raises ExtensionError where two distributions bring one, or
    the name is kailab's own (``built_in``)."""
    found = [extension for extension in extensions(group) if extension.name == name]
    if not found:
        return None
    clash = _clash(found, built_in)
    if clash:
        raise ExtensionError(clash)
    return found[0]


def extension_names(group: Group) -> tuple[str, ...]:
    """All names that other distributions bring, sorted; nothing is loaded."""
    return tuple(sorted({extension.name for extension in extensions(group)}))


def extensions(group: Group) -> tuple[Extension, ...]:
    """In order of name, then distribution."""
    return tuple(extension for extension in _read(tuple(sys.path))[0] if extension.group == group)


def broken_distributions() -> tuple[BrokenDistribution, ...]:
    """Distributions that mention kailab's groups and can't be read."""
    return _read(tuple(sys.path))[1]


def examine_extensions(
    group: Group, check: Callable[[Extension], object], built_in: Iterable[str] = ()
) -> Iterator[ExtensionState]:
    """Every extension of a group with its state. ``check`` loads one and looks at it; it raises KailabError for what can't be
    used."""
    own = tuple(built_in)
    everything = extensions(group)
    for extension in everything:
        clash = _clash([other for other in everything if other.name == extension.name], own)
        yield ExtensionState(extension, clash or _state(extension, check))


def _state(extension: Extension, check: Callable[[Extension], object]) -> str:
    try:
        check(extension)
    except KailabError as error:
        return str(error)
    return "ok"


def _clash(found: list[Extension], built_in: Iterable[str]) -> str:
    first = found[0]
    if first.name in built_in:
        return f"{first.told} has a name of kailab's own; its distribution must choose another one"
    if len(found) > 1:
        others = " and ".join(f"{extension.distribution} {extension.version}" for extension in found)
        return f"{first.group} {first.name!r} is brought by {others}; one of them must go"
    return ""


@cache
def _read(path: tuple[str, ...]) -> tuple[tuple[Extension, ...], tuple[BrokenDistribution, ...]]:
    """Of all distributions on ``sys.path``. The first of several with the same name counts, as for imports."""
    from importlib import metadata

    found: list[Extension] = []
    damaged: list[BrokenDistribution] = []
    seen: set[str] = set()
    for distribution in metadata.distributions(path=list(path)):
        text = distribution.read_text("entry_points.txt") or ""
        if not any(group in text for group in GROUPS):
            continue
        name = distribution.metadata["Name"] or "a distribution without a name"
        if name in seen:
            continue
        seen.add(name)
        try:
            points = [point for point in distribution.entry_points if point.group in GROUPS]
            version = distribution.version or "(no version)"
        except Exception as error:
            damaged.append(BrokenDistribution(name, f"its entry points can't be read: {describe_error(error)}"))
            continue
        found += [Extension(point.group, point.name, point.value, name, version) for point in points]
    return tuple(sorted(found, key=lambda one: (one.name, one.distribution, one.target))), tuple(damaged)
