"""Scheduler configurations of commands. Reading one also prints notices about settings that have no effect in kailab."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from kailab.cli import terminal

if TYPE_CHECKING:
    from kailab.scheduler.settings.config_file import SchedulerSettings


def settings_of_file(config: Path | None) -> SchedulerSettings:
    """Read the settings of a file, or KAI's defaults, and print their notices. Raises InputError."""
    from kailab.scheduler.settings.config_file import settings_of

    return announce(settings_of(config))


def announce(settings: SchedulerSettings) -> SchedulerSettings:
    """Print the notices of settings and return the settings."""
    print_notices([settings])
    return settings


def print_notices(several: Iterable[SchedulerSettings]) -> None:
    """Print the notices of settings, each once."""
    for notice in dict.fromkeys(notice for settings in several for notice in settings.notices):
        terminal.notice(notice)


def print_notices_of_files(files: Iterable[str | Path]) -> None:
    """Print the notices of configuration files that other processes read. Raises InputError."""
    from kailab.scheduler.settings.config_file import settings_of

    print_notices(settings_of(Path(file)) for file in dict.fromkeys(map(str, files)))
