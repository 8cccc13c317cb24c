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
from kailab.serve.by_place import ByPlace

OF_CHUNK = 256
"""Entries in a chunk."""
ROOM = 2**26
"""References that a file has for itself: it may grow without those of others becoming others."""
FACTS = "lab.json"
"""One entry, the whole file."""
_LAST = 2**31 - ROOM
"""Where the rooms end; behind it come entries of files that grow in several places."""

Write: TypeAlias = Callable[[Any], bytes]


class Entries(NamedTuple):
    """Of a file, or of one place in it. One that is None is not there."""

    entries: Sequence[Any]
    write: Write = canonical.compact


Files: TypeAlias = Mapping[str, Entries | Mapping[str, Entries]]


class Asked:
    """Gives references. Those of a lab that goes on stay what they are: ``renew`` tells what its files have by now."""

    by_place = True

    def __init__(self, files: Files, cutter: RecordCutter, shown: str, chunk: str) -> None:
        """``files``: what there is; those of more than one list by the name of each list. ``cutter``: of records. ``shown``: what the
        lab's folder is called on the page. ``chunk``: what the chunks' names begin with."""
        self.files, self._cutter = files, cutter
        self._shown, self.chunk = shown, chunk
        self._rooms = [name for name, entries in files.items() if isinstance(entries, Entries)]
        self._parts = [
            (f"{shown}/{name}", "" if name.endswith(".json") and name != FACTS else LINE, place * ROOM)
            for place, name in enumerate(self._rooms)
        ]
        self._firsts: list[int] = []
        self._texts: list[Entries] = []
        self._count = _LAST
        self._told = 0

    def renew(self, files: Files, cutter: RecordCutter) -> None:
        self.files, self._cutter = files, cutter

    def lines(self, file: str) -> int:
        return self._rooms.index(file) * ROOM if file in self._rooms else NONE

    items = whole = lines

    def rows(self, file: str, *kinds: str) -> dict[str, int]:
        lists = self.files[file]
        assert not isinstance(lists, Entries)
        return {kind: self.add(file, kind, lists[kind]) for kind in kinds if kind in lists}

    def cycle(self, place: int, cycle: Cycle) -> CycleTexts:
        return _CycleTexts(self, place + 2, cycle)

    def add(self, file: str, place: str, entries: Entries) -> int:
        """Entries that stand at one place of a file, behind all that were added. The reference of the first."""
        if not entries.entries:
            return NONE
        first = self._count
        self._parts.append((f"{self._shown}/{file}", place, first))
        self._firsts.append(first)
        self._texts.append(entries)
        self._count += len(entries.entries)
        return first

    def last_look(self, kind: str) -> ByPlace:
        """Objects of a kind, whose column of names is to be told."""
        found = self.files[f"after/{kind}.json"]
        assert isinstance(found, Entries)
        assert isinstance(found.entries, ByPlace)
        return found.entries

    def cut(self) -> RecordCutter:
        """Of records, by what is known now."""
        return self._cutter

    def form(self) -> Raw:
        """What the page has of it."""
        self._told = len(self._parts)
        return Raw(parts=list(self._parts), each=OF_CHUNK, name=self.chunk, entries=self._count)

    def new_parts(self) -> list[tuple[str, str, int]]:
        """Those since somebody asked for any."""
        found = self._parts[self._told :]
        self._told = len(self._parts)
        return found

    def chunks(self) -> Mapping[str, bytes]:
        """Chunks by name, compressed, as long as nothing is renewed."""
        return _Chunks(self)

    def texts(self, first: int) -> Iterator[bytes]:
        """Of a chunk's entries, from its first on."""
        for ref in range(first, first + OF_CHUNK):
            if ref >= _LAST:
                if ref >= self._count:
                    return
                part = bisect_right(self._firsts, ref) - 1
                (entries, write), at = self._texts[part], ref - self._firsts[part]
            else:
                room, at = divmod(ref, ROOM)
                found = self.files[self._rooms[room]] if room < len(self._rooms) else None
                if not isinstance(found, Entries) or at >= len(found.entries):
                    return
                entries, write = found
            one = entries[at]
            yield b"" if one is None else write(one)

    def firsts(self) -> Iterator[int]:
        """Of all chunks."""
        for room, file in enumerate(self._rooms):
            found = self.files[file]
            assert isinstance(found, Entries)
            yield from range(room * ROOM, room * ROOM + len(found.entries), OF_CHUNK)
        yield from range(_LAST, self._count, OF_CHUNK)


class _CycleTexts:
    """The parts of one cycle."""

    def __init__(self, asked: Asked, number: int, cycle: Cycle) -> None:
        self._asked, self._number, self._cycle = asked, number, cycle

    def records(self, kind: str) -> int:
        asked = self._asked
        return self._add(
            f"changes.set.{kind}", getattr(self._cycle.changes.set, kind), lambda record: asked.cut().record(record)
        )

    def queues(self) -> int:
        return self._add("queues", self._cycle.queues, lambda queue: queue)

    def decisions(self) -> int:
        asked = self._asked
        return self._add("decisions", [self._cycle], lambda cycle: asked.cut().decisions(cycle.decisions))

    def _add(self, part: str, entries: Sequence[Any], cut: Callable[[Any], Any]) -> int:
        place = f"line {self._number}, {part}"
        return self._asked.add(cycle_files.NAME, place, Entries(entries, lambda entry: jsonform.encode(cut(entry))))


class _Chunks(Mapping[str, bytes]):
    """Written and compressed one by one, as they are asked for."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked

    def __getitem__(self, name: str) -> bytes:
        chunk, _, number = name.partition(".")
        if not number.isdecimal() or len(number) > 9 or name != f"{chunk}.{int(number)}":
            raise KeyError(name)
        texts = list(self._asked.texts(int(number) * OF_CHUNK))
        if chunk != self._asked.chunk or not texts:
            raise KeyError(name)
        return gzip.compress(SEPARATOR.join(texts), 1, mtime=0)

    def __iter__(self) -> Iterator[str]:
        return (f"{self._asked.chunk}.{first // OF_CHUNK}" for first in self._asked.firsts())

    def __len__(self) -> int:
        return sum(1 for _ in self)
