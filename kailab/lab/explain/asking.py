"""The answer to "why" about one subject: its verdict, what keeps it from running, and what would let it run."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

from kailab.lab.explain.answer import Answer, Group, Verdict
from kailab.lab.explain.cause import LAST, Cause
from kailab.lab.explain.causes import causes_of
from kailab.lab.explain.causes.case import Case, cases
from kailab.lab.explain.gone import evicted
from kailab.lab.explain.steps import steps_for
from kailab.lab.explain.subject import Standing, Subject
from kailab.lab.explain.verdict import verdict_of

if TYPE_CHECKING:
    from kailab.lab.lab import Lab

MOST_CASES = 12
"""PodGroups that wait and are unlike each other, of which causes are looked for: those that are served first."""


def ask(lab: Lab, kind: str, name: str, namespace: str = "default") -> Answer:
    """``kind``: a kind key. Raises NotFound, and InputError for a kind that can't be explained."""
    subject = Subject.of(lab, kind, name, namespace)
    standing = subject.standing(lab)
    groups = [] if standing.runs else waiting_groups(standing)
    causes = first_causes(groups)
    verdict = verdict_of(standing, causes[0] if causes else None)
    if verdict is Verdict.GONE:
        causes = (evicted(standing.evictions), *causes)
    return Answer(
        kind=subject.kind,
        namespace=subject.namespace,
        name=subject.name,
        verdict=verdict,
        cause=causes[0] if causes else None,
        more=causes[1:],
        steps=() if standing.runs else steps_for(standing, verdict, causes, groups),
        groups=tuple(groups) if standing.waiting else (),
        running=len(standing.running),
        wanted=standing.wanted,
    )


def waiting_groups(standing: Standing) -> list[Group]:
    """Pods that wait, by their causes; where pods are missing, a group of none with the causes of that."""
    found: dict[tuple[str, ...], Group] = {}
    alike: dict[Hashable, tuple[Cause, ...]] = {}
    for case in cases(standing):
        key = likeness(case)
        if key not in alike:
            if len(alike) >= MOST_CASES:
                continue
            alike[key] = causes_of(case)
        causes = alike[key]
        told = tuple(cause.sentence for cause in causes)
        before = found[told].pods if told in found else ()
        found[told] = Group((*before, *(row.name for row in case.pods)), causes)
    return list(found.values()) or [Group((), causes_of(Case(standing, "", ())))]


def first_causes(groups: Sequence[Group]) -> tuple[Cause, ...]:
    """All causes once: first the one of most pods, unless it says least."""
    order = sorted(
        (group for group in groups if group.causes),
        key=lambda group: (group.causes[0].code in LAST, -len(group.pods)),
    )
    firsts = [group.causes[0] for group in order]
    rest = [cause for group in order for cause in group.causes[1:]]
    return tuple({cause.sentence: cause for cause in (*firsts, *rest)}.values())


def likeness(case: Case) -> Hashable:
    """Equal for PodGroups that wait for the same causes: replicas of one Deployment."""
    record = case.record
    if record is None:
        return (case.group, tuple(row.name for row in case.pods))
    shapes = tuple(sorted(id(task.shape) for task in case.tasks))
    return (
        record.namespace, record.queue, record.priority, record.preemptible, record.root, record.preemption_delay,
        tuple(task.status for task in case.tasks), shapes, case.entry.reason if case.entry else "",
    )  # fmt: skip
