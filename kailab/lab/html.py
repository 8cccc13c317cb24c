"""Labs and their parts as HTML tables, for notebooks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kailab.lab.wording import elapsed, gpus
from kailab.model.markup import html_table

if TYPE_CHECKING:
    from kailab.evidence.entries import PodRow
    from kailab.evidence.shares import QueueTreeShares
    from kailab.lab.open_lab import OpenLab


def lab(lab: OpenLab) -> str:
    picture = lab.picture()
    caption = f"Lab: fleet {lab.spec.fleet}, scheduler {lab.scheduler}, {elapsed(picture.now - lab.spec.opened)} after it opened"
    return shares(picture.shares, caption)


def shares(queues: QueueTreeShares, caption: str = "Queues") -> str:
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


def subject(title: str, rows: Iterable[PodRow], queues: QueueTreeShares | None) -> str:
    """The pods of a subject; for a queue, its amounts (``queues``) first."""
    heads = ("pod", "phase", "node", "queue", "GPUs", "why it waits")
    pods = html_table(f"Pods of {title}", heads, map(_pod, rows))
    return pods if queues is None else shares(queues, title) + pods


def _pod(row: PodRow) -> tuple[object, ...]:
    return row.name, row.phase, row.node, row.queue, row.milli_gpus / 1000, row.message
