"""What the lab was before each change, so that one can be taken back: its file and its record are kept as they were."""

from __future__ import annotations

import gc
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from kailab.cluster.protocol import LiveNews, Object, WatchEvent
from kailab.errors import EvidenceError, InputError, StateError
from kailab.evidence.cycles import last_cycle
from kailab.evidence.lab_record import LabRecord, RecordMark
from kailab.evidence.recorder import Recorder
from kailab.evidence.recording import Recording, append_recording, copy_recording
from kailab.lab import kept
from kailab.lab.capture import recorded
from kailab.lab.garbage import collector_off
from kailab.lab.kept import Stamp, Tell
from kailab.lab.lab import Lab
from kailab.model.private_files import replace_file
from kailab.serve.live_record import EventFeed
from kailab.serve.view import PageView, ViewBuilder

MOST_CHANGES = 100
MOST_BYTES = 256 * 2**20


class UndoPoint(NamedTuple):
    """``what``: the change that came after."""

    what: str
    file: bytes
    mark: RecordMark


def take_undo_point(path: Path, what: str) -> UndoPoint:
    """The lab of a file as it is, by who holds its lock. Raises OSError, EvidenceError."""
    return UndoPoint(what, path.read_bytes(), LabRecord(path).mark())


def restore_undo_point(path: Path, before: UndoPoint) -> None:
    """By who holds the lock. Raises OSError, EvidenceError."""
    # The record first: a lab with a record that is short of steps can be gone on with, one with steps that never were can't.
    LabRecord(path).back_to(before.mark)
    replace_file(path, before.file)


class UndoHistory:
    """Changes that can be taken back, the last first."""

    def __init__(self, most: int = MOST_CHANGES, most_bytes: int = MOST_BYTES) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._before: list[UndoPoint] = []

    @property
    def last(self) -> UndoPoint | None:
        return self._before[-1] if self._before else None

    def push(self, before: UndoPoint) -> None:
        self._before.append(before)
        while len(self._before) > self._most or (
            len(self._before) > 1 and sum(len(one.file) for one in self._before) > self._most_bytes
        ):
            del self._before[0]

    def pop(self) -> None:
        self._before.pop()

    def forget(self) -> None:
        """The lab is another than the one that was left."""
        self._before.clear()


# Whether a lab has changed whose cluster goes on by itself: the file of such a lab stays as it is.

WATCHED_KINDS = ("Pod", "PodGroup", "Queue", "Node")


class LabWatcher:
    """Of the lab of a file, until it is closed. Raises StateError, ConnectError."""

    def __init__(self, path: Path) -> None:
        self._lab = Lab.resume(path, read_only=True)
        self._watch = self._lab.cluster.watch(WATCHED_KINDS)
        self._nodes: dict[str, Object] = {}
        self.moved()

    def moved(self) -> bool:
        """Whether anything has changed since it was asked last."""
        cluster = self._lab.cluster
        if isinstance(cluster, LiveNews):
            cluster.wait(0.0)
        moved = False
        for event in self._watch.poll():
            moved |= self._counts(event)
        return moved

    def _counts(self, event: WatchEvent) -> bool:
        if event.kind != "Node":
            return True
        # Heartbeats are no news.
        name, shown = event.object["metadata"]["name"], _shown(event.object)
        same = event.type == "MODIFIED" and self._nodes.get(name) == shown
        self._nodes[name] = shown
        return not same

    def close(self) -> None:
        self._watch.close()
        self._lab.close()


def _shown(node: Object) -> Object:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return {
        "labels": node["metadata"].get("labels"),
        "spec": node.get("spec"),
        "capacity": (node.get("status") or {}).get("allocatable"),
        "conditions": [(one.get("type"), one.get("status")) for one in conditions],
    }


# The lab of a file, kept in memory from change to change: what a change costs does not grow with reading the lab anew.


