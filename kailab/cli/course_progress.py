"""What the commands of the course share: the file of the student's progress."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kailab.cli import options

if TYPE_CHECKING:
    from kailab.course.progress import Progress

progress_option = click.option(
    "--progress", "file", type=options.PATH, help="The file of your progress, if not $KAILAB_COURSE or your own."
)


def progress_of(file: Path | None) -> tuple[Path, Progress]:
    """The file, and what is in it. Raises StateError."""
    from kailab.course import progress as record

    path = file or record.progress_file()
    return path, record.read(path)
