"""Raw text of a lab that goes on: what would stand in its evidence, written when somebody asks for it."""

from __future__ import annotations

import gzip
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from kailab.engine.snapshot import jsonform
from kailab.evidence import canonical
from kailab.evidence import cycles as cycle_files
from kailab.evidence.cut_records import RecordCutter
from kailab.evidence.cycles import Cycle
from kailab.report.form import NONE, Raw
from kailab.report.raw import LINE, SEPARATOR, CycleTexts

OF_CHUNK = 256
"""Entries in a chunk."""

Write: TypeAlias = Callable[[Any], bytes]


class Entries(NamedTuple):
    """Of a file, or of one place in it."""

    entries: Sequence[Any]
    write: Write = canonical.compact


class Asked:
    """``files``: what there is; those of more than one list by the name of each list."""

    def __init__(
        self, files: Mapping[str, Entries | Mapping[str, Entries]], cutter: RecordCutter, shown: str, chunk: str
    ) -> None:
        """``cutter``: of records. ``shown``: what the lab's folder is called on the page. ``chunk``: what the chunks' names begin with."""
        self._files, self._cutter = files, cutter
        self._shown, self._chunk = shown, chunk
        self._parts: list[tuple[str, str, int]] = []
        self._texts: list[Entries] = []
        self._count = 0

    def lines(self, file: str) -> int:
        return self._known(file, LINE)

    def items(self, file: str) -> int:
        return self._known(file, "")

    def whole(self, file: str) -> int:
        return self._known(file, LINE)

    def rows(self, file: str, *kinds: str) -> dict[str, int]:
        lists = self._files[file]
        assert not isinstance(lists, Entries)
        return {kind: self.add(file, kind, lists[kind]) for kind in kinds if kind in lists}

    def cycle(self, place: int, cycle: Cycle) -> CycleTexts:
        return _CycleTexts(self, self._cutter, place + 2, cycle)

    def add(self, file: str, place: str, entries: Entries) -> int:
        """Entries that stand at one place of a file. The reference of the first."""
        if not entries.entries:
            return NONE
        first = self._count
        self._parts.append((f"{self._shown}/{file}", place, first))
        self._texts.append(entries)
        self._count += len(entries.entries)
        return first

    def _known(self, file: str, place: str) -> int:
        entries = self._files.get(file)
        return self.add(file, place, entries) if isinstance(entries, Entries) else NONE

    def form(self) -> tuple[Raw, Mapping[str, bytes]]:
        """What the page has of it, and its chunks by name, compressed."""
        chunks = {f"{self._chunk}.{first // OF_CHUNK}": first for first in range(0, self._count, OF_CHUNK)}
        firsts = [first for _, _, first in self._parts]
        return Raw(parts=self._parts, chunks=list(chunks.items()), entries=self._count), _Chunks(
            chunks, firsts, self._texts, self._count
        )


class _CycleTexts:
    """The parts of one cycle."""

    def __init__(self, asked: Asked, cutter: RecordCutter, number: int, cycle: Cycle) -> None:
        self._asked, self._cutter, self._number, self._cycle = asked, cutter, number, cycle

    def records(self, kind: str) -> int:
        return self._add(f"changes.set.{kind}", getattr(self._cycle.changes.set, kind), self._cutter.record)

    def queues(self) -> int:
        return self._add("queues", self._cycle.queues, lambda queue: queue)

    def decisions(self) -> int:
        return self._add("decisions", [self._cycle], lambda cycle: self._cutter.decisions(cycle.decisions))

    def _add(self, part: str, entries: Sequence[Any], cut: Callable[[Any], Any]) -> int:
        place = f"line {self._number}, {part}"
        return self._asked.add(cycle_files.NAME, place, Entries(entries, lambda entry: jsonform.encode(cut(entry))))


class _Chunks(Mapping[str, bytes]):
    """Written and compressed one by one, as they are asked for."""

    def __init__(self, chunks: Mapping[str, int], firsts: Sequence[int], texts: Sequence[Entries], count: int) -> None:
        self._chunks, self._firsts, self._texts, self._count = chunks, firsts, texts, count

    def __getitem__(self, name: str) -> bytes:
        first = self._chunks[name]
        texts = [self._text(ref) for ref in range(first, min(first + OF_CHUNK, self._count))]
        return gzip.compress(SEPARATOR.join(texts), 1, mtime=0)

    def _text(self, ref: int) -> bytes:
        part = bisect_right(self._firsts, ref) - 1
        entries, write = self._texts[part]
        return write(entries[ref - self._firsts[part]])

    def __iter__(self) -> Iterator[str]:
        return iter(self._chunks)

    def __len__(self) -> int:
        return len(self._chunks)
