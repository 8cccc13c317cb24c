"""``snapshot`` writes a cluster's objects to a file; ``open`` loads a snapshot, an archive of KAI's or a state of the evidence as a lab."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kailab.cli import labfile, options, terminal

if TYPE_CHECKING:
    from kailab.snapshots.snapshot import ClusterSnapshot


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
    from kailab.cli.options import parse_seconds
    from kailab.errors import InputError
    from kailab.lab.inert_kinds import sentences_for
    from kailab.lab.life import end
    from kailab.model.times import format_time
    from kailab.snapshots import opening

    assumed = parse_seconds("--assume-runtime", runtime) if runtime else None
    found = opening.read(path, test, at)
    with labfile.lock_lab(state):
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


@click.group()
def group() -> None:
    """Take a snapshot of a cluster, for `kailab open`."""


@group.command()
@click.argument("file", type=options.PATH, required=False)
@click.option(
    "--kubeconfig", type=options.PATH, help="Take it of the cluster of a kubeconfig, not of the lab that is up."
)
@click.option("--context", help="Take it of the cluster of this context of the kubeconfig, if not the current one.")
@click.option("--anonymise", "key", type=options.PATH, metavar="KEYFILE", help="Map all names by the key in this file.")
@click.option("--partial", is_flag=True, help="Leave out what may not be read, and name it.")
@click.option("--force", is_flag=True, help="Write over a file that is there.")
@click.option("--rights", is_flag=True, help="Print the ClusterRole that it needs, and do nothing else.")
@options.state
def take(
    file: Path | None,
    kubeconfig: Path | None,
    context: str | None,
    key: Path | None,
    partial: bool,
    force: bool,
    rights: bool,
    state: Path,
) -> None:
    """Write a snapshot of the lab that is up, or of the cluster of a kubeconfig: all objects that decisions need, without what no
    decision reads. Nothing in the cluster is changed."""
    from kailab.errors import InputError, Where

    if rights:
        _print_rights()
        return
    if file is None:
        raise InputError("say where to write it: `kailab snapshot take FILE`")
    if file.exists() and not force:
        raise InputError("is there already; give another name, or --force", Where(file=str(file)))
    from kailab.snapshots import anonymising, snapshot

    secret = None if key is None else anonymising.read_key(key)
    taken = _take(kubeconfig, context, state, partial)
    if secret is not None:
        taken = anonymising.anonymise(taken, secret)
    snapshot.write(file, taken, force=force)
    facts = taken.facts
    terminal.say(
        f"{file}: {taken.count} objects of {len(taken.objects)} kinds, {facts.nodes} nodes, {facts.gpus} GPUs; "
        f"{taken.cut} texts were left out"
    )
    for notice in taken.notices:
        terminal.notice(notice)
    for kind, why in sorted(taken.left_out.items()):
        terminal.warn(f"not taken: {kind}: {why}")
    terminal.notice(f"Open it: kailab open {file}")


def _take(kubeconfig: Path | None, context: str | None, state: Path, partial: bool) -> ClusterSnapshot:
    from kailab.snapshots import taking

    if kubeconfig is not None or context is not None or not state.exists():
        return taking.of_cluster(kubeconfig, context, partial=partial)
    with labfile.read_lab(state) as lab:
        return taking.of_lab(lab, partial=partial)


def _print_rights() -> None:
    from kailab.model.manifests import dump
    from kailab.snapshots.contents import cluster_role

    terminal.say(dump([cluster_role()]).rstrip("\n"))
