"""Output to the terminal: data on stdout; notices, warnings and errors on stderr; colour if the terminal supports it.

All commands write through this module. Names and messages of objects, files and other programs can contain sequences that control a terminal
(titles, links, the clipboard), so every text is escaped here. Only kailab's own colours pass.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

import click

from kailab.errors import escaped

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

_CODES: Mapping[str, str] = {"bold": "1", "red": "31", "green": "32", "yellow": "33", "dim": "2"}

# A colour sequence of kailab contains this random word until it is written, so that no other text can pass for one.
_OWN = secrets.token_hex(8)
_OWN_COLOUR = re.compile(rf"(\x1b{_OWN}\[\d+m)")


def uses_colour(stream: IO[str]) -> bool:
    """True for a terminal, unless NO_COLOR is set or TERM is dumb."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, style: str, stream: IO[str]) -> str:
    """Return the text in a style if the stream supports colour."""
    return f"\x1b{_OWN}[{_CODES[style]}m{text}\x1b{_OWN}[0m" if style and uses_colour(stream) else text


def _write(text: str, *, err: bool = False, end: bool = True) -> None:
    """Escape and write a text. Every text that a command writes passes through here."""
    parts = _OWN_COLOUR.split(text) if _OWN in text else [text]
    safe_text = "".join(part.replace(_OWN, "") if _OWN in part else escaped(part) for part in parts)
    click.echo(safe_text, err=err, nl=end)


def say(text: str, *, end: bool = True) -> None:
    """Write data to stdout, and flush it. ``end``: add a line end."""
    _write(text, end=end)


def say_json(data: Any) -> None:
    """Write data to stdout as indented JSON."""
    import json  # only commands with -o json pay for this import

    _write(json.dumps(data, indent=2))


def notice(text: str) -> None:
    """Write information that is not the command's result to stderr."""
    _write(text, err=True)


def warn(text: str) -> None:
    """Write one warning per line of the text to stderr."""
    for line in text.splitlines():
        _write(f"{paint('warning:', 'yellow', sys.stderr)} {line}", err=True)


def error(text: str) -> None:
    """Write one error per line of the text to stderr."""
    for line in text.splitlines():
        _write(f"{paint('error:', 'red', sys.stderr)} {line}", err=True)


def print_traceback(error: BaseException) -> None:
    import traceback  # only --debug pays for this import

    _write("".join(traceback.format_exception(error)).rstrip("\n"), err=True)


def log_to_stderr(*, debug: bool) -> None:
    """Send the log of kailab's modules to stderr: level INFO, or DEBUG. A second call can only lower the level."""
    import logging

    class EscapingHandler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            notice(self.format(record))

    logger = logging.getLogger("kailab")
    level = logging.DEBUG if debug else logging.INFO
    if not logging.getLogger().handlers:
        handler = EscapingHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logger.setLevel(min(level, logger.level or level))


def console(**options: Any) -> Console:
    """Return a console of rich that escapes text in the same way."""
    from rich.console import Console
    from rich.segment import Segment

    class EscapingConsole(Console):
        def render(self, *args: Any, **kwargs: Any) -> Iterator[Segment]:
            for segment in super().render(*args, **kwargs):
                yield segment if segment.control else segment._replace(text=escaped(segment.text))

    return EscapingConsole(highlight=False, **options)


@contextmanager
def spinner(activity: str) -> Iterator[Callable[[str], None]]:
    """Show a spinner on stderr. Yields a function that reports the current step: beside the spinner, or as a line if stderr is no
    terminal."""
    if not sys.stderr.isatty():
        yield notice
        return
    from rich.text import Text

    with console(stderr=True).status(Text(activity)) as status:
        yield lambda text: status.update(Text(escaped(f"{activity}: {text}")))


class ProgressLine:
    """One line on stderr that is written over and over while a command works. Nothing is written if stderr is no terminal.

    Text for stdout is printed between ``clear`` and the next ``show``, since both may be the same terminal."""

    def __init__(self) -> None:
        self._draws = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._drawn = False

    def show(self, text: str) -> None:
        if self._draws:
            width = shutil.get_terminal_size().columns
            # Escaped first, because escaping makes a text longer.
            click.echo(f"\r\x1b[K{escaped(text)[: width - 1]}", err=True, nl=False)
            self._drawn = True

    def clear(self) -> None:
        if self._drawn:
            click.echo("\r\x1b[K", err=True, nl=False)
            self._drawn = False


@contextmanager
def progress_line() -> Iterator[ProgressLine]:
    """A progress line that is cleared at the end."""
    line = ProgressLine()
    try:
        yield line
    finally:
        line.clear()


@contextmanager
def progress_bars() -> Iterator[Callable[[str, int, int], None]]:
    """Yield a function ``(activity, done, total)`` that draws a progress bar on stderr (``total`` 0: unknown). It does nothing if
    stderr is no terminal."""
    if not sys.stderr.isatty():
        yield lambda activity, done, total: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console(stderr=True), transient=True) as progress:
        yield _bar(progress, progress.add_task("starting", total=None))


def _bar(progress: Progress, task: TaskID) -> Callable[[str, int, int], None]:
    def update(activity: str, done: int, total: int) -> None:
        progress.update(task, description=escaped(activity), completed=done, total=total or None)

    return update
