"""The series of a lab as evidence keeps them: one on each line."""

from __future__ import annotations

from pathlib import Path

import msgspec

from kailab.errors import EvidenceError
from kailab.evidence import canonical
from kailab.evidence.history import History
from kailab.evidence.metrics.of_run import looks
from kailab.evidence.metrics.series import OneSeries, of_looks
from kailab.evidence.recording import Recording
from kailab.model.files import file_bytes


def series_of(recording: Recording) -> bytes:
    """Of a lab that was recorded, after the last look. Names of objects and codes of reasons are all the text in it."""
    return canonical.lines(of_looks(looks(History.of_recording(recording))).every())


def read_series(path: Path) -> list[OneSeries]:
    """Raises EvidenceError."""
    try:
        return [msgspec.json.decode(line, type=OneSeries) for line in file_bytes(path).splitlines()]
    except (OSError, msgspec.MsgspecError) as error:
        raise EvidenceError(f"{path}: can't be read: {error}") from error
