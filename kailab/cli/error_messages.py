"""Errors as messages and exit codes: 0 success, 1 a difference or a failed expectation, 2 usage or bad input, 130 interrupted, 143 terminated.
A traceback is printed only with ``--debug``. For a command or option of kubectl that kailab does not have, the message names the replacement.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Mapping
from typing import Any

import click

from kailab.cli import terminal
from kailab.cli.signals import Terminated, interrupts
from kailab.errors import ExpectationFailed, KailabError, NoLabHere, escaped
from kailab.model.wording import some

MOST_FOLDERS = 4
"""Folders of the course that an error names."""

_CHANGE = "`kailab patch` changes a field; or edit the manifest and `kailab apply -f` it again (on a real API server kubectl works too)"
_NOTHING_RUNS = "no processes run in the pods of fake nodes; `kailab get events` lists what happened to them"
_APPLY = "`kailab apply` checks all manifests first, then applies them one by one as kubectl does"
_SHAPE = "`kailab get ... -o json` prints whole objects, for jq and similar tools"

KUBECTL_COMMANDS: Mapping[str, str] = {
    **dict.fromkeys(("logs", "exec", "attach", "port-forward", "cp", "debug"), _NOTHING_RUNS),
    **dict.fromkeys(("create", "replace"), "`kailab apply -f FILE` creates and updates objects"),
    **dict.fromkeys(("edit", "set", "rollout", "autoscale", "expose"), _CHANGE),
    "version": "`kailab --version`",
    "api-versions": "`kailab get KIND` accepts the kinds of Kubernetes and KAI by full and short names",
    "cluster-info": "`kailab status`",
    "api-resources": "`kailab get KIND` accepts the kinds of Kubernetes and KAI by full and short names",
    **dict.fromkeys(("config", "use-context"), "--state selects a lab, `kailab up --kubeconfig` a cluster"),
}
KUBECTL_OPTIONS: Mapping[str, str] = {
    "--template": _SHAPE,
    **dict.fromkeys(
        ("--grace-period", "--now", "--force"),
        "a pod's spec.terminationGracePeriodSeconds applies and passes at once, because a lab's time is virtual",
    ),
    **dict.fromkeys(
        ("--wait", "--timeout"), "the command returns when the lab has settled; --no-settle returns at once"
    ),
    "--cascade": "an object's dependents are deleted with it",
    "--field-selector": "`kailab get ... --field-selector ... -o name` lists the objects",
    **dict.fromkeys(("-f", "--filename"), "name the objects: KIND NAME, or KIND/NAME"),
    **dict.fromkeys(
        ("--server-side", "--validate", "--prune", "--record", "--save-config", "--force-conflicts"), _APPLY
    ),
    "--dry-run": "`kailab apply --dry-run` and `kailab whatif` change nothing",
    **dict.fromkeys(("--context", "--kubeconfig", "--cluster"), "--state selects a lab"),
    **dict.fromkeys(("--disable-eviction", "--pod-selector"), "`kailab delete pods -l LABEL` deletes pods by label"),
    "--image": "`kailab apply -f FILE` creates pods; `kailab run` advances the lab's clock",
}
SHARED_WITH_KUBECTL = frozenset(
    (
        "get", "describe", "apply", "delete", "scale", "patch", "label", "annotate", "cordon", "uncordon", "drain", "taint", "wait", "run",
    )
)  # fmt: skip
"""The commands whose unknown options are looked up in ``KUBECTL_OPTIONS``."""
_UNKNOWN = re.compile(r"No such (command|option):? '?([\w-]+)'?")
_FORMAT = re.compile(
    r"'(jsonpath-file|jsonpath-as-json|custom-columns-file|go-template|go-template-file|templatefile)[=-]"
)


def kubectl_hint(complaint: str, command: str) -> str:
    """Return the replacement for a command or option of kubectl that click's ``complaint`` is about; "" if it is about something else."""
    if _FORMAT.search(complaint):
        return _SHAPE
    match = _UNKNOWN.search(complaint)
    if match is None:
        return ""
    kind, name = match.groups()
    if kind == "command":
        return KUBECTL_COMMANDS.get(name, "")
    return KUBECTL_OPTIONS.get(name, "") if command in SHARED_WITH_KUBECTL else ""


