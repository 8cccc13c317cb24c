"""What goes to the terminal: data on stdout; notices, warnings and errors on stderr; colour only where it is wanted."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_CODES: Mapping[str, str] = {"bold": "1", "red": "31", "green": "32", "yellow": "33", "dim": "2"}


def colourful(stream: IO[str]) -> bool:
    """Colour is for terminals, and not with NO_COLOR set or TERM=dumb."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def painted(text: str, style: str, stream: IO[str]) -> str:
    """Text in a style, where the stream takes it."""
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if style and colourful(stream) else text


def say(text: str) -> None:
    """Data: what was asked for."""
    click.echo(text)


def notice(text: str) -> None:
    """Something worth knowing that is not what was asked for."""
    click.echo(text, err=True)


def warn(text: str) -> None:
    """Each line of it is one warning."""
    for line in text.splitlines():
        click.echo(f"{painted('warning:', 'yellow', sys.stderr)} {line}", err=True)


def complain(text: str) -> None:
    """Errors: each line of the text is one."""
    for line in text.splitlines():
        click.echo(f"{painted('error:', 'red', sys.stderr)} {line}", err=True)


@contextmanager
def waiting(what: str) -> Iterator[Callable[[str], None]]:
    """A spinner on stderr while something takes its time. Hands out ``tell``, which says what is being done right now: beside
    the spinner, or off a terminal as a line of its own."""
    if not sys.stderr.isatty():
        yield notice
        return
    from rich.console import Console

    with Console(stderr=True).status(what) as status:
        yield lambda text: status.update(f"{what}: {text}")


@contextmanager
def progress_bars() -> Iterator[Callable[[str, int, int], None]]:
    """Hands out ``tell(what, done, total)``, drawn as a bar (``total`` 0: not known) on stderr; silent off a
    terminal."""
    if not sys.stderr.isatty():
        yield lambda what, done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        yield _bar(progress, progress.add_task("starting", total=None))


def _bar(progress: Progress, task: TaskID) -> Callable[[str, int, int], None]:
    def tell(what: str, done: int, total: int) -> None:
        progress.update(task, description=what, completed=done, total=total or None)

    return tell
