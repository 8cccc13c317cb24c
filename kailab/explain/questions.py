"""The answer to "why" about one subject: its verdict, what keeps it from running, and what would let it run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from kailab.explain.answer import LAST, Answer, Cause, Code, Group, Verdict
from kailab.explain.details import detail_lines, facts, head, said, told_lines
from kailab.explain.evictions import causes_of_running, evicted, has_failed, running_lines
from kailab.explain.queues import explain_queue
from kailab.explain.subject import Standing, Subject

# What runs is explained without the engine: what finds causes is imported where something waits.
if TYPE_CHECKING:
    from kailab.explain.answer import Step
    from kailab.explain.grouping import Settled
    from kailab.lab.lab import Lab
    from kailab.lab.picture import Picture


def ask(
    lab: Lab,
    kind: str,
    name: str,
    namespace: str = "default",
    *,
    tried: bool = True,
    everything: bool = False,
    picture: Picture | None = None,
) -> Answer:
    """``kind``: a kind key. ``tried``: with steps, each tried on a fork; ``everything``: in a large lab, too, more than one.
    ``picture``: of the lab, where there is one already. Raises NotFound, and InputError for a kind that can't be explained."""
    subject = Subject.of(lab, kind, name, namespace)
    return answered(subject.standing(lab, picture), tried=tried, everything=everything)


def answered(standing: Standing, *, tried: bool = True, everything: bool = False) -> Answer:
    """See ``ask``."""
    verdict: Verdict | None
    groups: list[Group] = []
    steps: tuple[Step, ...] = ()
    if not standing.picture.scheduler.knows_queues:
        verdict, causes = _as_observed(standing)
    elif standing.failure and not standing.pods:
        verdict, causes = Verdict.FAILED, (has_failed(standing),)
    elif standing.runs or standing.ended:
        verdict, causes = Verdict.RUNNING, causes_of_running(standing)
    else:
        verdict, causes, groups = _what_waits(standing)
        if tried:
            from kailab.explain.steps.search import steps_for

            steps = steps_for(standing, causes, verdict is Verdict.NEVER, everything)
    return _composed(standing, verdict, causes, groups, steps)


def _as_observed(standing: Standing) -> tuple[Verdict | None, tuple[Cause, ...]]:
    """Under a scheduler that knows no queues: what the cluster itself says is told, and nothing is tried."""
    if standing.runs or (standing.running and not standing.waiting):
        return Verdict.RUNNING, ()
    return None, ()


def _what_waits(standing: Standing) -> tuple[Verdict | None, tuple[Cause, ...], list[Group]]:
    from kailab.explain.grouping import first_causes, waiting_groups
    from kailab.explain.verdict import verdict_of

    groups = waiting_groups(standing)
    causes = first_causes(standing, groups)
    verdict = verdict_of(standing, causes[0] if causes else None)
    if verdict is Verdict.NEVER and _may_be_coming(standing, causes):
        from kailab.explain.grouping import once_settled

        if (settled := once_settled(standing)) is not None:
            return *_coming(settled, causes), groups
    if verdict is Verdict.GONE:
        causes = (evicted(standing), *causes)
    elif verdict is Verdict.RUNNING:
        # What there is of it runs: what threatens that comes before what keeps the rest away.
        causes = _least_last((*causes_of_running(standing), *causes))
    elif causes and _is_for_the_emptied(standing, verdict, causes[0]):
        from kailab.explain.grouping import lasting

        runs, then = lasting(standing)
        verdict = Verdict.LATER if runs else Verdict.NEVER
        if not runs:
            told = {cause.sentence for cause in causes}
            then = tuple(one if one.sentence in told else _for_the_emptied(one) for one in then)
            causes = tuple({cause.code: cause for cause in (*then, *causes)}.values())
    if verdict is Verdict.NEVER and standing.subject.kind == "Queue" and _one_runs_later(standing, groups):
        verdict = Verdict.LATER
    return verdict, causes, groups


