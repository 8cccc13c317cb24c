"""From errors to messages and exit codes: 0 done, 1 a difference or a failed expectation, 2 usage or bad input, 130 interrupted, 143 terminated. A traceback is printed
only with ``--debug``. For kubectl's commands and options that kailab does not have, the message says what to use instead.
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
from kailab.cli.signals import Terminated
from kailab.errors import ExpectationFailed, KailabError, escaped

_CHANGE = "`kailab patch` changes a field; or change the manifest and `kailab apply -f` it again (on a real API server kubectl works too)"
_NOTHING_RUNS = "nothing runs in the pods of fake nodes; `kailab get events` tells what happened to them"
_APPLY = "`kailab apply` checks all manifests first, then applies them one by one as kubectl does"
_SHAPE = "`kailab get ... -o json` gives all of it, for jq and the like"

KUBECTL_COMMANDS: Mapping[str, str] = {
    **dict.fromkeys(("logs", "exec", "attach", "port-forward", "cp", "debug"), _NOTHING_RUNS),
    **dict.fromkeys(("create", "replace"), "`kailab apply -f FILE` makes objects and changes them"),
    **dict.fromkeys(("edit", "set", "rollout", "autoscale", "expose"), _CHANGE),
    "top": "`kailab status` sums up the lab, `kailab get nodes -o wide` shows what each node holds",
    "version": "`kailab --version`",
    "events": "`kailab get events`",
    "diff": "`kailab apply --dry-run -f FILE` says what would be changed",
    "api-versions": "`kailab get KIND` knows the kinds of Kubernetes and KAI, in full and in short",
    "cluster-info": "`kailab status`",
    "api-resources": "`kailab get KIND` knows the kinds of Kubernetes and KAI, in full and in short",
    **dict.fromkeys(("config", "use-context"), "a lab is chosen with --state, a cluster with `kailab up --kubeconfig`"),
}
KUBECTL_OPTIONS: Mapping[str, str] = {
    "--template": _SHAPE,
    **dict.fromkeys(
        ("--grace-period", "--now", "--force"),
        "a pod's spec.terminationGracePeriodSeconds is heeded, and its time passes at once (a lab's time is virtual)",
    ),
    **dict.fromkeys(
        ("--wait", "--timeout"), "the command returns when the lab has settled; --no-settle returns at once"
    ),
    "--cascade": "what an object owns goes with it",
    "--field-selector": "`kailab get ... --field-selector ... -o name` names the objects",
    **dict.fromkeys(("-f", "--filename"), "name the objects: KIND NAME, or KIND/NAME"),
    **dict.fromkeys(
        ("--server-side", "--validate", "--prune", "--record", "--save-config", "--force-conflicts"), _APPLY
    ),
    "--dry-run": "`kailab apply --dry-run` and `kailab whatif` change nothing",
    **dict.fromkeys(("--context", "--kubeconfig", "--cluster"), "a lab is chosen with --state"),
    **dict.fromkeys(("--disable-eviction", "--pod-selector"), "`kailab delete pods -l LABEL` deletes some"),
    "--image": "`kailab apply -f FILE` makes pods; `kailab run` lets time pass",
}
OF_KUBECTL = frozenset(
    [
        "get",
        "describe",
        "apply",
        "delete",
        "scale",
        "patch",
        "label",
        "annotate",
        "cordon",
        "uncordon",
        "drain",
        "taint",
        "wait",
        "run",
    ]
)
"""The commands whose options are looked for in what kubectl has."""
_UNKNOWN = re.compile(r"No such (command|option):? '?([\w-]+)'?")
_FORMAT = re.compile(
    r"'(jsonpath-file|jsonpath-as-json|custom-columns-file|go-template|go-template-file|templatefile)[=-]"
)


def kubectl_hint(complaint: str, command: str) -> str:
    """What to type instead, where the complaint about the line of a ``command`` is about something that kubectl has; else nothing."""
    if _FORMAT.search(complaint):
        return _SHAPE
    found = _UNKNOWN.search(complaint)
    if found is None:
        return ""
    kind, name = found.groups()
    if kind == "command":
        return KUBECTL_COMMANDS.get(name, "")
    return KUBECTL_OPTIONS.get(name, "") if command in OF_KUBECTL else ""


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
            terminal.error(str(error))
            raise click.exceptions.Exit(getattr(error, "exit_code", 1)) from None
        except OSError as error:
            if error.errno != errno.EPIPE:
                raise click.exceptions.Exit(_report_unexpected(error)) from None
            # Nobody reads on. What is still buffered must not be flushed into the closed pipe at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise click.exceptions.Exit(BROKEN_PIPE) from None
        except RecursionError as error:
            _traceback(error)
            terminal.error("the input is nested too deeply")
            raise click.exceptions.Exit(2) from None
        except (click.ClickException, click.Abort, click.exceptions.Exit) as error:
            if isinstance(error, click.UsageError) and (hint := _instead(error)):
                # What is alike in letters was not meant.
                said = _ALIKE.sub("", error.format_message()).removesuffix(".")
                raise click.UsageError(escaped(f"{said}; {hint}"), error.ctx) from None
            raise _escaped(error) from None
        except Exception as error:
            raise click.exceptions.Exit(_report_unexpected(error)) from None


def _escaped(error: Exception) -> Exception:
    """Click writes its errors itself, as they are."""
    if isinstance(error, click.ClickException):
        error.message = escaped(error.message)  # type: ignore[misc]
    return error


def _instead(error: click.UsageError) -> str:
    return kubectl_hint(error.message, (error.ctx and error.ctx.info_name) or "")


def _report_unexpected(error: Exception) -> int:
    _traceback(error)
    if isinstance(error, OSError) and error.filename:
        terminal.error(f"{error.filename}: {error.strerror}")
        return 2
    said = " ".join(str(error).split())
    terminal.error(f"internal error of kailab: {type(error).__name__}: {said:.300}")
    terminal.notice(f"see where with: {DEBUG}=1 kailab ...")
    return 2


def _traceback(error: BaseException) -> None:
    if os.environ.get(DEBUG):
        terminal.print_traceback(error)
