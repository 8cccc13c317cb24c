"""``snapshot`` saves a cluster's objects to a file; ``open`` loads a snapshot, an archive of KAI or a recorded state as a lab."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kailab.cli import labfile, options, terminal
from kailab.cli.error_messages import CommandGroup
from kailab.cli.options import parse_seconds
from kailab.errors import InputError, Where
from kailab.model.times import format_time
from kailab.model.wording import count

if TYPE_CHECKING:
    from kailab.snapshots.snapshot import ClusterSnapshot


@click.command("open")
@click.argument("paths", nargs=-1, required=True, type=options.PATH, metavar="PATH... [TEST]")
@options.text_option(
    "--at", help="Time of the files: 2026-01-31T12:00:00Z; in evidence: last, or the number of a cycle."
)
@options.text_option("--assume-runtime", "runtime", help="Run time of work that declares none: 2h.")
@click.option(
    "--scheduler",
    type=click.Choice(("kailab", "kailab+kube-scheduler")),
    default="kailab",
    show_default=True,
    help="kailab+kube-scheduler also places pods that name no scheduler.",
)
@options.flag("--partial", help="Leave out files and objects that can't be read, with a notice for each.")
@options.flag("--fresh", help="Replace a lab that is up.")
@options.state
def open_lab(
    paths: tuple[Path, ...], at: str, runtime: str, scheduler: str, partial: bool, fresh: bool, state: Path
) -> None:
    """Load a cluster as an embedded lab. Objects keep their uids, times and status. kailab's scheduler decides, with the recorded
    configuration.

    \b
    The cluster is read from one of
      files, folders or archives (tar, zip) of `kubectl get -o yaml|json`,
        a must-gather or a support bundle; manifests may stand beside them
      a snapshot of kailab, or the archive of KAI's /get-snapshot
      a TEST in a folder of evidence
    """
    from kailab.lab.inert_kinds import sentences_for
    from kailab.lab.life import end
    from kailab.snapshots import opening

    options.check_stdin(sum(1 for path in paths if str(path) == "-"), "-")
    assumed = parse_seconds("--assume-runtime", runtime) if runtime else None
    with terminal.spinner("reading"):
        recorded = opening.read_all(paths, at, partial=partial)
    with labfile.lock_lab(state):
        if state.exists() and not fresh:
            raise InputError(f"{state}: a lab is up already. End it with `kailab down`, or replace it with --fresh")
        if state.exists():
            end(state)
        with terminal.spinner("opening"):
            warnings: list[str] = []
            lab = opening.write_snapshot_lab(
                state,
                recorded.snapshot,
                assumed,
                lambda lab: warnings.extend(opening.apply_manifests(lab, recorded.manifests)),
                scheduler,
            )
        with lab:
            facts = lab.facts()
            pods = len(lab.cluster.list("Pod"))
            kinds = [kind for kind in lab.cluster.kinds() if lab.cluster.list(kind)]
    for notice in (*recorded.notices, *sentences_for(kinds)):
        terminal.notice(notice)
    for warning in warnings:
        terminal.warn(warning)
    terminal.say(
        f"{' '.join(map(str, paths))} is open, {recorded.what} of {format_time(recorded.snapshot.taken)}: {count(facts['nodes'], 'node')}, "
        f"{count(facts['gpus'], 'GPU')}, {count(pods, 'pod')}"
    )
    terminal.notice(
        "Next: kailab audit, kailab explain KIND NAME, kailab whatif; `kailab run` lets the scheduler continue"
    )


@click.group(cls=CommandGroup)
def group() -> None:
    """Save a cluster's objects to a file for `kailab open`."""


@group.command()
@click.argument("file", type=options.PATH, required=False)
@options.path_option("--kubeconfig", help="Save the cluster of a kubeconfig instead of the lab.")
@click.option("--context", help="Context of the kubeconfig instead of the current one.")
@click.option(
    "--anonymise", "key", type=options.PATH, metavar="KEYFILE", help="Replace all names, with the key in this file."
)
@options.flag("--partial", help="Leave out kinds that may not be read, with a warning for each.")
@options.flag("--force", help="Overwrite an existing file.")
@options.flag("--rights", help="Print the required ClusterRole and exit.")
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
    """Save the lab, or the cluster of a kubeconfig, to FILE: all objects that scheduling decisions need, without fields that no decision
    reads. Nothing in the cluster is changed."""
    if rights:
        _print_rights()
        return
    if file is None:
        raise InputError("no file is named; expected `kailab snapshot take FILE`")
    if file.exists() and not force:
        raise InputError("exists already; give another name, or --force to overwrite it", Where(file=str(file)))
    from kailab.snapshots import anonymising, snapshot

    secret = None if key is None else anonymising.read_key(key)
    saved = _take(kubeconfig, context, state, partial)
    if secret is not None:
        saved = anonymising.anonymise(saved, secret)
    snapshot.write_snapshot(file, saved, force=force)
    facts = saved.facts
    terminal.say(
        f"{file}: {count(saved.count, 'object')} of {count(len(saved.objects), 'kind')}, {count(facts.nodes, 'node')}, {count(facts.gpus, 'GPU')}; "
        f"{saved.cut} texts were left out"
    )
    for notice in saved.notices:
        terminal.notice(notice)
    for kind, why in sorted(saved.left_out.items()):
        terminal.warn(f"not taken: {kind}: {why}")
    terminal.notice(f"Open it: kailab open {file}")


def _take(kubeconfig: Path | None, context: str | None, state: Path, partial: bool) -> ClusterSnapshot:
    from kailab.snapshots import taking

    if labfile.is_about_cluster(state, kubeconfig, context):
        return taking.of_cluster(kubeconfig, context, partial=partial)
    with labfile.read_lab(state) as lab:
        return taking.of_lab(lab, partial=partial)


def _print_rights() -> None:
    from kailab.model.yamltext import write_documents
    from kailab.snapshots.taking import cluster_role

    terminal.say(write_documents([cluster_role()]).rstrip("\n"))
