"""Objects of a look at a lab that goes on, by the places of what they are in the form's columns: those stay, places in lists do not."""

from __future__ import annotations

import gzip
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias, overload

from kailab.cluster.protocol import Object
from kailab.engine.snapshot import jsonform
from kailab.evidence import canonical
from kailab.evidence import cycles as cycle_files
from kailab.evidence.cycles import RecordedCycle
from kailab.evidence.sanitizing import RecordCutter
from kailab.report.page_data import NONE, RawIndex
from kailab.report.raw import LINE, SEPARATOR, CycleReferences


class ObjectsByPlace(Sequence[Object | None]):
    """``names``: the column, in full names; None where no object of that name is there."""

    def __init__(self, objects: Sequence[Object]) -> None:
        self.names: Sequence[str] = ()
        self._objects = objects

    @cached_property
    def _by_name(self) -> dict[str, Object]:
        return {full_name(one): one for one in self._objects}

    def __len__(self) -> int:
        return len(self.names)

    @overload
    def __getitem__(self, place: int) -> Object | None: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Object | None]: ...

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [self._by_name.get(name) for name in self.names[place]]
        return self._by_name.get(self.names[place])


def full_name(obj: Object) -> str:
    """``namespace/name``; the name of what is in no namespace."""
    metadata = obj["metadata"]
    space = metadata.get("namespace", "")
    return f"{space}/{metadata['name']}" if space else str(metadata["name"])


# Raw text of a lab that goes on: what would stand in its evidence, written when somebody asks for it.

CHUNK_ENTRIES = 256
"""Entries in a chunk."""
FILE_REFERENCES = 2**26
"""References that a file has for itself: it may grow without those of others becoming others."""
FACTS = "lab.json"
"""One entry, the whole file."""
_FIRST_SHARED_REFERENCE = 2**31 - FILE_REFERENCES
"""Where the rooms end; behind it come entries of files that grow in several places."""

Write: TypeAlias = Callable[[Any], bytes]


class FileEntries(NamedTuple):
    """Of a file, or of one place in it. One that is None is not there."""

    entries: Sequence[Any]
    write: Write = canonical.compact_json


EvidenceFiles: TypeAlias = Mapping[str, FileEntries | Mapping[str, FileEntries]]


class LiveRawText:
    """Gives references. Those of a lab that goes on stay what they are: ``renew`` tells what its files have by now."""

    by_place = True

    def __init__(self, files: EvidenceFiles, cutter: RecordCutter, shown: str, chunk: str) -> None:
        """``files``: what there is; those of more than one list by the name of each list. ``cutter``: of records. ``shown``: what the
        lab's folder is called on the page. ``chunk``: what the chunks' names begin with."""
        self.files, self._cutter = files, cutter
        self._shown, self.chunk = shown, chunk
        self._rooms = [name for name, entries in files.items() if isinstance(entries, FileEntries)]
        self._parts = [
            (f"{shown}/{name}", "" if name.endswith(".json") and name != FACTS else LINE, place * FILE_REFERENCES)
            for place, name in enumerate(self._rooms)
        ]
        self._firsts: list[int] = []
        self._texts: list[FileEntries] = []
        self._count = _FIRST_SHARED_REFERENCE
        self._told = 0

    def renew(self, files: EvidenceFiles, cutter: RecordCutter) -> None:
        self.files, self._cutter = files, cutter

    def lines(self, file: str) -> int:
        return self._rooms.index(file) * FILE_REFERENCES if file in self._rooms else NONE

    items = whole = lines

    def rows(self, file: str, *kinds: str) -> dict[str, int]:
        lists = self.files[file]
        assert not isinstance(lists, FileEntries)
        return {kind: self.add(file, kind, lists[kind]) for kind in kinds if kind in lists}

    def cycle(self, place: int, cycle: RecordedCycle) -> CycleReferences:
        return _CycleTexts(self, place + 2, cycle)

    def add(self, file: str, place: str, entries: FileEntries) -> int:
        """Entries that stand at one place of a file, behind all that were added. The reference of the first."""
        if not entries.entries:
            return NONE
        first = self._count
        self._parts.append((f"{self._shown}/{file}", place, first))
        self._firsts.append(first)
        self._texts.append(entries)
        self._count += len(entries.entries)
        return first

    def last_look(self, kind: str) -> ObjectsByPlace:
        """Objects of a kind, whose column of names is to be told."""
        found = self.files[f"after/{kind}.json"]
        assert isinstance(found, FileEntries)
        assert isinstance(found.entries, ObjectsByPlace)
        return found.entries

    def cut(self) -> RecordCutter:
        """Of records, by what is known now."""
        return self._cutter

    def form(self) -> RawIndex:
        """What the page has of it."""
        self._told = len(self._parts)
        return RawIndex(parts=list(self._parts), each=CHUNK_ENTRIES, name=self.chunk, entries=self._count)

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
        for ref in range(first, first + CHUNK_ENTRIES):
            if ref >= _FIRST_SHARED_REFERENCE:
                if ref >= self._count:
                    return
                part = bisect_right(self._firsts, ref) - 1
                (entries, write), at = self._texts[part], ref - self._firsts[part]
            else:
                room, at = divmod(ref, FILE_REFERENCES)
                found = self.files[self._rooms[room]] if room < len(self._rooms) else None
                if not isinstance(found, FileEntries) or at >= len(found.entries):
                    return
                entries, write = found
            one = entries[at]
            yield b"" if one is None else write(one)

    def firsts(self) -> Iterator[int]:
        """Of all chunks."""
        for room, file in enumerate(self._rooms):
            found = self.files[file]
            assert isinstance(found, FileEntries)
            yield from range(room * FILE_REFERENCES, room * FILE_REFERENCES + len(found.entries), CHUNK_ENTRIES)
        yield from range(_FIRST_SHARED_REFERENCE, self._count, CHUNK_ENTRIES)


class _CycleTexts:
    """The parts of one cycle."""

    def __init__(self, asked: LiveRawText, number: int, cycle: RecordedCycle) -> None:
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
        return self._asked.add(cycle_files.NAME, place, FileEntries(entries, lambda entry: jsonform.encode(cut(entry))))


class _Chunks(Mapping[str, bytes]):
    """Written and compressed one by one, as they are asked for."""

    def __init__(self, asked: LiveRawText) -> None:
        self._asked = asked

    def __getitem__(self, name: str) -> bytes:
        chunk, _, number = name.partition(".")
        if not number.isdecimal() or len(number) > 9 or name != f"{chunk}.{int(number)}":
            raise KeyError(name)
        texts = list(self._asked.texts(int(number) * CHUNK_ENTRIES))
        if chunk != self._asked.chunk or not texts:
            raise KeyError(name)
        return gzip.compress(SEPARATOR.join(texts), 1, mtime=0)

    def __iter__(self) -> Iterator[str]:
        return (f"{self._asked.chunk}.{first // CHUNK_ENTRIES}" for first in self._asked.firsts())

    def __len__(self) -> int:
        return sum(1 for _ in self)
