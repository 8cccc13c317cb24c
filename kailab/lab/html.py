"""What a notebook shows of labs, queues and what-if comparisons."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kailab.lab.wording import elapsed, gpus
from kailab.model.markup import html_table

if TYPE_CHECKING:
    from kailab.evidence.entries import PodRow
    from kailab.evidence.shares import QueueTreeShares
    from kailab.lab.queries import LabQueries
    from kailab.lab.subjects import Subject
    from kailab.whatif.comparison import Comparison
    from kailab.whatif.trial import WhatIf


def lab(one: LabQueries) -> str:
    picture = one.picture()
    caption = f"Lab: fleet {one.spec.fleet}, scheduler {one.scheduler}, {elapsed(picture.now - one.spec.opened)} after it opened"
    return shares(picture.shares, caption)


def shares(told: QueueTreeShares, caption: str = "Queues") -> str:
    heads = ("queue", "parent", "quota", "limit", "fair share", "holds", "borrows", "waits for")
    rows = (
        (
            queue.name, queue.parent, gpus(queue.quota), gpus(queue.limit),
            "" if queue.fair_share is None else gpus(queue.fair_share), gpus(queue.allocated), gpus(queue.borrowed),
            gpus(queue.waiting),
        )
        for _, queue in sorted(told.queues.items())
    )  # fmt: skip
    return html_table(caption, heads, rows)


def subject(one: Subject) -> str:
    """Of a queue where it stands, then its pods."""
    picture = one.lab.picture()
    one.look_up(picture)
    pods = html_table(
        f"Pods of {one.title}", ("pod", "phase", "node", "queue", "GPUs", "why it waits"), map(_pod, one.pods(picture))
    )
    if one.kind != "queue" or one.name not in picture.shares:
        return pods
    standing = {one.name: picture.shares[one.name]}
    return shares(type(picture.shares)(standing), one.title) + pods


def _pod(row: PodRow) -> tuple[object, ...]:
    return row.name, row.phase, row.node, row.queue, row.milli_gpus / 1000, row.message


def comparison(one: Comparison, caption: str = "What changes") -> str:
    rows = (
        (
            str(change.workload), change.queue, ", ".join(change.what),
            change.before.running if change.before else "", change.after.running if change.after else "",
            len(change.evicted),
        )
        for change in one.workloads
    )  # fmt: skip
    heads = ("workload", "queue", "what", "ran", "runs", "evicted")
    return html_table(f"{caption}: {one.summary()}", heads, rows)


def what_if(one: WhatIf) -> str:
    pairs = zip(one.alternatives, one.comparisons, strict=True)
    return "".join(comparison(compared, alternative.title) for alternative, compared in pairs)
