"""``apply`` and ``delete``: objects into the lab and out of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kailab.cli import labfile, options, terminal

if TYPE_CHECKING:
    from kailab.cli.lab_changes import LabChanges
    from kailab.lab import Lab


@click.command()
@click.argument("bare", nargs=-1)
@options.files
@options.namespace
@options.settle
@click.option("--dry-run", is_flag=True, help="Check the manifests and say what would be done; change nothing.")
@click.option("--force", is_flag=True, help="Accept what KAI accepts, even a gang that can never start.")
@options.state
def apply(
    bare: tuple[str, ...], files: tuple[str, ...], namespace: str, settle: bool, dry_run: bool, force: bool, state: Path
) -> None:
    """Apply manifests, then run the lab until nothing changes. If anything is wrong with any of them, none is applied."""
    from kailab.cli.lab_changes import LabChanges
    from kailab.cli.naming import full_name
    from kailab.errors import InputError

    if bare:
        raise InputError(f"say -f before a file: kailab apply {' '.join(f'-f {one}' for one in (*files, *bare))}")
    if not files:
        raise InputError("say what to apply: -f FILE, -f FOLDER or -f -")
    end = " (dry run)" if dry_run else ""
    with labfile.changed(state, save=not dry_run) as lab:
        before = LabChanges(lab)
        if dry_run:
            lab.dry_run()
        applied = lab.apply(*_sources(files), namespace=namespace, strict=not force)
        if not applied.changes:
            raise InputError(f"no objects in {', '.join(files)}")
        told = "" if dry_run else _settled(lab, before, settle)
    for warning in applied.warnings:
        terminal.warn(warning)
    for change in applied.changes:
        terminal.say(f"{full_name(change.kind, change.name)} {change.what}{end}")
    if told:
        terminal.notice(told)


@click.command()
@click.argument("what", nargs=-1, help="KIND NAME..., or KIND/NAME...")
@options.files
@options.namespace
@options.selector
@click.option("--all", "everything", is_flag=True, help="All objects of the kind in the namespace.")
@click.option("--ignore-not-found", is_flag=True, help="Do not fail if an object is not there.")
@options.settle
@options.state
def delete(
    what: tuple[str, ...],
    files: tuple[str, ...],
    namespace: str,
    selector: str,
    everything: bool,
    ignore_not_found: bool,
    settle: bool,
    state: Path,
) -> None:
    """Delete objects, by name, by label or by manifest, then run the lab until nothing changes. If one of them is not
    there, none is deleted."""
    from kailab.cli.lab_changes import LabChanges
    from kailab.cli.naming import resource
    from kailab.errors import InputError

    if bool(what) == bool(files):
        raise InputError("say what to delete: either KIND NAME... or -f FILE")
    if files and (selector or everything):
        raise InputError("-f deletes what its manifests name; -l and --all go with a KIND")
    with labfile.changed(state) as lab:
        before = LabChanges(lab)
        doomed = _in_files(lab, files, namespace) if files else _named(lab, what, namespace, selector, everything)
        gone = _delete(lab, doomed, ignore_not_found)
        told = _settled(lab, before, settle) if gone else ""
    for kind, name, _ in gone:
        terminal.say(f'{resource(kind)} "{name}" deleted')
    if not gone:
        terminal.notice("No resources found")
    if told:
        terminal.notice(told)


Doomed = tuple[str, str, str]
"""Kind key, name, namespace ("" outside namespaces)."""


def _sources(files: Sequence[str]) -> list[Path | str]:
    if files.count("-") > 1:
        from kailab.errors import InputError

        raise InputError("stdin (-f -) can be read once only")
    return [file if file == "-" else Path(file) for file in files]


def _settled(lab: Lab, before: LabChanges, settle: bool) -> str:
    if not settle:
        return "not settled: nothing has acted on it yet; `kailab run` lets the lab go on"
    with terminal.waiting("settling"):
        lab.settle()
    return before.told()


def _in_files(lab: Lab, files: Sequence[str], namespace: str) -> list[Doomed]:
    from kailab.lab import intake
    from kailab.model.kinds import is_namespaced

    found: list[Doomed] = []
    for one in intake.read(_sources(files), namespace=namespace).manifests:
        metadata = one.object["metadata"]
        spaced = is_namespaced(one.kind, one.object)
        found.append((one.kind, metadata.get("name", ""), (metadata.get("namespace") or namespace) if spaced else ""))
    return found


def _named(lab: Lab, what: Sequence[str], namespace: str, selector: str, everything: bool) -> list[Doomed]:
    from kailab.cli.naming import targets
    from kailab.errors import InputError
    from kailab.model.kinds import is_namespaced

    found: list[Doomed] = []
    for kind, names in targets(what, lab.cluster.kinds()):
        space = namespace if is_namespaced(kind) else ""
        if names:
            if selector or everything:
                raise InputError("names can't go with -l or --all")
            found += [(kind, name, lab.space_of(kind, name, namespace) or "") for name in names]
        elif selector or everything:
            listed = lab.cluster.list(kind, space or None, selector or None)
            found += [(kind, obj["metadata"]["name"], obj["metadata"].get("namespace", "")) for obj in listed]
        else:
            raise InputError(f"say which {kind}: by name, by label (-l) or --all")
    return found


def _delete(lab: Lab, doomed: list[Doomed], ignore_not_found: bool) -> list[Doomed]:
    """Delete what is there; all of it must be unless ``ignore_not_found``. Raises InputError before anything is gone."""
    from kailab.errors import InputError, InputErrors, NotFound

    there: list[Doomed] = []
    missing: list[InputError] = []
    for target in doomed:
        kind, name, space = target
        try:
            lab.cluster.get(kind, name, space or None)
            there.append(target)
        except NotFound as error:
            missing.append(InputError(str(error)))
    if missing and not ignore_not_found:
        raise InputErrors.of(missing)
    for kind, name, space in there:
        try:
            lab.delete(kind, name, space or "default")
        except InputError:  # it went with an owner deleted before it
            continue
    return there
