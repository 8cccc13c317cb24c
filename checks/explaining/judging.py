"""An answer held against labs: each thing that it says is carried out on a fork, and looked at.

- The verdict: what is called ``never`` runs neither alone nor in time, within a day; what is called ``later`` does.
- The first cause: taken away in the manifests, the work runs or something else keeps it; and with everything else that came up
  taken away, but not this, it does not run.
- The steps, where they are to be judged: what says that it was checked lets the work run on a lab made anew.
- The names and numbers: what the sentence of a cause has to name is named.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from checks.explaining.ground_truth import GroundTruth, runs_alone
from checks.explaining.naming import missing_names
from checks.explaining.removal import MORE_ROOM, CauseRemoval, cause_removal
from checks.explaining.situation import Situation, Step, carry_out_steps
from checks.explaining.workload_context import WorkloadContext
from checks.explaining.workloads import AppliedWorkload, waiting_workloads
from kailab.errors import KailabError
from kailab.explain.answer import Answer, Code, Verdict
from kailab.explain.questions import ask
from kailab.lab.fork import fork
from kailab.lab.lab import Lab
from kailab.lab.settle import MovedForEver

DEEPEST = 6
"""Causes that are taken away one after the other."""


@dataclass(frozen=True)
class JudgedAnswer:
    """An answer about ``work``, and what of it is not so, each with the part that it is of. ``named_next``: whether the causes that
    came up after the first had been named in the answer; None where there was none. ``restless``: why nothing can be held against it:
    a lab in which it is tried never comes to rest, as a real KAI's cluster would not; empty where it is judged."""

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
class _Case:
    truth: GroundTruth
    work: AppliedWorkload
    told: Answer
    faults: list[tuple[str, str]] = field(default_factory=list)

    @property
    def situation(self) -> Situation:
        return self.truth.situation

    @property
    def lab(self) -> Lab:
        return self.truth.lab


def judge_situation(situation: Situation, *, steps: bool = False) -> list[JudgedAnswer]:
    """Every workload of a situation that waits. ``steps``: also the steps of the answers, which cost most. Raises KailabError for a
    situation that can't be carried out."""
    with situation.opened() as lab:
        truth = GroundTruth(situation, lab)
        return [judge_answer(truth, work, steps=steps) for work in waiting_workloads(situation, lab)]


def judge_answer(truth: GroundTruth, work: AppliedWorkload, *, steps: bool = False) -> JudgedAnswer:
    """See ``judge``. A failure of kailab is a fault of its answer."""
    try:
        told = ask(truth.lab, work.kind, work.name, work.namespace, tried=steps)
        return _judged(_Case(truth, work, told))
    except MovedForEver as error:
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


def _judged(case: _Case) -> JudgedAnswer:
    told = case.told
    code = str(told.cause.code) if told.cause else ""
    case.faults += _verdict(case)
    case.faults += _steps(case)
    following: list[str] = []
    if told.cause:
        missing = missing_names(WorkloadContext(case.situation, case.lab, case.work), code, told.cause.sentence)
        case.faults += [("naming", missing)] if missing else []
    if not code:
        case.faults.append(("cause", "no cause is given"))
    elif told.verdict != Verdict.GONE:
        following = _cause(case, code)
    named = {str(one.code) for one in told.more}
    return JudgedAnswer(
        case.work,
        str(told.verdict),
        code,
        told.cause.sentence if told.cause else "",
        tuple(case.faults),
        sum(step.checked for step in told.steps),
        following[0] in named if following else None,
        following[0] if following else "",
    )


# --- the verdict --------------------------------------------------------------------------------------------------------


def _verdict(case: _Case) -> Iterator[tuple[str, str]]:
    verdict, work = case.told.verdict, case.work
    evicted = [one for one in case.lab.log.evictions if one.app == work.name]
    if verdict == Verdict.GONE:
        if not evicted:
            yield "verdict", "gone, and no pod of it was ever evicted"
    elif verdict == Verdict.RUNNING:
        if any(not (pod["spec"].get("nodeName")) for pod in work.pods(case.lab)):
            yield "verdict", "running, and pods of it wait"
    else:
        runs = case.truth.alone(work) or case.truth.in_time(work)
        if runs and verdict == Verdict.NEVER:
            yield "verdict", "never, and it runs once the others have gone or a day has passed"
        if not runs and verdict == Verdict.LATER:
            yield "verdict", "later, and it runs neither alone nor within a day"


# --- the cause ----------------------------------------------------------------------------------------------------------


