"""The lab of a file, kept in memory from change to change, so that the cost of a change does not include reading the lab.

``HeldLab`` reads, views and saves the lab. ``UndoHistory`` keeps the file and the length of the record from before each change. ``LabWatcher`` notices
changes of a real cluster, whose lab file does not change.
"""

from __future__ import annotations

import gc
import logging
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from kailab.cluster.protocol import LiveUpdates, Object, WatchEvent
from kailab.errors import EvidenceError, InputError, StateError
from kailab.evidence.cycles import last_cycle
from kailab.evidence.lab_record import LabRecord, RecordMark
from kailab.evidence.recorder import Recorder
from kailab.evidence.recording import Recording, append_recording, copy_recording
from kailab.lab import lab_files
from kailab.lab.capture import make_recorder
from kailab.lab.garbage import collector_off
from kailab.lab.lab import Lab
from kailab.lab.lab_files import Stamp
from kailab.model.callbacks import Tell
from kailab.model.objects import metadata_of, name_of
from kailab.model.private_files import replace_file
from kailab.serve.live_record import EventFeed
from kailab.serve.view import PageView, ViewBuilder

_log = logging.getLogger(__name__)

MOST_CHANGES = 100
MOST_BYTES = 256 * 2**20


class UndoPoint(NamedTuple):
    """``what``: the change that followed, in words. ``file``: the content of the lab's file. ``mark``: the place in its record."""

    what: str
    file: bytes
    mark: RecordMark


def take_undo_point(path: Path, what: str) -> UndoPoint:
    """Remember the lab's present state; the caller holds its lock. Raises OSError, EvidenceError."""
    return UndoPoint(what, path.read_bytes(), LabRecord(path).mark())


def restore_undo_point(path: Path, before: UndoPoint) -> None:
    """Restore the lab's file and record; the caller holds the lock. Raises OSError, EvidenceError."""
    # The record first: a lab can continue with a record that lacks steps, but not with one that has steps which never happened.
    LabRecord(path).back_to(before.mark)
    replace_file(path, before.file)


class UndoHistory:
    """Undo points, oldest first, limited by number and by bytes."""

    def __init__(self) -> None:
        self._before: list[UndoPoint] = []

    @property
    def last(self) -> UndoPoint | None:
        return self._before[-1] if self._before else None

    def push(self, before: UndoPoint) -> None:
        self._before.append(before)
        while len(self._before) > MOST_CHANGES or (
            len(self._before) > 1 and sum(len(point.file) for point in self._before) > MOST_BYTES
        ):
            del self._before[0]

    def pop(self) -> None:
        self._before.pop()

    def forget(self) -> None:
        """Drop all undo points, because another process changed the lab."""
        self._before.clear()


WATCHED_KINDS = ("Pod", "PodGroup", "Queue", "Node")


class LabWatcher:
    """Watches the cluster of a lab until it is closed. Raises StateError, ConnectError."""

    def __init__(self, path: Path) -> None:
        self._lab = Lab.resume(path, read_only=True)
        self._watch = self._lab.cluster.watch(WATCHED_KINDS)
        self._nodes: dict[str, Object] = {}
        self.has_changed()

    def has_changed(self) -> bool:
        """True if anything has changed since the last call."""
        cluster = self._lab.cluster
        if isinstance(cluster, LiveUpdates):
            cluster.wait(0.0)
        moved = False
        for event in self._watch.poll():
            moved |= self._counts(event)
        return moved

    def _counts(self, event: WatchEvent) -> bool:
        if event.kind != "Node":
            return True
        # Heartbeats of nodes do not count as a change.
        name, state = name_of(event.object), _scheduling_state(event.object)
        same = event.type == "MODIFIED" and self._nodes.get(name) == state
        self._nodes[name] = state
        return not same

    def close(self) -> None:
        self._watch.close()
        self._lab.close()


def _scheduling_state(node: Object) -> Object:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return {
        "labels": metadata_of(node).get("labels"),
        "spec": node.get("spec"),
        "capacity": (node.get("status") or {}).get("allocatable"),
        "conditions": [(condition.get("type"), condition.get("status")) for condition in conditions],
    }


