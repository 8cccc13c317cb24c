"""What is new of a lab's form: made here, taken in by ``kailab/report/viewer/grown.js``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kailab.report.form import (
    DecisionForm,
    GroupForm,
    Increment,
    LabForm,
    NodeForm,
    PodForm,
    QueueForm,
    SomeGroups,
    SomeMoments,
    SomeNodes,
    SomePods,
    SomeQueues,
    SomeWaits,
)


class Counts(NamedTuple):
    """How many there were before."""

    decisions: int
    evictions: int
    steps: int


def increment(
    form: LabForm,
    before: Counts,
    moments: Iterable[int],
    queues: Iterable[int],
    nodes: Iterable[int],
    groups: Iterable[int],
    waits: Iterable[int],
) -> Increment:
    """Of the form as it is by now, but for pods, events and where raw text is. The others: places of which something was told."""

    def some(places: Iterable[int], count: int) -> list[int]:
        return sorted(place for place in places if place < count)

    at = some(moments, len(form.moments))
    return Increment(
        moments=SomeMoments(count=len(form.moments), places=at, values=[form.moments[place] for place in at]),
        steps=form.steps[before.steps :],
        nodes=_nodes(form.nodes, some(nodes, len(form.nodes.name))),
        queues=_queues(form.queues, some(queues, len(form.queues.name))),
        groups=_groups(form.groups, some(groups, len(form.groups.name))),
        pods=SomePods(count=0, places=[], values=PodForm()),
        waits=_waits(form, some(waits, len(form.waits))),
        decisions=_decisions(form.decisions, before),
        events=[],
        events_gone=0,
        parts=[],
    )


def _nodes(form: NodeForm, places: list[int]) -> SomeNodes:
    values = NodeForm(
        name=[form.name[place] for place in places],
        rack=[form.rack[place] for place in places],
        changes=[form.changes[place] for place in places],
        racks=form.racks,
        by=form.by,
    )
    return SomeNodes(count=len(form.name), places=places, values=values)


def _queues(form: QueueForm, places: list[int]) -> SomeQueues:
    values = QueueForm(name=[form.name[place] for place in places], changes=[form.changes[place] for place in places])
    return SomeQueues(count=len(form.name), places=places, values=values)


def _groups(form: GroupForm, places: list[int]) -> SomeGroups:
    values = GroupForm(
        name=[form.name[place] for place in places],
        queue=[form.queue[place] for place in places],
        workload=[form.workload[place] for place in places],
        members=[form.members[place] for place in places],
        ref=[form.ref[place] for place in places],
        counts=[form.counts[place] for place in places],
    )
    return SomeGroups(count=len(form.name), places=places, values=values)


def _waits(form: LabForm, places: list[int]) -> SomeWaits:
    return SomeWaits(count=len(form.waits), places=places, values=[form.waits[place] for place in places])


def _decisions(form: DecisionForm, before: Counts) -> DecisionForm:
    at = before.decisions
    return DecisionForm(
        kinds=form.kinds,
        actions=form.actions,
        moment=form.moment[at:],
        kind=form.kind[at:],
        action=form.action[at:],
        pod=form.pod[at:],
        group=form.group[at:],
        node=form.node[at:],
        ref0=form.ref0,
        evictions=form.evictions[before.evictions :],
    )
