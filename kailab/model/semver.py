"""Semantic versions, as attributes of devices have them. Source: semver.org 2.0.0."""

from __future__ import annotations

import re
from functools import lru_cache, total_ordering
from typing import Any, NamedTuple

import msgspec

from kailab.errors import InputError

_NUMBER = r"(0|[1-9]\d*)"
_FORM = re.compile(rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?")


class _Parts(NamedTuple):
    major: int
    minor: int
    patch: int
    before: tuple[tuple[int, int, str], ...]  # of a pre-release: numbers come before words
    final: bool


@lru_cache(maxsize=1024)
def _parts(version: str) -> _Parts:
    match = _FORM.fullmatch(version)
    if match is None:
        raise ValueError(f"{version!r} is no semantic version; expected one such as 1.2.3 or 1.2.3-rc.1")
    major, minor, patch, before = match.groups()
    words = before.split(".") if before else []
    ranks = tuple((0, int(word), "") if word.isdigit() else (1, 0, word) for word in words)
    return _Parts(int(major), int(minor), int(patch), ranks, before is None)


@total_ordering
class Semver(msgspec.Struct, frozen=True, eq=False):
    """Ordered by precedence: 1.0.0-rc.2 < 1.0.0-rc.10 < 1.0.0; what follows a plus sign does not count. Raises ValueError
    where the text is none."""

    version: str

    def __post_init__(self) -> None:
        _parts(self.version)

    @classmethod
    def parse(cls, text: Any) -> Semver:
        """Raises InputError."""
        try:
            return cls(text if isinstance(text, str) else repr(text))
        except ValueError as error:
            raise InputError(str(error)) from None

    @property
    def major(self) -> int:
        return _parts(self.version).major

    @property
    def minor(self) -> int:
        return _parts(self.version).minor

    @property
    def patch(self) -> int:
        return _parts(self.version).patch

    def _rank(self) -> tuple[Any, ...]:
        parts = _parts(self.version)
        # A final version comes after its pre-releases (True > False); of these, a list that ends sooner comes first.
        return (parts.major, parts.minor, parts.patch, parts.final, parts.before)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Semver) and self._rank() == other._rank()

    def __lt__(self, other: Semver) -> bool:
        return self._rank() < other._rank()

    def __hash__(self) -> int:
        return hash(self._rank())
