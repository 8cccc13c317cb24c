"""``describe``: all facts about an object on one page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kailab.cli import labfile, options, selection, terminal
from kailab.cli.selection import ObjectKey, fetch_objects, parse_targets, select_objects
from kailab.cli.table import render_table
from kailab.model.labels import LAST_APPLIED
from kailab.model.objects import (
    Object,
    annotations_of,
    conditions_of,
    involved_of,
    labels_of,
    metadata_of,
    name_of,
    namespace_of,
    owner_references,
    uid_of,
)

if TYPE_CHECKING:
    from kailab.cli.object_tables import TableContext

_WIDTH = 16
_SPELLINGS = {"GPUS": "GPUs", "CPU": "CPU", "PODGROUP": "PodGroup"}
_CONDITION = ("TYPE", "STATUS", "REASON", "MESSAGE")


@click.command()
@selection.what_argument
@options.namespace
@options.selector
@options.state
def describe(what: tuple[str, ...], namespace: str, selector: str, state: Path) -> None:
    """Show objects in detail: fields, conditions, pods, events, and why they are pending. `kailab explain` finds what would help."""
    from kailab.cli.object_tables import TableContext

    with labfile.read_lab(state) as lab:
        # As in kubectl, a kind without names means all its objects.
        bare = not any(target.names for target in parse_targets(what, lab.cluster.kinds()))
        keys = select_objects(lab, what, namespace, selector, everything=bare and not selector)
        objects = fetch_objects(lab, keys)
        view = TableContext(lab)
        pages = ["\n".join(_page(view, key, obj)) for key, obj in zip(keys, objects, strict=True)]
    if pages:
        terminal.say("\n\n\n".join(pages))
    else:
        terminal.notice("No resources found")


def _page(view: TableContext, key: ObjectKey, obj: Object) -> Iterator[str]:
    yield _line("Name", name_of(obj))
    if namespace := namespace_of(obj):
        yield _line("Namespace", namespace)
    yield from _map("Labels", labels_of(obj))
    annotations = annotations_of(obj)
    yield from _map("Annotations", {name: value for name, value in annotations.items() if name != LAST_APPLIED})
    yield _line("Created", metadata_of(obj).get("creationTimestamp", ""))
    for owner in owner_references(obj):
        yield _line("Controlled by" if owner.get("controller") else "Owned by", f"{owner['kind']}/{owner['name']}")
    yield from _columns(view, key, obj)
    for part in ("spec", "status"):
        yield from _fields(part, {name: value for name, value in (obj.get(part) or {}).items() if name != "conditions"})
    yield from _conditions(conditions_of(obj))
    if key.kind == "Node":
        yield from _pods(view, key.name)
    yield from _pending(view, key)
    yield from _events(view, key, obj)


def _line(name: str, value: str) -> str:
    return f"{name + ':':<{_WIDTH}} {value}".rstrip()


def _continued(value: str) -> str:
    return f"{'':<{_WIDTH}} {value}"


def _map(name: str, values: Mapping[str, str]) -> Iterator[str]:
    if not values:
        yield _line(name, "<none>")
    for number, (key, value) in enumerate(sorted(values.items())):
        text = " ".join(f"{key}={value}".split())
        yield _continued(text) if number else _line(name, text)


def _columns(view: TableContext, key: ObjectKey, obj: Object) -> Iterator[str]:
    """The columns of the object's table."""
    from kailab.cli.object_tables import column_cell, columns_of

    for column in columns_of(key.kind, wide=True):
        text = " ".join(column_cell(column, view, obj).split())
        if text and column.header not in ("NAME", "AGE"):
            yield _line(_SPELLINGS.get(column.header, column.header.capitalize()), text)


def _fields(name: str, fields: Mapping[str, Any]) -> Iterator[str]:
    from kailab.model.yamltext import write_documents

    if fields:
        yield f"{name.capitalize()}:"
        yield from (
            f"  {line}" for line in write_documents([dict(fields)]).removeprefix("---\n").rstrip("\n").splitlines()
        )


def _conditions(conditions: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    rows = [
        [
            str(condition.get("type", "")),
            str(condition.get("status", "")),
            str(condition.get("reason", "")),
            str(condition.get("message", "")),
        ]
        for condition in conditions
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


def _pending(view: TableContext, key: ObjectKey) -> Iterator[str]:
    """The reason why a PodGroup, or the PodGroup of a pod, is pending."""
    name = f"{key.namespace}/{key.name}"
    group = name
    if key.kind == "Pod":
        row = view.rows.get(name)
        if row is None or row.node or not row.podgroup:
            return
        group = f"{key.namespace}/{row.podgroup}"
    elif key.kind != "PodGroup":
        return
    entry = view.picture.pending.get(group)
    if entry is not None:
        yield _line("Waits", f"{entry.reason}: {' '.join(entry.message.split())}")
        yield _continued(f"`kailab explain {key.kind.lower()} {key.name}` finds what would let it run")


def _events(view: TableContext, key: ObjectKey, obj: Object) -> Iterator[str]:
    from kailab.cli.object_tables import EVENT, column_cell

    columns = [column for column in EVENT if column.header != "OBJECT"]
    uid = uid_of(obj)
    rows = []
    for event in view.lab.cluster.list("Event", key.space):
        involved = involved_of(event)
        if involved.get("uid") == uid or (
            not involved.get("uid") and (involved.get("kind"), involved.get("name")) == (obj.get("kind"), key.name)
        ):
            rows.append([column_cell(column, view, event) for column in columns])
    yield from _table("Events", [column.header for column in columns], rows)


def _table(name: str, headers: Iterable[str], rows: list[list[str]]) -> Iterator[str]:
    if not rows:
        yield _line(name, "<none>")
        return
    yield f"{name}:"
    yield from render_table(list(headers), rows, indent="  ").splitlines()
