"""``apply`` and ``delete``: objects into the lab and out of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kailab.cli import labfile, options, selecting, terminal
from kailab.cli.selecting import Chosen, chosen, perhaps

if TYPE_CHECKING:
    from kailab.lab import Lab
    from kailab.lab.intake import Text


@click.command()
@click.argument("bare", nargs=-1)
@options.files
@options.recursive
@options.kustomize
@options.namespace
@options.settle
@click.option(
    "--dry-run",
    type=click.Choice(["none", "client", "server"]),
    is_flag=False,
    flag_value="server",
    default="none",
    show_default=False,
    help="Check the manifests and say what would be done; change nothing. client and server, as kubectl has them, are the same here.",
)
@click.option("--force", is_flag=True, help="Accept what KAI accepts, even a gang that can never start.")
@options.state
def apply(
    bare: tuple[str, ...],
    files: tuple[str, ...],
    recursive: bool,
    kustomization: Path | None,
    namespace: str,
    settle: bool,
    dry_run: str,
    force: bool,
    state: Path,
) -> None:
    """Apply manifests, then run the lab until nothing changes. If anything is wrong with any of them, none is applied."""
    from kailab.cli.lab_changes import LabChanges, settled
    from kailab.cli.naming import full_name
    from kailab.errors import InputError

    if bare:
        raise InputError(f"say -f before a file: kailab apply {' '.join(f'-f {one}' for one in (*files, *bare))}")
    sources = _sources(files, recursive, kustomization)
    if not sources:
        raise InputError("say what to apply: -f FILE, -f FOLDER, -f - or -k FOLDER")
    dry = dry_run != "none"
    end = " (dry run)" if dry else ""
    with labfile.changed(state, save=not dry) as lab:
        before = LabChanges(lab)
        if dry:
            lab.dry_run()
        applied = lab.apply(*sources, namespace=namespace, strict=not force)
        if not applied.changes:
            raise InputError(f"no objects in {', '.join((*files, *([str(kustomization)] if kustomization else [])))}")
        told = "" if dry else settled(lab, before, settle)
    for warning in applied.warnings:
        terminal.warn(warning)
    for change in applied.changes:
        terminal.say(f"{full_name(change.kind, change.name)} {change.what}{end}")
    if told:
        terminal.notice(told)


@click.command()
@selecting.what
@options.files
@options.recursive
@options.kustomize
@options.namespace
@options.selector
@selecting.everything
@click.option("--ignore-not-found", is_flag=True, help="Do not fail if an object is not there.")
@options.settle
@options.state
def delete(
    what: tuple[str, ...],
    files: tuple[str, ...],
    recursive: bool,
    kustomization: Path | None,
    namespace: str,
    selector: str,
    everything: bool,
    ignore_not_found: bool,
    settle: bool,
    state: Path,
) -> None:
    """Delete objects, by name, by label or by manifest, then run the lab until nothing changes. If one of them is not
    there, none is deleted."""
    from kailab.cli.lab_changes import LabChanges, settled
    from kailab.cli.naming import resource
    from kailab.errors import InputError

    sources = _sources(files, recursive, kustomization)
    if bool(what) == bool(sources):
        raise InputError("say what to delete: either KIND NAME... or -f FILE")
    if sources and (selector or everything):
        raise InputError("-f deletes what its manifests name; -l and --all go with a KIND")
    with labfile.changed(state) as lab:
        before = LabChanges(lab)
        doomed = _in_files(lab, sources, namespace) if sources else chosen(lab, what, namespace, selector, everything)
        gone = _delete(lab, doomed, ignore_not_found)
        told = settled(lab, before, settle) if gone else ""
    for kind, name, _ in gone:
        terminal.say(f'{resource(kind)} "{name}" deleted')
    if not gone:
        terminal.notice("No resources found")
    if told:
        terminal.notice(told)


def _sources(files: Sequence[str], recursive: bool, kustomization: Path | None) -> list[Path | str | Text]:
    """What ``Lab.apply`` takes. Raises InputError."""
    from kailab.errors import InputError
    from kailab.lab.intake import Text

    if recursive and not files:
        raise InputError("-R goes with -f FOLDER")
    if files.count("-") > 1:
        raise InputError("stdin (-f -) can be read once only")
    sources: list[Path | str | Text] = []
    for file in files:
        if file.startswith(("http://", "https://")):
            raise InputError(f"{file}: kailab fetches nothing: curl -sL {file} | kailab apply -f -")
        folder = Path(file)
        if recursive and folder.is_dir():
            sources += _below(folder)
        else:
            sources.append(file if file == "-" else folder)
    if kustomization is not None:
        from kailab.cli.kustomize import built

        sources.append(Text(str(kustomization), built(kustomization)))
    return sources


def _below(folder: Path) -> list[Path]:
    """The manifests in a folder and in all folders in it, by name. Raises InputError where there are none."""
    from kailab.errors import InputError, Where
    from kailab.model.manifests import SUFFIXES

    found = sorted(path for path in folder.rglob("*") if path.suffix in SUFFIXES and path.is_file())
    if not found:
        raise InputError(
            f"neither the folder nor any in it holds manifests; expected {', '.join(f'*{one}' for one in SUFFIXES)}",
            Where(file=str(folder)),
        )
    return found


def _in_files(lab: Lab, sources: Sequence[Path | str | Text], namespace: str) -> list[Chosen]:
    from kailab.lab import intake
    from kailab.model.kinds import is_namespaced

    found: list[Chosen] = []
    for one in intake.read(sources, namespace=namespace).manifests:
        metadata = one.object["metadata"]
        spaced = is_namespaced(one.kind, one.object)
        space = (metadata.get("namespace") or namespace) if spaced else ""
        found.append(Chosen(one.kind, metadata.get("name", ""), space))
    return found


def _delete(lab: Lab, doomed: list[Chosen], ignore_not_found: bool) -> list[Chosen]:
    """Delete what is there; all of it must be unless ``ignore_not_found``. Raises InputError before anything is gone."""
    from kailab.errors import InputError, InputErrors, NotFound

    there: list[Chosen] = []
    missing: list[InputError] = []
    for target in doomed:
        try:
            lab.cluster.get(target.kind, target.name, target.space)
            there.append(target)
        except NotFound as error:
            missing.append(InputError(f"{error}{perhaps(lab, *target)}"))
    if missing and not ignore_not_found:
        raise InputErrors.of(missing)
    for kind, name, space in there:
        try:
            lab.delete(kind, name, space or "default")
        except InputError:  # it went with an owner deleted before it
            continue
    return there
