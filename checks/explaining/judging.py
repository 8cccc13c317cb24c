"""Judges an answer by labs: each claim of the answer is carried out on a fork and compared.

- The verdict: a workload with ``never`` runs neither alone nor within a day; one with ``later`` does.
- The first cause: once it is removed in the manifests, the workload runs or another cause keeps it; and with all later
  causes removed, but not the first, it does not run.
- The steps, if they are to be judged: the words of a step are its changes (``step_words``), its outcome is what it tells
  (``step_outcomes``), and the first lets the workload run in a new lab.
- The wording: the sentence of a cause names what it has to (``naming``), and its numbers are those of the objects
  (``sentence_numbers``).
- The other screens say the same (``screens``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from random import Random

from checks.explaining.ground_truth import GroundTruth, runs_alone, without_others
from checks.explaining.misconfigurations import template_of
from checks.explaining.naming import missing_names
from checks.explaining.removal import MORE_ROOM, CauseRemoval, cause_removal
from checks.explaining.screens import Screens
from checks.explaining.sentence_numbers import number_faults
from checks.explaining.situation import Situation, Step, carry_out_steps
from checks.explaining.step_outcomes import outcome_faults
from checks.explaining.step_words import difference
from checks.explaining.workload_context import WorkloadContext
from checks.explaining.workloads import AppliedWorkload, waiting_workloads
from kailab.errors import Forbidden, InputError, KailabError
from kailab.explain.questions import ask
from kailab.lab.answer import Answer, CauseCode, Verdict
from kailab.lab.answer import Step as AnswerStep
from kailab.lab.lab import Lab
from kailab.lab.settle import EndlessMoves

DEEPEST = 6
"""The most causes that are removed one after the other."""


END_WITH_OTHER_WORK = frozenset({
    CauseCode.NOT_ENOUGH_GPUS, CauseCode.NOT_ENOUGH_RESOURCES, CauseCode.NOT_ENOUGH_CPU, CauseCode.NOT_ENOUGH_MEMORY,
    CauseCode.NO_POD_SLOTS, CauseCode.FRAGMENTED, CauseCode.NO_DOMAIN_FREE, CauseCode.FAIR_SHARE_REACHED,
    CauseCode.VICTIMS_PROTECTED, CauseCode.VICTIMS_WITHIN_QUOTA, CauseCode.VICTIMS_NON_PREEMPTIBLE, CauseCode.BEHIND_OTHERS,
})  # fmt: skip
"""Causes that end when other work ends. While other work runs, such a cause can't justify the verdict ``never``. The judge keeps its own list
(``CauseKind.ending`` is what it judges); a cause that ends with time alone is not in it."""


@dataclass(frozen=True)
class JudgedAnswer:
    """An answer about ``work`` and its faults, as pairs of the part and a sentence.

    ``named_next``: whether the answer had named the causes that came up after the first; None if there were none.
    ``steps``: how many steps were checked by the answer, and judged. ``restless``: why the answer cannot be judged: a lab in which it is tried never settles, as a real cluster would
    not; empty if it is judged.
    """

    work: AppliedWorkload
    verdict: str
    code: str
    sentence: str = ""
    faults: tuple[tuple[str, str], ...] = ()
    steps: int = 0
    named_next: bool | None = None
    next_code: str = ""
    restless: str = ""

    @property
    def right(self) -> bool:
        return not self.faults


@dataclass
class _SituationCase:
    truth: GroundTruth
    work: AppliedWorkload
    answer: Answer
    screens: Screens
    faults: list[tuple[str, str]] = field(default_factory=list)

    @property
    def situation(self) -> Situation:
        return self.truth.situation

    @property
    def lab(self) -> Lab:
        return self.truth.lab


def judge_situation(situation: Situation, *, steps: bool = False, most: int | None = None) -> list[JudgedAnswer]:
    """Judge the answers about waiting workloads of a situation. ``steps``: also judge the steps, which costs most.
    ``most``: judge so many at most, drawn by the situation's name. Raises KailabError if the situation cannot be
    carried out.
    """
    with situation.opened() as lab:
        truth = GroundTruth(situation, lab)
        works = waiting_workloads(situation, lab)
        if most is not None and len(works) > most:
            works = Random(situation.name).sample(works, most)
        screens = Screens(lab)
        return [judge_answer(truth, work, steps=steps, screens=screens) for work in works]


def judge_answer(
    truth: GroundTruth, work: AppliedWorkload, *, steps: bool = False, screens: Screens | None = None
) -> JudgedAnswer:
    """See ``judge_situation``. ``screens``: of the truth's lab. A failure of kailab is a fault of its answer."""
    try:
        answer = ask(truth.lab, work.kind, work.name, work.namespace, tried=steps)
        return _judge(_SituationCase(truth, work, answer, screens or Screens(truth.lab)))
    except EndlessMoves as error:
        return JudgedAnswer(work, "", "", restless=str(error))
    except KailabError as error:
        return JudgedAnswer(work, "", "", faults=(("failed", f"{type(error).__name__}: {error}"),))
    except Exception as error:
        place = _place_of(error)
        return JudgedAnswer(work, "", "", faults=(("failed", f"{type(error).__name__}: {error} ({place})"),))


