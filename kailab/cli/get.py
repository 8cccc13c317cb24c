"""``get``: objects as tables, or as they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kailab.cli import labfile, options, terminal
from kailab.cli.options import Format

if TYPE_CHECKING:
    from kailab.cli.naming import Target
    from kailab.lab import Lab

    Object = dict[str, Any]


@click.command()
@click.argument("what", nargs=-1, required=True, help="Kinds (pods,queues), KIND NAME..., or KIND/NAME...")
@options.namespace
@options.all_namespaces
@options.selector
@click.option(
    "--output",
    "-o",
    type=click.Choice(Format),
    default=Format.table,
    show_default=False,
    help="As a wide table, as objects, or by name.",
)
@click.option("--no-headers", is_flag=True, help="Tables without their first line.")
@options.state
def get(
    what: tuple[str, ...],
    namespace: str,
    all_namespaces: bool,
    selector: str,
    output: Format,
    no_headers: bool,
    state: Path,
) -> None:
    """Show objects: pods, queues, podgroups, nodes, jobs, events ... and any other kind there is."""
    from kailab.cli.naming import full_name, targets
    from kailab.errors import InputError

    with labfile.looked_at(state) as lab:
        wanted = targets(what, lab.cluster.kinds())
        if selector and any(target.names for target in wanted):
            raise InputError("names can't go with -l")
        found = [
            (target.kind, _objects(lab, target, None if all_namespaces else namespace, selector)) for target in wanted
        ]
        if output in (Format.json, Format.yaml):
            single = len(wanted) == 1 and len(wanted[0].names) == 1
            terminal.say(_as_data([obj for _, objects in found for obj in objects], single, output))
            return
        found = [(kind, objects) for kind, objects in found if objects]
        if not found:
            terminal.notice(_nothing(wanted, namespace, all_namespaces))
        elif output is Format.name:
            for kind, objects in found:
                terminal.say("\n".join(full_name(kind, obj["metadata"]["name"]) for obj in objects))
        else:
            _tables(lab, found, len(wanted) > 1, all_namespaces, output is Format.wide, no_headers)


def _objects(lab: Lab, target: Target, namespace: str | None, selector: str) -> list[Object]:
    from kailab.model.kinds import is_namespaced

    kind, names = target
    if not names:
        return lab.cluster.list(kind, namespace if is_namespaced(kind) else None, selector or None)
    if namespace is None and is_namespaced(kind):
        from kailab.errors import InputError

        raise InputError("names can't go with -A; say which namespace with -n")
    return [lab.get(kind, name, namespace) for name in names]


def _as_data(objects: list[Object], single: bool, output: Format) -> str:
    data: Object = objects[0] if single else {"apiVersion": "v1", "kind": "List", "items": objects}
    if output is Format.json:
        return json.dumps(data, indent=4)
    from kailab.model.manifests import dump

    return dump([data]).removeprefix("---\n").rstrip("\n")


def _nothing(wanted: list[Target], namespace: str, all_namespaces: bool) -> str:
    from kailab.model.kinds import is_namespaced

    if all_namespaces or not any(is_namespaced(target.kind) for target in wanted):
        return "No resources found"
    return f"No resources found in {namespace} namespace."


def _tables(
    lab: Lab, found: list[tuple[str, list[Object]]], several: bool, namespaces: bool, wide: bool, no_headers: bool
) -> None:
    from kailab.cli.columns import View, cell, columns_of
    from kailab.cli.naming import full_name
    from kailab.cli.table import render
    from kailab.model.kinds import is_namespaced

    view = View(lab)
    for number, (kind, objects) in enumerate(found):
        columns = columns_of(kind, wide)
        headers = [column.header for column in columns]
        rows = [[cell(column, view, obj) for column in columns] for obj in objects]
        if several and "NAME" in headers:
            at = headers.index("NAME")
            for row in rows:
                row[at] = full_name(kind, row[at])
        if namespaces and is_namespaced(kind):
            headers = ["NAMESPACE", *headers]
            rows = [[obj["metadata"].get("namespace", ""), *row] for obj, row in zip(objects, rows, strict=True)]
        if number:
            terminal.say("")
        terminal.say(render(headers, rows, no_headers=no_headers))
