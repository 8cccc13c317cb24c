"""``diff``: the fields that applying manifests would change, and the consequence for all work. ``--out`` saves it as a plan for ``apply``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kailab.cli import labfile, options, terminal
from kailab.cli.objects import errors_as_json, sources_of
from kailab.cli.options import TextOrJson, parse_seconds
from kailab.cli.selection import kind_slash_name
from kailab.cli.whatif import whatif_lines
from kailab.errors import InputError

if TYPE_CHECKING:
    from kailab.whatif.plan import Diff, FieldDiff, ObjectDiff

CHANGES = 1
"""Exit code if there are changes, as of ``kubectl diff``."""
_SIGNS = {"create": "+", "change": "~"}


@click.command()
@options.files
@options.recursive
@options.kustomize
@options.namespace
@options.text_option("--for", "duration", help="Compare the consequence after this lab time: 30s, 5m, 1h30m, 2d.")
@click.option(
    "--out", type=options.PATH, metavar="PLAN", help="Save this as a plan: `kailab apply PLAN` carries it out."
)
@options.flag("--force", help="Accept everything that KAI accepts, even a gang that can never start.")
@options.flag("--all", "everything", help="Show every workload and queue of the consequence.")
@options.output
@errors_as_json
@options.state
def diff(
    files: tuple[str, ...],
    recursive: bool,
    kustomization: Path | None,
    namespace: str,
    duration: str,
    out: Path | None,
    force: bool,
    everything: bool,
    output: TextOrJson,
    state: Path,
) -> None:
    """Show what `kailab apply` would change: fields that are new (+), changed (~) or removed (-), and which work would then run, wait, move or
    be evicted. Both are tried on a copy; the lab does not change. Fields that a server fills in are no changes.

    \b
    Exit code 0: there is no change.
    Exit code 1: there are changes.
    Exit code 2: bad input."""
    from kailab.whatif import plan

    sources = sources_of(files, recursive, kustomization)
    if not sources:
        raise InputError("there is nothing to compare; expected -f FILE, -f FOLDER, -f - or -k FOLDER")
    seconds = parse_seconds("--for", duration) if duration else 0.0
    with labfile.read_lab(state) as lab, terminal.spinner("trying it on a copy"):
        found = plan.diff_manifests(lab, sources, namespace, seconds, strict=not force)
    for warning in found.warnings:
        terminal.warn(warning)
    if output is TextOrJson.json:
        terminal.say_json(found.data())
    else:
        terminal.say("\n".join(_lines(found, everything)))
    if out is not None:
        found.plan.write(out)
        terminal.notice(f"The plan is in {out}; `kailab apply {out}` carries it out")
    if found.changes:
        raise click.exceptions.Exit(CHANGES)


def _lines(found: Diff, everything: bool) -> Iterator[str]:
    for obj in found.objects:
        if obj.action != "unchanged":
            yield from _object_lines(obj)
    actions = [obj.action for obj in found.objects]
    new, changed, same = (actions.count(action) for action in ("create", "change", "unchanged"))
    yield (
        f"{new} to create, {changed} to change, {same} unchanged" if found.changes else f"No changes: {same} unchanged"
    )
    if found.consequence is not None:
        yield ""
        yield from whatif_lines(found.consequence, everything)


def _object_lines(obj: ObjectDiff) -> Iterator[str]:
    space = f" -n {obj.namespace}" if obj.namespace not in ("", "default") else ""
    yield f"{_SIGNS[obj.action]} {kind_slash_name(obj.kind, obj.name)}{space}"
    for field in obj.fields:
        yield f"    {_field_line(field)}"


def _field_line(field: FieldDiff) -> str:
    if field.before is None:
        return f"+ {field.path}: {_value(field.after)}"
    if field.after is None:
        return f"- {field.path}: {_value(field.before)}"
    return f"~ {field.path}: {_value(field.before)} -> {_value(field.after)}"


def _value(value: Any) -> str:
    return value if isinstance(value, str) and value and "\n" not in value else json.dumps(value, ensure_ascii=False)
