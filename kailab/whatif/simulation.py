"""Whether new work would run in a lab, when, where, and at whose cost: it is applied to a fork, in which time passes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, NamedTuple

from kailab.errors import InputError
from kailab.evidence.wording import elapsed
from kailab.explain.forecast import binding_moments
from kailab.explain.questions import ask
from kailab.explain.step_budget import StepBudget
from kailab.explain.subject import SubjectRef
from kailab.lab.answer import Answer, ObjectRef, Verdict
from kailab.lab.intake import Applied, Source
from kailab.lab.lab import Lab
from kailab.lab.picture import Picture
from kailab.model.kinds import KINDS
from kailab.model.manifests import Notice
from kailab.model.times import DAY, format_time
from kailab.whatif.losses import Loss, group_losses, losses_of_step
from kailab.whatif.manifest_steps import step_in_manifests
from kailab.whatif.outcome import Comparison, Outcome, Workload


class When(StrEnum):
    """``now``: once it is applied and the lab has settled. ``later``: after ``seconds``. ``waits``: not within the simulated time.
    ``unknown``: kailab can't tell, because it makes no pods of that kind, or another scheduler places them. ``never``: neither more time
    nor other work ending would help (``kailab.explain``)."""

    NOW = "now"
    LATER = "later"
    WAITS = "waits"
    UNKNOWN = "unknown"
    NEVER = "never"


@dataclass(frozen=True)
class WorkloadForecast:
    """What happens to one workload. ``seconds``: until all of it ran, None if it did not. ``places``: pod -> node at that moment, else at
    the end. ``answer``: why it did not run at once. ``must_go``: for each step of the answer, what it would evict."""

    workload: Workload
    when: When
    seconds: float | None
    wanted: int
    places: tuple[tuple[str, str], ...]
    answer: Answer | None = None
    must_go: tuple[tuple[Loss, ...], ...] = ()

    @property
    def nodes(self) -> dict[str, int]:
        """Node -> pods, by name."""
        return dict(sorted(Counter(node for _, node in self.places).items()))

    def data(self) -> dict[str, Any]:
        answer = self.answer.data() if self.answer else {}
        return {
            **self.workload.data(),
            "verdict": str(self.when),
            "seconds": None if self.seconds is None else round(self.seconds, 3),
            "wanted": self.wanted,
            "pods": [{"pod": pod, "node": node} for pod, node in self.places],
            "cause": answer.get("cause"),
            "steps": [
                {**step, "must_go": [loss.data() for loss in losses]}
                for step, losses in zip(answer.get("steps", []), self.must_go, strict=True)
            ],
            "steps_incomplete": answer.get("steps_incomplete"),
        }


@dataclass(frozen=True)
class Simulation:
    """``start``, ``end``: seconds since the epoch. ``scheduler``: the one that decided. ``comparison``: the lab with the work compared with
    the lab left alone, both at ``end``. ``interrupted``: the time that was to be simulated did not pass, because of Ctrl-C."""

    start: float
    end: float
    scheduler: str
    fates: tuple[WorkloadForecast, ...]
    comparison: Comparison
    notices: tuple[Notice, ...] = ()
    interrupted: bool = False

    @property
    def warnings(self) -> tuple[str, ...]:
        """The notices about the manifests, as text."""
        return tuple(map(str, self.notices))

    @property
    def when(self) -> When:
        """The verdict for all workloads together: that of the workload that runs last."""
        order = list(When)
        return max((fate.when for fate in self.fates), key=order.index)

    @property
    def losses(self) -> tuple[Loss, ...]:
        """All pods that are evicted or moved for the new work."""
        return group_losses(self.comparison.evicted)

    def within(self, seconds: float) -> bool:
        """True if all workloads run within ``seconds``."""
        ran = [fate.seconds for fate in self.fates]
        return all(fate.when is When.NOW or (at is not None and at <= seconds) for fate, at in zip(self.fates, ran))

    def data(self) -> dict[str, Any]:
        """For programs."""
        return {
            "verdict": str(self.when),
            "start": format_time(self.start),
            "end": format_time(self.end),
            "interrupted": self.interrupted,
            "scheduler": self.scheduler,
            "workloads": [fate.data() for fate in self.fates],
            "must_go": [loss.data() for loss in self.losses],
            "evicted": [{**eviction.workload.data(), **eviction.data()} for eviction in self.comparison.evicted],
            "queues": [change.data() for change in self.comparison.queues],
            "notices": [notice.data() for notice in self.notices],
            "warnings": list(self.warnings),
        }


def simulate(
    lab: Lab,
    *sources: Source,
    namespace: str = "default",
    bound: float = DAY,
    tried: bool = True,
    budget: StepBudget | None = None,
    on_progress: Callable[[str], None] = lambda activity: None,
) -> Simulation:
    """Apply manifests to a fork of the lab, and report what happens to their workloads. ``bound``: seconds of lab time to simulate if they
    don't run at once. Work ends after its declared run time (``kailab.dev/run-seconds``); without one it runs on. ``tried``: with steps for
    work that does not run at once. ``budget``: of the steps of all workloads together. After Ctrl-C, which the budget reports, the simulation
    ends early with the results so far. ``on_progress``: called with the current activity. Raises InputError for manifests that the lab
    refuses or that have no pods; NotSettled."""
    budget = budget or StepBudget()
    since = len(lab.log.evictions)
    with ExitStack() as forks:
        untouched = forks.enter_context(lab.fork())
        changed = forks.enter_context(untouched.fork())
        applied = changed.apply(*sources, namespace=namespace)
        subjects = _subjects(changed, applied)
        changed.settle()
        untouched.settle()
        new = {
            ObjectRef(change.kind, change.namespace, change.name)
            for change in applied.changes
            if change.what == "created"
        }
        run = _Run(changed, lab.now, new, budget, on_progress)
        forecasts = run.forecasts(subjects, bound, tried)
        on_progress("comparing")
        end = max(changed.now, untouched.now)
        for fork in (changed, untouched):
            fork.advance(end - fork.now)
        comparison = Comparison(Outcome.of(untouched, since), Outcome.of(changed, since))
        notices = tuple(applied.notices)
        return Simulation(lab.now, end, changed.scheduler, forecasts, comparison, notices, run.interrupted)


def _subjects(lab: Lab, applied: Applied) -> list[SubjectRef]:
    result = [
        SubjectRef.of(lab, change.kind, change.name, change.namespace)
        for change in applied.changes
        if change.kind == "Pod" or (change.kind in KINDS and KINDS[change.kind].owns_pods)
    ]
    if not result:
        # An unknown kind may have pods in a cluster. Beside known workloads it is more likely a monitor or a role.
        result = [
            SubjectRef.of(lab, change.kind, change.name, change.namespace)
            for change in applied.changes
            if change.kind not in KINDS
        ]
    if not result:
        kinds = ", ".join(sorted({change.kind for change in applied.changes})) or "no objects"
        raise InputError(
            f"nothing to simulate: expected a workload that has pods (a Job, a Deployment ...), found {kinds}"
        )
    return result


class _AnswerWithLosses(NamedTuple):
    """An answer of ``kailab.explain``. ``must_go``: for each of its steps, what the step would evict."""

    answer: Answer
    must_go: tuple[tuple[Loss, ...], ...]


class _Interrupted(Exception):
    """Ctrl-C ended the simulation."""


class _Run:
    """Advances a settled lab until the last workload runs. ``start``: seconds since the epoch. ``new``: the objects that exist only in this
    lab."""

    def __init__(
        self,
        lab: Lab,
        start: float,
        new: Collection[ObjectRef],
        budget: StepBudget,
        on_progress: Callable[[str], None],
    ) -> None:
        self._lab = lab
        self._start = start
        self._new = new
        self._budget = budget
        self._on_progress = on_progress
        self.interrupted = False

    def forecasts(self, subjects: Sequence[SubjectRef], bound: float, tried: bool) -> tuple[WorkloadForecast, ...]:
        """The forecast of each subject, in order. ``bound``: seconds after the start. ``tried``: with steps."""
        lab, start = self._lab, self._start
        picture = lab.picture()
        forecasts: dict[SubjectRef, WorkloadForecast] = {}
        answers: dict[SubjectRef, _AnswerWithLosses] = {}
        for subject in subjects:
            if subject.state(lab, picture).runs:
                forecasts[subject] = _forecast(lab, subject, When.NOW, lab.now - start)
            else:
                answers[subject] = self._ask(subject, picture, tried)
        open_ones = [subject for subject, asked in answers.items() if asked.answer.verdict is not Verdict.NEVER]
        left = start + bound - lab.now
        try:
            if open_ones and left > 0:
                self._check(left)
                end = lab.now + left
                for _ in binding_moments(lab, left, lambda: self._check(end - lab.now)):
                    picture = lab.picture()
                    for subject in [subject for subject in open_ones if subject.state(lab, picture).runs]:
                        forecasts[subject] = _forecast(lab, subject, When.LATER, lab.now - start, answers[subject])
                        open_ones.remove(subject)
                    if not open_ones:
                        break
        except _Interrupted:
            self.interrupted = True
        for subject, asked in answers.items():
            if subject not in forecasts:
                forecasts[subject] = _forecast(lab, subject, _verdict_if_not_run(asked.answer), None, asked)
        return tuple(forecasts[subject] for subject in subjects)

    def _ask(self, subject: SubjectRef, picture: Picture, tried: bool) -> _AnswerWithLosses:
        # The simulation itself lets time pass, so the answer needs no forecast.
        answer = ask(
            self._lab,
            subject.kind,
            subject.name,
            subject.namespace,
            tried=tried,
            picture=picture,
            budget=self._budget,
            with_forecast=False,
        )
        # The losses are computed now, because the pods that a step would evict may end as time passes.
        losses = tuple(losses_of_step(self._lab, step) for step in answer.steps)
        steps = tuple(step_in_manifests(self._lab, step, self._new) for step in answer.steps)
        return _AnswerWithLosses(replace(answer, steps=steps), losses)

    def _check(self, left: float) -> None:
        """``left``: seconds of lab time."""
        if self._budget.interrupted:
            raise _Interrupted
        passed = self._lab.now - self._start
        self._on_progress(f"{elapsed(passed)} of {elapsed(passed + left)} of lab time")


def _verdict_if_not_run(answer: Answer) -> When:
    """The verdict for a workload that did not run within the simulated time."""
    # An answer with a cause but without a verdict is about work that a controller or scheduler outside of the lab decides on.
    if answer.verdict is None and answer.cause is not None:
        return When.UNKNOWN
    return When.NEVER if answer.verdict in (Verdict.NEVER, Verdict.FAILED) else When.WAITS


def _forecast(
    lab: Lab, subject: SubjectRef, when: When, seconds: float | None, asked: _AnswerWithLosses | None = None
) -> WorkloadForecast:
    state = subject.state(lab)
    places = tuple(sorted((row.name, row.node) for row in state.running))
    workload = Workload(subject.namespace, subject.kind, subject.name)
    answer, must_go = asked or (None, ())
    return WorkloadForecast(workload, when, seconds, state.wanted, places, answer, must_go)
