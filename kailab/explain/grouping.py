"""Pods that wait, grouped by why they do: replicas of one Deployment wait for one reason."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from kailab.explain.answer import Group
from kailab.explain.cause import LAST, Cause, Code
from kailab.explain.causes import causes_of
from kailab.explain.causes.case import Case, cases
from kailab.explain.subject import Standing
from kailab.lab.picture import group_of

MOST_CASES = 12
"""PodGroups that wait and are unlike each other, of which causes are looked for: those that are served first."""


def waiting_groups(standing: Standing) -> list[Group]:
    """Pods that wait, by their causes; where none waits, a group of none with the causes of that."""
    found: dict[tuple[str, ...], Group] = {}
    alike: dict[Hashable, tuple[Cause, ...]] = {}
    for case in cases(standing):
        # A look for causes takes many small cycles; replicas of one workload share one.
        key = likeness(case)
        if key not in alike:
            if len(alike) >= MOST_CASES:
                continue
            alike[key] = causes_of(case)
        causes = alike[key]
        # By what is told: groups that are unlike may still wait for the same.
        told = tuple(cause.sentence for cause in causes)
        before = found[told].pods if told in found else ()
        found[told] = Group((*before, *(row.name for row in case.pods)), causes)
    if found:
        return list(found.values())
    subject = standing.subject
    group = f"{subject.namespace}/{subject.name}" if subject.kind == "PodGroup" else ""
    return [Group((), causes_of(Case(standing, group, ())))]


def causes_now(standing: Standing) -> tuple[Cause, ...]:
    """What keeps a subject from running, the first cause first."""
    return () if standing.runs else first_causes(standing, waiting_groups(standing))


def first_causes(standing: Standing, groups: Sequence[Group]) -> tuple[Cause, ...]:
    """All causes once: first the one of most pods, unless it says least, or no more than that they are behind others of their workload."""
    order = sorted(
        (group for group in groups if group.causes),
        key=lambda group: (
            _behind_itself(standing, group.causes[0]),
            group.causes[0].code in LAST,
            -len(group.pods),
        ),
    )
    firsts = [group.causes[0] for group in order]
    rest = [cause for group in order for cause in group.causes[1:]]
    return tuple({cause.sentence: cause for cause in (*firsts, *rest)}.values())


def _behind_itself(standing: Standing, cause: Cause) -> bool:
    if cause.code != Code.BEHIND_OTHERS or standing.subject.kind == "Queue":
        return False
    ahead = {f"{one.namespace}/{one.name}" for one in cause.objects if one.kind == "PodGroup"}
    return bool(ahead) and ahead <= {group_of(row) for row in standing.pods}


def likeness(case: Case) -> Hashable:
    """Equal for PodGroups that wait for the same causes: replicas of one Deployment."""
    record = case.record
    if record is None:
        return (case.group, tuple(row.name for row in case.pods))
    return (
        record.namespace, record.queue, record.priority, record.preemptible, record.root, record.preemption_delay,
        tuple(task.status for task in case.tasks), tuple(task.shape for task in case.tasks),
        case.entry.reason if case.entry else "",
    )  # fmt: skip
