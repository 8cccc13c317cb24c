"""Pods that wait, grouped by why they do: replicas of one Deployment wait for one reason."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from kailab.explain.answer import Cause, CauseCode, CauseGroup
from kailab.explain.cause_kinds import CAUSE_KINDS, find_causes
from kailab.explain.causes.waiting_group import WaitingGroup, waiting_podgroups
from kailab.explain.subject import PodsAtMoment
from kailab.lab.picture import group_of

MOST_UNLIKE_GROUPS = 12
"""PodGroups that wait and are unlike each other, of which causes are looked for: those that are served first."""


def waiting_groups(state: PodsAtMoment) -> list[CauseGroup]:
    """Pods that wait, by their causes; where none waits, a group of none with the causes of that."""
    found: dict[tuple[str, ...], CauseGroup] = {}
    alike: dict[Hashable, tuple[Cause, ...]] = {}
    for group in waiting_podgroups(state):
        # A look for causes takes many small cycles; replicas of one workload share one.
        key = likeness(group)
        if key not in alike:
            if len(alike) >= MOST_UNLIKE_GROUPS:
                continue
            alike[key] = find_causes(group)
        causes = alike[key]
        # By what is told: groups that are unlike may still wait for the same.
        told = tuple(cause.sentence for cause in causes)
        before = found[told].pods if told in found else ()
        found[told] = CauseGroup((*before, *(row.name for row in group.pods)), causes)
    if found:
        return list(found.values())
    subject = state.subject
    name = f"{subject.namespace}/{subject.name}" if subject.kind == "PodGroup" else ""
    return [CauseGroup((), find_causes(WaitingGroup(state, name, ())))]


def causes_now(state: PodsAtMoment) -> tuple[Cause, ...]:
    """What keeps a subject from running, the first cause first."""
    return () if state.runs else first_causes(state, waiting_groups(state))


def first_causes(state: PodsAtMoment, groups: Sequence[CauseGroup]) -> tuple[Cause, ...]:
    """All causes once: first the one of most pods, unless it says least, or no more than that they are behind others of their workload."""
    order = sorted(
        (group for group in groups if group.causes),
        key=lambda group: (
            _behind_itself(state, group.causes[0]),
            CAUSE_KINDS[group.causes[0].code].says_least,
            -len(group.pods),
        ),
    )
    firsts = [group.causes[0] for group in order]
    rest = [cause for group in order for cause in group.causes[1:]]
    return tuple({cause.sentence: cause for cause in (*firsts, *rest)}.values())


def _behind_itself(state: PodsAtMoment, cause: Cause) -> bool:
    if cause.code != CauseCode.BEHIND_OTHERS or state.subject.kind == "Queue":
        return False
    ahead = {f"{one.namespace}/{one.name}" for one in cause.objects if one.kind == "PodGroup"}
    return bool(ahead) and ahead <= {group_of(row) for row in state.pods}


def likeness(group: WaitingGroup) -> Hashable:
    """Equal for PodGroups that wait for the same causes: replicas of one Deployment."""
    record = group.record
    if record is None:
        return (group.name, tuple(row.name for row in group.pods))
    return (
        record.namespace, record.queue, record.priority, record.preemptible, record.root, record.preemption_delay,
        tuple(task.status for task in group.tasks), tuple(task.shape for task in group.tasks),
        group.entry.reason if group.entry else "",
    )  # fmt: skip
