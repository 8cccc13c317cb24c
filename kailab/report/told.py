"""What a page is told of one lab: from the folder of its evidence, or from what would be written there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from kailab.evidence.entries import LabFacts
from kailab.evidence.history import History
from kailab.evidence.scrubbing import Scrubber
from kailab.evidence.store import TestEvidence
from kailab.evidence.workloads import Workloads
from kailab.report.racks import Looks, Racks

_LOOKS: tuple[Literal["before", "after"], ...] = ("before", "after")


class Told(NamedTuple):
    """``states``: the names of the history's, in their order; ``events``: the object of each; ``order``: the kind of each line of the
    timeline, and its time. ``workloads``: of PodGroups. Of a lab that was told of before ``events_gone``: how many events, the oldest,
    are there no more. ``text`` cuts what waited at the end, where that was not done."""

    name: str
    facts: LabFacts
    history: History
    states: Sequence[str]
    events: Sequence[str]
    order: Sequence[tuple[str, float]]
    racks: Racks
    workloads: Workloads
    events_gone: int = 0
    text: Scrubber | None = None


def of_test(test: TestEvidence, lab: str) -> Told:
    """Raises EvidenceError."""
    folder = test.path / lab
    fleet = test.text(lab, "fleet.yaml") if (folder / "fleet.yaml").exists() else ""
    looks: list[Looks] = [
        {
            kind: test.objects(lab, look, kind)
            for kind in ("nodes", "topologies")
            if (folder / look / f"{kind}.json").exists()
        }
        for look in _LOOKS
    ]
    history = History.of_test(test, lab)
    return Told(
        name=lab,
        facts=test.labs[lab],
        history=history,
        states=list(test.states(lab)),
        events=[event.object for event in test.events(lab)],
        order=[(one.kind, one.t) for one in test.timeline(lab)],
        racks=Racks.of_looks(fleet, looks),
        workloads=history.workloads,
    )
