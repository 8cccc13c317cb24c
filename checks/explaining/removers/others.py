"""Other work, taken away."""

from __future__ import annotations

from collections.abc import Iterator

from checks.explaining.place import Place
from checks.explaining.situation import Step
from checks.explaining.subject import others, waiting


def without_others(place: Place) -> Iterator[Step]:
    for one in others(place.situation, place.lab, place.work):
        yield {"delete": {"kind": one.kind, "name": one.name}}


def nobody_else_waits(place: Place) -> Iterator[Step]:
    """What others run stays: its going would make room."""
    for one in waiting(place.situation, place.lab):
        if one == place.work:
            continue
        running = one.running(place.lab)
        if not running:
            yield {"delete": {"kind": one.kind, "name": one.name}}
        elif one.kind == "PodGroup":
            for pod in one.pods(place.lab):
                if not pod["spec"].get("nodeName"):
                    yield {"delete": {"kind": "Pod", "name": pod["metadata"]["name"]}}
        else:
            fewer = {"spec": {one.field: running}}
            yield {"patch": {"kind": one.kind, "name": one.name, "patch": fewer}}
