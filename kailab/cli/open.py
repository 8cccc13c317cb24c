"""``open``: a snapshot, an archive of KAI's or a state of the evidence becomes the lab in hand."""

from __future__ import annotations

from pathlib import Path

import click

from kailab.cli import labfile, options, terminal


@click.command("open")
@click.argument("path", type=options.PATH)
@click.argument("test", default="")
@click.option("--at", default="", show_default=False, help="Of evidence: last, or the number of a cycle.")
@click.option(
    "--assume-runtime", "runtime", default="", show_default=False, help="How long work runs that does not say: 2h."
)
@click.option("--fresh", is_flag=True, help="If a lab is up already, replace it.")
@options.state
def open_lab(path: Path, test: str, at: str, runtime: str, fresh: bool, state: Path) -> None:
    """Open a cluster as it was, as an embedded lab: a snapshot, the archive of KAI's /get-snapshot, or a TEST within a folder of
    evidence. Objects keep their uids, times and status; kailab's scheduler decides, set as the one there was."""
    from kailab.cli.durations import seconds_of
    from kailab.errors import InputError
    from kailab.lab.inert_kinds import sentences_for
    from kailab.lab.life import end
    from kailab.lab.snapshots import opening
    from kailab.model.times import format_time

    assumed = seconds_of("--assume-runtime", runtime) if runtime else None
    found = opening.read(path, test, at)
    with labfile.locked(state):
        if state.exists() and not fresh:
            raise InputError(f"{state}: a lab is up already. End it with `kailab down`, or open with --fresh")
        if state.exists():
            end(state)
        with opening.begin(state, found.snapshot, assumed) as lab:
            facts = lab.facts()
            pods = len(lab.cluster.list("Pod"))
            held = [kind for kind in lab.cluster.kinds() if lab.cluster.list(kind)]
    for notice in (*found.notices, *sentences_for(held)):
        terminal.notice(notice)
    terminal.say(
        f"{path} is open, {found.what} of {format_time(found.snapshot.taken)}: {facts['nodes']} nodes, {facts['gpus']} GPUs, "
        f"{pods} pods"
    )
    terminal.notice(
        "Next: kailab get pods -A, kailab explain KIND NAME; `kailab run` lets the scheduler go on from there"
    )
