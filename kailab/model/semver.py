"""Semantic versions, as attributes of devices have them. Source: semver.org 2.0.0."""

from __future__ import annotations

import re
from functools import total_ordering
from typing import Any, NamedTuple

from kailab.errors import InputError

_NUMBER = r"(0|[1-9]\d*)"
_FORM = re.compile(rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?")


class _Parts(NamedTuple):
    major: int
    minor: int
    patch: int
    before: tuple[tuple[int, int, str], ...]  # of a pre-release: numbers come before words
    final: bool


@total_ordering
class Semver:
    """Ordered by precedence: 1.0.0-rc.2 < 1.0.0-rc.10 < 1.0.0; what follows a plus sign does not count."""

    def __init__(self, parts: _Parts) -> None:
        self._parts = parts

    @classmethod
    def parse(cls, text: Any) -> Semver:
        """Raises InputError."""
        match = _FORM.fullmatch(text) if isinstance(text, str) else None
        if match is None:
            raise InputError(f"{text!r} is no semantic version; expected one such as 1.2.3 or 1.2.3-rc.1")
        major, minor, patch, before = match.groups()
        words = before.split(".") if before else []
        ranks = tuple((0, int(word), "") if word.isdigit() else (1, 0, word) for word in words)
        return cls(_Parts(int(major), int(minor), int(patch), ranks, before is None))

    @property
    def major(self) -> int:
        return self._parts.major

    @property
    def minor(self) -> int:
        return self._parts.minor

    @property
    def patch(self) -> int:
        return self._parts.patch

    def _rank(self) -> tuple[Any, ...]:
        parts = self._parts
        return (parts.major, parts.minor, parts.patch, parts.final, parts.before)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Semver) and self._rank() == other._rank()

    def __lt__(self, other: Semver) -> bool:
        return self._rank() < other._rank()

    def __hash__(self) -> int:
        return hash(self._rank())
