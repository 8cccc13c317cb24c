"""Labs and their parts as tables for notebooks: HTML, and pods, PodGroups, queues, nodes and evictions as pandas tables.

Pandas is optional (``pip install 'kailab[figures]'``).
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import TYPE_CHECKING, Any

from kailab.engine.snapshot.records import GPU, UNLIMITED
from kailab.errors import InputError
from kailab.evidence.metrics.figures import load_plotting
from kailab.evidence.wording import elapsed, gpus
from kailab.model.markup import html_table

if TYPE_CHECKING:
    from pandas import DataFrame

    from kailab.evidence.entries import PodRow
    from kailab.evidence.shares import QueueTreeShares
    from kailab.lab.open_lab import OpenLab
    from kailab.lab.picture import Picture


TABLES = ("pods", "podgroups", "queues", "nodes", "evictions")

_EVICTED = ["seconds", "pod", "podgroup", "queue", "node", "action", "for_podgroup", "for_queue", "reason"]


def data_frame(picture: Picture, what: str) -> DataFrame:
    """One of ``TABLES``, one row for each object, sorted by name; evictions by time, in seconds since the lab opened. GPUs are numbers:
    infinite if unlimited, NaN for a fair share that nobody computed. Raises InputError."""
    rows = {
        "pods": _pods, "podgroups": _podgroups, "queues": _queues, "nodes": _nodes, "evictions": _evictions
    }.get(what)  # fmt: skip
    if rows is None:
        raise InputError(f"there is no table {what!r}; expected {', '.join(TABLES)}")
    columns = _EVICTED if what == "evictions" else None  # columns for an empty table
    return load_plotting("pandas").DataFrame(rows(picture), columns=columns)


def _pods(picture: Picture) -> list[dict[str, Any]]:
    return [
        {
            "pod": row.name, "phase": row.phase, "node": row.node, "queue": row.queue, "podgroup": row.podgroup,
            "owner": row.owner, "gpus": row.milli_gpus / GPU, "holds": row.holds, "why": row.message,
        }
        for row in sorted(picture.rows, key=lambda row: row.name)
    ]  # fmt: skip


def _podgroups(picture: Picture) -> list[dict[str, Any]]:
    return [
        {
            "podgroup": name, "queue": rows[0].queue, "owner": rows[0].owner, "pods": len(rows),
            "running": sum(row.phase == "Running" for row in rows), "pending": sum(row.phase == "Pending" for row in rows),
            "gpus": sum(row.milli_gpus for row in rows) / GPU,
            "holds": sum(row.milli_gpus for row in rows if row.holds) / GPU,
            "why": next((row.message for row in rows if row.message), ""),
        }
        for name, rows in sorted(picture.by_group.items())
    ]  # fmt: skip


def _evictions(picture: Picture) -> list[dict[str, Any]]:
    return [
        dict(zip(_EVICTED, (
            eviction.t, eviction.pod, eviction.podgroup, eviction.queue, eviction.node, eviction.action, eviction.beneficiary, eviction.beneficiary_queue, eviction.reason,
        ), strict=True))
        for eviction in picture.log.evictions
    ]  # fmt: skip


def _queues(picture: Picture) -> list[dict[str, Any]]:
    return [
        {
            "queue": queue.name, "parent": queue.parent, "quota": _amount(queue.quota), "limit": _amount(queue.limit),
            "fair_share": None if queue.fair_share is None else _amount(queue.fair_share), "holds": queue.allocated / GPU,
            "borrows": queue.borrowed / GPU, "waits_for": queue.waiting / GPU,
        }
        for _, queue in sorted(picture.shares.queues.items())
    ]  # fmt: skip


def _nodes(picture: Picture) -> list[dict[str, Any]]:
    return [
        {"node": name, "gpus": picture.accounts.offered(node) / GPU, "used": picture.used.get(name, 0) / GPU}
        for name, node in sorted(picture.nodes.items())
    ]


def _amount(milli: float) -> float:
    return inf if milli == UNLIMITED else milli / GPU


def lab_as_html(lab: OpenLab) -> str:
    picture = lab.picture()
    caption = f"Lab: fleet {lab.spec.fleet}, scheduler {lab.scheduler}, {elapsed(picture.now - lab.spec.opened)} after it opened"
    return shares_as_html(picture.shares, caption)


def shares_as_html(queues: QueueTreeShares, caption: str = "Queues") -> str:
    heads = ("queue", "parent", "quota", "limit", "fair share", "holds", "borrows", "waits for")
    rows = (
        (
            queue.name, queue.parent, gpus(queue.quota), gpus(queue.limit),
            "" if queue.fair_share is None else gpus(queue.fair_share), gpus(queue.allocated), gpus(queue.borrowed),
            gpus(queue.waiting),
        )
        for _, queue in sorted(queues.queues.items())
    )  # fmt: skip
    return html_table(caption, heads, rows)


def subject_as_html(title: str, rows: Iterable[PodRow], queues: QueueTreeShares | None) -> str:
    """The pods of a subject; for a queue, its amounts (``queues``) first."""
    heads = ("pod", "phase", "node", "queue", "GPUs", "why it waits")
    pods = html_table(f"Pods of {title}", heads, map(_pod, rows))
    return pods if queues is None else shares_as_html(queues, title) + pods


def _pod(row: PodRow) -> tuple[object, ...]:
    return row.name, row.phase, row.node, row.queue, row.milli_gpus / 1000, row.message
