"""Waiting pods grouped by their causes: replicas of one Deployment wait for the same causes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence

from kailab.explain.cause_kinds import CAUSE_KINDS, find_causes, find_causes_on_empty_cluster
from kailab.explain.causes.queue_limits import PodsTogether
from kailab.explain.causes.waiting_group import WaitingPodGroup, waiting_podgroups, waiting_siblings
from kailab.explain.subject import PodsAtMoment
from kailab.lab.answer import Cause, CauseCode, CauseGroup
from kailab.lab.picture import group_of

MOST_UNLIKE_GROUPS = 12
"""Unlike PodGroups for which causes are looked for at most; those served first are taken."""


def waiting_groups(state: PodsAtMoment) -> list[CauseGroup]:
    """The waiting pods of a subject, by their causes; if none waits, one group without pods."""
    groups: dict[tuple[str, ...], CauseGroup] = {}
    alike: dict[Hashable, tuple[Cause, ...]] = {}
    for group in waiting_podgroups(state):
        # Finding causes takes many small cycles, so PodGroups that are alike share them.
        key = likeness(group)
        if key not in alike:
            if len(alike) >= MOST_UNLIKE_GROUPS:
                continue
            alike[key] = _causes_of_first(group, key)
        causes = alike[key]
        # Grouped by sentences, as PodGroups that are unlike may have the same causes.
        sentences = tuple(cause.sentence for cause in causes)
        before = groups[sentences].pods if sentences in groups else ()
        groups[sentences] = CauseGroup((*before, *(row.name for row in group.pods)), causes)
    if groups:
        return list(groups.values())
    subject = state.subject
    name = f"{subject.namespace}/{subject.name}" if subject.kind == "PodGroup" else ""
    return [CauseGroup((), find_causes(WaitingPodGroup(state, name, ())))]


def _causes_of_first(group: WaitingPodGroup, key: Hashable) -> tuple[Cause, ...]:
    """The causes of the first PodGroup of its workload that is like it. It has the same causes if only this one, or a pod of it, is asked
    about. If the first one waits for nothing, the others have causes of their own."""
    if group.pods and group.subject.kind in ("Pod", "PodGroup"):
        first = next((one for one in waiting_siblings(group) if one.name == group.name or likeness(one) == key), group)
        if first.name != group.name and (causes := find_causes(first)):
            return causes
    return find_causes(group)


def causes_on_empty_cluster(state: PodsAtMoment) -> tuple[Cause, ...]:
    """The causes that would keep the subject's first waiting PodGroup off an empty cluster too."""
    first = next(iter(waiting_podgroups(state)), None)
    return () if first is None else find_causes_on_empty_cluster(first)


def causes_now(state: PodsAtMoment) -> tuple[Cause, ...]:
    """The causes of a subject, the first cause first; empty if it runs."""
    return () if state.runs else first_causes(state, waiting_groups(state))


def first_causes(state: PodsAtMoment, groups: Sequence[CauseGroup]) -> tuple[Cause, ...]:
    """All causes, each once. The first is the cause of the largest number of pods. General causes, and causes that only name other
    pods of the same workload, come later."""
    order = sorted(
        (group for group in groups if group.causes),
        key=lambda group: (
            _behind_itself(state, group.causes[0]),
            CAUSE_KINDS[group.causes[0].code].is_general,
            -len(group.pods),
        ),
    )
    firsts = [group.causes[0] for group in order]
    others = [cause for group in order for cause in group.causes[1:]]
    return tuple({cause.sentence: cause for cause in (*firsts, *others)}.values())


def _behind_itself(state: PodsAtMoment, cause: Cause) -> bool:
    if cause.code != CauseCode.BEHIND_OTHERS or state.subject.kind == "Queue":
        return False
    ahead = {f"{ref.namespace}/{ref.name}" for ref in cause.objects if ref.kind == "PodGroup"}
    return bool(ahead) and ahead <= {group_of(row) for row in state.pods}


def likeness(group: WaitingPodGroup) -> Hashable:
    """A key that is equal for PodGroups with the same causes, such as replicas of one Deployment."""
    record = group.record
    if record is None:
        return (group.name, tuple(row.name for row in group.pods))
    return (
        record.namespace, record.queue, record.priority, record.preemptible, record.root, record.preemption_delay,
        _pods_alike(group), group.entry.reason if group.entry else "", _nodes_of_workload(group),
    )  # fmt: skip


def _nodes_of_workload(group: WaitingPodGroup) -> Hashable:
    """Where pods of its workload are, which may fill these nodes. The groups of one workload have this in common."""
    if group.subject.kind != "Queue":
        return ()
    rows = group.state.workload_pods(group.pods[0]) if group.pods else ()
    return frozenset(Counter(row.node for row in rows if row.node).items())


def _pods_alike(group: WaitingPodGroup) -> Hashable:
    """How many of its pods are in which state. Pods beyond a minimum that runs are placed one by one, so there it matters only whether
    there are several."""
    together = max(0, PodsTogether.of(group).together)
    counts = Counter((task.status, task.subgroup, task.shape) for task in group.tasks)
    return together, frozenset((kind, number if together > 0 else min(number, 2)) for kind, number in counts.items())
