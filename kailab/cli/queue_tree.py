"""Queues as a tree: who holds what, who borrows, who waits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kailab.cli.columns import View, gpus
from kailab.evidence.shares import QueueStanding

Object = dict[str, Any]
HEADERS = ["NAME", "QUOTA", "LIMIT", "FAIR-SHARE", "ALLOCATED", "BORROWED", "WAITING", "STANDS"]


def tree(view: View, queues: Sequence[Object]) -> list[list[str]]:
    """Rows, each queue below its parent. GPUs; those of a parent are those of the queues below it."""
    names = {queue["metadata"]["name"] for queue in queues}
    below: dict[str, list[str]] = {}
    for name in sorted(names):
        parent = view.standing(name).parent
        # Where only some are asked for, a queue whose parent is not among them stands at the top.
        below.setdefault(parent if parent in names else "", []).append(name)
    return [_row(drawn, view.standing(name)) for drawn, name in _drawn(below, "", "")]


def _drawn(below: dict[str, list[str]], parent: str, stem: str) -> Iterator[tuple[str, str]]:
    """(what stands before the name with the name, the name)."""
    children = below.get(parent, [])
    for number, name in enumerate(children):
        last = number == len(children) - 1
        if not parent:
            yield name, name
            yield from _drawn(below, name, "")
        else:
            yield f"{stem}{'└─ ' if last else '├─ '}{name}", name
            yield from _drawn(below, name, stem + ("   " if last else "│  "))


def _row(drawn: str, queue: QueueStanding) -> list[str]:
    fair = "" if queue.fair_share is None else gpus(queue.fair_share)
    return [
        drawn,
        gpus(queue.quota),
        gpus(queue.limit),
        fair,
        gpus(queue.allocated),
        gpus(queue.borrowed) if queue.borrowed else "",
        gpus(queue.waiting) if queue.waiting else "",
        _stands(queue),
    ]


def _stands(queue: QueueStanding) -> str:
    """In a word. Starving: it waits and holds less than its fair share."""
    if queue.starving:
        return "starving"
    if queue.borrowed:
        return "borrowing"
    return "waiting" if queue.waiting else ""