def _place_of(error: Exception) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else f"{trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}"


def _judge(case: _SituationCase) -> JudgedAnswer:
    answer = case.answer
    code = str(answer.cause.code) if answer.cause else ""
    case.faults += _verdict(case)
    case.faults += _steps(case)
    following: list[str] = []
    for cause in (*((answer.cause,) if answer.cause else ()), *answer.more):
        case.faults += [("number", f"{cause.code}: {fault}") for fault in number_faults(case.lab, case.work, cause)]
    case.faults += [("screens", fault) for fault in case.screens.disagreements(case.work, answer)]
    if answer.cause:
        missing = missing_names(WorkloadContext(case.situation, case.lab, case.work), code, answer.cause.sentence)
        case.faults += [("naming", missing)] if missing else []
    if not code:
        case.faults.append(("cause", "no cause is given"))
    elif answer.verdict != Verdict.GONE:
        following = _cause(case, code)
    named = {str(cause.code) for cause in answer.more}
    return JudgedAnswer(
        case.work,
        str(answer.verdict),
        code,
        answer.cause.sentence if answer.cause else "",
        tuple(case.faults),
        sum(step.checked for step in answer.steps),
        following[0] in named if following else None,
        following[0] if following else "",
    )


_OF_OTHERS = re.compile(
    r"(?:^|; then )(?:delete|suspend|scale \S+ \S+ down|set the priority class|raise the priority of|lower the gpu quota)",
    re.I,
)


def _order(steps: Sequence[AnswerStep]) -> Iterator[tuple[str, str]]:
    """Steps that raise a priority or touch the work of others come after all others."""
    touching = [bool(_OF_OTHERS.search(step.do)) for step in steps if step.checked]
    if touching != sorted(touching):
        yield "step", f"it touches the work of others, and a later step does not: {[step.do for step in steps]}"


def _nearest_name(case: _SituationCase) -> Iterator[tuple[str, str]]:
    """A label value that is a part of one that nodes have clearly means that one, also if the work then waits."""
    cause = case.answer.cause
    if (
        cause is None
        or cause.code != CauseCode.SELECTOR_MATCHES_NO_NODE
        or case.answer.incomplete
        or not case.answer.steps
    ):
        return
    pod = template_of(WorkloadContext(case.situation, case.lab, case.work).manifests[-1])
    for key, value in (pod["spec"].get("nodeSelector") or {}).items():
        marks = [node["metadata"].get("labels") or {} for node in case.lab.cluster.list("Node")]
        present: set[str] = {str(own[key]) for own in marks if key in own}
        meant = [name for name in present if value.lower() in name.lower()]
        if value not in present and len(meant) == 1 and meant[0] not in case.answer.steps[0].do:
            yield "step", f"{case.answer.steps[0].do}: {value} means {meant[0]}"


# Verdict


