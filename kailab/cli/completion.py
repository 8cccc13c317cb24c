"""``completion``: commands and options completed by the shell."""

from __future__ import annotations

import click

from kailab.cli import terminal


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
