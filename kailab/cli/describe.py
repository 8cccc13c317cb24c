"""``describe``: what is known of an object, on one page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kailab.cli import labfile, options, selection, terminal
from kailab.model.objects import Object

if TYPE_CHECKING:
    from kailab.cli.object_tables import TableContext
    from kailab.cli.selection import ObjectKey

_WIDTH = 16
_SPELT = {"GPUS": "GPUs", "CPU": "CPU", "PODGROUP": "PodGroup"}
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"  # all of the object once more
_CONDITION = ("TYPE", "STATUS", "REASON", "MESSAGE")


@click.command()
@selection.what_argument
@options.namespace
@options.selector
@options.state
def describe(what: tuple[str, ...], namespace: str, selector: str, state: Path) -> None:
    """Show what is known of objects: their fields, conditions, pods and events, and why they wait. `kailab explain` says what would help."""
    from kailab.cli.object_tables import TableContext
    from kailab.cli.selection import fetch_objects, parse_targets, select_objects

    with labfile.read_lab(state) as lab:
        # As with kubectl, a kind alone means all of it.
        bare = not any(target.names for target in parse_targets(what, lab.cluster.kinds()))
        wanted = select_objects(lab, what, namespace, selector, everything=bare and not selector)
        objects = fetch_objects(lab, wanted)
        view = TableContext(lab)
        pages = ["\n".join(_page(view, one, obj)) for one, obj in zip(wanted, objects, strict=True)]
    if pages:
        terminal.say("\n\n\n".join(pages))
    else:
        terminal.notice("No resources found")


def _page(view: TableContext, one: ObjectKey, obj: Object) -> Iterator[str]:
    metadata = obj["metadata"]
    yield _line("Name", metadata["name"])
    if metadata.get("namespace"):
        yield _line("Namespace", metadata["namespace"])
    yield from _map("Labels", metadata.get("labels"))
    notes = metadata.get("annotations") or {}
    yield from _map("Annotations", {key: value for key, value in notes.items() if key != _LAST_APPLIED})
    yield _line("Created", metadata.get("creationTimestamp", ""))
    for owner in metadata.get("ownerReferences") or ():
        yield _line("Controlled by" if owner.get("controller") else "Owned by", f"{owner['kind']}/{owner['name']}")
    yield from _columns(view, one, obj)
    for part in ("spec", "status"):
        yield from _fields(part, {key: value for key, value in (obj.get(part) or {}).items() if key != "conditions"})
    yield from _conditions((obj.get("status") or {}).get("conditions") or ())
    if one.kind == "Node":
        yield from _pods(view, metadata["name"])
    yield from _waiting(view, one)
    yield from _events(view, one, obj)


def _line(name: str, value: str) -> str:
    return f"{name + ':':<{_WIDTH}} {value}".rstrip()


def _more(value: str) -> str:
    return f"{'':<{_WIDTH}} {value}"


def _map(name: str, values: Mapping[str, str] | None) -> Iterator[str]:
    if not values:
        yield _line(name, "<none>")
    for number, (key, value) in enumerate(sorted((values or {}).items())):
        shown = " ".join(f"{key}={value}".split())
        yield _more(shown) if number else _line(name, shown)


def _columns(view: TableContext, one: ObjectKey, obj: Object) -> Iterator[str]:
    """What tables tell of it."""
    from kailab.cli.object_tables import column_cell, columns_of

    for column in columns_of(one.kind, wide=True):
        told = " ".join(column_cell(column, view, obj).split())
        if told and column.header not in ("NAME", "AGE"):
            yield _line(_SPELT.get(column.header, column.header.capitalize()), told)


def _fields(name: str, fields: Mapping[str, Any]) -> Iterator[str]:
    from kailab.model.manifests import dump

    if fields:
        yield f"{name.capitalize()}:"
        yield from (f"  {line}" for line in dump([dict(fields)]).removeprefix("---\n").rstrip("\n").splitlines())


def _conditions(conditions: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    rows = [
        [str(one.get("type", "")), str(one.get("status", "")), str(one.get("reason", "")), str(one.get("message", ""))]
        for one in conditions
    ]
    if rows:
        yield from _table("Conditions", _CONDITION, rows)


def _pods(view: TableContext, node: str) -> Iterator[str]:
    from kailab.cli.object_tables import NONE, format_gpus

    rows = [
        [row.name, row.phase, format_gpus(row.milli_gpus), row.queue or NONE]
        for row in sorted(view.on_node.get(node, ()), key=lambda row: row.name)
    ]
    yield from _table("Pods", ("NAME", "PHASE", "GPUS", "QUEUE"), rows)


def _waiting(view: TableContext, one: ObjectKey) -> Iterator[str]:
    """The reason of a PodGroup that waits, or of a pod's."""
    name = f"{one.namespace}/{one.name}"
    group = name
    if one.kind == "Pod":
        row = view.rows.get(name)
        if row is None or row.node or not row.podgroup:
            return
        group = f"{one.namespace}/{row.podgroup}"
    elif one.kind != "PodGroup":
        return
    entry = view.picture.pending.get(group)
    if entry is not None:
        yield _line("Waits", f"{entry.reason}: {' '.join(entry.message.split())}")
        yield _more(f"`kailab explain {one.kind.lower()} {one.name}` says what would let it run")


def _events(view: TableContext, one: ObjectKey, obj: Object) -> Iterator[str]:
    from kailab.cli.object_tables import EVENT, column_cell

    columns = [column for column in EVENT if column.header != "OBJECT"]

    uid = obj["metadata"].get("uid")
    rows = []
    for event in view.lab.cluster.list("Event", one.space):
        about = event.get("involvedObject") or {}
        if about.get("uid") == uid or (
            not about.get("uid") and (about.get("kind"), about.get("name")) == (obj.get("kind"), one.name)
        ):
            rows.append([column_cell(column, view, event) for column in columns])
    yield from _table("Events", [column.header for column in columns], rows)


def _table(name: str, headers: Iterable[str], rows: list[list[str]]) -> Iterator[str]:
    from kailab.cli.table import render_table

    if not rows:
        yield _line(name, "<none>")
        return
    yield f"{name}:"
    yield from render_table(list(headers), rows, indent="  ").splitlines()
