"""``top``: the lab in a terminal, as it changes."""

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

if TYPE_CHECKING:
    from kailab.cli.top_screen import LabOverview

LOOK_SECONDS = 0.25
REAL_SECONDS = 2.0
"""So often a lab is looked at whose cluster goes on by itself."""
_UP, _DOWN, _PAGE_UP, _PAGE_DOWN = "\x1b[A", "\x1b[B", "\x1b[5~", "\x1b[6~"
Pressed = Callable[[float], str]


@click.command()
@click.option("--once", is_flag=True, help="Print it once and end, as it is done off a terminal.")
@options.state
def top(once: bool, state: Path) -> None:
    """Show the lab in the terminal as it changes: GPUs by queue, queues as a tree, what waits and why, events. 1 to 4 show one part of it, 0
    all, arrow keys scroll, q ends it."""
    standing = _look(state)
    if once or not (sys.stdout.isatty() and sys.stdin.isatty()):
        _print(standing)
        return
    try:
        with _keys() as pressed:
            _follow(state, standing, pressed)
    except KeyboardInterrupt as interrupt:
        if type(interrupt) is not KeyboardInterrupt:
            raise  # by SIGTERM
    if not state.exists():
        terminal.notice(f"{state}: the lab is down")


def _look(state: Path) -> LabOverview:
    from kailab.cli.top_screen import read_overview
    from kailab.lab import lab_files

    with lab_files.open_read_only(state, again=True) as lab:
        return read_overview(lab)


def _print(standing: LabOverview) -> None:
    from kailab.cli.top_screen import OverviewScreen

    # Off a terminal lines are as long as they are: who reads them can cut them.
    console = terminal.console(width=None if sys.stdout.isatty() else 10_000)
    console.print(OverviewScreen(standing), soft_wrap=True)


def _follow(state: Path, standing: LabOverview, pressed: Pressed) -> None:
    """Until the lab is down or q is pressed."""
    from rich.live import Live

    from kailab.cli.top_screen import OverviewScreen, last_top_line
    from kailab.errors import KailabError
    from kailab.lab import lab_files

    console = terminal.console()
    screen = OverviewScreen(standing, console.height)
    seen, looked, wide = lab_files.stamp(state), time.monotonic(), console.width
    with Live(screen, console=console, screen=True, auto_refresh=False) as live:
        live.refresh()
        while True:
            key = pressed(LOOK_SECONDS)
            if key == "q":
                return
            stamp = lab_files.stamp(state)
            if stamp is None:
                return
            trouble = screen.trouble
            if stamp != seen or (not standing.virtual and time.monotonic() - looked >= REAL_SECONDS):
                try:
                    standing, trouble = _look(state), ""
                # It may be mended, and is looked at again when it changes.
                except KailabError as error:
                    trouble = str(error).splitlines()[0]
                seen, looked = stamp, time.monotonic()
            section, first = _moved(key, screen.section, screen.first)
            height = console.height
            if section is not None:
                first = min(first, last_top_line(standing, section, console.width, height))
            before, screen = (screen, wide), OverviewScreen(standing, height, section, first, trouble)
            wide = console.width
            if before != (screen, wide):
                live.update(screen, refresh=True)


def _moved(key: str, section: int | None, first: int) -> tuple[int | None, int]:
    if key in ("1", "2", "3", "4"):
        return int(key) - 1, 0
    if key == "0":
        return None, 0
    by = {_UP: -1, "k": -1, _DOWN: 1, "j": 1, _PAGE_UP: -10, _PAGE_DOWN: 10}.get(key, 0)
    return section, max(0, first + by)


@contextmanager
def _keys() -> Iterator[Pressed]:
    """Keys as they are pressed, without Enter. Ctrl-C stays what it is."""
    import termios
    import tty

    place = sys.stdin.fileno()
    before = termios.tcgetattr(place)

    def pressed(seconds: float) -> str:
        ready, _, _ = select.select([place], [], [], seconds)
        return os.read(place, 16).decode(errors="replace") if ready else ""

    tty.setcbreak(place)
    try:
        yield pressed
    finally:
        termios.tcsetattr(place, termios.TCSADRAIN, before)
