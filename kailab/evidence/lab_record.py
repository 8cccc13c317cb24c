"""The record of a lab that outlives its commands: a folder beside the lab's file. Each command that changes the lab adds a part; ``kailab evidence capture``
joins the parts.

    lab.state.record/
        so_far          the numbers and facts that the next part continues
        000001 ...      a Recording each, JSON, compressed

The record has objects as they were applied, like the lab's file; they are sanitised when evidence is written. A part is written after the lab's file: a
command that is killed in between has acted without leaving a part, and the next command does not notice.
"""

from __future__ import annotations

import shutil
import zlib
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from kailab.engine.snapshot import jsonform
from kailab.errors import EvidenceError, InputError, Where, os_errors_as
from kailab.evidence.recorder import Recorder
from kailab.evidence.recording import Recording, join_recordings
from kailab.model.files import file_bytes, unpacked
from kailab.model.private_files import PARTIAL, make_folder, replace_file

_SO_FAR = "so_far"
_LEVEL = 1  # a low level, because every command waits for it


class RecordMark(NamedTuple):
    """A place in a record: the number of ``parts``, and the content of ``so_far`` (None if nothing was recorded)."""

    parts: int
    so_far: bytes | None


class LabRecord:
    """The record of the lab in the file ``state``."""

    def __init__(self, state: Path) -> None:
        self.folder = state.with_name(f"{state.name}.record")

    def begin(self, recorder: Recorder) -> None:
        """Start the record of a new lab; an earlier record is removed. Raises EvidenceError."""
        # Removed first, so that parts of another lab are never joined with those of this one.
        self.end()
        self.add(recorder)

    def recorder(self) -> Recorder | None:
        """The recorder for the next command; None if the start of the lab was not recorded. Raises EvidenceError if the record is damaged."""
        path = self.folder / _SO_FAR
        return Recorder(so_far=_read(path)) if path.exists() else None

    def add(self, recorder: Recorder) -> None:
        """Add the part of a command. Raises EvidenceError; then nothing was written, and the part can be added again."""
        with os_errors_as(EvidenceError, f"{self.folder}: the record can't be written"):
            make_folder(self.folder)
            part = self.folder / f"{len(self._parts()) + 1:06d}"
            _write(part, recorder.recording)
            try:
                _write(self.folder / _SO_FAR, recorder.recording.following())
            except OSError:
                with suppress(OSError):
                    part.unlink()
                raise

    def whole(self) -> Recording:
        """All parts joined. Raises EvidenceError if there are none or one is damaged."""
        parts = self._parts()
        if not parts:
            raise EvidenceError(
                f"{self.folder}: this lab has no record; start it again with `kailab up --fresh` to record what "
                "happens from then on"
            )
        return join_recordings(map(_read, parts))

    def mark(self) -> RecordMark:
        """The present end of the record, for ``back_to``. Raises EvidenceError."""
        path = self.folder / _SO_FAR
        with os_errors_as(EvidenceError, f"{path}: can't be read"):
            return RecordMark(len(self._parts()), file_bytes(path) if path.exists() else None)

    def back_to(self, mark: RecordMark) -> None:
        """Remove all parts since a mark, because the lab is restored to that state. Raises EvidenceError."""
        with os_errors_as(EvidenceError, f"{self.folder}: the record can't be restored"):
            for part in self._parts()[mark.parts :]:
                part.unlink()
            if mark.so_far is not None:
                replace_file(self.folder / _SO_FAR, mark.so_far)

    def end(self) -> None:
        """Remove the record, because the lab is down."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def leftovers(self) -> list[Path]:
        """Partial files of killed processes."""
        return list(self.folder.glob(f"{PARTIAL}*"))

    def _parts(self) -> list[Path]:
        return sorted(self.folder.glob("[0-9]*"))


def _write(path: Path, recording: Recording) -> None:
    replace_file(path, zlib.compress(jsonform.encode(recording), _LEVEL))


def _read(path: Path) -> Recording:
    try:
        return jsonform.decode(unpacked(file_bytes(path), Where()), Recording, "the record of a lab")
    except (OSError, InputError) as error:
        raise EvidenceError(f"{path}: damaged: {error}") from error