def _cause(case: _Case, code: str) -> list[str]:
    """Adds what is not so to the faults; the codes that came up, one after the other, once the first was taken away."""
    chain: list[tuple[str, CauseRemoval]] = []
    current, kept_some = code, False
    with ExitStack() as labs:
        lab = case.lab
        while len(chain) < DEEPEST:
            found = cause_removal(case.situation, lab, case.work, current)
            if found is None:
                return [*(name for name, _ in chain[1:]), *([current] if chain and current else [])]
            chain.append((current, found))
            lab = labs.enter_context(_taken_away(case, lab, [one for _, one in chain]))
            if len(chain) == 1:
                kept_some = case.work.running(lab) > case.work.running(case.lab)
            if case.work.runs(lab):
                # What kept some of it kept it, whatever else would have let it run.
                return [name for name, _ in chain[1:]] if kept_some else _needed(case, chain)
            told = ask(lab, case.work.kind, case.work.name, case.work.namespace, tried=False)
            current = str(told.cause.code) if told.cause else ""
            if told.verdict == Verdict.GONE:  # what is told of is the eviction
                break
            if current in [name for name, _ in chain]:
                which = "the same again" if current == chain[-1][0] else f"{current} again"
                case.faults += [("cause", f"{which} once {_chained(chain)} is no more")] if len(chain) == 1 else []
                break
    return [name for name, _ in chain[1:]]


def _taken_away(case: _Case, lab: Lab, taken: Sequence[CauseRemoval]) -> Lab:
    """``lab``, from which all but the last have gone, without the last: a fork. What binds are refused can't be taken back in one."""
    return _forked(lab, taken[-1].steps) if all(one.refusals for one in taken) else _without(case, taken)


def _forked(lab: Lab, steps: Sequence[Step]) -> Lab:
    trial = fork(lab)
    try:
        carry_out_steps(trial, steps)
        return trial
    except BaseException:
        trial.close()
        raise


def _needed(case: _Case, chain: list[tuple[str, CauseRemoval]]) -> list[str]:
    """All of the chain taken away it runs: without the first it must not, unless what came later was taken away by more nodes."""
    codes = [name for name, _ in chain[1:]]
    # What other queues are no longer owed is divided among all, and its own share grows.
    shares_anew = chain[0][0] == Code.FAIR_SHARE_REACHED and Code.VICTIMS_WITHIN_QUOTA in codes
    # What others can't keep counts against a limit above both no more.
    held_by_others = chain[0][0] == Code.OVER_LIMIT and Code.VICTIMS_WITHIN_QUOTA in codes
    if (
        codes
        and not (shares_anew or held_by_others or MORE_ROOM.intersection(codes))
        and _runs_without(case, codes)
        and not _ends_never(case, chain[0][1])
    ):
        case.faults.append(("cause", f"it runs once {' and '.join(codes)} is no more: {chain[0][0]} does not keep it"))
    return codes


def _runs_without(case: _Case, codes: Sequence[str]) -> bool:
    """Whether it runs once these alone have gone, one after the other. What takes each away is asked of the lab as it stands then: a
    copy of a node has whatever keeps work from the node still."""
    taken: list[CauseRemoval] = []
    with ExitStack() as labs:
        lab = case.lab
        for code in codes:
            found = cause_removal(case.situation, lab, case.work, code)
            if found is None:
                return False
            taken.append(found)
            lab = labs.enter_context(_taken_away(case, lab, taken))
        return case.work.runs(lab)


def _ends_never(case: _Case, first: CauseRemoval) -> bool:
    """Whether what never runs does once the others have gone, without the first cause alone: others may be another way to the same."""
    if case.told.verdict != Verdict.NEVER:
        return False
    with _without(case, [first]) as lab:
        return runs_alone(case.situation, lab, case.work)


def _without(case: _Case, taken: Sequence[CauseRemoval]) -> Lab:
    steps = [step for one in taken for step in one.steps]
    if all(one.refusals for one in taken):
        return _forked(case.lab, steps)
    return case.situation.opened(steps, refusals=False)


def _chained(chain: list[tuple[str, CauseRemoval]]) -> str:
    return " and ".join(name for name, _ in chain)


# --- steps --------------------------------------------------------------------------------------------------------------


def _steps(case: _Case) -> Iterator[tuple[str, str]]:
    before = case.work.running(case.lab)
    for step in case.told.steps:
        if not step.checked:
            continue
        try:
            with case.situation.opened([dict(one) for one in step.changes]) as lab:
                runs, now = case.work.runs(lab), case.work.running(lab)
        except KailabError as error:
            yield "step", f"{step.do}: it can't be carried out: {error}"
            continue
        if not runs or now <= before:
            yield "step", f"{step.do}: {now} pods of it run then, {before} before" + ("" if runs else ", and not all")
