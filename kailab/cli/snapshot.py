"""``snapshot``: a cluster at one moment, in a file that others can open."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kailab.cli import labfile, options, terminal

if TYPE_CHECKING:
    from kailab.lab.snapshots.snapshot import ClusterSnapshot


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
    from kailab.lab.snapshots import anonymising, snapshot

    secret = None if key is None else anonymising.read_key(key)
    taken = _take(kubeconfig, context, state, partial)
    if secret is not None:
        taken = anonymising.anonymised(taken, secret)
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
    from kailab.lab.snapshots import taking

    if kubeconfig is not None or context is not None or not state.exists():
        return taking.of_cluster(kubeconfig, context, partial=partial)
    with labfile.looked_at(state) as lab:
        return taking.of_lab(lab, partial=partial)


def _print_rights() -> None:
    from kailab.lab.snapshots.contents import rights
    from kailab.model.manifests import dump

    terminal.say(dump([rights()]).rstrip("\n"))
