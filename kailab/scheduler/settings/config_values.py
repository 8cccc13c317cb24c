"""Values of a configuration file, read with errors that say where they stand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from kailab.errors import InputError, Where
from kailab.model.times import duration_seconds


class Reader:
    """One mapping of the file. ``path`` says where it stands, for errors. Values that are null count as absent."""

    def __init__(self, value: Any, file: str, path: str = "") -> None:
        self.file = file
        self.path = path
        self.values: Mapping[str, Any] = {} if value is None else cast("Mapping[str, Any]", value)
        if not isinstance(self.values, Mapping):
            raise InputError(f"is {type(value).__name__}; expected a mapping", self.where())

    def where(self, key: str = "") -> Where:
        return Where(file=self.file, field=".".join(part for part in (self.path, key) if part))

    def only(self, known: Iterable[str]) -> None:
        """Raises InputError for a key that is none of these."""
        expected = tuple(known)
        for key in self.values:
            if key not in expected:
                raise InputError(f"is not known; expected one of {', '.join(expected)}", self.where(str(key)))

    def __contains__(self, key: str) -> bool:
        return self.values.get(key) is not None

    def __getitem__(self, key: str) -> Any:
        return self.values.get(key)

    def inside(self, key: str) -> Reader:
        return Reader(self.values.get(key), self.file, self.where(key).field)

    def entries(self, key: str) -> list[Any]:
        value = self.values.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            raise InputError(f"is {type(value).__name__}; expected a list", self.where(key))
        return value

    def one_of(self, key: str, choices: Iterable[str], noun: str = "choice") -> Any:
        """One of the choices, which is a str."""
        value, known = self.values[key], tuple(choices)
        if value not in known:
            raise InputError(f"{value!r} is no {noun}; expected {' or '.join(known)}", self.where(key))
        return value

    def number(self, key: str) -> float:
        """A finite number, also one written as text."""
        value = self.values[key]
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            raise InputError(f"{value!r} is not a number", self.where(key)) from None
        # To Python true is 1; in a configuration it is a slip.
        if isinstance(value, bool) or number != number or abs(number) == float("inf"):
            raise InputError(f"{value!r} is not a number", self.where(key))
        return number

    def count(self, key: str, least: int = 0) -> int:
        value = self.values[key]
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise InputError(f"{value!r} is not a whole number of at least {least}", self.where(key))
        return value

    def flag(self, key: str) -> bool:
        value = self.values[key]
        if not isinstance(value, bool):
            raise InputError(f"{value!r} is not true or false", self.where(key))
        return value

    def seconds(self, key: str) -> float:
        """A duration such as 90s, 10m, 1h30m, 2d or 1w, in seconds."""
        return duration_seconds(self.values[key], self.where(key), days=True)
