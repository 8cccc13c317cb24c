"""Raw text of a running lab: the entries that its evidence would contain, encoded on request.

The viewer refers to an entry by number. In a running lab the numbers must stay valid while files grow, so each file has a range of its own
(``FILE_REFERENCES``). Entries of files that grow in several places get numbers behind all ranges. Objects of the last reading are numbered by their index in the
form's columns, which stays, and not by their place in a list (``ObjectsByIndex``).
"""

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
from kailab.model.objects import full_name
from kailab.report.page_data import NONE, RawIndex
from kailab.report.raw import LINE, SEPARATOR, CycleReferences


class ObjectsByIndex(Sequence[Object | None]):
    """The objects of one kind in the order of a column. ``names``: the column, with full names. An item is None if no such object exists."""

    def __init__(self, objects: Sequence[Object]) -> None:
        self.names: Sequence[str] = ()
        self._objects = objects

    @cached_property
    def _by_name(self) -> dict[str, Object]:
        return {full_name(obj): obj for obj in self._objects}

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


CHUNK_ENTRIES = 256
"""Number of entries in a chunk."""
FILE_REFERENCES = 2**26
"""Size of the range of references of one file. It can grow without changing the references of other files."""
FACTS = "lab.json"
"""A file that is one entry as a whole."""
_FIRST_SHARED_REFERENCE = 2**31 - FILE_REFERENCES
"""End of the ranges of files. Entries of files that grow in several places follow."""

Encode: TypeAlias = Callable[[Any], bytes]


class FileEntries(NamedTuple):
    """The entries of a file, or of one list in it, and their encoder. None stands for an object that does not exist."""

    entries: Sequence[Any]
    write: Encode = canonical.compact_json


EvidenceFiles: TypeAlias = Mapping[str, FileEntries | Mapping[str, FileEntries]]


class LiveRawText:
    """Assigns references and encodes entries. References stay valid; ``renew`` replaces the content of the files."""

    by_index = True

    def __init__(self, files: EvidenceFiles, cutter: RecordCutter, shown: str, chunk: str) -> None:
        """``files``: the entries by file; for files with several lists, by the name of the list. ``cutter``: removes private data from records. ``shown``: the
        name of the lab's folder on the page. ``chunk``: the prefix of chunk names."""
        self.files, self._cutter = files, cutter
        self._shown, self.chunk = shown, chunk
        self._numbered_files = [name for name, entries in files.items() if isinstance(entries, FileEntries)]
        self._parts = [
            (f"{shown}/{name}", "" if name.endswith(".json") and name != FACTS else LINE, place * FILE_REFERENCES)
            for place, name in enumerate(self._numbered_files)
        ]
        self._firsts: list[int] = []
        self._texts: list[FileEntries] = []
        self._count = _FIRST_SHARED_REFERENCE
        self._reported = 0

    def renew(self, files: EvidenceFiles, cutter: RecordCutter) -> None:
        self.files, self._cutter = files, cutter

    def lines(self, file: str) -> int:
        return self._numbered_files.index(file) * FILE_REFERENCES if file in self._numbered_files else NONE

    items = whole = lines

    def rows(self, file: str, *kinds: str) -> dict[str, int]:
        lists = self.files[file]
        assert not isinstance(lists, FileEntries)
        return {kind: self.add(file, kind, lists[kind]) for kind in kinds if kind in lists}

    def cycle(self, place: int, cycle: RecordedCycle) -> CycleReferences:
        return _CycleTexts(self, place + 2, cycle)

    def add(self, file: str, place: str, entries: FileEntries) -> int:
        """Add the entries of one list of a file. Return the reference of the first."""
        if not entries.entries:
            return NONE
        first = self._count
        self._parts.append((f"{self._shown}/{file}", place, first))
        self._firsts.append(first)
        self._texts.append(entries)
        self._count += len(entries.entries)
        return first

    def latest_objects(self, kind: str) -> ObjectsByIndex:
        """The objects of a kind, whose column of names must be set."""
        file = self.files[f"after/{kind}.json"]
        assert isinstance(file, FileEntries)
        assert isinstance(file.entries, ObjectsByIndex)
        return file.entries

    def cut(self) -> RecordCutter:
        """The cutter for records, with the present rules."""
        return self._cutter

    def form(self) -> RawIndex:
        """The index of all entries, for the page."""
        self._reported = len(self._parts)
        return RawIndex(parts=list(self._parts), each=CHUNK_ENTRIES, name=self.chunk, entries=self._count)

    def new_parts(self) -> list[tuple[str, str, int]]:
        """The parts since the last call of this or of ``form``."""
        parts = self._parts[self._reported :]
        self._reported = len(self._parts)
        return parts

    def chunks(self) -> Mapping[str, bytes]:
        """Chunks by name, compressed. Valid until the next ``renew``."""
        return _Chunks(self)

    def texts(self, first: int) -> Iterator[bytes]:
        """The encoded entries of a chunk, by the reference of its first entry."""
        for ref in range(first, first + CHUNK_ENTRIES):
            if ref >= _FIRST_SHARED_REFERENCE:
                if ref >= self._count:
                    return
                part = bisect_right(self._firsts, ref) - 1
                (entries, write), at = self._texts[part], ref - self._firsts[part]
            else:
                file, at = divmod(ref, FILE_REFERENCES)
                file_entries = self.files[self._numbered_files[file]] if file < len(self._numbered_files) else None
                if not isinstance(file_entries, FileEntries) or at >= len(file_entries.entries):
                    return
                entries, write = file_entries
            entry = entries[at]
            yield b"" if entry is None else write(entry)

    def firsts(self) -> Iterator[int]:
        """The first references of all chunks."""
        for number, file in enumerate(self._numbered_files):
            file_entries = self.files[file]
            assert isinstance(file_entries, FileEntries)
            yield from range(
                number * FILE_REFERENCES, number * FILE_REFERENCES + len(file_entries.entries), CHUNK_ENTRIES
            )
        yield from range(_FIRST_SHARED_REFERENCE, self._count, CHUNK_ENTRIES)


