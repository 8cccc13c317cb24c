"""The recorded cycles of kailab's scheduler: the input and the decisions of each, so that a run can be decided again from its folder.

    cycles.jsonl, or cycles.jsonl.gz if it is large: a CycleHead, then a RecordedCycle on each line

A running lab keeps a cycle by reference (records and decisions are frozen) and only its difference to the cycle before, so recording costs what
changed. Cycles are encoded when the evidence is written. ``CycleFile`` appends the cycles of a scheduler in its own process to a file beside its decision
file. That file is not sanitised, because it lies with the lab's own data; it is sanitised when the lab is captured.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, NamedTuple, TypeVar

import msgspec
from msgspec import structs

from kailab.engine.config import EngineConfig
from kailab.engine.decisions import Decisions, Pending, QueueState
from kailab.engine.snapshot import jsonform
from kailab.engine.snapshot.changes import Changes, summed
from kailab.engine.snapshot.snapshot import Snapshot
from kailab.errors import EvidenceError, InputError, StateError, os_errors_as
from kailab.evidence.large_files import read_stored_file, stored_path, write_stored_file
from kailab.model.files import file_bytes
from kailab.model.private_files import make_folder, open_private
from kailab.scheduler.cycle_record import CycleRecord
from kailab.version import __version__

FORMAT = 1
"""The format number of the file."""

NAME = "cycles.jsonl"

CarriedRange = tuple[int, int]
"""(start, count): stands for entries of the same list in the cycle before."""

Listed = TypeVar("Listed", Pending, QueueState)


class CycleHead(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The first line. ``kailab``: the version that decided. ``opened``: when the lab started, seconds since the epoch. ``cut``: number of texts in records of
    which a part was left out; decisions on the rest may differ."""

    format: int
    kailab: str
    opened: float
    cycles: int
    cut: int


