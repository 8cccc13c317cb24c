"""The raw text behind each fact of the page: entries of evidence files, in chunks that are read on demand."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from kailab.errors import EvidenceError
from kailab.evidence import cycles as cycle_files
from kailab.evidence.cycles import RecordedCycle
from kailab.evidence.large_files import read_evidence_file, stored_path
from kailab.report.page_data import NONE, RawIndex

SEPARATOR = b"\x1e"
"""Separates the entries of a chunk; JSON always escapes it."""

CHUNK = 512 * 1024
"""Bytes of text after which a chunk ends."""

LINE = "line"

T = TypeVar("T")


class EntryReferences(Protocol):
    """Gives references to entries of a lab's evidence files, in order of request; NONE for a missing or empty file."""

    by_index: bool
    """True if objects of the last reading use indices of the form's columns instead of indices in their file."""

    def lines(self, file: str) -> int:
        """Add all lines of a file and return the reference of the first."""

    def items(self, file: str) -> int:
        """Add all items of a JSON list and return the reference of the first."""

    def whole(self, file: str) -> int:
        """Add a file as one entry."""

    def rows(self, file: str, *kinds: str) -> dict[str, int]:
        """Add the lists of a JSON object and return the reference of each one's first item by name."""

    def cycle(self, place: int, cycle: RecordedCycle) -> CycleReferences:
        """The parts of a cycle by its index."""


class CycleReferences(Protocol):
    """The parts of one cycle, added on request; each the reference of its first entry, or NONE."""

    def records(self, kind: str) -> int: ...

    def queues(self) -> int: ...

    def decisions(self) -> int: ...


class RawTextFiles:
    """Numbers the entries of the files in a folder."""

    by_index = False

    def __init__(self, folder: Path, shown: str, chunk: str) -> None:
        """``folder``: the lab's. ``shown``: its name on the page. ``chunk``: prefix of the chunks' names."""
        self._folder = folder
        self._shown = shown
        self._chunk = chunk
        self._entries: list[bytes] = []
        self._parts: list[tuple[str, str, int]] = []
        self._cycles: tuple[Path, list[bytes]] | None = None

    def cycle(self, place: int, cycle: RecordedCycle) -> CycleReferences:
        if self._cycles is None:
            self._cycles = cycle_files.read_lines(self._folder)
        path, lines = self._cycles
        # The first line is the file's header.
        return _CycleLine(self, path.name, lines[place + 1], place + 2)

    def lines(self, file: str) -> int:
        path = self._folder / file
        return self.add(file, LINE, read_evidence_file(path).splitlines()) if stored_path(path).exists() else NONE

    def items(self, file: str) -> int:
        path = self._folder / file
        if not stored_path(path).exists():
            return NONE
        return self.add(file, "", [bytes(item) for item in _decoded(read_evidence_file(path), list[msgspec.Raw], path)])

    def whole(self, file: str) -> int:
        path = self._folder / file
        return self.add(file, LINE, [read_evidence_file(path)]) if stored_path(path).exists() else NONE

    def rows(self, file: str, *kinds: str) -> dict[str, int]:
        path = self._folder / file
        lists = _decoded(read_evidence_file(path), dict[str, msgspec.Raw], path)
        return {kind: self.add(file, kind, split_json_list(lists[kind])) for kind in kinds if kind in lists}

    def add(self, file: str, place: str, entries: Sequence[bytes]) -> int:
        """Add entries of one place in a file and return the reference of the first."""
        if not entries:
            return NONE
        first = len(self._entries)
        self._parts.append((f"{self._shown}/{file}", place, first))
        self._entries.extend(entries)
        return first

    def form(self) -> tuple[RawIndex, dict[str, bytes]]:
        """The index for the page, and the compressed chunks by name."""
        raw = RawIndex(parts=self._parts, entries=len(self._entries))
        chunks: dict[str, bytes] = {}
        for first, entries in self._cut():
            name = f"{self._chunk}.{len(chunks)}"
            raw.chunks.append((name, first))
            chunks[name] = gzip.compress(SEPARATOR.join(entries), 6, mtime=0)
        return raw, chunks

    def _cut(self) -> Iterator[tuple[int, list[bytes]]]:
        begins = size = 0
        for place, entry in enumerate(self._entries):
            size += len(entry)
            if size >= CHUNK:
                yield begins, self._entries[begins : place + 1]
                begins, size = place + 1, 0
        if begins < len(self._entries):
            yield begins, self._entries[begins:]


class _CycleLine:
    """A line of the file of cycles."""

    def __init__(self, raw: RawTextFiles, file: str, line: bytes, number: int) -> None:
        self._raw, self._file, self._number = raw, file, number
        self._parts = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
        changes = self._lists("changes", self._parts)
        self._sets = self._lists("set", changes)

    def records(self, kind: str) -> int:
        return self._add(f"changes.set.{kind}", split_json_list(self._sets[kind])) if kind in self._sets else NONE

    def queues(self) -> int:
        return self._add("queues", split_json_list(self._parts["queues"])) if "queues" in self._parts else NONE

    def decisions(self) -> int:
        return self._add("decisions", [bytes(self._parts["decisions"])])

    def _add(self, part: str, entries: Sequence[bytes]) -> int:
        return self._raw.add(self._file, f"line {self._number}, {part}", entries)

    @staticmethod
    def _lists(name: str, of: dict[str, msgspec.Raw]) -> dict[str, msgspec.Raw]:
        return msgspec.json.decode(of[name], type=dict[str, msgspec.Raw]) if name in of else {}


def split_json_list(text: bytes | msgspec.Raw) -> list[bytes]:
    """The items of a JSON list as raw text."""
    return [bytes(item) for item in msgspec.json.decode(text, type=list[msgspec.Raw])]


def _decoded(content: bytes, type: type[T], path: Path) -> T:
    try:
        return msgspec.json.decode(content, type=type)
    except msgspec.MsgspecError as error:
        raise EvidenceError(f"{path}: damaged: {error}") from error