class HeldLab:
    """Of one file. What is in memory counts only while the file is the one that was read or written here."""

    def __init__(self, path: Path, warn: Tell) -> None:
        """``warn`` is told what goes unrecorded."""
        self._path, self._warn = path, warn
        self._journal = LabRecord(path)
        self._lab: Lab | None = None
        self._recorder: Recorder | None = None
        self._stamp: Stamp = None
        self._saved: Recording | None = None
        """What is in the record, as far as somebody asked."""
        self._showing = ViewBuilder()
        self._events: EventFeed | None = None

    @property
    def held(self) -> Lab | None:
        """The lab as the file has it; None where it would have to be read."""
        if self._lab is not None and (self._stamp is None or kept.stamp(self._path) != self._stamp):
            self.let_go()
        return self._lab

    def lab(self) -> Lab:
        """The lab as the file has it, to look at or to change. Raises StateError."""
        found = self.held
        if found is not None:
            return found
        self._stamp = kept.stamp(self._path)
        try:
            self._recorder = self._journal.recorder()
        except EvidenceError as error:
            # The lab matters more than the record of what is done to it.
            self._warn(f"{self._path}: what is done now is not recorded: {error}")
        with collector_off():
            self._lab = Lab.resume(self._path, [] if self._recorder is None else [self._recorder])
        self._lab.shares_pictures = True
        if self._recorder is not None:
            self._recorder.ask(self._lab.standing)
        # It stays as long as nobody else changes it: Python's collector need not look through it.
        gc.freeze()
        return self._lab

    def catch_up(self) -> None:
        """Have the lab in memory read by all its parts, so that the first change need not wait for that. One that was not at rest changes by it: it is let go, since
        the lab is the file. Raises StateError, EvidenceError."""
        lab = self.lab()
        if lab.catch_up():
            self.let_go()
        elif self._recorder is not None:
            self._recorder.catch_up()
            self._go_on(lab, self._recorder)

    def _go_on(self, lab: Lab, recorder: Recorder) -> None:
        """Have the first cycle told by what is new since the last one that was recorded, as every other is."""
        if self._saved is None:
            self._saved = self._journal.whole()
        try:
            last = last_cycle(self._saved.cycles)
        except InputError:
            return  # whoever looks is told
        # A cycle that went unrecorded told something else since.
        if last is not None and last.number == lab.log.cycle:
            recorder.go_on_from(last)
            lab.log.go_on_from(last.decisions.pending)

    def stay(self) -> None:
        """What was read and told of the lab is to stay: Python's collector need not look through it, as it would within the first change."""
        if self._lab is not None:
            gc.freeze()

    def view(self) -> PageView:
        """The lab in memory, with what is not saved yet. Raises EvidenceError."""
        assert self._lab is not None
        if self._saved is None:
            self._saved = self._journal.whole()
        recording = copy_recording(self._saved)
        if self._recorder is not None:
            append_recording(recording, self._recorder.recording)
        # The events of a scheduler in a process of its own come from elsewhere, and its cycles are read anew each time.
        if self._lab.venue.decided(self._lab.under_test) is not None:
            return ViewBuilder().view(self._lab, recorded(self._lab, recording))
        if self._events is None:
            self._events = EventFeed(self._lab.cluster)
        return self._showing.view(self._lab, recorded(self._lab, recording, events=False), self._events, at_once=False)

    def save(self) -> None:
        """Write what was done, by who holds the lock. Where that fails the lab in memory is let go: the file is the lab. Raises
        StateError."""
        lab = self._lab
        if lab is None:
            raise StateError(f"{self._path}: there is no lab in memory to be saved")
        try:
            with collector_off():
                lab.save(self._path)
                self._record()
        except BaseException:
            self.let_go()
            raise
        self._stamp = kept.stamp(self._path)

    def let_go(self) -> None:
        """Of a lab that is not, or may not be, as the file has it."""
        lab, recorder = self._lab, self._recorder
        self._lab = self._recorder = self._stamp = self._saved = None
        events, self._events, self._showing = self._events, None, ViewBuilder()
        if events is not None:
            events.close()
        if lab is not None:
            gc.unfreeze()
            if recorder is not None:
                lab.observers.remove(recorder)  # the lab goes on in its file: nothing takes a last look
            with suppress(StateError):
                lab.close()

    def _record(self) -> None:
        if self._recorder is None:
            return
        try:
            self._journal.add(self._recorder)
        except EvidenceError as error:
            # It stays in hand and is written with what comes next: later cycles are told by what is new since these.
            self._warn(
                f"{self._path}: what was done is not recorded yet, and is tried again with the next change: {error}"
            )
            return
        if self._saved is not None:
            append_recording(self._saved, self._recorder.recording)
        self._recorder.begin_part()
