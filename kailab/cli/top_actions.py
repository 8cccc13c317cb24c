"""What keys of ``top`` do to the selected row. Each is a command of kailab, which is shown, previewed where it changes the lab, and then run.

The commands run in processes of their own, so they say and refuse the same as when they are typed."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import click

from kailab.cli import terminal


class RowSubject(NamedTuple):
    """The object of a row. ``scalable``: its replicas can be set. ``closed``: a node that takes no new pods because it is cordoned."""

    kind: str
    name: str
    namespace: str = ""
    scalable: bool = False
    closed: bool = False


class RowAction(NamedTuple):
    """``word``: what the key does. ``applies``: to which rows. ``run``: shows and runs its commands."""

    word: str
    applies: Callable[[RowSubject], bool]
    run: Callable[[RowSubject, Path], None]


def _explain(subject: RowSubject, state: Path) -> None:
    # Nodes wait for nothing: what is on them, and why they take no pods, is in their description.
    command = "describe" if _is_node(subject) else "explain"
    _run([command, subject.kind.lower(), subject.name, *_namespace(subject)], state)


def _scale(subject: RowSubject, state: Path) -> None:
    replicas = click.prompt(f"Replicas of {subject.kind} {subject.name}", type=click.IntRange(min=0))
    what = f"{subject.kind}/{subject.name}"
    _change(subject, state, ["--set", f"{what}.replicas={replicas}"], ["scale", what, "--replicas", str(replicas)])


def _delete(subject: RowSubject, state: Path) -> None:
    what = f"{subject.kind}/{subject.name}"
    _change(subject, state, ["--delete", what], ["delete", what])


def _cordon(subject: RowSubject, state: Path) -> None:
    preview = ["--set", f"node/{subject.name}.unschedulable={str(not subject.closed).lower()}"]
    _change(subject, state, preview, ["uncordon" if subject.closed else "cordon", subject.name])


def _drain(subject: RowSubject, state: Path) -> None:
    _change(subject, state, ["--drain", subject.name], ["drain", subject.name])


def _is_node(subject: RowSubject) -> bool:
    return subject.kind == "Node"


def _is_workload(subject: RowSubject) -> bool:
    return subject.kind not in ("Node", "Queue")


ROW_ACTIONS: dict[str, RowAction] = {
    "e": RowAction("explain", lambda subject: True, _explain),
    "s": RowAction("scale", lambda subject: subject.scalable, _scale),
    "d": RowAction("delete", _is_workload, _delete),
    "c": RowAction("cordon", _is_node, _cordon),
    "r": RowAction("drain", _is_node, _drain),
}
"""By key. ``c`` also ends a cordon."""


def actions_of(subject: RowSubject) -> Iterator[tuple[str, str]]:
    """The keys that apply to a row, each with its word."""
    for key, action in ROW_ACTIONS.items():
        if action.applies(subject):
            yield key, "uncordon" if key == "c" and subject.closed else action.word


def run_action(key: str, subject: RowSubject, state: Path) -> None:
    """Run the action of a key, and wait for Enter so that its output can be read. Ctrl-C ends the action alone."""
    try:
        ROW_ACTIONS[key].run(subject, state)
    except click.Abort:
        terminal.say("")
    except KeyboardInterrupt as interrupt:
        if type(interrupt) is not KeyboardInterrupt:
            raise  # Terminated, by SIGTERM
    try:
        click.prompt("Enter goes back", default="", show_default=False)
    except click.Abort:
        terminal.say("")


def _change(subject: RowSubject, state: Path, preview: Sequence[str], command: Sequence[str]) -> None:
    """Show what the change would do, ask, and carry it out. Without a preview nothing is carried out."""
    namespace = _namespace(subject)
    if _run(["whatif", *preview, *namespace], state):
        return
    if click.confirm(f"Carry it out ({_written([*command, *namespace])})?"):
        _run([*command, *namespace], state)


def _namespace(subject: RowSubject) -> list[str]:
    return ["-n", subject.namespace] if subject.namespace else []


def _run(arguments: Sequence[str], state: Path) -> int:
    terminal.say(f"$ {_written(arguments)}")
    return subprocess.call([sys.executable, "-m", "kailab", *arguments, "--state", str(state)])


def _written(arguments: Sequence[str]) -> str:
    return f"kailab {shlex.join(arguments)}"
