"""What goes to the terminal: data on stdout; notices, warnings and errors on stderr; colour only where it is wanted.

Commands write nowhere else: names and messages of a lab's objects, of files and of other programs can hold sequences that steer a terminal
(titles, links, the clipboard), so each text is escaped here on its way out. Only kailab's own colours pass.
"""

from __future__ import annotations

import os
import re
import secrets
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

# A colour of kailab's carries a word that nobody else knows, until it is written.
_OWN = secrets.token_hex(8)
_OWN_COLOUR = re.compile(rf"(\x1b{_OWN}\[\d+m)")


def uses_colour(stream: IO[str]) -> bool:
    """Colour is for terminals, and not with NO_COLOR set or TERM=dumb."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, style: str, stream: IO[str]) -> str:
    """Text in a style, where the stream takes it."""
    return f"\x1b{_OWN}[{_CODES[style]}m{text}\x1b{_OWN}[0m" if style and uses_colour(stream) else text


def _write(text: str, *, err: bool = False, end: bool = True) -> None:
    """All text that commands write goes through here."""
    parts = _OWN_COLOUR.split(text) if _OWN in text else [text]
    shown = "".join(part.replace(_OWN, "") if _OWN in part else escaped(part) for part in parts)
    click.echo(shown, err=err, nl=end)


def say(text: str, *, end: bool = True) -> None:
    """Data: what was asked for. ``end``: with the end of a line."""
    _write(text, end=end)


def notice(text: str) -> None:
    """Something worth knowing that is not what was asked for."""
    _write(text, err=True)


def warn(text: str) -> None:
    """Each line of it is one warning."""
    for line in text.splitlines():
        _write(f"{paint('warning:', 'yellow', sys.stderr)} {line}", err=True)


def error(text: str) -> None:
    """Errors: each line of the text is one."""
    for line in text.splitlines():
        _write(f"{paint('error:', 'red', sys.stderr)} {line}", err=True)


def print_traceback(error: BaseException) -> None:
    """Where an error comes from."""
    import traceback  # a millisecond that only --debug pays

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


def console(**how: Any) -> Console:
    """One of rich's, which writes text in the same way."""
    from rich.console import Console
    from rich.segment import Segment

    class EscapingConsole(Console):
        def render(self, *given: Any, **how: Any) -> Iterator[Segment]:
            for segment in super().render(*given, **how):
                yield segment if segment.control else segment._replace(text=escaped(segment.text))

    return EscapingConsole(highlight=False, **how)


@contextmanager
def spinner(what: str) -> Iterator[Callable[[str], None]]:
    """A spinner on stderr while something takes its time. Hands out ``tell``, which says what is being done right now: beside
    the spinner, or off a terminal as a line of its own."""
    if not sys.stderr.isatty():
        yield notice
        return
    from rich.text import Text

    with console(stderr=True).status(Text(what)) as status:
        yield lambda text: status.update(Text(escaped(f"{what}: {text}")))


@contextmanager
def progress_bars() -> Iterator[Callable[[str, int, int], None]]:
    """Hands out ``tell(what, done, total)``, drawn as a bar (``total`` 0: not known) on stderr; silent off a
    terminal."""
    if not sys.stderr.isatty():
        yield lambda what, done, total: None
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
    def tell(what: str, done: int, total: int) -> None:
        progress.update(task, description=escaped(what), completed=done, total=total or None)

    return tell
