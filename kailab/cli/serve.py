"""``serve``: a live page of the lab, for the browser on this machine."""

from __future__ import annotations

from pathlib import Path

import click

from kailab.cli import completing, options, terminal

DEFAULT = "lesson"


@click.command()
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port on the loopback address; 0: a free one.")
@click.option(
    "--fleet",
    shell_complete=completing.fleets,
    help=f"Where no lab is up: begin one with this fleet (a name or a file), if not {DEFAULT}.",
)
@click.option(
    "--backend",
    help="Where no lab is up: begin one on this backend (embedded, controlplane, kind, vcluster, kubeconfig).",
)
@click.option("--scheduler", help="Where no lab is up: begin one with this scheduler (`kailab up --help`).")
@options.state
@click.pass_context
def serve(
    context: click.Context, port: int, fleet: str | None, backend: str | None, scheduler: str | None, state: Path
) -> None:
    """Serve a live page of the lab to the browser on this machine: fleet, queues, what waits and why, and forms to submit, delete, scale,
    cordon and set quotas, each tried on a copy before it is applied. Ctrl-C ends it; the lab stays."""
    from kailab.cli.life import up
    from kailab.serve.running import serve as run

    given = {
        name: value
        for name, value in (("fleet", fleet), ("backend", backend), ("scheduler", scheduler))
        if value is not None
    }
    # Of a lab that is up `up` says what is otherwise than asked for.
    if given or not state.exists():
        context.invoke(up, state=state, **given)

    def ready(url: str) -> None:
        terminal.say(url)
        terminal.notice("Open this address in a browser on this machine. It is for you alone; Ctrl-C ends it.")

    run(state, port, ready, terminal.notice)
    terminal.notice("The page has ended; the lab is as it was left.")
