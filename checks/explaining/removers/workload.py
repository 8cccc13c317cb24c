"""The workload itself, changed in its manifests and applied anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from checks.explaining.place import Place, Remover
from checks.explaining.situation import Step
from checks.explaining.troubles import label, note, template_of
from kailab.cluster.protocol import Object
from kailab.model import labels


def written_anew(change: Callable[[Object, Place], None]) -> Remover:
    """The workload deleted and applied as it was, but for a change of each manifest with pods."""

    def steps(place: Place) -> Iterator[Step]:
        made = place.manifests
        yield {"delete": {"kind": place.work.kind, "name": place.work.name}}
        for one in made:
            if one["kind"] == "Pod" and place.work.kind != "Pod":
                yield {"delete": {"kind": "Pod", "name": one["metadata"]["name"]}}
            if one["kind"] != "PodGroup":
                change(one, place)
        yield {"apply": made}

    return steps


def without(*fields: str) -> Remover:
    def change(one: Object, _: Place) -> None:
        for field in fields:
            template_of(one)["spec"].pop(field, None)

    return written_anew(change)


def labelled(key: str, value: Callable[[Place], str | None]) -> Remover:
    return written_anew(lambda one, place: label(one, key, value(place)))


def some_leaf(place: Place) -> str:
    """The leaf below its queue, else any."""
    parents = {name: one["spec"].get("parentQueue") or "" for name, one in place.queues.items()}
    leaves = [name for name in parents if name not in parents.values() and name not in ("bare", "orphan")]
    below = [name for name in leaves if parents[name] == place.queue]
    return (below or leaves)[0]


def smaller_gang(place: Place) -> Iterator[Step]:
    there = max(1, len(place.work.pods(place.lab)))
    if place.work.kind == "PodGroup":
        patch = {"spec": {"minMember": there}}
        yield {"patch": {"kind": "PodGroup", "name": place.work.name, "patch": patch}}
    else:
        yield from written_anew(lambda one, _: note(one, labels.BATCH_MIN_MEMBER, str(there)))(place)


def smaller_share(one: Object, _: Place) -> None:
    for metadata in (one["metadata"], template_of(one)["metadata"]):
        notes = metadata.get("annotations") or {}
        if labels.GPU_MEMORY in notes:
            notes[labels.GPU_MEMORY] = "1000"
        if labels.GPU_FRACTION_DEVICES in notes:
            notes[labels.GPU_FRACTION_DEVICES] = "1"


def not_suspended(place: Place) -> Iterator[Step]:
    yield {"patch": {"kind": place.work.kind, "name": place.work.name, "patch": {"spec": {"suspend": False}}}}


def impatient(one: Object, _: Place) -> None:
    note(one, labels.PREEMPTION_DELAY, "0s")
