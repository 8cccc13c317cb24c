"""The answer about work that waits: its verdict, the causes of each of its groups, and steps that were tried on forks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from kailab.evidence.wording import some
from kailab.explain.cause_groups import first_causes, waiting_groups
from kailab.explain.cause_kinds import CAUSE_KINDS, Ending, general_last
from kailab.explain.evictions import eviction_cause, running_causes
from kailab.explain.forecast import forecast, number_of_known_ends
from kailab.explain.kai_faults import kai_fault_lines
from kailab.explain.model_shortages import shortage_lines, shortages_of_subject
from kailab.explain.step_budget import StepBudget
from kailab.explain.step_search import search_steps
from kailab.explain.subject import PodsAtMoment, SubjectRef
from kailab.explain.verdict import (
    TO_BE_CREATED,
    SettledState,
    could_run,
    ending_pods,
    run_without_others,
    settle_on_fork,
    verdict_of,
)
from kailab.lab.answer import Cause, CauseCode, CauseGroup, Forecast, Step, Verdict
from kailab.lab.owners import work_title
from kailab.lab.picture import group_of


class PendingCauses(NamedTuple):
    """``lines``: beyond the causes."""

    verdict: Verdict | None
    causes: tuple[Cause, ...]
    groups: list[CauseGroup]
    lines: tuple[str, ...]


def pending_causes(state: PodsAtMoment) -> PendingCauses:
    """The answer without steps. See ``questions.ask``."""
    groups = waiting_groups(state)
    verdicts: dict[str, Verdict | None] = {}
    verdict, causes = _verdict_and_causes(state, groups, verdicts)
    if state.subject.kind == "Queue":
        groups = _with_workloads(state, groups, verdicts)
        causes = _naming_workloads(causes, groups)
    lines: tuple[str, ...] = ()
    if causes and state.waiting:
        lines = (*_own_end_lines(state, verdict), *_model_lines(state), *kai_fault_lines(state))
    return PendingCauses(verdict, causes, groups, lines)


def _own_end_lines(state: PodsAtMoment, verdict: Verdict | None) -> Iterator[str]:
    """That it is not known when it runs, where pods of its own workload are in its way."""
    if verdict is not Verdict.LATER or state.subject.kind == "Queue":
        return
    ending = ending_pods(state)
    unknown = len(ending) - number_of_known_ends(state.lab, ending)
    if unknown and not could_run(state):
        yield (
            f"It fits once pods of its own workload have ended. It is not known when: {unknown} of {len(ending)} such "
            "pods have no known end (kailab.dev/run-seconds, activeDeadlineSeconds)."
        )


def _model_lines(state: PodsAtMoment) -> Iterator[str]:
    # The lines of a queue have its shortages already.
    return iter(()) if state.subject.kind == "Queue" else shortage_lines(shortages_of_subject(state))


def pending_forecast(state: PodsAtMoment, pending: PendingCauses, budget: StepBudget) -> Forecast | None:
    """When it runs if nothing changes; None where the verdict leaves no such time, or nobody in the lab decides it."""
    return forecast(state, budget) if pending.verdict in (Verdict.LATER, Verdict.GONE) else None


def pending_steps(
    state: PodsAtMoment,
    pending: PendingCauses,
    *,
    everything: bool,
    budget: StepBudget,
    known_forecast: Forecast | None = None,
) -> Iterator[Step]:
    """The steps for these causes, one by one as they are found. See ``step_search.search_steps``."""
    return search_steps(state, pending.causes, pending.verdict is Verdict.NEVER, everything, budget, known_forecast)


def _verdict_and_causes(
    state: PodsAtMoment, groups: Sequence[CauseGroup], verdicts: dict[str, Verdict | None]
) -> tuple[Verdict | None, tuple[Cause, ...]]:
    """``verdicts``: gets those of the groups of a queue, by their first pods, where not all of its work together can run later."""
    causes = first_causes(state, groups)
    verdict = verdict_of(state, causes[0] if causes else None)
    # Asked before anything is tried on a fork, which takes seconds in a large lab.
    if verdict is Verdict.NEVER and state.subject.kind == "Queue":
        verdicts |= {group.pods[0]: _group_verdict(state, group) for group in groups if group.pods}
        if Verdict.LATER in verdicts.values():
            return Verdict.LATER, causes
    if (
        verdict is Verdict.NEVER
        and _controllers_may_act(state, causes)
        and (settled := settle_on_fork(state)) is not None
    ):
        return _settled_answer(settled, causes)
    if verdict is Verdict.GONE:
        causes = (eviction_cause(state), *causes)
    elif verdict is Verdict.RUNNING:
        # All pods that exist run: what threatens them comes before what keeps further pods from existing.
        causes = general_last((*running_causes(state), *causes))
    elif causes and _ask_without_others(state, verdict, causes[0]):
        runs, alone = run_without_others(state)
        verdict = Verdict.LATER if runs else Verdict.NEVER
        if not runs:
            # A cause of the present cluster has its present numbers, although its sentence may be the same without other work.
            present = {cause.sentence: cause for cause in causes}
            alone = tuple(present.get(cause.sentence) or _without_others(cause) for cause in alone)
            # Of one code the cause without other work is kept: it is the one that explains ``never``.
            kept: dict[CauseCode, Cause] = {}
            for cause in (*alone, *causes):
                kept.setdefault(cause.code, cause)
            causes = tuple(kept.values())
    return verdict, causes


def _group_verdict(state: PodsAtMoment, group: CauseGroup) -> Verdict | None:
    """The verdict of one group of a queue's waiting work: whether it runs once other work has ended, also work of the same queue. All of the
    queue's work together may never fit, although none of it waits for ever."""
    namespace, _, name = group.pods[0].partition("/")
    pod = SubjectRef.of(state.lab, "Pod", name, namespace).state(state.lab, state.picture)
    return verdict_of(pod, group.causes[0] if group.causes else None)


