"""The cycles of kailab's scheduler as they are kept: what each was decided on and what it decided, so that it can be decided
again from the folder alone.

    cycles.jsonl, or cycles.jsonl.gz where it is large: a Head, then a Cycle on each line

While a lab runs a cycle is held by reference (records and decisions are frozen), without what it has in common with the one
before: recording costs what changed. It is encoded when the evidence is written.
"""

from __future__ import annotations

import gzip
import mmap
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, NamedTuple, TypeVar

import msgspec
from msgspec import structs

from kailab import __version__
from kailab.engine.config import EngineConfig
from kailab.engine.decisions import Decisions, Pending, QueueState
from kailab.engine.snapshot import jsonform
from kailab.engine.snapshot.changes import Changes, summed
from kailab.engine.snapshot.snapshot import Snapshot
from kailab.errors import EvidenceError, InputError, StateError, Where
from kailab.model.files import file_bytes, unpacked
from kailab.model.private_files import make_folder, open_file, write_bytes
from kailab.scheduler.cycle_record import CycleRecord

FORMAT = 1
"""Of the file."""

NAME = "cycles.jsonl"
LARGE = 100_000
"""Bytes from which on it is compressed."""

CarriedRange = tuple[int, int]
"""Stands for so many entries of the same list in the cycle before, from this one on: (start, count)."""

Listed = TypeVar("Listed", Pending, QueueState)


