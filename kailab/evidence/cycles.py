"""The cycles of kailab's scheduler as they are kept: what each was decided on and what it decided, so that it can be decided
again from the folder alone.

    cycles.jsonl, or cycles.jsonl.gz where it is large: a Head, then a Cycle on each line

While a lab runs a cycle is held by reference (records and decisions are frozen), without what it has in common with the one
before: recording costs what changed. It is encoded when the evidence is written.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec
from msgspec import structs

from kailab import __version__
from kailab.engine.config import EngineConfig
from kailab.engine.decisions import Decisions, Pending, QueueState
from kailab.engine.snapshot import jsonform
from kailab.engine.snapshot.changes import Changes, summed
from kailab.engine.snapshot.snapshot import Snapshot
from kailab.errors import EvidenceError, InputError, Where
from kailab.model.files import file_bytes, unpacked
from kailab.model.private_files import write_bytes
from kailab.scheduler.cycle_record import CycleRecord

FORMAT = 1
"""Of the file."""

NAME = "cycles.jsonl"
LARGE = 100_000
"""Bytes from which on it is compressed."""

Carried = tuple[int, int]
"""Stands for so many entries of the same list in the cycle before, from this one on: (start, count)."""

Listed = TypeVar("Listed", Pending, QueueState)


class Head(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``kailab``: the version that decided. ``opened``: when the lab began, seconds since the epoch. ``cut``: texts in records of which something was left out; what is decided on the
    rest may be another."""

    format: int
    kailab: str
    opened: float
    cycles: int
    cut: int


class Cycle(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """``number`` counts from 1, as in the decision log; a scheduler that was begun anew goes on counting, and its changes are
    all records, unless it goes on from what was recorded of the one before. ``config``: None as in the cycle before. ``decisions`` are without what ``pending`` and ``queues`` have."""

    number: int
    now: float
    config: EngineConfig | None = None
    changes: Changes = Changes()
    decisions: Decisions
    pending: tuple[Pending | Carried, ...] = ()
    queues: tuple[QueueState | Carried, ...] = ()


class LastCycle(NamedTuple):
    """The last one of a record, as a whole. ``records``: that it was decided on."""

    number: int
    records: Snapshot
    config: EngineConfig
    decisions: Decisions


class CycleLog:
    """Takes cycles in, one after the other."""

    def __init__(self, cycles: list[Cycle]) -> None:
        """``cycles``: where they go."""
        self.cycles = cycles
        self._config: EngineConfig | None = None
        self._pending: tuple[Pending, ...] = ()
        self._queues: tuple[QueueState, ...] = ()

    def go_on(self, last: LastCycle) -> None:
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
            Cycle(
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


def whole(cycles: Iterable[Cycle]) -> Iterator[tuple[Cycle, EngineConfig, Decisions]]:
    """Each cycle with its configuration and all that it decided. Raises InputError where a cycle refers to what the one before
    does not have."""
    so_far = Whole()
    for cycle in cycles:
        yield cycle, *so_far.take(cycle)


def last_of(cycles: Sequence[Cycle]) -> LastCycle | None:
    """None where there are no cycles. Raises InputError as ``whole`` does."""
    so_far, told = Whole(), None
    for cycle in cycles:
        told = so_far.take(cycle)
    if told is None:
        return None
    config, decisions = told
    return LastCycle(cycles[-1].number, summed(cycle.changes for cycle in cycles), config, decisions)


class Whole:
    """The same, cycle by cycle."""

    def __init__(self) -> None:
        self._config: EngineConfig | None = None
        self._pending: tuple[Pending, ...] = ()
        self._queues: tuple[QueueState, ...] = ()

    def take(self, cycle: Cycle) -> tuple[EngineConfig, Decisions]:
        """Raises InputError."""
        config = self._config = cycle.config or self._config
        if config is None:
            raise InputError(f"cycle {cycle.number} has no configuration")
        self._pending = _put_back(self._pending, cycle.pending, cycle.number)
        self._queues = _put_back(self._queues, cycle.queues, cycle.number)
        return config, structs.replace(cycle.decisions, pending=self._pending, queues=self._queues)


def _carried_over(before: Sequence[Listed], now: Sequence[Listed], identity: str) -> Iterator[Listed | Carried]:
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


def _put_back(before: Sequence[Listed], told: Iterable[Listed | Carried], number: int) -> tuple[Listed, ...]:
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


def write(folder: Path, opened: float, cut: int, cycles: Sequence[Cycle]) -> None:
    """``opened``, ``cut``: as in the head. Raises OSError."""
    head = Head(format=FORMAT, kailab=__version__, opened=opened, cycles=len(cycles), cut=cut)
    content = b"".join(jsonform.encode(one) + b"\n" for one in (head, *cycles))
    if len(content) < LARGE:
        write_bytes(folder / NAME, content)
    else:
        # No time of writing in it: equal runs give equal bytes.
        write_bytes(folder / f"{NAME}.gz", gzip.compress(content, 6, mtime=0))


def there_are(folder: Path) -> bool:
    return _path(folder).exists()


def read_lines(folder: Path) -> tuple[Path, list[bytes]]:
    """The file, and its lines as they stand in it. Raises EvidenceError."""
    path = _path(folder)
    try:
        content = file_bytes(path)
        return path, (unpacked(content, Where()) if path.suffix == ".gz" else content).splitlines()
    except (OSError, InputError) as error:
        raise EvidenceError(f"{path}: can't be read: {error}") from error


def read(folder: Path) -> tuple[Head, list[Cycle]]:
    """Raises EvidenceError, naming file and line, for what is damaged, cut short, or of another format."""
    path, lines = read_lines(folder)
    head: Head | None = None
    cycles: list[Cycle] = []
    for number, line in enumerate(lines, 1):
        try:
            if head is None:
                head = jsonform.decode(line, Head, "the head of recorded cycles", FORMAT)
            else:
                cycles.append(jsonform.decode(line, Cycle, "a recorded cycle"))
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
