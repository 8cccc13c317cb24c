"""The common steps of field checks: take a field if it has the right type, note a fault if it does not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeVar

from kailab.errors import InputError
from kailab.model import quantities, times


class Fault(NamedTuple):
    """``field``: a path such as ``spec.containers[0].name``; ``message``: what is wrong and what was
    expected."""

    field: str
    message: str


T = TypeVar("T")

LARGEST_INT32 = 2**31 - 1
LARGEST_INT64 = 2**63 - 1
MOST_PODS = 20_000
"""More pods than this one workload can't have: beyond what the largest clusters give to one, and what a lab holds well."""
MOST_AMOUNT = 10**9
"""More cores or devices than this no container and no node has. Sums over a lab's pods stay within 64 bits."""
MOST_BYTES = 2**50
LONGEST_PATH = 300
"""Characters of a path that are told: keys are the user's, and may be of any length."""


class Faults:
    """Collects faults. The readers return None where the field is absent or wrong (and a fault if wrong)."""

    def __init__(self) -> None:
        self.found: list[Fault] = []

    def add(self, path: str, message: str) -> None:
        shown_path = path if len(path) <= LONGEST_PATH else f"{path[:LONGEST_PATH]}..."
        self.found.append(Fault(shown_path, message))

    def wrong(self, path: str, value: Any, expected: str) -> None:
        self.add(path, f"{shown(value)} is not valid; expected {expected}")

    def _is_not(self, value: Any, path: str, expected: str, required: bool) -> None:
        # Null counts as absent, as for an API server.
        if value is not None:
            self.wrong(path, value, expected)
        elif required:
            self.add(path, "is required")

    def _filled(self, value: Any, type: type[T], path: str, expected: str, required: bool) -> T | None:
        if isinstance(value, type):
            if required and not value:
                self.add(path, "must not be empty")
            return value
        self._is_not(value, path, expected, required)
        return None

    def mapping(self, parent: dict[str, Any], key: str, path: str, required: bool = False) -> dict[str, Any] | None:
        value = parent.get(key)
        if isinstance(value, dict):
            return value
        self._is_not(value, path, "a mapping", required)
        return None

    def items(self, parent: dict[str, Any], key: str, path: str, required: bool = False) -> list[Any] | None:
        return self._filled(parent.get(key), list, path, "a list", required)

    def mappings(
        self, parent: dict[str, Any], key: str, path: str, required: bool = False
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """(path, item) of each item that is a mapping; a fault for each that is not."""
        for index, item in enumerate(self.items(parent, key, path, required) or ()):
            at = f"{path}[{index}]"
            if isinstance(item, dict):
                yield at, item
            else:
                self.wrong(at, item, "a mapping")

    def text(self, parent: dict[str, Any], key: str, path: str, required: bool = False) -> str | None:
        value = parent.get(key)
        if type(value) is str and (value or not required):  # nearly always
            return value
        return self._filled(parent.get(key), str, path, "text", required)

    def one_of(self, parent: dict[str, Any], key: str, path: str, choices: tuple[str, ...]) -> str | None:
        value = self.text(parent, key, path)
        if value is not None and value not in choices:
            self.wrong(path, value, " or ".join(choice or '""' for choice in choices))
        return value

    def integer(
        self, parent: dict[str, Any], key: str, path: str, least: int = 0, most: int = LARGEST_INT32
    ) -> int | None:
        value = parent.get(key)
        if value is None:
            return None
        # By exact type: to Python, true is 1.
        if type(value) is not int:
            self.wrong(path, value, f"a whole number of {least} or more")
        elif value < least:
            self.wrong(path, value, f"{least} or more")
        elif value > most:
            self.wrong(path, value, f"{most} at most")
        else:
            return value
        return None

    def boolean(self, parent: dict[str, Any], key: str, path: str) -> bool | None:
        value = parent.get(key)
        if value is None or isinstance(value, bool):
            return value
        self.wrong(path, value, "true or false")
        return None

    def duration(self, parent: dict[str, Any], key: str, path: str, signed: bool = False) -> float | None:
        value = parent.get(key)
        if value is None:
            return None
        try:
            return times.duration_seconds(value, signed=signed)
        except InputError as error:
            self.add(path, error.message)
            return None

    def strings(self, parent: dict[str, Any], key: str, path: str) -> dict[str, str] | None:
        """A mapping of text to text, such as labels."""
        value = self.mapping(parent, key, path)
        if value is None:
            return None
        wrong = False
        for name, item in value.items():
            if not isinstance(item, str):
                wrong = True
                self.wrong(f"{path}[{name:.80}]", item, "text (quote numbers and true/false)")
        return None if wrong else value

    def quantities(self, parent: dict[str, Any], key: str, path: str) -> dict[str, Any] | None:
        """A mapping of resource names to quantities; only the readable ones are returned."""
        value = self.mapping(parent, key, path)
        if value is None:
            return None
        good: dict[str, Any] = {}
        for name, item in value.items():
            try:
                exact = quantities.parse(item)
                most = MOST_BYTES if quantities.is_bytes(name) else MOST_AMOUNT
                if exact > most:
                    self.wrong(
                        f"{path}[{name:.80}]", item, "1Pi at most" if quantities.is_bytes(name) else f"{most} at most"
                    )
                    continue
                if is_whole(name) and exact.denominator != 1:
                    self.wrong(f"{path}[{name:.80}]", item, "a whole number")
                    continue
            except InputError as error:
                self.add(f"{path}[{name:.80}]", error.message)
                continue
            # Only what can be read is compared further: one fault is not told twice, in other words.
            good[name] = exact
        return good


def is_extended(resource: str) -> bool:
    """Extended resources carry a domain of their own (``nvidia.com/gpu``) and can't be overcommitted."""
    domain = resource.partition("/")[0]
    return "/" in resource and domain != "kubernetes.io" and not domain.endswith(".kubernetes.io")


def is_whole(resource: str) -> bool:
    """Resources that come in whole units only."""
    return is_extended(resource) or resource == "pods"


def shown(value: Any) -> str:
    """A value in a message: short, and printable whatever it is."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if value is True or value is False:
        return "true" if value else "false"
    # Python refuses to print the longest ones.
    if isinstance(value, int) and value.bit_length() > 128:
        return "a number of more than 128 bits"
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
