"""The cycles of a scheduler in another process, in a file beside its decision file: a line each, as they run.

The file is not cut as evidence is: it lies with the lab's own data, and is cut when the lab is captured.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import IO

from kailab.engine.snapshot import jsonform
from kailab.errors import EvidenceError, InputError, StateError
from kailab.evidence.cycles import Cycle, CycleLog
from kailab.model.files import file_bytes
from kailab.model.private_files import make_folder, open_file
from kailab.scheduler.cycle_record import CycleRecord

MOST_BYTES = 256 * 1024 * 1024
"""No cycle is added beyond."""


def path_beside(decisions: Path) -> Path:
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


def read_cycles(path: Path) -> list[Cycle]:
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
            cycles.append(jsonform.decode(line, Cycle, "a recorded cycle"))
        except InputError as error:
            raise EvidenceError(f"{path}, line {number}: {error}") from error
    return cycles
