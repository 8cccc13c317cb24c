"""The decisions of a scheduler in its own process, in a file from which explanations read them.

JSON with the same content as a saved lab: ``cycle`` (number of cycles), ``evictions`` (the latest entries of the decision log) and ``last`` (the Decisions of
the last cycle, or null). ``opened`` and ``time`` are seconds since the epoch: the origin of the entries' ``t``, and when the file was written. The file is
replaced as a whole, so readers never see a part of it. ``NamedCycles`` turns recorded cycles into entries with names.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import msgspec

from kailab.engine.decisions import Decisions
from kailab.engine.snapshot.changes import Changes
from kailab.errors import StateError, os_errors_as
from kailab.evidence.cycles import CycleFile, RecordedCycle, cycle_file_path
from kailab.evidence.decision_log import DecisionLog, NameLookup, ObjectName
from kailab.evidence.entries import Decision, PodEvicted
from kailab.model import decoding
from kailab.model.files import file_bytes
from kailab.model.objects import controller_name, full_name, labels_of
from kailab.model.private_files import make_folder, replace_file
from kailab.scheduler.cycle_record import CycleRecord
from kailab.scheduler.mirror import Mirror
from kailab.scheduler.observers import DecidingScheduler, Observer


class NamedCycles:
    """Turns recorded cycles into decision entries with names. ``lookup``: knows labels and owners of pods, which the records do not have."""

    def __init__(self, opened: float, lookup: NameLookup | None = None) -> None:
        self.names = _RecordNames(lookup)
        self._log = DecisionLog(self.names, opened, keep_all=True)

    def entries(self, cycle: RecordedCycle, decisions: Decisions) -> list[Decision]:
        self.names.process_changes(cycle.changes)
        # A restarted scheduler reports all reasons again, so the log does too. ``log_cycle`` counts this cycle.
        if cycle.changes.whole:
            self._log.begin_anew(cycle.number - 1)
        return self._log.log_cycle(decisions)

    def entries_alone(self, decisions: Decisions) -> list[Decision]:
        """The entries of decisions as if no cycle came before."""
        return DecisionLog(self.names, 0.0, keep_all=True).log_cycle(decisions)


class _RecordNames(NameLookup):
    """Names from the records of cycles. ``lookup``: as in ``NamedCycles``."""

    def __init__(self, lookup: NameLookup | None) -> None:
        self._known: dict[str, ObjectName] = {}
        self._lookup = lookup

    def process_changes(self, changes: Changes) -> None:
        self._known |= {task.uid: ObjectName(f"{task.namespace}/{task.name}") for task in changes.set.tasks}
        self._known |= {
            group.uid: ObjectName(f"{group.namespace}/{group.name}", kind="PodGroup") for group in changes.set.podgroups
        }

    def refresh(self) -> None:
        if self._lookup is not None:
            self._lookup.refresh()

    def everyone(self) -> Iterable[ObjectName]:
        return self._known.values()

    def of(self, uid: str) -> ObjectName:
        known = self._known.get(uid) or ObjectName(uid)
        other = self._lookup.of(uid) if self._lookup is not None else known
        # The record's name wins, because the lookup may never have seen the pod.
        return known._replace(app=other.app, owner=other.owner)


MOST_EVICTIONS = 5000
PAUSE_SECONDS = 1.0


class SchedulerDecisions(msgspec.Struct, kw_only=True):
    """The content of a decision file. ``cycles``: the file with the recorded cycles; empty if they are not recorded."""

    cycle: int = 0
    evictions: list[PodEvicted] = []
    last: Decisions | None = None
    opened: float = 0.0
    time: float = 0.0
    cycles: str = ""


def read_decisions(path: str | Path) -> SchedulerDecisions:
    """Read a decision file. Raises StateError if it is missing or damaged."""
    path = Path(path)
    try:
        return decoding.decode_json(file_bytes(path), SchedulerDecisions)
    except FileNotFoundError:
        raise StateError(
            f"{path}: there are no decisions; check that the scheduler runs with --decisions {path}"
        ) from None
    except (OSError, msgspec.MsgspecError) as error:
        raise StateError(f"{path}: the scheduler's decisions can't be read: {error}") from error


class _MirrorNames(NameLookup):
    """Names from the mirror on which the cycle decided; an index would grow without limit."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror

    def of(self, uid: str) -> ObjectName:
        pod = self._mirror.pods.get(uid)
        if pod is not None:
            app = labels_of(pod).get("app", "")
            return ObjectName(full_name(pod), app, controller_name(pod))
        return ObjectName(self._mirror.podgroup_name(uid) or uid)


class DecisionFile(Observer):
    """Writes a decision file; continues the file of an earlier scheduler.

    The file is written after a cycle that bound or evicted pods or changed the waiting PodGroups, at most once a second, and at the end. Raises StateError
    if it can't be written.
    """

    def __init__(
        self, path: str | Path, opened: float, clock: Callable[[], float] = time.monotonic, *, cycles: bool = False
    ) -> None:
        """``cycles``: also record each cycle in a file beside it."""
        self._path = Path(path)
        self._cycles = CycleFile(cycle_file_path(self._path)) if cycles else None
        self._clock = clock
        self._kept = SchedulerDecisions(opened=opened)
        # A missing or damaged file must not keep the scheduler from running.
        with suppress(StateError):
            self._kept = read_decisions(self._path)
        self._log: DecisionLog | None = None
        self._waiting: dict[str, tuple[str, str]] = {}
        # The first turn always writes the file, so that readers see that a scheduler runs.
        self._changed = True
        self._written_at = float("-inf")

    def on_begin(self, scheduler: DecidingScheduler) -> None:
        self._log = DecisionLog(_MirrorNames(scheduler.mirror), self._kept.opened)
        self._log.cycle, self._log.evictions = self._kept.cycle, self._kept.evictions
        if self._cycles is not None:
            scheduler.follow_records()

    def on_cycle(self, record: CycleRecord) -> None:
        log = self._log
        assert log is not None
        decisions = record.decisions
        log.log_cycle(decisions)
        # In place, because ``_kept`` shares the list of the log.
        del log.evictions[:-MOST_EVICTIONS]
        # Only code and message: numbers in a reason may change although nothing else does.
        waiting = {pending.podgroup: (str(pending.code), pending.message) for pending in decisions.pending}
        self._changed |= decisions.changed or waiting != self._waiting
        self._waiting = waiting
        self._kept = SchedulerDecisions(
            cycle=log.cycle, evictions=log.evictions, last=decisions, opened=self._kept.opened, time=record.now,
            cycles="" if self._cycles is None else str(cycle_file_path(self._path)),
        )  # fmt: skip
        if self._cycles is not None:
            self._cycles.append(record, log.cycle)

    def on_turn(self) -> None:
        """Write changes, if the last writing was long enough ago."""
        if self._changed and self._clock() >= self._written_at + PAUSE_SECONDS:
            self._write()

    def on_end(self) -> None:
        """Write the last state."""
        if self._kept.last is not None:
            self._write()

    def _write(self) -> None:
        self._written_at = self._clock()
        with os_errors_as(StateError, f"{self._path}: the decisions can't be written"):
            make_folder(self._path.parent)
            replace_file(self._path, msgspec.json.encode(self._kept))
        self._changed = False