class CycleHead(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``kailab``: the version that decided. ``opened``: when the lab began, seconds since the epoch. ``cut``: texts in records of which something was left out; what is decided on the
    rest may be another."""

    format: int
    kailab: str
    opened: float
    cycles: int
    cut: int


class RecordedCycle(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """``number`` counts from 1, as in the decision log; a scheduler that was begun anew goes on counting, and its changes are
    all records, unless it goes on from what was recorded of the one before. ``config``: None as in the cycle before. ``decisions`` are without what ``pending`` and ``queues`` have."""

    number: int
    now: float
    config: EngineConfig | None = None
    changes: Changes = Changes()
    decisions: Decisions
    pending: tuple[Pending | CarriedRange, ...] = ()
    queues: tuple[QueueState | CarriedRange, ...] = ()


class LastRecordedCycle(NamedTuple):
    """The last one of a record, as a whole. ``records``: that it was decided on."""

    number: int
    records: Snapshot
    config: EngineConfig
    decisions: Decisions


class CycleLog:
    """Takes cycles in, one after the other."""

    def __init__(self, cycles: list[RecordedCycle]) -> None:
        """``cycles``: where they go."""
        self.cycles = cycles
        self._config: EngineConfig | None = None
        self._pending: tuple[Pending, ...] = ()
        self._queues: tuple[QueueState, ...] = ()

    def go_on(self, last: LastRecordedCycle) -> None:
        """The next one comes after this one."""
        self._config, self._pending, self._queues = last.config, last.decisions.pending, last.decisions.queues

    def take(self, record: CycleRecord, number: int) -> None:
        """A cycle whose records were followed; another can't be decided again, and is passed over. ``number``: in the decision
        log."""
        # Nobody asked the scheduler to follow its records in this cycle.
        if record.changes is None:
            return
        decisions = record.decisions
        self.cycles.append(
            RecordedCycle(
                number=number,
                now=record.now,
                # Compared by value: the scheduler makes a new one for each cycle, with past usage and promises in it.
                config=None if record.config == self._config else record.config,
                changes=record.changes,
                decisions=structs.replace(decisions, pending=(), queues=()),
                pending=tuple(_carried_over(self._pending, decisions.pending, "podgroup")),
                queues=tuple(_carried_over(self._queues, decisions.queues, "name")),
            )
        )
        self._config = record.config
        self._pending, self._queues = decisions.pending, decisions.queues


def whole_cycles(cycles: Iterable[RecordedCycle]) -> Iterator[tuple[RecordedCycle, EngineConfig, Decisions]]:
    """Each cycle with its configuration and all that it decided. Raises InputError where a cycle refers to what the one before
    does not have."""
    so_far = CycleReader()
    for cycle in cycles:
        yield cycle, *so_far.take(cycle)


def last_cycle(cycles: Sequence[RecordedCycle]) -> LastRecordedCycle | None:
    """None where there are no cycles. Raises InputError as ``whole`` does."""
    so_far, told = CycleReader(), None
    for cycle in cycles:
        told = so_far.take(cycle)
    if told is None:
        return None
    config, decisions = told
    return LastRecordedCycle(cycles[-1].number, summed(cycle.changes for cycle in cycles), config, decisions)


class CycleReader:
    """The same, cycle by cycle."""

    def __init__(self) -> None:
        self._config: EngineConfig | None = None
        self._pending: tuple[Pending, ...] = ()
        self._queues: tuple[QueueState, ...] = ()

    def take(self, cycle: RecordedCycle) -> tuple[EngineConfig, Decisions]:
        """Raises InputError."""
        config = self._config = cycle.config or self._config
        if config is None:
            raise InputError(f"cycle {cycle.number} has no configuration")
        self._pending = _put_back(self._pending, cycle.pending, cycle.number)
        self._queues = _put_back(self._queues, cycle.queues, cycle.number)
        return config, structs.replace(cycle.decisions, pending=self._pending, queues=self._queues)


def _carried_over(before: Sequence[Listed], now: Sequence[Listed], identity: str) -> Iterator[Listed | CarriedRange]:
    """A list, told by what it has in common with the one before it."""
    # Found by identity and then compared as a whole, so a list costs a look-up an entry, wherever an entry moved to.
    places = {getattr(entry, identity): place for place, entry in enumerate(before)}
    start = count = 0
    for entry in now:
        place = places.get(getattr(entry, identity))
        if place is not None and before[place] == entry:
            # A run goes on only while entries follow each other there as here. The order is part of what is kept.
            if count and place == start + count:
                count += 1
                continue
            if count:
                yield start, count
            # An unchanged entry that does not follow the last one begins a run of its own.
            start, count = place, 1
            continue
        if count:
            yield start, count
            count = 0
        yield entry
    if count:
        yield start, count


def _put_back(before: Sequence[Listed], told: Iterable[Listed | CarriedRange], number: int) -> tuple[Listed, ...]:
    found: list[Listed] = []
    for one in told:
        # Structs are no tuples: only a reference is one.
        if not isinstance(one, tuple):
            found.append(one)
            continue
        start, count = one
        # Python's slices would take both in silence, and a shorter list would be replayed.
        if start < 0 or start + count > len(before):
            raise InputError(f"cycle {number} refers to what the one before does not have")
        found += before[start : start + count]
    return tuple(found)


def write_cycles_file(folder: Path, opened: float, cut: int, cycles: Sequence[RecordedCycle]) -> None:
    """``opened``, ``cut``: as in the head. Raises OSError."""
    head = CycleHead(format=FORMAT, kailab=__version__, opened=opened, cycles=len(cycles), cut=cut)
    content = b"".join(jsonform.encode(one) + b"\n" for one in (head, *cycles))
    if len(content) < LARGE:
        write_bytes(folder / NAME, content)
    else:
        # No time of writing in it: equal runs give equal bytes.
        write_bytes(folder / f"{NAME}.gz", gzip.compress(content, 6, mtime=0))


def has_cycles(folder: Path) -> bool:
    return _path(folder).exists()


def read_lines(folder: Path) -> tuple[Path, list[bytes]]:
    """The file, and its lines as they stand in it. Raises EvidenceError."""
    path = _path(folder)
    try:
        content = file_bytes(path)
        return path, (unpacked(content, Where()) if path.suffix == ".gz" else content).splitlines()
    except (OSError, InputError) as error:
        raise EvidenceError(f"{path}: can't be read: {error}") from error


def read_cycles_file(folder: Path) -> tuple[CycleHead, list[RecordedCycle]]:
    """Raises EvidenceError, naming file and line, for what is damaged, cut short, or of another format."""
    path, lines = read_lines(folder)
    head: CycleHead | None = None
    cycles: list[RecordedCycle] = []
    for number, line in enumerate(lines, 1):
        try:
            if head is None:
                head = jsonform.decode(line, CycleHead, "the head of recorded cycles", FORMAT)
            else:
                cycles.append(jsonform.decode(line, RecordedCycle, "a recorded cycle"))
        except InputError as error:
            raise EvidenceError(f"{path}, line {number}: {error}") from error
    # A file that was cut at a line break has only sound lines; the head says how many there were.
    if head is None or head.cycles != len(cycles):
        expected = "a head" if head is None else f"{head.cycles} cycles"
        raise EvidenceError(f"{path}: damaged: {expected} expected, {len(cycles)} cycles found")
    return head, cycles


def _path(folder: Path) -> Path:
    plain = folder / NAME
    return plain if plain.exists() else folder / f"{NAME}.gz"


# The cycles of a scheduler in another process, in a file beside its decision file: a line each, as they run.
#
# The file is not cut as evidence is: it lies with the lab's own data, and is cut when the lab is captured.

MOST_BYTES = 256 * 1024 * 1024
"""No cycle is added beyond."""


def cycle_file_path(decisions: Path) -> Path:
    return decisions.with_name(f"{decisions.name}.cycles")


class CycleFile:
    """Appends. What an earlier scheduler wrote there stays. After a cycle that could not be added none is: a cycle says only what is
    other than in the one before."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._log = CycleLog([])
        self._ended = ""

    def take(self, record: CycleRecord, number: int) -> None:
        """``number``: in the decision log. Raises StateError where it can't be written, or there is no more room for it, and from
        then on."""
        if self._ended:
            raise StateError(self._ended)
        self._log.take(record, number)
        lines = b"".join(jsonform.encode(cycle) + b"\n" for cycle in self._log.cycles)
        # The log itself remembers the latest cycle, which the next is told by. All of them would grow without end.
        self._log.cycles.clear()
        try:
            make_folder(self._path.parent)
            with open_file(self._path, "a+b") as file:
                # Asked of the file, as an earlier scheduler may have written a part of it.
                if _whole_lines(file) + len(lines) > MOST_BYTES:
                    self._ended = f"{self._path}: full ({MOST_BYTES >> 20} MiB): cycles from now on can't be decided again; begin the lab anew"
                    raise StateError(self._ended)
                file.write(lines)
        except OSError as error:
            self._ended = (
                f"{self._path}: cycles can't be written: {error.strerror or error}: those from now on can't be decided again "
                "until the scheduler begins anew"
            )
            raise StateError(self._ended) from error


def _whole_lines(file: IO[bytes]) -> int:
    """Bytes of them, after what follows the last was cut off: a scheduler broke off while it wrote, and the next line would go on
    from there."""
    size = file.seek(0, os.SEEK_END)
    # Nothing can't be mapped.
    if not size:
        return 0
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        whole = content.rfind(b"\n") + 1
    if whole < size:
        file.truncate(whole)
    return whole


def read_cycle_file(path: Path) -> list[RecordedCycle]:
    """Those that are there: a last line that is being written is left out. Raises EvidenceError for damage."""
    try:
        content = file_bytes(path)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise EvidenceError(f"{path}: can't be read: {error.strerror or error}") from error
    cycles = []
    # What follows the last line break is still being written by the scheduler.
    for number, line in enumerate(content[: content.rfind(b"\n") + 1].splitlines(), 1):
        try:
            cycles.append(jsonform.decode(line, RecordedCycle, "a recorded cycle"))
        except InputError as error:
            raise EvidenceError(f"{path}, line {number}: {error}") from error
    return cycles