def _verdict(case: _SituationCase) -> Iterator[tuple[str, str]]:
    verdict, work = case.answer.verdict, case.work
    evicted = [eviction for eviction in case.lab.log.evictions if eviction.app == work.name]
    if verdict == Verdict.GONE:
        if not evicted:
            yield "verdict", "gone, and no pod of it was ever evicted"
    elif verdict == Verdict.RUNNING:
        if any(not (pod["spec"].get("nodeName")) for pod in work.pods(case.lab)):
            yield "verdict", "running, and pods of it wait"
    else:
        runs = case.truth.runs_alone_in_fork(work) or case.truth.runs_within_a_day(work)
        if (
            verdict == Verdict.NEVER
            and not runs
            and case.answer.cause
            and case.answer.cause.code in END_WITH_OTHER_WORK
        ):
            yield from _never(case)
        if runs and verdict == Verdict.NEVER:
            yield "verdict", "never, and it runs once the others have gone or a day has passed"
        if not runs and verdict == Verdict.LATER:
            yield "verdict", "later, and it runs neither alone nor within a day"


def _never(case: _SituationCase) -> Iterator[tuple[str, str]]:
    """Work that never runs is explained by what keeps it from running without other work, and not by what others hold."""
    cause = case.answer.cause
    assert cause is not None
    with without_others(case.situation, case.lab, case.work) as alone:
        first = ask(alone, case.work.kind, case.work.name, case.work.namespace, tried=False).cause
    if first is not None and first.sentence not in cause.sentence:
        yield (
            "verdict",
            f"never, and that is explained by what others hold; without them: {first.code}: {first.sentence}",
        )


# Cause


def _cause(case: _SituationCase, code: str) -> list[str]:
    """Adds the faults of the first cause. Returns the codes that came up, one after the other, once it was removed."""
    chain: list[tuple[str, CauseRemoval]] = []
    current, kept_some = code, False
    with ExitStack() as labs:
        lab, situation = case.lab, case.situation
        while len(chain) < DEEPEST:
            removal_of_current = cause_removal(situation, lab, case.work, current)
            if removal_of_current is None:
                return [*(name for name, _ in chain[1:]), *([current] if chain and current else [])]
            chain.append((current, removal_of_current))
            # What the next removal applies is what this one has left of the work.
            situation = situation.with_steps((*situation.steps, *removal_of_current.steps))
            try:
                lab = labs.enter_context(_with_removal(case, lab, [removal for _, removal in chain]))
            except InputError as error:
                if not isinstance(error.__cause__, Forbidden):
                    raise
                break  # a ResourceQuota refuses the changed pod: others have taken what the old one held of it
            if len(chain) == 1:
                kept_some = case.work.running(lab) > case.work.running(case.lab)
            if case.work.runs(lab):
                # The first cause kept some of its pods, even if other causes kept the rest.
                return [name for name, _ in chain[1:]] if kept_some else _needed(case, chain)
            answer = ask(lab, case.work.kind, case.work.name, case.work.namespace, tried=False)
            current = str(answer.cause.code) if answer.cause else ""
            if answer.verdict == Verdict.GONE:  # the answer is about the eviction
                break
            if current in [name for name, _ in chain]:
                repeated = "the same again" if current == chain[-1][0] else f"{current} again"
                case.faults += [("cause", f"{repeated} once {_joined(chain)} is no more")] if len(chain) == 1 else []
                break
    return [name for name, _ in chain[1:]]


def _with_removal(case: _SituationCase, lab: Lab, taken: Sequence[CauseRemoval]) -> Lab:
    """``lab`` without the last cause; the others are removed already. A fork, unless binds are refused, which cannot be
    undone in a fork.
    """
    return _forked(lab, taken[-1].steps) if all(removal.refusals for removal in taken) else _without(case, taken)


def _forked(lab: Lab, steps: Sequence[Step]) -> Lab:
    trial = lab.fork()
    try:
        carry_out_steps(trial, steps)
        return trial
    except BaseException:
        trial.close()
        raise