INTERRUPTED = 130  # as a shell counts a process ended by SIGINT
TERMINATED = 143  # by SIGTERM
BROKEN_PIPE = 141  # as a shell counts a process ended by SIGPIPE
DEBUG = "KAILAB_DEBUG"
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_SUGGESTION = re.compile(r" \(?Did you mean.*")


class CommandGroup(click.Group):
    """A command group whose help has the whole first sentence of each command; click cuts it to one line."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        commands = [(name, command) for name in self.list_commands(ctx) if (command := self.get_command(ctx, name))]
        rows = [(name, command.get_short_help_str(_ANY_LENGTH)) for name, command in commands if not command.hidden]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)


_ANY_LENGTH = 1000


class ReportingGroup(click.Group):
    """A command group that prints each error of its commands as one message."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        try:
            return super().make_context(*args, **kwargs)
        except click.ClickException as error:
            raise _escaped(error) from None

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with interrupts.recorded():
                result = self._invoke(ctx)
            sys.stdout.flush()
            return result
        except KeyboardInterrupt as error:
            terminal.notice("interrupted; saved files are unchanged")
            raise click.exceptions.Exit(TERMINATED if isinstance(error, Terminated) else INTERRUPTED) from None
        except (KailabError, ExpectationFailed) as error:
            _traceback(error)
            terminal.error(f"{error}{_course_folders() if isinstance(error, NoLabHere) else ''}")
            raise click.exceptions.Exit(getattr(error, "exit_code", 1)) from None
        except OSError as error:
            if error.errno != errno.EPIPE:
                raise click.exceptions.Exit(_report_unexpected(error)) from None
            # The reader has closed the pipe: buffered output must not be flushed into it at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise click.exceptions.Exit(BROKEN_PIPE) from None
        except RecursionError as error:
            _traceback(error)
            terminal.error("the input is nested too deeply")
            raise click.exceptions.Exit(2) from None
        except (click.ClickException, click.Abort, click.exceptions.Exit) as error:
            if isinstance(error, click.UsageError):
                hint = kubectl_hint(error.message, (error.ctx and error.ctx.info_name) or "")
                if hint:
                    # click's suggestion of a similar spelling would compete with the hint.
                    message = _SUGGESTION.sub("", error.format_message()).removesuffix(".")
                    raise click.UsageError(escaped(f"{message}; {hint}"), error.ctx) from None
            raise _escaped(error) from None
        except Exception as error:
            raise click.exceptions.Exit(_report_unexpected(error)) from None

    def _invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except Exception as error:
            if interrupts.came and not isinstance(error, click.exceptions.Exit):
                _traceback(error)
                raise KeyboardInterrupt from error
            raise


def _course_folders() -> str:
    """Where to look for the lab if lessons or challenges were begun near the current folder, as the end of a message."""
    from kailab.course.progress import progress_file, read_progress_file

    if os.environ.get("KAILAB_STATE"):
        return "\nKAILAB_STATE is set, so the lab of this folder is not looked for: unset KAILAB_STATE if it was meant"
    try:
        folders = read_progress_file(progress_file()).folders_nearby()
    except KailabError:
        return ""
    named = some([os.path.relpath(folder) for folder in folders], MOST_FOLDERS)
    return (
        f"\nLessons and challenges have their labs in their own folders; near this one: {named} (cd there first)"
        if folders
        else ""
    )


def _escaped(error: Exception) -> Exception:
    """Return the error with its message escaped, because click prints its errors itself."""
    if isinstance(error, click.ClickException):
        error.message = escaped(error.message)  # type: ignore[misc]
    return error


def _report_unexpected(error: Exception) -> int:
    _traceback(error)
    if isinstance(error, OSError) and error.filename:
        terminal.error(f"{error.filename}: {error.strerror}")
        return 2
    if isinstance(error, OSError) and error.errno in _FULL:
        # Files are written with errors of their own, so this was the standard output.
        terminal.error(f"the output can't be written: {error.strerror}; free some space, or write elsewhere")
        return 2
    if isinstance(error, FileNotFoundError) and not _has_current_folder():
        terminal.error("the current folder was deleted; change to another one")
        return 2
    message = " ".join(str(error).split())
    terminal.error(f"internal error of kailab: {type(error).__name__}: {message:.300}")
    terminal.notice(f"show the traceback with: {DEBUG}=1 kailab ...")
    return 2


def _has_current_folder() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True


def _traceback(error: BaseException) -> None:
    if os.environ.get(DEBUG):
        terminal.print_traceback(error)
