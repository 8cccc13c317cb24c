"""What can be chosen by name for a lab, and which options each choice understands.

An option that a choice does not understand is refused: passed over in silence it would leave a lab other than the one asked for.
Cheap to import: every command line and every test run needs the names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from kailab.errors import InputError

Spelt = Callable[[str], str]

FLAGS: Mapping[str, str] = {
    "kubeconfig": "--kubeconfig",
    "context": "--context",
    "components": "--components",
    "kubernetes": "--kubernetes",
    "kai": "--kai-bin",
    "kai_crds": "--kai-crds",
    "devices": "--dra",
    "labs": "--labs",
    "kai_pods": "--kai-pods",
    "config": "--scheduler-config",
    "adopt_default_scheduler": "--adopt-default-scheduler",
}
"""The options as the command line writes them."""


@dataclass(frozen=True)
class Choice:
    """A backend or a scheduler under test. ``options``: what it understands of that which not all do, by the names that ``Lab.open``
    and ``open_venue`` have for it."""

    about: str
    options: frozenset[str] = frozenset()


C = TypeVar("C", bound=Choice)


class Registry(Mapping[str, C], Generic[C]):
    """The choices of one sort by name, in the order in which they were registered. ``noun``: what a choice is called."""

    def __init__(self, noun: str, choices: Mapping[str, C]) -> None:
        self.noun = noun
        self._choices = dict(choices)

    def register(self, name: str, choice: C) -> None:
        """Raises InputError for a name that is taken."""
        if name in self._choices:
            raise InputError(f"there is a {self.noun} {name!r} already")
        self._choices[name] = choice

    def __getitem__(self, name: str) -> C:
        return self._choices[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._choices)

    def __len__(self) -> int:
        return len(self._choices)

    def check(self, name: str) -> None:
        """Raises InputError for a name that is none of these."""
        if name not in self:
            raise InputError(f"there is no {self.noun} {name!r}; expected one of: {', '.join(self)}")

    def not_understood(self, chosen: str, given: Iterable[str], spelt: Spelt = FLAGS.__getitem__) -> list[str]:
        """A sentence for each option that others understand, and the chosen one does not. ``spelt``: how the user writes an
        option."""
        found = []
        for option in given:
            takers = [name for name, choice in self.items() if option in choice.options]
            if takers and chosen not in takers:
                plural = "s" if len(takers) > 1 else ""
                found.append(
                    f"{spelt(option)}: the {self.noun} {chosen} does not understand it; it is for the {self.noun}{plural} "
                    f"{' and '.join(', '.join(takers).rsplit(', ', 1))}"
                )
        return found
