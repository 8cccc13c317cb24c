"""What the lab was before each change, so that one can be taken back: its file and its record are kept as they were."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from kailab.evidence.journal import Journal, Mark
from kailab.model.private_files import replace_file

MOST_CHANGES = 100
MOST_BYTES = 256 * 2**20


class Before(NamedTuple):
    """``what``: the change that came after."""

    what: str
    file: bytes
    mark: Mark


def kept(path: Path, what: str) -> Before:
    """The lab of a file as it is, by who holds its lock. Raises OSError, EvidenceError."""
    return Before(what, path.read_bytes(), Journal(path).mark())


def put_back(path: Path, before: Before) -> None:
    """By who holds the lock. Raises OSError, EvidenceError."""
    # The record first: a lab with a record that is short of steps can be gone on with, one with steps that never were can't.
    Journal(path).back_to(before.mark)
    replace_file(path, before.file)


class Past:
    """Changes that can be taken back, the last first."""

    def __init__(self, most: int = MOST_CHANGES, most_bytes: int = MOST_BYTES) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._before: list[Before] = []

    @property
    def last(self) -> Before | None:
        return self._before[-1] if self._before else None

    def push(self, before: Before) -> None:
        self._before.append(before)
        while len(self._before) > self._most or (
            len(self._before) > 1 and sum(len(one.file) for one in self._before) > self._most_bytes
        ):
            del self._before[0]

    def pop(self) -> None:
        self._before.pop()

    def forget(self) -> None:
        """The lab is another than the one that was left."""
        self._before.clear()
