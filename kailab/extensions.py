"""Extensions of other distributions: schedulers, backends, kinds and policies that are registered as entry points.

Reading the entry points of all distributions is slow. It happens only when a name is not kailab's own, or all names are listed. Loading an
extension runs code of its distribution. Names come from options and configuration files; a manifest never loads an extension.
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
    def title(self) -> str:
        """Group, name, distribution and version, for messages."""
        return f"{self.group} {self.name!r} of {self.distribution} {self.version}"

    def load(self) -> Any:
        """Load the object at ``target``. Raises ExtensionError for any exception of the distribution's code."""
        from importlib import metadata  # takes longer to import than a command that needs none of it

        try:
            return metadata.EntryPoint(self.name, self.target, self.group).load()
        except (Exception, SystemExit) as error:
            raise ExtensionError(f"{self.title} can't be loaded ({self.target}): {describe_error(error)}") from error


class BrokenDistribution(NamedTuple):
    """A distribution whose entry points can't be read."""

    distribution: str
    why: str


class CheckedExtension(NamedTuple):
    """``state``: ``ok``, or the reason why the extension can't be used."""

    extension: Extension
    state: str


def find_extension(group: Group, name: str, built_in: Iterable[str] = ()) -> Extension | None:
    """Return the extension of this name without loading it; None if there is none. Raises ExtensionError if two distributions
    register the name, or if it is one of kailab's own (``built_in``)."""
    candidates = [extension for extension in extensions(group) if extension.name == name]
    if not candidates:
        return None
    clash = _name_clash(candidates, built_in)
    if clash:
        raise ExtensionError(clash)
    return candidates[0]


def extension_names(group: Group) -> tuple[str, ...]:
    """The names that other distributions register, sorted. Nothing is loaded."""
    return tuple(sorted({extension.name for extension in extensions(group)}))


def extensions(group: Group) -> tuple[Extension, ...]:
    """The extensions of a group by name, then distribution."""
    return tuple(extension for extension in _read_entry_points(tuple(sys.path))[0] if extension.group == group)


def broken_distributions() -> tuple[BrokenDistribution, ...]:
    """Distributions that name kailab's groups and whose entry points can't be read."""
    return _read_entry_points(tuple(sys.path))[1]


def check_extensions(
    group: Group, check: Callable[[Extension], object], built_in: Iterable[str] = ()
) -> Iterator[CheckedExtension]:
    """Yield every extension of a group with its state. ``check`` loads one, and raises KailabError if it can't be used."""
    built_in = tuple(built_in)
    everything = extensions(group)
    for extension in everything:
        clash = _name_clash([other for other in everything if other.name == extension.name], built_in)
        yield CheckedExtension(extension, clash or _state(extension, check))


def _state(extension: Extension, check: Callable[[Extension], object]) -> str:
    try:
        check(extension)
    except KailabError as error:
        return str(error)
    return "ok"


def _name_clash(candidates: list[Extension], built_in: Iterable[str]) -> str:
    first = candidates[0]
    if first.name in built_in:
        return f"{first.title} uses a name of kailab's own; its distribution must choose another name"
    if len(candidates) > 1:
        distributions = " and ".join(f"{extension.distribution} {extension.version}" for extension in candidates)
        return f"{first.group} {first.name!r} is registered by {distributions}; uninstall one of them"
    return ""


@cache
def _read_entry_points(path: tuple[str, ...]) -> tuple[tuple[Extension, ...], tuple[BrokenDistribution, ...]]:
    """Read all distributions on ``sys.path``. The first of several with the same name counts, as for imports."""
    from importlib import metadata

    read: list[Extension] = []
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
        read += [Extension(point.group, point.name, point.value, name, version) for point in points]
    return tuple(sorted(read, key=lambda extension: (extension.name, extension.distribution, extension.target))), tuple(
        damaged
    )