class RecordedCycle(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One cycle. ``number`` counts from 1, as in the decision log. A restarted scheduler continues the count; its first cycle has all records as
    changes, unless it continues from the recorded state. ``config``: None if equal to the cycle before. ``decisions``: without pending entries and queues, which ``pending`` and
    ``queues`` have."""

    number: int
    now: float
    config: EngineConfig | None = None
    changes: Changes = Changes()
    decisions: Decisions
    pending: tuple[Pending | CarriedRange, ...] = ()
    queues: tuple[QueueState | CarriedRange, ...] = ()


class LastRecordedCycle(NamedTuple):
    """The last recorded cycle, complete. ``records``: its input."""

    number: int
    records: Snapshot
    config: EngineConfig
    decisions: Decisions


class CycleLog:
    """Appends cycles as differences to the cycle before."""

    def __init__(self, cycles: list[RecordedCycle]) -> None:
        """``cycles``: the list to append to."""
        self.cycles = cycles
        self._config: EngineConfig | None = None
        self._pending: tuple[Pending, ...] = ()
        self._queues: tuple[QueueState, ...] = ()

    def go_on(self, last: LastRecordedCycle) -> None:
        """Continue after a recorded cycle."""
        self._config, self._pending, self._queues = last.config, last.decisions.pending, last.decisions.queues

    def append(self, record: CycleRecord, number: int) -> None:
        """Append a cycle whose records were followed; skip one whose records were not, because it can't be decided again. ``number``: in the decision log."""
        # The scheduler did not follow its records in this cycle.
        if record.changes is None:
            return
        decisions = record.decisions
        self.cycles.append(
            RecordedCycle(
                number=number,
                now=record.now,
                # Compared by value: the scheduler makes a new configuration for each cycle, with past usage and promises.
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
    """Yield each cycle with its configuration and complete decisions. Raises InputError if a cycle refers to entries that the cycle before does not
    have."""
    so_far = CycleReader()
    for cycle in cycles:
        yield cycle, *so_far.complete(cycle)


def last_cycle(cycles: Sequence[RecordedCycle]) -> LastRecordedCycle | None:
    """The last cycle; None if there are none. Raises InputError as ``whole_cycles``."""
    reader, last = CycleReader(), None
    for cycle in cycles:
        last = reader.complete(cycle)
    if last is None:
        return None
    config, decisions = last
    return LastRecordedCycle(cycles[-1].number, summed(cycle.changes for cycle in cycles), config, decisions)


class CycleReader:
    """Completes cycles one after the other."""

    def __init__(self) -> None:
        self._config: EngineConfig | None = None
        self._pending: tuple[Pending, ...] = ()
        self._queues: tuple[QueueState, ...] = ()

    def complete(self, cycle: RecordedCycle) -> tuple[EngineConfig, Decisions]:
        """The configuration and the complete decisions of the next cycle. Raises InputError."""
        config = self._config = cycle.config or self._config
        if config is None:
            raise InputError(f"cycle {cycle.number} has no configuration")
        self._pending = _put_back(self._pending, cycle.pending, cycle.number)
        self._queues = _put_back(self._queues, cycle.queues, cycle.number)
        return config, structs.replace(cycle.decisions, pending=self._pending, queues=self._queues)


def _carried_over(before: Sequence[Listed], now: Sequence[Listed], identity: str) -> Iterator[Listed | CarriedRange]:
    """Encode a list by the ranges that it has in common with the list before."""
    # Entries are looked up by name and then compared, so the cost is one look-up for each entry, wherever it moved.
    places = {getattr(entry, identity): place for place, entry in enumerate(before)}
    start = count = 0
    for entry in now:
        place = places.get(getattr(entry, identity))
        if place is not None and before[place] == entry:
            # A range continues only while entries follow each other in both lists, because the order is recorded too.
            if count and place == start + count:
                count += 1
                continue
            if count:
                yield start, count
            # An unchanged entry that does not follow the last one starts a new range.
            start, count = place, 1
            continue
        if count:
            yield start, count
            count = 0
        yield entry
    if count:
        yield start, count


def _put_back(before: Sequence[Listed], listed: Iterable[Listed | CarriedRange], number: int) -> tuple[Listed, ...]:
    result: list[Listed] = []
    for item in listed:
        # Only a range is a tuple; entries are structs.
        if not isinstance(item, tuple):
            result.append(item)
            continue
        start, count = item
        # Python's slices would accept both silently, and a shorter list would be replayed.
        if start < 0 or start + count > len(before):
            raise InputError(f"cycle {number} refers to what the one before does not have")
        result += before[start : start + count]
    return tuple(result)


def write_cycles_file(folder: Path, opened: float, cut: int, cycles: Sequence[RecordedCycle]) -> None:
    """Write the file. ``opened``, ``cut``: as in the head. Raises OSError."""
    head = CycleHead(format=FORMAT, kailab=__version__, opened=opened, cycles=len(cycles), cut=cut)
    write_stored_file(folder / NAME, b"".join(jsonform.encode(record) + b"\n" for record in (head, *cycles)))


def has_cycles(folder: Path) -> bool:
    return stored_path(folder / NAME).exists()


def read_lines(folder: Path) -> tuple[Path, list[bytes]]:
    """The path of the file and its raw lines. Raises EvidenceError."""
    path = stored_path(folder / NAME)
    with os_errors_as(EvidenceError, f"{path}: can't be read"):
        return path, read_stored_file(path).splitlines()


def read_cycles_file(folder: Path) -> tuple[CycleHead, list[RecordedCycle]]:
    """Read the file. Raises EvidenceError with file and line if it is damaged, truncated or of another format."""
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
    # A file truncated at a line break has only valid lines; the head says how many there were.
    if head is None or head.cycles != len(cycles):
        expected = "a head" if head is None else f"{head.cycles} cycles"
        raise EvidenceError(f"{path}: damaged: {expected} expected, {len(cycles)} cycles found")
    return head, cycles


MOST_BYTES = 256 * 1024 * 1024
"""No cycle is appended beyond this size."""


def cycle_file_path(decisions: Path) -> Path:
    return decisions.with_name(f"{decisions.name}.cycles")


class CycleFile:
    """Appends cycles; cycles of an earlier scheduler stay. After a cycle that could not be appended no other is, because each cycle is a difference to the
    one before."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._log = CycleLog([])
        self._ended = ""

    def append(self, record: CycleRecord, number: int) -> None:
        """Append a cycle. ``number``: in the decision log. Raises StateError if it can't be written or the file is full, and on every later call."""
        if self._ended:
            raise StateError(self._ended)
        self._log.append(record, number)
        lines = b"".join(jsonform.encode(cycle) + b"\n" for cycle in self._log.cycles)
        # The log remembers the last cycle itself. Keeping all of them here would grow without limit.
        self._log.cycles.clear()
        try:
            make_folder(self._path.parent)
            with open_private(self._path, "a+b") as file:
                # The size of the file counts, because an earlier scheduler may have written a part of it.
                if _whole_lines(file) + len(lines) > MOST_BYTES:
                    self._ended = f"{self._path}: full ({MOST_BYTES >> 20} MiB): later cycles are not recorded and can't be replayed; start a new lab"
                    raise StateError(self._ended)
                file.write(lines)
        except OSError as error:
            self._ended = (
                f"{self._path}: cycles can't be written: {error.strerror or error}: later cycles can't be replayed until the "
                "scheduler restarts"
            )
            raise StateError(self._ended) from error


def _whole_lines(file: IO[bytes]) -> int:
    """The number of bytes in complete lines, after removing an incomplete last line, which a killed scheduler may have left."""
    size = file.seek(0, os.SEEK_END)
    # An empty file can't be mapped.
    if not size:
        return 0
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        whole = content.rfind(b"\n") + 1
    if whole < size:
        file.truncate(whole)
    return whole


def read_cycle_file(path: Path) -> list[RecordedCycle]:
    """Read the cycles; an incomplete last line is skipped. Raises EvidenceError if the file is damaged."""
    with os_errors_as(EvidenceError, f"{path}: can't be read"):
        content = file_bytes(path) if path.exists() else b""
    cycles = []
    # The scheduler may still be writing the last line.
    for number, line in enumerate(content[: content.rfind(b"\n") + 1].splitlines(), 1):
        try:
            cycles.append(jsonform.decode(line, RecordedCycle, "a recorded cycle"))
        except InputError as error:
            raise EvidenceError(f"{path}, line {number}: {error}") from error
    return cycles
