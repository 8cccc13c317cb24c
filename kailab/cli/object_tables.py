"""Tables of objects of one kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from kailab.cli.columns import NONE, View, cell, columns_of
from kailab.cli.naming import full_name
from kailab.model.kinds import is_namespaced

Object = dict[str, Any]


class Shown(NamedTuple):
    """What tables show beside the columns that a kind always has. ``labels``: a column for each; ``all_labels``: one for all."""

    wide: bool = False
    namespaces: bool = False
    labels: tuple[str, ...] = ()
    all_labels: bool = False
    no_headers: bool = False


def table(
    view: View, kind: str, objects: Sequence[Object], shown: Shown, several: bool = False
) -> tuple[list[str], list[list[str]]]:
    """Headers and rows. ``several``: tables of other kinds stand beside it, so that names are told with their kind."""
    columns = columns_of(kind, shown.wide)
    headers = [column.header for column in columns]
    rows = [[cell(column, view, obj) for column in columns] for obj in objects]
    if several and "NAME" in headers:
        at = headers.index("NAME")
        for row in rows:
            row[at] = full_name(kind, row[at])
    labels = [obj["metadata"].get("labels") or {} for obj in objects]
    for label in shown.labels:
        headers.append(label.rpartition("/")[2].upper())
        for row, own in zip(rows, labels, strict=True):
            row.append(own.get(label, ""))
    if shown.all_labels:
        headers.append("LABELS")
        for row, own in zip(rows, labels, strict=True):
            row.append(",".join(f"{key}={value}" for key, value in sorted(own.items())) or NONE)
    if shown.namespaces and is_namespaced(kind):
        headers = ["NAMESPACE", *headers]
        rows = [[obj["metadata"].get("namespace", ""), *row] for obj, row in zip(objects, rows, strict=True)]
    return headers, rows
