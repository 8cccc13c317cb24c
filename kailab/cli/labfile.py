"""The lab between commands: resumed from its file, acted on, saved again; one command at a time (``kailab.lab.lab_files``). What is waited for
and what goes unrecorded is told on the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kailab.cli import terminal
from kailab.lab import lab_files

if TYPE_CHECKING:
    from kailab.lab import Lab

STATE = Path(".kailab/lab.state")
"""Where a lab is kept unless somebody says otherwise."""


def read_lab(path: Path) -> AbstractContextManager[Lab]:
    """The saved lab, to read. Raises StateError."""
    return lab_files.open_read_only(path)


@contextmanager
def change_lab(path: Path, *, save: bool = True) -> Iterator[Lab]:
    """The saved lab, to change: saved if the block ends well, with a record of what was done. Raises StateError."""
    with lab_files.open_for_change(path, terminal.notice, terminal.warn, save=save) as lab:
        yield lab


def lock_lab(path: Path) -> AbstractContextManager[None]:
    """Hold the lab; if another command does, wait a little for it. Raises StateError."""
    return lab_files.lock_lab(path, terminal.notice)
