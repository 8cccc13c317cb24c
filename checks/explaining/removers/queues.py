"""Queues that are missing, and amounts of those that are there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from checks.explaining.place import Place, Remover
from checks.explaining.situation import Step
from checks.fuzzing.walk_objects import queue
from kailab.cluster.protocol import Object

_UNBOUNDED = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
_FREE = {"gpu": _UNBOUNDED, "cpu": _UNBOUNDED, "memory": _UNBOUNDED}


def queue_there(place: Place) -> Iterator[Step]:
    yield {"apply": [queue(place.queue or "default-queue", "", -1, -1, 1)]}


def parents_there(place: Place) -> Iterator[Step]:
    top = place.queues[place.line()[-1]]["spec"].get("parentQueue")
    yield {"apply": [queue(top, "", -1, -1, 1)]}


def each(names: Sequence[str], patch: Callable[[Object], Any]) -> Callable[[Place], Iterator[Step]]:
    def steps(place: Place) -> Iterator[Step]:
        for name in names or place.line():
            yield {"patch": {"kind": "Queue", "name": name, "patch": {"spec": patch(place.queues[name]["spec"])}}}

    return steps


def amounts(**fields: int) -> Remover:
    """The same amounts of each resource for its queue and all above."""

    def patch(spec: Object) -> Object:
        return {"resources": dict.fromkeys(spec.get("resources") or {}, fields)}

    return each((), patch)


def missing_amounts(spec: Object) -> Object:
    there = spec.get("resources") or {}
    return {"resources": {name: amount for name, amount in _FREE.items() if name not in there}}


def no_min_runtimes(place: Place) -> Iterator[Step]:
    names = list(place.queues)
    yield from each(names, lambda _: {"reclaimMinRuntime": "0s", "preemptMinRuntime": "0s"})(place)


def others_poor(place: Place) -> Iterator[Step]:
    """No other queue, but those above, has a quota."""
    names = [name for name in place.queues if name not in place.line()]
    if names:
        yield from each(
            names, lambda spec: {"resources": {name: {"quota": 0} for name in spec.get("resources") or {}}}
        )(place)
