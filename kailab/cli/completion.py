"""``completion``, and what the shell completes: kinds, names of objects in the lab, namespaces, fleets, schedulers, backends, lessons and challenges. Errors complete
nothing.
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
    """Print a script with which a shell completes kailab's commands and options.

    For this shell: source <(kailab completion bash). For good: add that line to ~/.bashrc."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None  # click brings one for each of the choices
    terminal.say(kind(context.find_root().command, {}, "kailab", "_KAILAB_COMPLETE").source())


Completer = Callable[[click.Context, click.Parameter, str], list[str]]


def _offering(found: Callable[[click.Context, str], list[str]]) -> Completer:
    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        try:
            return [one for one in found(ctx, incomplete) if one.startswith(incomplete) and one == escaped(one)]
        except (KailabError, OSError):
            return []

    return complete


def _objects(ctx: click.Context, incomplete: str) -> list[str]:
    words = [str(word) for word in ctx.params.get("what") or ()]
    kind, slash, _ = incomplete.partition("/")
    if slash:
        return [f"{kind}/{name}" for name in _names(ctx, kind)]
    if words:
        return _names(ctx, words[0])
    before, comma, _ = incomplete.rpartition(",")
    return [f"{before}{comma}{one}" for one in _kinds()]


def _kinds() -> list[str]:
    from kailab.model.kinds import KINDS, register_installed

    register_installed()
    return sorted(kind.plural for kind in KINDS.values())


def _names(ctx: click.Context, kind: str) -> list[str]:
    from kailab.cli.labfile import STATE, read_lab
    from kailab.model.kinds import is_namespaced

    # Defaults and variables are not read where a line is completed.
    state = ctx.params.get("state") or os.environ.get("KAILAB_STATE") or STATE
    with read_lab(Path(state)) as lab:
        key = lab.kind(kind)
        space = ctx.params.get("namespace", "default") if is_namespaced(key) else None
        return [obj["metadata"]["name"] for obj in lab.cluster.list(key, space)]


def _schedulers(ctx: click.Context, incomplete: str) -> list[str]:
    from kailab.undertest.registry import SCHEDULERS

    return SCHEDULERS.names()


def _backends(ctx: click.Context, incomplete: str) -> list[str]:
    from kailab.cluster.backends import BACKENDS

    return BACKENDS.names()


def _states(ctx: click.Context, incomplete: str) -> list[str]:
    return ["condition=", "create", "delete", "jsonpath="]


def _fleets(ctx: click.Context, incomplete: str) -> list[str]:
    from kailab.fleet.library import available_fleets

    return list(available_fleets())


def _lessons(ctx: click.Context, incomplete: str) -> list[str]:
    from kailab.course.lesson import lessons

    return [one.name for one in lessons()]


def _challenges(ctx: click.Context, incomplete: str) -> list[str]:
    from kailab.course.challenge import challenges

    return [one.name for one in challenges()]


def files(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The shell's own completion of files and folders."""
    return [CompletionItem(incomplete, type="file")]


objects = _offering(_objects)
queues = _offering(lambda ctx, _: _names(ctx, "Queue"))
lessons = _offering(_lessons)
challenges = _offering(_challenges)
nodes = _offering(lambda ctx, _: _names(ctx, "Node"))
schedulers = _offering(_schedulers)
backends = _offering(_backends)
states = _offering(_states)
namespaces = _offering(lambda ctx, _: _names(ctx, "Namespace"))
fleets = _offering(_fleets)
