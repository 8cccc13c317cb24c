"""The lab of a file, kept in memory from change to change: what a change costs does not grow with reading the lab anew."""

from __future__ import annotations

import gc
from contextlib import suppress
from pathlib import Path

from kailab.errors import EvidenceError, StateError
from kailab.evidence.journal import Journal
from kailab.evidence.recorder import Recorder
from kailab.evidence.recording import Recording, copied, go_on
from kailab.lab import kept
from kailab.lab.capture import recorded
from kailab.lab.garbage import collector_off
from kailab.lab.kept import Stamp, Tell
from kailab.lab.lab import Lab
from kailab.serve.telling import Telling
from kailab.serve.view import View, view_of


class Holding:
    """Of one file. What is in memory counts only while the file is the one that was read or written here."""

    def __init__(self, path: Path, warn: Tell) -> None:
        """``warn`` is told what goes unrecorded."""
        self._path, self._warn = path, warn
        self._journal = Journal(path)
        self._lab: Lab | None = None
        self._recorder: Recorder | None = None
        self._stamp: Stamp = None
        self._saved: Recording | None = None
        """What is in the record, as far as somebody asked."""
        self._telling = Telling()

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
            self._unrecorded(error)
        with collector_off():
            self._lab = Lab.resume(self._path, [] if self._recorder is None else [self._recorder])
        # It stays as long as nobody else changes it: Python's collector need not look through it.
        gc.freeze()
        return self._lab

    def view(self) -> View:
        """The lab in memory, with what is not saved yet. Raises EvidenceError."""
        assert self._lab is not None
        if self._saved is None:
            self._saved = self._journal.whole()
        recording = copied(self._saved)
        if self._recorder is not None:
            go_on(recording, self._recorder.recording)
        return view_of(self._lab, recorded(self._lab, recording), self._telling)

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
        self._telling = Telling()
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
            self._unrecorded(error)
        if self._saved is not None:
            go_on(self._saved, self._recorder.recording)
        self._recorder.begin_part()

    def _unrecorded(self, error: EvidenceError) -> None:
        # The lab matters more than the record of what is done to it.
        self._warn(f"{self._path}: what is done now is not recorded: {error}")
