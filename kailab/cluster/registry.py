"""Registries: the backends and the schedulers under test by name, and which options of a lab each of them takes.

An option that the chosen entry does not take is refused: without it, the lab would be another one than the user asked
for. This module is cheap to import, because every command line and every test run needs the names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from kailab import extensions
from kailab.errors import ExtensionError, InputError

Spelt = Callable[[str], str]

FLAGS: Mapping[str, str] = {
    "kubeconfig": "--kubeconfig",
    "context": "--context",
    "components": "--components",
    "kubernetes": "--kubernetes",
    "operators": "--with",
    "kai": "--kai-bin",
    "kai_crds": "--kai-crds",
    "kai_release": "kai@RELEASE",
    "kai_chart": "--kai-chart",
    "devices": "--dra",
    "labs": "--labs",
    "kai_pods": "--kai-pods",
    "config": "--scheduler-config",
    "adopt_default_scheduler": "--adopt-default-scheduler",
}
"""Option -> how the command line writes it."""


@dataclass(frozen=True)
class RegistryEntry:
    """A backend or a scheduler under test. ``options``: the options that it takes and not all do, by their names in
    ``Lab.open`` and ``open_venue``. ``why_not``: option -> the reason why it is not taken.
    """

    about: str
    options: frozenset[str] = frozenset()
    why_not: Mapping[str, str] = field(default_factory=dict, kw_only=True, hash=False)

    def load(self) -> Any:
        """The class that implements it."""
        raise NotImplementedError


C = TypeVar("C", bound=RegistryEntry)


class Registry(Mapping[str, C], Generic[C]):
    """The entries of one sort by name, in the order of registration. ``noun``: what messages call an entry. ``group``:
    entry points with which other distributions add entries. Those are loaded when they are asked for by name, and then
    stand beside kailab's own; ``names`` has all.
    """

    def __init__(
        self, noun: str, row: type[C], choices: Mapping[str, C], group: extensions.Group | None = None
    ) -> None:
        self.noun = noun
        self._row = row
        self._choices = dict(choices)
        self._group = group
        self._brought: dict[str, extensions.Extension] = {}

    def register(self, name: str, choice: C) -> None:
        """Raises InputError for a name that is taken."""
        if name in self._choices:
            raise InputError(f"there is a {self.noun} {name!r} already")
        self._choices[name] = choice

    def __getitem__(self, name: str) -> C:
        """Raises KeyError for an unknown name, ExtensionError for an unusable entry of another distribution."""
        # kailab's own names come first: no other distribution can replace one.
        if name not in self._choices and self._group is not None:
            extension = extensions.find_extension(self._group, name)
            if extension is not None:
                self._choices[name] = self.read(extension)
                self._brought[name] = extension
        return self._choices[name]

    @property
    def own(self) -> tuple[str, ...]:
        """Names of kailab's own entries and of those registered in this process."""
        return tuple(name for name in self._choices if name not in self._brought)

    def names(self) -> list[str]:
        """All names, including those of other distributions."""
        brought = () if self._group is None else extensions.extension_names(self._group)
        return [*self._choices, *(name for name in brought if name not in self._choices)]

    def read(self, extension: extensions.Extension) -> C:
        """The entry that an entry point names. Raises ExtensionError."""
        entry = extension.load()
        if not isinstance(entry, self._row):
            raise ExtensionError(f"{extension.title}: {entry!r:.80} is no {self._row.__module__}.{self._row.__name__}")
        return entry

    def load(self, name: str, wrong: Callable[[Any], str]) -> Any:
        """Load the implementation of an entry. ``wrong``: says what it lacks. Raises ExtensionError for an unusable one
        of another distribution."""
        choice = self[name]
        extension = self._brought.get(name)
        if extension is None:
            return choice.load()
        try:
            implementation = choice.load()
        # Whatever foreign code raises while it is loaded is reported as its fault, not kailab's.
        except (Exception, SystemExit) as error:
            raise ExtensionError(f"{extension.title} can't be used: {type(error).__name__}: {error}") from error
        if fault := wrong(implementation):
            raise ExtensionError(f"{extension.title}: {implementation!r:.120} {fault}")
        return implementation

    def __iter__(self) -> Iterator[str]:
        return iter(self._choices)

    def __len__(self) -> int:
        return len(self._choices)

    def check(self, name: str) -> None:
        """Raises InputError for an unknown name."""
        if name not in self:
            raise InputError(f"there is no {self.noun} {name!r}; expected one of: {', '.join(self.names())}")

    def not_understood(self, chosen: str, given: Iterable[str], spelt: Spelt = FLAGS.__getitem__) -> list[str]:
        """A sentence for each given option that other entries take and the chosen one does not. ``spelt``: how the user
        writes an option."""
        sentences = []
        for option in given:
            takers = [name for name, choice in self.items() if option in choice.options]
            # An option that no entry here takes belongs to another registry.
            if takers and chosen not in takers:
                plural = "s" if len(takers) > 1 else ""
                why = f" ({self[chosen].why_not[option]})" if option in self[chosen].why_not else ""
                sentences.append(
                    f"{spelt(option)}: the {self.noun} {chosen} does not take it{why}; only the {self.noun}{plural} "
                    f"{' and '.join(', '.join(takers).rsplit(', ', 1))} {'do' if plural else 'does'}"
                )
        return sentences