def _one_runs_later(standing: Standing, groups: Sequence[Group]) -> bool:
    """Whether work that waits in a queue runs once other work has gone, of the same queue, too: all of it together may be too much for
    ever, and none of it waits for ever."""
    from kailab.explain.verdict import verdict_of

    for group in groups:
        if not group.pods:
            continue
        one = Subject.of(standing.lab, "Pod", group.pods[0].partition("/")[2], group.pods[0].partition("/")[0])
        first = group.causes[0] if group.causes else None
        if verdict_of(one.standing(standing.lab, standing.picture), first) is Verdict.LATER:
            return True
    return False


def _may_be_coming(standing: Standing, causes: Sequence[Cause]) -> bool:
    """Whether controllers may have yet to act: pods are missing, or have no PodGroup, and nothing else is known against it."""
    if causes and causes[0].code is not Code.PODS_NOT_CREATED:
        return False
    return not standing.waiting or any(not row.podgroup for row in standing.waiting)


def _coming(then: Settled, causes: tuple[Cause, ...]) -> tuple[Verdict | None, tuple[Cause, ...]]:
    """Of work of which controllers have yet to act: what is so once they have."""
    what = "Its controllers have yet to act: let the lab settle (kailab run --for 1s)"
    if then.runs:
        return Verdict.LATER, tuple(replace(one, sentence=f"{one.sentence} {what}, and it runs.") for one in causes)
    told = tuple(replace(one, sentence=f"{what}. Then: {one.sentence}") for one in then.causes)
    return then.verdict, told or causes


def _is_for_the_emptied(standing: Standing, verdict: Verdict | None, first: Cause) -> bool:
    """Whether the fork without other work is to be asked: more pods than the verdict was told of are to come once these run, or the first
    cause would pass and never lets it run, or would pass once pods of its own have ended."""
    from kailab.explain.grouping import HELD, PASSING

    if verdict is Verdict.LATER:
        return bool(standing.waiting and standing.missing)
    return verdict is Verdict.NEVER and (first.code in PASSING or bool(standing.running and first.code in HELD))


def _for_the_emptied(cause: Cause) -> Cause:
    """What is so where nothing else is: pods may run there that wait now."""
    return replace(cause, sentence=f"With all other work gone: {cause.sentence}")


def _least_last(causes: Sequence[Cause]) -> tuple[Cause, ...]:
    return tuple(sorted(causes, key=lambda cause: cause.code in LAST))


def _composed(
    standing: Standing,
    verdict: Verdict | None,
    causes: Sequence[Cause],
    groups: Sequence[Group],
    steps: tuple[Step, ...],
) -> Answer:
    subject = standing.subject
    first, told, details, data = head(standing), [*told_lines(standing)], [*detail_lines(standing)], facts(standing)
    if causes and standing.waiting:
        from kailab.explain.details import model_lines

        told += model_lines(standing)
    if causes and standing.waiting and not standing.picture.scheduler.reports_shares:
        told.append(f"Tried with kailab's scheduler, not with {standing.picture.scheduler.title}.")
    if subject.kind == "Queue":
        queue = explain_queue(standing.picture, subject.name)
        first, told = queue.lines[0], [*queue.lines[1:], *told]
        details, data = [*queue.more, *details], {**queue.data, **data}
    elif verdict is Verdict.RUNNING:
        told += running_lines(standing)
    return Answer(
        kind=subject.kind,
        namespace=subject.namespace,
        name=subject.name,
        verdict=verdict,
        cause=causes[0] if causes else None,
        more=tuple(causes[1:]),
        steps=steps,
        groups=tuple(group for group in groups if group.pods),
        running=len(standing.running),
        wanted=standing.wanted,
        head=first,
        said=said(standing),
        told=tuple(told),
        details=tuple(details),
        facts=data,
    )