class HeldLab:
    """The lab of one file. The lab in memory is valid only while the file is the one that was read or written here."""

    def __init__(self, path: Path, warn: Tell) -> None:
        """``warn`` is called when something can't be recorded."""
        self._path, self._warn = path, warn
        self._journal = LabRecord(path)
        self._lab: Lab | None = None
        self._recorder: Recorder | None = None
        self._stamp: Stamp = None
        self._saved: Recording | None = None
        """The recording on disk, once it was read."""
        self._view_builder = ViewBuilder()
        self._events: EventFeed | None = None

    @property
    def held(self) -> Lab | None:
        """The lab in memory; None if it must be read from the file."""
        if self._lab is not None and (self._stamp is None or lab_files.stamp(self._path) != self._stamp):
            self.release()
        return self._lab

    def lab(self) -> Lab:
        """The lab, from memory or from the file. Raises StateError."""
        held = self.held
        if held is not None:
            return held
        self._stamp = lab_files.stamp(self._path)
        try:
            self._recorder = self._journal.recorder()
        except EvidenceError as error:
            # The lab can be used without a record.
            self._warn(f"{self._path}: changes are not recorded: {error}")
        with collector_off():
            self._lab = Lab.resume(self._path, [] if self._recorder is None else [self._recorder])
        self._lab.shares_pictures = True
        if self._recorder is not None:
            self._recorder.use_states_of(self._lab.cluster_state)
        # The lab stays in memory, so the garbage collector need not scan it.
        gc.freeze()
        return self._lab

    def catch_up(self) -> None:
        """Prepare all parts of the lab in memory, so that the first change does not wait for that. If this changes the lab (it had not settled), discard
        it: the next use reads the file again. Raises StateError, EvidenceError."""
        lab = self.lab()
        if lab.catch_up():
            self.release()
        elif self._recorder is not None:
            self._recorder.catch_up()
            self._go_on(lab, self._recorder)

    def _go_on(self, lab: Lab, recorder: Recorder) -> None:
        """Continue from the last recorded cycle, so that the next cycle is recorded as a difference to it."""
        if self._saved is None:
            self._saved = self._journal.whole()
        try:
            last = last_cycle(self._saved.cycles)
        except InputError:
            return  # reading the record reports the error
        # Not if a later cycle ran without being recorded.
        if last is not None and last.number == lab.log.cycle:
            recorder.go_on_from(last)
            lab.log.go_on_from(last.decisions.pending)

    def stay(self) -> None:
        """Exclude all objects that exist now from garbage collection; otherwise the first change would pay for a scan."""
        if self._lab is not None:
            gc.freeze()

    def view(self) -> PageView:
        """The view of the lab in memory, with changes that are not saved yet. Raises EvidenceError."""
        assert self._lab is not None
        if self._saved is None:
            self._saved = self._journal.whole()
        recording = copy_recording(self._saved)
        if self._recorder is not None:
            append_recording(recording, self._recorder.recording)
        # A scheduler in its own process writes events and cycles itself; they are read again for each view.
        if self._lab.venue.decided(self._lab.under_test) is not None:
            return ViewBuilder().view(self._lab, make_recorder(self._lab, recording))
        if self._events is None:
            self._events = EventFeed(self._lab.cluster)
        return self._view_builder.view(
            self._lab, make_recorder(self._lab, recording, events=False), self._events, at_once=False
        )

    def save(self) -> None:
        """Save the lab and its record; the caller holds the lock. If that fails, drop the lab from memory. Raises StateError."""
        lab = self._lab
        if lab is None:
            raise StateError(f"{self._path}: there is no lab in memory to save")
        try:
            with collector_off():
                lab.save(self._path)
                self._record()
        except BaseException:
            self.release()
            raise
        self._stamp = lab_files.stamp(self._path)

    def release(self) -> None:
        """Drop the lab from memory, because it differs, or may differ, from the file."""
        lab, recorder = self._lab, self._recorder
        if lab is not None:
            _log.debug("%s: the lab is dropped from memory and will be read from its file", self._path)
        self._lab = self._recorder = self._stamp = self._saved = None
        events, self._events, self._view_builder = self._events, None, ViewBuilder()
        if events is not None:
            events.close()
        if lab is not None:
            gc.unfreeze()
            if recorder is not None:
                lab.observers.remove(recorder)  # the lab continues in its file, so its recording does not end here
            with suppress(StateError):
                lab.close()

    def _record(self) -> None:
        if self._recorder is None:
            return
        try:
            self._journal.add(self._recorder)
        except EvidenceError as error:
            # The part is kept and written with the next change, because later cycles are recorded as differences to these.
            self._warn(
                f"{self._path}: the last change is not recorded yet; kailab tries again with the next change: {error}"
            )
            return
        if self._saved is not None:
            append_recording(self._saved, self._recorder.recording)
        self._recorder.begin_part()
