"""The answer to "why" about one subject: its verdict, what keeps it from running, and what would let it run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kailab.explain.details import detail_lines, facts, headline, note_lines, scheduler_reason
from kailab.explain.evictions import failure_cause, running_causes, running_lines
from kailab.explain.queues import explain_queue
from kailab.explain.subject import PodsAtMoment, SubjectRef
from kailab.lab.answer import Answer, Cause, CauseGroup, Step, Verdict

if TYPE_CHECKING:
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
    """Why a pod, a PodGroup, a workload or a queue is as it is.

    ``kind``: a kind key. ``tried``: with steps, each tried on a fork of the lab. ``everything``: with more than one step in a large lab
    too. ``picture``: of the lab, where the caller has one. Raises NotFound, and InputError for a kind that can't be explained.
    """
    state = SubjectRef.of(lab, kind, name, namespace).state(lab, picture)
    verdict: Verdict | None
    causes: tuple[Cause, ...]
    groups: Sequence[CauseGroup] = ()
    steps: tuple[Step, ...] = ()
    lines: Sequence[str] = ()
    if not state.picture.scheduler.knows_queues:
        # Under such a scheduler the answer is what the cluster itself reports, and nothing is tried.
        verdict = Verdict.RUNNING if state.runs or (state.running and not state.waiting) else None
        causes = ()
    elif state.failure and not state.pods:
        verdict, causes = Verdict.FAILED, (failure_cause(state),)
    elif state.runs or state.ended:
        verdict, causes = Verdict.RUNNING, running_causes(state)
    else:
        # Imported here because finders, step families and forks add a quarter to the start-up of an answer about work that runs.
        from kailab.explain.pending_work import explain_pending

        verdict, causes, groups, steps, lines = explain_pending(state, tried=tried, everything=everything)
    return _compose(state, verdict, causes, groups, steps, lines)


def _compose(
    state: PodsAtMoment,
    verdict: Verdict | None,
    causes: Sequence[Cause],
    groups: Sequence[CauseGroup],
    steps: tuple[Step, ...],
    lines: Sequence[str],
) -> Answer:
    subject = state.subject
    first, notes, details, data = headline(state), [*note_lines(state), *lines], [*detail_lines(state)], facts(state)
    if causes and state.waiting and not state.picture.scheduler.reports_shares:
        notes.append(f"Tried with kailab's scheduler, not with {state.picture.scheduler.title}.")
    if subject.kind == "Queue":
        queue = explain_queue(state.picture, subject.name)
        first, notes = queue.lines[0], [*queue.lines[1:], *notes]
        details, data = [*queue.more, *details], {**queue.data, **data}
    elif verdict is Verdict.RUNNING:
        notes += running_lines(state)
    return Answer(
        kind=subject.kind,
        namespace=subject.namespace,
        name=subject.name,
        verdict=verdict,
        cause=causes[0] if causes else None,
        more=tuple(causes[1:]),
        steps=steps,
        groups=tuple(group for group in groups if group.pods),
        running=len(state.running),
        wanted=state.wanted,
        head=first,
        said=scheduler_reason(state),
        told=tuple(notes),
        details=tuple(details),
        facts=data,
    )
