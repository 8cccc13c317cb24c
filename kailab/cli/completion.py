"""``completion``, and the completed values: kinds, names of objects in the lab, namespaces, fleets, schedulers, backends, lessons and challenges.
An error yields no completions.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from kailab.cli import terminal
from kailab.errors import KailabError, escaped


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]), help="The shell.")
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a script that completes kailab's commands and options in a shell.

    For this shell: source <(kailab completion bash). For every new one: add that line to ~/.bashrc."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None  # click has one for each choice
    terminal.say(kind(context.find_root().command, {}, "kailab", "_KAILAB_COMPLETE").source())


Completer = Callable[[click.Context, click.Parameter, str], list[str]]


def _completer(values: Callable[[click.Context, str], list[str]]) -> Completer:
    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        try:
            return [text for text in values(ctx, incomplete) if text.startswith(incomplete) and text == escaped(text)]
        except (KailabError, OSError):
            return []

    return complete


@_completer
def objects(ctx: click.Context, incomplete: str) -> list[str]:
    words = [str(word) for word in ctx.params.get("what") or ()]
    kind, slash, _ = incomplete.partition("/")
    if slash:
        return [f"{kind}/{name}" for name in _names(ctx, kind)]
    if words:
        return _names(ctx, words[0])
    before, comma, _ = incomplete.rpartition(",")
    return [f"{before}{comma}{kind}" for kind in _kinds()]


def _kinds() -> list[str]:
    from kailab.model.kinds import KINDS, register_installed

    register_installed()
    return sorted(kind.plural for kind in KINDS.values())


def _names(ctx: click.Context, kind: str) -> list[str]:
    from kailab.cli.labfile import STATE, read_lab
    from kailab.model.kinds import is_namespaced
    from kailab.model.objects import name_of

    # click does not apply defaults and environment variables during completion.
    state = ctx.params.get("state") or os.environ.get("KAILAB_STATE") or STATE
    with read_lab(Path(state)) as lab:
        key = lab.kind(kind)
        space = ctx.params.get("namespace", "default") if is_namespaced(key) else None
        return [name_of(obj) for obj in lab.cluster.list(key, space)]


@_completer
def schedulers(ctx: click.Context, incomplete: str) -> list[str]:
    from kailab.undertest.registry import SCHEDULERS

    return SCHEDULERS.names()


@_completer
def backends(ctx: click.Context, incomplete: str) -> list[str]:
    from kailab.cluster.backends import BACKENDS

    return BACKENDS.names()


@_completer
def states(ctx: click.Context, incomplete: str) -> list[str]:
    return ["condition=", "create", "delete", "jsonpath="]


@_completer
def fleets(ctx: click.Context, incomplete: str) -> list[str]:
    from kailab.fleet.library import available_fleets

    return list(available_fleets())


@_completer
def lessons(ctx: click.Context, incomplete: str) -> list[str]:
    from kailab.course import lesson

    return [each.name for each in lesson.lessons()]


@_completer
def challenges(ctx: click.Context, incomplete: str) -> list[str]:
    from kailab.course import challenge

    return [each.name for each in challenge.challenges()]


def files(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The shell's own completion of files and folders."""
    return [CompletionItem(incomplete, type="file")]


queues = _completer(lambda ctx, _: _names(ctx, "Queue"))
nodes = _completer(lambda ctx, _: _names(ctx, "Node"))
namespaces = _completer(lambda ctx, _: _names(ctx, "Namespace"))
