"""A small fill beside its ceiling: the bare client sends the PodGroups that the scheduler does, and as many bindings."""

from __future__ import annotations

import pytest

from benchmarks.lab_runs.livefill import live_fill
from kailab.cluster.protocol import Object
from kailab.lab.venues.plane import PlaneVenue

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("components")]
PODS = 12
NEEDED = ("post pods", "post podgroups", "post pods/binding")


def without_uid(group: Object) -> dict[str, object]:
    metadata = group["metadata"]
    uid = metadata["ownerReferences"][0]["uid"]
    notes = {key: value.replace(uid, "UID") for key, value in metadata["annotations"].items() if "timestamp" not in key}
    owners = [{**one, "uid": "UID"} for one in metadata["ownerReferences"]]
    return {
        "name": metadata["name"].replace(uid, "UID"),
        "labels": metadata["labels"],
        "annotations": notes,
        "owners": owners,
        "spec": group["spec"],
    }


def test_the_ceiling_is_of_the_same_writes(monkeypatch):
    left: list[list[dict[str, object]]] = []
    clear = PlaneVenue.clear

    def cleared(venue: PlaneVenue) -> None:
        if groups := venue.cluster.list("PodGroup"):
            left.append([without_uid(group) for group in groups])
        clear(venue)

    monkeypatch.setattr(PlaneVenue, "clear", cleared)
    outcome = live_fill("lesson", PODS)
    assert [one.name for one in outcome.rounds] == ["ceiling", "kailab", "ceiling"]
    for one in outcome.rounds:
        assert {name: one.writes.get(name) for name in NEEDED} == dict.fromkeys(NEEDED, PODS)
    # The first of the ceilings is there to warm the server up.
    assert [len(groups) for groups in left] == [PODS] * 4
    _, before, kailab, after = left
    assert before == after == kailab