def _needed(case: _SituationCase, chain: list[tuple[str, CauseRemoval]]) -> list[str]:
    """With the whole chain removed, the workload runs. Without removing the first cause it must not, unless a later
    cause was removed by adding nodes.
    """
    codes = [name for name, _ in chain[1:]]
    # Quotas that other queues no longer have are divided among all, so its own share grows.
    shares_anew = chain[0][0] == CauseCode.FAIR_SHARE_REACHED and CauseCode.VICTIMS_WITHIN_QUOTA in codes
    # What others cannot keep no longer counts against a common limit.
    held_by_others = chain[0][0] == CauseCode.OVER_LIMIT and CauseCode.VICTIMS_WITHIN_QUOTA in codes
    # The pods of other waiting work use up a ResourceQuota too, so that deleting them lets its own pods be made.
    refused = (
        chain[0][0] == CauseCode.GANG_INCOMPLETE
        and CauseCode.BEHIND_OTHERS in codes
        and bool(case.lab.cluster.list("ResourceQuota", case.work.namespace))
    )
    if (
        codes
        and not (shares_anew or held_by_others or refused or MORE_ROOM.intersection(codes))
        and _runs_without(case, codes)
        and not _ends_never(case, chain[0][1])
    ):
        case.faults.append(("cause", f"it runs once {' and '.join(codes)} is no more: {chain[0][0]} does not keep it"))
    return codes


def _runs_without(case: _SituationCase, codes: Sequence[str]) -> bool:
    """True if the workload runs with only these causes removed, one after the other. Each removal is computed in the
    lab as it is then, because a copy of a node still has whatever keeps pods off it.
    """
    taken: list[CauseRemoval] = []
    with ExitStack() as labs:
        lab = case.lab
        for code in codes:
            removal_of_code = cause_removal(case.situation, lab, case.work, code)
            if removal_of_code is None:
                return False
            taken.append(removal_of_code)
            try:
                lab = labs.enter_context(_with_removal(case, lab, taken))
            except InputError as error:
                if not isinstance(error.__cause__, Forbidden):
                    raise
                return False  # a ResourceQuota refuses its pods, so it does not run
        return case.work.runs(lab)


def _ends_never(case: _SituationCase, first: CauseRemoval) -> bool:
    """True if a workload with ``never`` runs once others are gone and the first cause is removed: other workloads may
    be an alternative obstacle.
    """
    if case.answer.verdict != Verdict.NEVER:
        return False
    with _without(case, [first]) as lab:
        return runs_alone(case.situation, lab, case.work)


def _without(case: _SituationCase, taken: Sequence[CauseRemoval]) -> Lab:
    steps = [step for removal in taken for step in removal.steps]
    if all(removal.refusals for removal in taken):
        return _forked(case.lab, steps)
    return case.situation.opened(steps, refusals=False)


def _joined(chain: list[tuple[str, CauseRemoval]]) -> str:
    return " and ".join(name for name, _ in chain)


# Steps


def _steps(case: _SituationCase) -> Iterator[tuple[str, str]]:
    """A step says all that its changes do, and what it tells happens in a fork; the first also in a new lab."""
    before = case.work.running(case.lab)
    yield from _nearest_name(case)
    yield from _order(case.answer.steps)
    for place, step in enumerate(case.answer.steps):
        if fault := difference(case.lab, case.work, step):
            yield "words", f"{step.do}: {fault}"
        if not step.checked:
            continue
        if step.outcome is not None:
            yield from (
                ("outcome", f"{step.describe()}: {fault}") for fault in outcome_faults(case.lab, case.work, step)
            )
        if place and step.outcome is not None:
            continue
        try:
            with case.situation.opened([dict(change) for change in step.changes]) as lab:
                runs, now = case.work.runs(lab), case.work.running(lab)
        except KailabError as error:
            yield "step", f"{step.do}: it can't be carried out: {error}"
            continue
        if not runs or now <= before:
            yield "step", f"{step.do}: {now} pods of it run then, {before} before" + ("" if runs else ", and not all")
