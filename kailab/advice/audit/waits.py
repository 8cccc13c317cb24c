"""How long work of each queue has been waiting."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import quantiles

from kailab.advice.audit.finding import QueueWait
from kailab.lab.picture import Picture
from kailab.scheduler.reading.podgroups import LAST_EVICTION
from kailab.scheduler.reading.queues import created, moment


def waits(picture: Picture) -> Iterable[QueueWait]:
    """Queues by their longest wait. A group that was evicted waits since then."""
    queues: dict[str, list[tuple[float, str]]] = {}
    for name, entry in picture.pending.items():
        namespace, _, bare = name.partition("/")
        group = picture.podgroups.get((namespace, bare))
        if group is None:
            continue
        metadata = group["metadata"]
        since = max(created(metadata), moment((metadata.get("annotations") or {}).get(LAST_EVICTION)) or 0.0)
        queues.setdefault(entry.queue, []).append((max(0.0, picture.now - since), name))
    found = [_wait(queue, waiting) for queue, waiting in queues.items()]
    return sorted(found, key=lambda one: (-one.seconds, one.queue))


def _wait(queue: str, waiting: list[tuple[float, str]]) -> QueueWait:
    seconds = sorted(each for each, _ in waiting)
    longest, name = max(waiting, key=lambda one: (one[0], one[1]))
    # Of a single value there are no quantiles: it is all of them.
    spread = quantiles(seconds, n=100, method="inclusive") if len(seconds) > 1 else seconds * 99
    return QueueWait(queue, len(waiting), name, longest, p50=spread[49], p99=spread[98])
