"""``top``: watch the lab in the terminal."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kailab.cli import options, terminal
from kailab.errors import KailabError

if TYPE_CHECKING:
    from kailab.cli.top_screen import LabOverview

LOOK_SECONDS = 0.25
REAL_SECONDS = 2.0
"""Interval between reads of a lab whose cluster changes by itself."""
_UP, _DOWN, _PAGE_UP, _PAGE_DOWN = "\x1b[A", "\x1b[B", "\x1b[5~", "\x1b[6~"
ReadKey = Callable[[float], str]
"""Returns the pressed key, or "" after so many seconds."""


@click.command()
@click.option("--once", is_flag=True, help="Print it once and exit, as happens if stdout is no terminal.")
@options.state
def top(once: bool, state: Path) -> None:
    """Watch the lab in the terminal: GPUs by queue, the queue tree, pending work with reasons, events. Keys 1 to 4 show one section, 0
    shows all, arrow keys scroll, q quits."""
    overview = _read(state)
    if once or not (sys.stdout.isatty() and sys.stdin.isatty()):
        _print(overview)
        return
    try:
        with _keyboard() as read_key:
            _follow(state, overview, read_key)
    except KeyboardInterrupt as interrupt:
        if type(interrupt) is not KeyboardInterrupt:
            raise  # Terminated, by SIGTERM
    if not state.exists():
        terminal.notice(f"{state}: the lab is down")


def _read(state: Path) -> LabOverview:
    from kailab.cli.top_screen import read_overview
    from kailab.lab import lab_files

    with lab_files.open_read_only(state, again=True) as lab:
        return read_overview(lab)


def _print(overview: LabOverview) -> None:
    from kailab.cli.top_screen import OverviewScreen

    # Lines are not cut if stdout is no terminal.
    console = terminal.console(width=None if sys.stdout.isatty() else 10_000)
    console.print(OverviewScreen(overview), soft_wrap=True)


def _follow(state: Path, overview: LabOverview, read_key: ReadKey) -> None:
    """Update the screen until the lab is down or q is pressed."""
    from rich.live import Live

    from kailab.cli.top_screen import OverviewScreen, last_top_line
    from kailab.lab import lab_files

    console = terminal.console()
    screen = OverviewScreen(overview, console.height)
    read_stamp, read_at, width = lab_files.stamp(state), time.monotonic(), console.width
    with Live(screen, console=console, screen=True, auto_refresh=False) as live:
        live.refresh()
        while True:
            key = read_key(LOOK_SECONDS)
            if key == "q":
                return
            stamp = lab_files.stamp(state)
            if stamp is None:
                return
            trouble = screen.trouble
            if stamp != read_stamp or (not overview.virtual and time.monotonic() - read_at >= REAL_SECONDS):
                try:
                    overview, trouble = _read(state), ""
                # The error may be temporary: the lab is read again when its file changes.
                except KailabError as error:
                    trouble = str(error).splitlines()[0]
                read_stamp, read_at = stamp, time.monotonic()
            section, first = _scroll(key, screen.section, screen.first)
            height = console.height
            if section is not None:
                first = min(first, last_top_line(overview, section, console.width, height))
            before, screen = (screen, width), OverviewScreen(overview, height, section, first, trouble)
            width = console.width
            if before != (screen, width):
                live.update(screen, refresh=True)


def _scroll(key: str, section: int | None, first: int) -> tuple[int | None, int]:
    """Return the section and its first line after a key was pressed."""
    if key in ("1", "2", "3", "4"):
        return int(key) - 1, 0
    if key == "0":
        return None, 0
    lines = {_UP: -1, "k": -1, _DOWN: 1, "j": 1, _PAGE_UP: -10, _PAGE_DOWN: 10}.get(key, 0)
    return section, max(0, first + lines)


@contextmanager
def _keyboard() -> Iterator[ReadKey]:
    """Read keys without Enter. Ctrl-C still raises KeyboardInterrupt."""
    import termios
    import tty

    stdin = sys.stdin.fileno()
    before = termios.tcgetattr(stdin)

    def read_key(seconds: float) -> str:
        ready, _, _ = select.select([stdin], [], [], seconds)
        return os.read(stdin, 16).decode(errors="replace") if ready else ""

    tty.setcbreak(stdin)
    try:
        yield read_key
    finally:
        termios.tcsetattr(stdin, termios.TCSADRAIN, before)
