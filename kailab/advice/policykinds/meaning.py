"""The meaning of a field in KAI, and readers of field values with errors that name the place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Any

from kailab.errors import InputError
from kailab.model import quantities, times
from kailab.model.manifests import Manifest, value_at


class FieldVerdict(StrEnum):
    """``KAI``: a field of KAI acts this way. ``ALWAYS``: KAI always does so. ``KAILAB``: KAI can't, a policy of kailab can. ``NONE``:
    neither can."""

    KAI = "acts as"
    ALWAYS = "KAI always"
    KAILAB = "kailab only"
    NONE = "KAI has none"


@dataclass(frozen=True, slots=True)
class Meaning:
    verdict: FieldVerdict
    text: str


def acts_as(text: str) -> Meaning:
    return Meaning(FieldVerdict.KAI, text)


def always(text: str) -> Meaning:
    return Meaning(FieldVerdict.ALWAYS, text)


def kailab_only(text: str) -> Meaning:
    return Meaning(FieldVerdict.KAILAB, text)


def none(text: str) -> Meaning:
    return Meaning(FieldVerdict.NONE, text)


@dataclass(frozen=True, slots=True)
class Given:
    """A field of a manifest. ``path``: ``spec.burstQuota.gpus``, ``spec.hierarchy[0].weight``."""

    manifest: Manifest
    path: str

    @property
    def value(self) -> Any:
        return value_at(self.manifest.object, self.path)

    def refuse(self, expected: str) -> InputError:
        return InputError(f"{self.value!r:.60}: expected {expected}", self.manifest.where(self.path))

    def beside(self, name: str) -> Given:
        """Another field of the same mapping."""
        return Given(self.manifest, f"{self.path.rpartition('.')[0]}.{name}")

    def at(self, path: str) -> Given:
        """Another field of the same object."""
        return Given(self.manifest, path)

    def number(self, least: float = 0) -> Fraction:
        value = self.value
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value < float("inf"):
            raise self.refuse(f"a number of at least {least:g}")
        return Fraction(repr(value))

    def count(self) -> int:
        value = self.number()
        if value.denominator != 1:
            raise self.refuse("a whole number")
        return int(value)

    def megabytes(self) -> int:
        """Memory in the unit of Queues: 10^6 bytes, rounded down."""
        if isinstance(self.value, bool) or not isinstance(self.value, int | float | str):
            raise self.refuse('an amount of memory such as "960Gi"')
        return quantities.mem_bytes(self.value, self.manifest.where(self.path)) // 10**6

    def flag(self) -> bool:
        if not isinstance(self.value, bool):
            raise self.refuse("true or false")
        return self.value

    def text(self) -> str:
        if not isinstance(self.value, str) or not self.value:
            raise self.refuse("a text")
        return self.value

    def one_of(self, choices: Sequence[str]) -> str:
        if self.value not in choices:
            raise self.refuse(" or ".join(choices))
        return str(self.value)

    def seconds(self) -> float:
        """A number of seconds, or a duration such as 30s."""
        if isinstance(self.value, str):
            return times.duration_seconds(self.value, self.manifest.where(self.path))
        return float(self.number())
