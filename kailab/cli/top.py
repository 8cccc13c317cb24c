"""``top``: watch the lab in the terminal."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from kailab.cli import options, terminal
from kailab.cli.top_actions import RowSubject, actions_of, run_action
from kailab.errors import KailabError

if TYPE_CHECKING:
    from kailab.cli.top_screen import LabOverview

KEY_SECONDS = 0.25
REAL_SECONDS = 2.0
"""Interval between reads of a lab whose cluster changes by itself."""
_UP, _DOWN, _PAGE_UP, _PAGE_DOWN = "\x1b[A", "\x1b[B", "\x1b[5~", "\x1b[6~"
_SECTIONS = "0123456"
ReadKey = Callable[[float], str]
"""Returns the pressed key, or "" after so many seconds."""


@click.command()
@options.flag("--once", help="Print it once and exit, as happens if stdout is no terminal.")
@options.state
def top(once: bool, state: Path) -> None:
    """Watch the lab in the terminal: GPUs by queue, the queue tree, pending work with reasons, events. Keys 1 to 6 show one section, 0
    shows the overview, arrow keys scroll, q quits. In the sections of workloads and nodes, arrow keys select a row: e explains it, s
    scales, d deletes, c cordons, r drains. Each shows the command, previews a change, and asks before carrying the
    change out."""
    if once or not (sys.stdout.isatty() and sys.stdin.isatty()):
        _print(_read(state))
        return
    view = View()
    try:
        while True:
            with _keyboard() as read_key:
                pressed = _follow(state, view, read_key)
            if pressed is None:
                break
            # Outside of the screen, with a keyboard that prompts can use.
            view, key = pressed
            assert view.subject is not None
            run_action(key, view.subject, state)
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


class View(NamedTuple):
    """What is shown. ``section``: the index of the only section, None for the overview; ``first``: its line at the top. ``selected``: the
    index of the selected row, and ``subject`` its object; None in a section without rows to select."""

    section: int | None = None
    first: int = 0
    selected: int | None = None
    subject: RowSubject | None = None

    def after(self, key: str) -> View:
        """The view after a key was pressed. ``fitted`` then checks it against the objects that exist."""
        if key and key in _SECTIONS:
            return View(int(key) - 1 if key != "0" else None)
        lines = {_UP: -1, "k": -1, _DOWN: 1, "j": 1, _PAGE_UP: -10, _PAGE_DOWN: 10}.get(key, 0)
        if self.selected is None:
            return self._replace(first=max(0, self.first + lines))
        return self._replace(selected=max(0, self.selected + lines), subject=None if lines else self.subject)

    def fitted(self, overview: LabOverview, width: int, height: int) -> View:
        """The view adjusted to an overview and the size of the terminal. The selection stays with its object as long as the object exists."""
        from kailab.cli.top_screen import last_top_line, lines_of_section

        if self.section is None:
            return self
        subjects = overview.subjects(self.section)
        first = min(self.first, last_top_line(overview, self.section, width, height))
        if not subjects:
            return View(self.section, first)
        places = {subject[:3]: place for place, subject in enumerate(subjects)}
        selected = min(self.selected or 0, len(subjects) - 1)
        if self.subject is not None:
            selected = places.get(self.subject[:3], selected)
        # The line of headers comes before the rows.
        line = selected + 1
        first = max(min(first, line if selected else 0), line - lines_of_section(height) + 1)
        return View(self.section, first, selected, subjects[selected])


def _follow(state: Path, view: View, read_key: ReadKey) -> tuple[View, str] | None:
    """Update the screen until the lab is down or q is pressed, or until a key of a row's action is pressed: then the view and the key."""
    from rich.live import Live

    from kailab.cli.top_screen import OverviewScreen
    from kailab.lab import lab_files

    console = terminal.console()
    overview, read_stamp, read_at = _read(state), lab_files.stamp(state), time.monotonic()
    width, height = console.size
    view = view.fitted(overview, width, height)
    screen = OverviewScreen(overview, height, *view[:3])
    with Live(screen, console=console, screen=True, auto_refresh=False) as live:
        live.refresh()
        while True:
            key = read_key(KEY_SECONDS)
            if key == "q":
                return None
            stamp = lab_files.stamp(state)
            if stamp is None:
                return None
            if view.subject is not None and key in dict(actions_of(view.subject)):
                return view, key
            trouble = screen.trouble
            if stamp != read_stamp or (not overview.virtual and time.monotonic() - read_at >= REAL_SECONDS):
                try:
                    overview, trouble = _read(state), ""
                # The error may be temporary: the lab is read again when its file changes.
                except KailabError as error:
                    trouble = str(error).splitlines()[0]
                read_stamp, read_at = stamp, time.monotonic()
            before = screen, width, height
            width, height = console.size
            view = view.after(key).fitted(overview, width, height)
            screen = OverviewScreen(overview, height, *view[:3], trouble=trouble)
            if before != (screen, width, height):
                live.update(screen, refresh=True)


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
