"""Scheduler configurations that a command is given. This is where commands read them, so that each tells what of it has no effect here."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from kailab.cli import terminal

if TYPE_CHECKING:
    from kailab.scheduler import SchedulerSettings


def read_settings(config: Path | None) -> SchedulerSettings:
    """The settings of a file, or KAI's defaults; notices are told. Raises InputError."""
    from kailab.scheduler import settings_of

    return announce(settings_of(config))


def announce(settings: SchedulerSettings) -> SchedulerSettings:
    """The same settings, once their notices are told."""
    print_notices([settings])
    return settings


def print_notices(several: Iterable[SchedulerSettings]) -> None:
    """The notices of settings that were read elsewhere, each once."""
    for notice in dict.fromkeys(notice for settings in several for notice in settings.notices):
        terminal.notice(notice)


def print_notices_of_files(files: Iterable[str | Path]) -> None:
    """The notices of files that are read where nobody is told: by other processes, or in the middle of something else. Raises
    InputError."""
    from kailab.scheduler import settings_of

    print_notices(settings_of(Path(file)) for file in dict.fromkeys(map(str, files)))
