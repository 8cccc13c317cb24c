"""From errors to messages and exit codes: 0 done, 1 a difference or a failed expectation, 2 usage or bad input, 130
interrupted, 143 by SIGTERM. A traceback only with ``--debug``."""

from __future__ import annotations

import errno
import os
import re
import sys
from typing import Any

import click

from kailab.cli import terminal
from kailab.cli.ending import Terminated
from kailab.cli.kubectl import instead
from kailab.errors import ExpectationFailed, KailabError, escaped

INTERRUPTED = 130  # as a shell counts a process ended by SIGINT
TERMINATED = 143  # by SIGTERM
BROKEN_PIPE = 141  # as a shell counts a process ended by SIGPIPE
DEBUG = "KAILAB_DEBUG"
_ALIKE = re.compile(r" \(?Did you mean.*")


class ReportingGroup(click.Group):
    """The command group that turns what goes wrong below it into one message."""

    def make_context(self, *given: Any, **how: Any) -> click.Context:
        try:
            return super().make_context(*given, **how)
        except click.ClickException as error:
            raise _escaped(error) from None

    def invoke(self, ctx: click.Context) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except KeyboardInterrupt as error:
            terminal.notice("interrupted; what is saved is as it was")
            raise click.exceptions.Exit(TERMINATED if isinstance(error, Terminated) else INTERRUPTED) from None
        except (KailabError, ExpectationFailed) as error:
            _traceback(error)
            terminal.complain(str(error))
            raise click.exceptions.Exit(getattr(error, "exit_code", 1)) from None
        except OSError as error:
            if error.errno != errno.EPIPE:
                raise click.exceptions.Exit(_unforeseen(error)) from None
            # Nobody reads on. What is still buffered must not be flushed into the closed pipe at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise click.exceptions.Exit(BROKEN_PIPE) from None
        except RecursionError as error:
            _traceback(error)
            terminal.complain("the input is nested too deeply")
            raise click.exceptions.Exit(2) from None
        except (click.ClickException, click.Abort, click.exceptions.Exit) as error:
            if isinstance(error, click.UsageError) and (hint := _instead(error)):
                # What is alike in letters was not meant.
                said = _ALIKE.sub("", error.format_message()).removesuffix(".")
                raise click.UsageError(escaped(f"{said}; {hint}"), error.ctx) from None
            raise _escaped(error) from None
        except Exception as error:
            raise click.exceptions.Exit(_unforeseen(error)) from None


def _escaped(error: Exception) -> Exception:
    """Click writes its errors itself, as they are."""
    if isinstance(error, click.ClickException):
        error.message = escaped(error.message)  # type: ignore[misc]
    return error


def _instead(error: click.UsageError) -> str:
    return instead(error.message, (error.ctx and error.ctx.info_name) or "")


def _unforeseen(error: Exception) -> int:
    _traceback(error)
    if isinstance(error, OSError) and error.filename:
        terminal.complain(f"{error.filename}: {error.strerror}")
        return 2
    said = " ".join(str(error).split())
    terminal.complain(f"something went wrong inside kailab: {type(error).__name__}: {said:.300}")
    terminal.notice(f"see where with: {DEBUG}=1 kailab ...")
    return 2


def _traceback(error: BaseException) -> None:
    if os.environ.get(DEBUG):
        terminal.trace(error)