def _with_workloads(
    state: PodsAtMoment, groups: Sequence[CauseGroup], verdicts: Mapping[str, Verdict | None]
) -> list[CauseGroup]:
    """The groups of a queue with their workloads and their verdicts. ``verdicts``: see ``_verdict_and_causes``."""
    rows = {row.name: row for row in state.waiting}
    found = []
    for group in groups:
        podgroups = dict.fromkeys(group_of(rows[pod]) for pod in group.pods if rows[pod].podgroup)
        titles = dict.fromkeys(work_title(state.picture, podgroup) for podgroup in podgroups)
        own = verdicts.get(group.pods[0]) if group.pods else None
        found.append(replace(group, workloads=tuple(titles), verdict=own))
    return found


def _naming_workloads(causes: Sequence[Cause], groups: Sequence[CauseGroup]) -> tuple[Cause, ...]:
    """The causes of a queue, each with the workloads that it is about, as a sentence about "its 48 pods" does not say whose."""
    named = []
    for cause in causes:
        having = [group for group in groups if any(cause.sentence.endswith(each.sentence) for each in group.causes)]
        titles = dict.fromkeys(title for group in having for title in group.workloads)
        named.append(replace(cause, sentence=f"{some(list(titles))}: {cause.sentence}") if titles else cause)
    return tuple(named)


def _controllers_may_act(state: PodsAtMoment, causes: Sequence[Cause]) -> bool:
    """Whether pods, or their PodGroups, are missing that controllers may still make, and no other cause is known."""
    if causes and causes[0].code is not CauseCode.PODS_NOT_CREATED:
        return False
    return not state.waiting or not all(map(state.picture.is_grouped, state.waiting))


def _settled_answer(settled: SettledState, causes: tuple[Cause, ...]) -> tuple[Verdict | None, tuple[Cause, ...]]:
    """The answer once controllers have acted, with a hint that they have not yet."""
    hint = "Its controllers have yet to act: let the lab settle (kailab run --for 1s)"
    if settled.runs:
        return Verdict.LATER, tuple(
            replace(cause, sentence=f"{cause.sentence} {hint}, and it runs.") for cause in causes
        )
    then = tuple(replace(cause, sentence=f"{hint}. Then: {cause.sentence}") for cause in settled.causes)
    return settled.verdict, then or causes


def _ask_without_others(state: PodsAtMoment, verdict: Verdict | None, first: Cause) -> bool:
    """Whether a fork without other work has to decide.

    It has to where more pods come once these run, which the verdict did not count. And it has to where work never runs although its first
    cause would end by itself, or would end with pods of its own.
    """
    if first.code in TO_BE_CREATED and state.absent and _has_creator(state):
        # Its controller keeps trying: what others use of a ResourceQuota ends with them, but the quota itself may be too small.
        return bool(state.lab.cluster.list("ResourceQuota", state.subject.namespace))
    if verdict is Verdict.LATER:
        return bool(state.waiting and state.missing)
    ending = CAUSE_KINDS[first.code].ending
    ends = ending is Ending.PASSES or (ending is Ending.OWN_PODS and (bool(state.running) or _others_fill_bound(first)))
    return verdict is Verdict.NEVER and ends


def _has_creator(state: PodsAtMoment) -> bool:
    """Whether a controller creates the pods that are absent: not for a PodGroup that somebody applied, nor for the next Jobs of a CronJob."""
    if state.subject.kind == "PodGroup":
        return bool(state.object is not None and state.object["metadata"].get("ownerReferences"))
    return state.subject.kind != "CronJob"


def _others_fill_bound(cause: Cause) -> bool:
    """Whether a queue would take the work but for what it holds now."""
    facts = cause.facts
    bound = facts.get("limit", facts.get("quota"))
    return bound is not None and facts["held"] > 0 and facts["wanted"] <= bound


def _without_others(cause: Cause) -> Cause:
    """Marked as a cause that holds on a cluster without other work, where pods may run that wait now."""
    return replace(cause, sentence=f"Without other work: {cause.sentence}")
