"""A lab's pods, queues and nodes as tables of pandas, which is optional (``pip install 'kailab[figures]'``)."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

from kailab.engine.snapshot.records import GPU, UNLIMITED
from kailab.errors import InputError
from kailab.evidence.metrics.figures import load

if TYPE_CHECKING:
    from pandas import DataFrame

    from kailab.lab.picture import Picture

TABLES = ("pods", "queues", "nodes")


def table(picture: Picture, what: str) -> DataFrame:
    """One of ``TABLES``, a row each, in order of names. GPUs are numbers: an unlimited amount is infinite, a fair share that nobody
    worked out is NaN. Raises InputError."""
    rows = {"pods": _pods, "queues": _queues, "nodes": _nodes}.get(what)
    if rows is None:
        raise InputError(f"there is no table {what!r}; expected {', '.join(TABLES)}")
    found: DataFrame = load("pandas").DataFrame(rows(picture))
    return found


def _pods(picture: Picture) -> list[dict[str, Any]]:
    return [
        {
            "pod": row.name, "phase": row.phase, "node": row.node, "queue": row.queue, "podgroup": row.podgroup,
            "owner": row.owner, "gpus": row.milli_gpus / GPU, "holds": row.holds, "why": row.message,
        }
        for row in sorted(picture.rows, key=lambda row: row.name)
    ]  # fmt: skip


def _queues(picture: Picture) -> list[dict[str, Any]]:
    return [
        {
            "queue": one.name, "parent": one.parent, "quota": _amount(one.quota), "limit": _amount(one.limit),
            "fair_share": None if one.fair_share is None else _amount(one.fair_share), "holds": one.allocated / GPU,
            "borrows": one.borrowed / GPU, "waits_for": one.waiting / GPU,
        }
        for _, one in sorted(picture.shares.queues.items())
    ]  # fmt: skip


def _nodes(picture: Picture) -> list[dict[str, Any]]:
    return [
        {"node": name, "gpus": picture.accounts.offered(node) / GPU, "used": picture.used.get(name, 0) / GPU}
        for name, node in sorted(picture.nodes.items())
    ]


def _amount(milli: float) -> float:
    return inf if milli == UNLIMITED else milli / GPU
