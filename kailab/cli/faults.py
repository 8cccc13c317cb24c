"""From errors to messages and exit codes: 0 done, 1 a difference or a failed expectation, 2 usage or bad input, 130
interrupted. A traceback only with ``--debug``."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from typing import Any

import typer
from typer.core import TyperGroup

from kailab.cli import terminal
from kailab.cli.kubectl import instead
from kailab.errors import ExpectationFailed, KailabError

BROKEN_PIPE = 141  # as a shell counts a process ended by SIGPIPE
DEBUG = "KAILAB_DEBUG"


class Faces(TyperGroup):
    """The command group that turns what goes wrong below it into one message."""

    def invoke(self, ctx: Any) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except KeyboardInterrupt:
            terminal.notice("interrupted; what is saved is as it was")
            raise
        except (KailabError, ExpectationFailed) as error:
            _traceback(error)
            terminal.complain(str(error))
            raise typer.Exit(getattr(error, "exit_code", 1)) from None
        except OSError as error:
            if error.errno != errno.EPIPE:
                raise typer.Exit(_unforeseen(error)) from None
            # Nobody reads on. What is still buffered must not be flushed into the closed pipe at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(BROKEN_PIPE) from None
        except RecursionError as error:
            _traceback(error)
            terminal.complain("the input is nested too deeply")
            raise typer.Exit(2) from None
        except Exception as error:
            if type(error).__module__.startswith(("click", "typer")):
                if hint := instead(said := str(getattr(error, "message", ""))):
                    error.message = f"{said.removesuffix('.')}; {hint}"  # type: ignore[attr-defined]
                raise
            raise typer.Exit(_unforeseen(error)) from None


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
        traceback.print_exception(error, file=sys.stderr)
