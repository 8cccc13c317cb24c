"""The answer to "why" about one subject: its verdict, what keeps it from running, and what would let it run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from kailab.explain.details import detail_lines, facts, headline, note_lines, scheduler_reason
from kailab.explain.evictions import failure_cause, running_causes, running_lines
from kailab.explain.queues import explain_queue
from kailab.explain.step_budget import StepBudget
from kailab.explain.subject import PodsAtMoment, SubjectRef
from kailab.lab.answer import Answer, Cause, CauseGroup, Forecast, Verdict
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
    budget: StepBudget | float | None = None,
    safe: bool = False,
    with_forecast: bool = True,
    on_answer: Callable[[Answer], None] = lambda answer: None,
) -> Answer:
    """The whole answer: the last one of ``growing_answer``, which describes the arguments and errors. ``on_answer``: called with each."""
    for answer in growing_answer(
        lab,
        kind,
        name,
        namespace,
        tried=tried,
        everything=everything,
        picture=picture,
        budget=budget,
        safe=safe,
        with_forecast=with_forecast,
    ):
        on_answer(answer)
    return answer


def growing_answer(
    lab: Lab,
    kind: str,
    name: str,
    namespace: str = "default",
    *,
    tried: bool = True,
    everything: bool = False,
    picture: Picture | None = None,
    budget: StepBudget | float | None = None,
    safe: bool = False,
    with_forecast: bool = True,
) -> Iterator[Answer]:
    """Why a pod, a PodGroup, a workload or a queue is as it is: first the answer with its cause, with the time
    when it runs and without steps, then again each time with one more step, at last the whole.

    An answer begins with all steps of the one before it, so a reader may print what is new. The first comes before any step is tried. The
    last says what was not tried (``Answer.incomplete``), or that no step was found.

    ``kind``: a kind key. ``tried``: with steps, each tried on a fork of the lab. ``everything``: with more than one step in a large lab
    too. ``picture``: of the lab, where the caller has one. ``budget``: of the search for steps, or its seconds; None: only the number of
    tries is bounded. ``safe``: of a search that gets no budget, see ``StepBudget``. ``with_forecast``: with steps, also when it
    runs if nothing changes. Raises NotFound, and InputError for a kind that can't be explained.
    """
    state = SubjectRef.of(lab, kind, name, namespace).state(lab, picture)
    if not state.picture.scheduler.knows_queues:
        # Under such a scheduler the answer is what the cluster itself reports, and nothing is tried.
        yield _compose(state, Verdict.RUNNING if state.runs or (state.running and not state.waiting) else None)
    elif state.failure and not state.pods:
        yield _compose(state, Verdict.FAILED, (failure_cause(state),))
    elif state.runs or state.ended:
        yield _compose(state, Verdict.RUNNING, running_causes(state))
    else:
        if not isinstance(budget, StepBudget):
            budget = StepBudget(budget, safe=safe)
        yield from _pending_answers(state, tried, everything, budget, with_forecast)


_NO_STEP = "No step was found: none of the changes that kailab tries lets it run."
_NO_STEP_FOR_ALL = "No step was found that lets all of it run."
_NO_SAFE_STEP = "No safe step was found; without --safe, higher priorities and changes of others' work are tried too."


def _pending_answers(
    state: PodsAtMoment, tried: bool, everything: bool, budget: StepBudget, with_forecast: bool
) -> Iterator[Answer]:
    # Imported here because finders, step families and forks add a quarter to the start-up of an answer about work that runs.
    from kailab.explain.pending_work import pending_causes, pending_forecast, pending_steps

    pending = pending_causes(state)
    answer = _compose(state, pending.verdict, pending.causes, pending.groups, pending.lines)
    if not tried:
        yield answer
        return
    known_forecast: Forecast | None = None
    try:
        if with_forecast:
            known_forecast = pending_forecast(state, pending, budget)
    finally:
        # An interrupted forecast keeps the cause. The verdict of work that can run later is worded after the forecast.
        answer = replace(answer, forecast=known_forecast)
        yield answer
    for step in pending_steps(state, pending, everything=everything, budget=budget, known_forecast=known_forecast):
        answer = replace(answer, steps=(*answer.steps, step))
        yield answer
    if budget.incomplete is not None:
        yield replace(answer, incomplete=budget.incomplete)
    elif not answer.steps:
        yield replace(answer, no_step=_NO_SAFE_STEP if budget.safe else _NO_STEP)
    elif not answer.steps_serve_all:
        yield replace(answer, no_step=_NO_STEP_FOR_ALL)


def _compose(
    state: PodsAtMoment,
    verdict: Verdict | None,
    causes: Sequence[Cause] = (),
    groups: Sequence[CauseGroup] = (),
    lines: Sequence[str] = (),
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
        groups=tuple(group for group in groups if group.pods),
        running=len(state.running),
        wanted=state.wanted,
        head=first,
        scheduler_reason=scheduler_reason(state),
        notes=tuple(notes),
        details=tuple(details),
        facts=data,
    )
