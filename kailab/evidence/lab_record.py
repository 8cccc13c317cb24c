"""The record of a lab that outlives the commands which act on it: a folder beside the lab's file, in which each command that
changed the lab leaves a part. ``kailab evidence capture`` joins them.

    lab.state.record/
        so_far          what the next part needs to know of the earlier ones
        000001 ...      a Recording each, JSON, compressed

It holds objects as they were applied, as the lab's file does; evidence is cut when it is written. A part is written after the
lab's file: a command that is killed in between has acted and left none, which the next one does not notice.
"""

from __future__ import annotations

import os
import shutil
import zlib
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from kailab.engine.snapshot import jsonform
from kailab.errors import EvidenceError, InputError, Where
from kailab.evidence.recorder import Recorder
from kailab.evidence.recording import Recording, join_recordings
from kailab.model.files import file_bytes, unpacked
from kailab.model.private_files import make_folder, write_bytes

_SO_FAR = "so_far"
_LEVEL = 1  # every command waits for it


class RecordMark(NamedTuple):
    """A place in a record: how many ``parts`` there were, and ``so_far`` as it was (None: nothing was recorded)."""

    parts: int
    so_far: bytes | None


class LabRecord:
    """Of the lab of a file ``state``."""

    def __init__(self, state: Path) -> None:
        self.folder = state.with_name(f"{state.name}.record")

    def begin(self, recorder: Recorder) -> None:
        """A lab began: what an earlier one left goes. Raises EvidenceError."""
        # First of all: parts of another lab at this place would be joined with those of this one.
        self.end()
        self.add(recorder)

    def recorder(self) -> Recorder | None:
        """For the next command; None where nobody recorded how the lab began. Raises EvidenceError for a damaged record."""
        path = self.folder / _SO_FAR
        return Recorder(so_far=_read(path)) if path.exists() else None

    def add(self, recorder: Recorder) -> None:
        """Keep what a command did. Raises EvidenceError; nothing of it is kept then, and it can be added again."""
        recording, part = recorder.recording, None
        try:
            make_folder(self.folder)
            part = self.folder / f"{len(self._parts()) + 1:06d}"
            _write(part, recording)
            _write(self.folder / _SO_FAR, recording.following())
        except OSError as error:
            if part is not None:
                with suppress(OSError):
                    part.unlink(missing_ok=True)
            raise EvidenceError(f"{self.folder}: the record can't be written: {error.strerror or error}") from error

    def whole(self) -> Recording:
        """All of it. Raises EvidenceError where there is nothing, or it is damaged."""
        parts = self._parts()
        if not parts:
            raise EvidenceError(
                f"{self.folder}: nothing was recorded of this lab; begin it anew with `kailab up --fresh`, and what is done to "
                "it from then on can be captured"
            )
        return join_recordings(map(_read, parts))

    def mark(self) -> RecordMark:
        """Where the record is, to come back to. Raises EvidenceError."""
        path = self.folder / _SO_FAR
        try:
            return RecordMark(len(self._parts()), file_bytes(path) if path.exists() else None)
        except OSError as error:
            raise EvidenceError(f"{path}: can't be read: {error.strerror or error}") from error

    def back_to(self, mark: RecordMark) -> None:
        """Forget what was recorded since: the lab is put back to what it was then. Raises EvidenceError."""
        try:
            for part in self._parts()[mark.parts :]:
                part.unlink()
            if mark.so_far is not None:
                partial = self.folder / f".{_SO_FAR}.{os.getpid()}.tmp"
                write_bytes(partial, mark.so_far)
                os.replace(partial, self.folder / _SO_FAR)
        except OSError as error:
            raise EvidenceError(f"{self.folder}: the record can't be put back: {error.strerror or error}") from error

    def end(self) -> None:
        """The lab is down."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def leftovers(self) -> list[Path]:
        """Half-written files of processes that were killed."""
        return list(self.folder.glob(".*.tmp"))

    def _parts(self) -> list[Path]:
        return sorted(path for path in self.folder.glob("[0-9]*")) if self.folder.is_dir() else []


def _write(path: Path, recording: Recording) -> None:
    partial = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    write_bytes(partial, zlib.compress(jsonform.encode(recording), _LEVEL))
    os.replace(partial, path)


def _read(path: Path) -> Recording:
    try:
        return jsonform.decode(unpacked(file_bytes(path), Where()), Recording, "the record of a lab")
    except (OSError, InputError) as error:
        raise EvidenceError(f"{path}: damaged: {error}") from error