class _CycleTexts:
    """The lists of one cycle."""

    def __init__(self, raw_text: LiveRawText, number: int, cycle: RecordedCycle) -> None:
        self._raw_text, self._number, self._cycle = raw_text, number, cycle

    def records(self, kind: str) -> int:
        raw_text = self._raw_text
        return self._add(
            f"changes.set.{kind}", getattr(self._cycle.changes.set, kind), lambda record: raw_text.cut().record(record)
        )

    def queues(self) -> int:
        return self._add("queues", self._cycle.queues, lambda queue: queue)

    def decisions(self) -> int:
        raw_text = self._raw_text
        return self._add("decisions", [self._cycle], lambda cycle: raw_text.cut().decisions(cycle.decisions))

    def _add(self, part: str, entries: Sequence[Any], cut: Callable[[Any], Any]) -> int:
        place = f"line {self._number}, {part}"
        return self._raw_text.add(
            cycle_files.NAME, place, FileEntries(entries, lambda entry: jsonform.encode(cut(entry)))
        )


class _Chunks(Mapping[str, bytes]):
    """Encodes and compresses each chunk on request."""

    def __init__(self, raw_text: LiveRawText) -> None:
        self._raw_text = raw_text

    def __getitem__(self, name: str) -> bytes:
        chunk, _, number = name.partition(".")
        if not number.isdecimal() or len(number) > 9 or name != f"{chunk}.{int(number)}":
            raise KeyError(name)
        texts = list(self._raw_text.texts(int(number) * CHUNK_ENTRIES))
        if chunk != self._raw_text.chunk or not texts:
            raise KeyError(name)
        return gzip.compress(SEPARATOR.join(texts), 1, mtime=0)

    def __iter__(self) -> Iterator[str]:
        return (f"{self._raw_text.chunk}.{first // CHUNK_ENTRIES}" for first in self._raw_text.firsts())

    def __len__(self) -> int:
        return sum(1 for _ in self)
