"""What the search for steps may use: the cause is there first, what was found is kept, and what was not tried is said."""

from __future__ import annotations

import math
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kailab.engine.placing.allocation import Allocator
from kailab.errors import InputError
from kailab.explain import step_budget, step_search
from kailab.explain.questions import ask, growing_answer
from kailab.explain.step_budget import StepBudget, StepsStopped
from kailab.explain.steps.proposals import Proposal
from kailab.lab import Lab
from kailab.lab.answer import Answer, IncompleteReason, Step
from kailab.model.objects import Object
from tests.explain.manifests import deployment, fleet, job, pod, queue


class Clock:
    """Seconds that pass only when a test says so."""

    def __init__(self) -> None:
        self.now = 100.0
        self.running = False

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def short() -> Iterator[Lab]:
    """A Deployment that lacks quota: several changes let it run, and none of them evicts."""
    with Lab.open(fleet()) as lab:
        lab.apply([queue("org", quota=3), queue("team", "org", quota=2), deployment("d", "team", 5, priority="")])
        lab.settle()
        yield lab


def _lab(*objects: Object) -> Lab:
    lab = Lab.open(fleet({"count": 2, "gpus": 4}))
    lab.apply([queue("org"), queue("team", "org", quota=4), queue("rest", "org", quota=4)])
    for obj in objects:
        lab.apply([obj])
        lab.settle()
    return lab


@pytest.fixture
def trials(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was tried on a fork."""
    tried: list[str] = []
    original = step_search.StepTries.carry_out

    def noted(self: step_search.StepTries, copy: Lab, proposal: Proposal) -> None:
        tried.append(proposal.do)
        original(self, copy, proposal)

    monkeypatch.setattr(step_search.StepTries, "carry_out", noted)
    return tried


def test_the_cause_comes_before_any_trial(short: Lab, trials: list[str]) -> None:
    answers = growing_answer(short, "Deployment", "d")
    first = next(answers)
    assert (first.cause and first.cause.code, first.steps, trials) == ("NonPreemptibleOverQuota", (), [])
    assert [*answers][-1].steps
    assert trials


def test_an_answer_grows_by_one_step_and_ends_as_the_plain_call(short: Lab) -> None:
    answers = list(growing_answer(short, "Deployment", "d"))
    whole = ask(short, "Deployment", "d")
    assert len(whole.steps) > 1
    assert [len(one.steps) for one in answers] == list(range(len(whole.steps) + 1))
    assert all(one.steps == whole.steps[: len(one.steps)] for one in answers)
    assert answers[-1].data() == whole.data()
    assert whole.incomplete is None


def test_an_answer_without_a_step_says_that_none_was_found() -> None:
    odd = pod("odd", "team", 1)
    fpga = {"requests": {"example.com/fpga": "1"}, "limits": {"example.com/fpga": "1"}}
    sidecar = {"name": "proxy", "image": "proxy", "restartPolicy": "Always", "resources": fpga}
    odd["spec"]["initContainers"] = [sidecar]
    with _lab(odd) as lab:
        assert ask(lab, "Pod", "odd").lines()[-1].startswith("No step was found")
        assert ask(lab, "Pod", "odd", budget=StepBudget(safe=True)).lines()[-1].startswith("No safe step was found")
        assert "No step" not in str(ask(lab, "Pod", "odd", tried=False))


@pytest.mark.parametrize(
    "objects",
    [
        (deployment("full", "team", 8), job("late", "team", 2, gang=True)),
        (deployment("full", "rest", 8), job("late", "team", 6)),
        (job("full", "team", 8, run=300), job("late", "team", 4, gang=True)),
    ],
    ids=("room", "shares", "time"),
)
def test_steps_come_in_their_order_although_they_are_not_found_in_it(objects: tuple[Object, ...]) -> None:
    with _lab(*objects) as lab:
        answers = list(growing_answer(lab, "Job", "late"))
        found = [_disturbs(step) for step in answers[-1].steps]
    assert len(found) > 1
    assert found == sorted(found)
    assert all(answers[-1].steps[: len(one.steps)] == one.steps for one in answers)


def _disturbs(step: Step) -> tuple[bool, bool, bool]:
    """Whether a step raises a priority or changes other work, fails work, or, of the others, evicts."""
    assert step.outcome is not None
    unsafe = step.do.startswith(("Scale", "Delete", "Suspend", "Set the priority class", "Raise the priority of"))
    waits = any("advance" in change for change in step.changes)
    evicts = bool(step.outcome.evicted or step.outcome.moved) and not (waits or unsafe)
    return unsafe, bool(step.outcome.failed), evicts


def test_no_time_leaves_the_cause_and_says_that_nothing_was_tried(short: Lab, trials: list[str]) -> None:
    answer = ask(short, "Deployment", "d", budget=StepBudget(0))
    assert (answer.steps, trials) == ((), [])
    assert answer.cause is not None
    assert answer.incomplete is not None
    assert answer.incomplete.reason is IncompleteReason.TIMEOUT
    assert answer.incomplete.tried == 0 < answer.incomplete.proposals
    assert "0 of 3 proposals were tried within 0s of processor time; --timeout 1m tries more." in answer.lines()
    assert answer.data()["steps_incomplete"] == {"reason": "timeout", "tried": 0, "proposals": 3, "timeout": 0}


def test_time_that_ends_after_the_first_step_keeps_it(short: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    whole = ask(short, "Deployment", "d")
    original = step_search.StepTries.first_that_works

    def slow(self: step_search.StepTries, *arguments: object) -> object:
        found = original(self, *arguments)  # type: ignore[arg-type]
        clock.now += 15
        return found

    monkeypatch.setattr(step_search.StepTries, "first_that_works", slow)
    answer = ask(short, "Deployment", "d", budget=StepBudget(10, clock=clock))
    assert len(answer.steps) == 1
    assert answer.steps[0] in whole.steps
    assert answer.incomplete is not None
    assert answer.lines()[-1] == "1 of 3 proposals was tried within 10s of processor time; --timeout 1m tries more."


def test_time_is_looked_at_between_the_cycles_of_a_trial(short: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """A trial of many cycles does not hold the answer back."""
    clock, cycles, original = Clock(), 0, Lab.settle

    def settle(self: Lab, between: Callable[[], None] | None = None) -> None:
        nonlocal cycles
        for _ in range(1000 if between is not None else 0):
            cycles += 1
            clock.now += 1
            assert between is not None
            between()
        original(self)

    monkeypatch.setattr(Lab, "settle", settle)
    answer = ask(short, "Deployment", "d", budget=StepBudget(10, clock=clock))
    assert answer.steps == ()
    assert cycles == 10


def test_time_is_looked_at_within_a_cycle_of_a_trial(short: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """One long cycle does not hold the answer back, and the lab goes on as if it had never been asked."""
    clock, placed, original = Clock(), 0, Allocator.place

    def place(self: Allocator, *arguments: Any, **named: Any) -> bool:
        nonlocal placed
        if clock.running:
            placed += 1
            clock.now += 6
        return original(self, *arguments, **named)

    monkeypatch.setattr(Allocator, "place", place)
    answers = growing_answer(short, "Deployment", "d", budget=StepBudget(10, clock=clock))
    next(answers)
    clock.running = True
    answer = [*answers][-1]
    clock.running = False
    assert (answer.steps, placed) == ((), 2)
    assert answer.incomplete is not None
    assert answer.incomplete.reason is IncompleteReason.TIMEOUT
    assert ask(short, "Deployment", "d").steps


def test_a_larger_amount_that_works_is_kept_where_time_ends_before_a_smaller_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    with _lab(deployment("full", "team", 8), job("late", "team", 2, gang=True)) as lab:
        original = step_search.StepTries.try_proposal

        def slow(self: step_search.StepTries, context: object, proposal: Proposal) -> object:
            found = original(self, context, proposal)  # type: ignore[arg-type]
            if proposal.do.startswith(("Delete", "Scale")):
                clock.now += 60
            return found

        monkeypatch.setattr(step_search.StepTries, "try_proposal", slow)
        answer = ask(lab, "Job", "late", budget=StepBudget(50, clock=clock))
    assert "Delete Deployment full" in answer.steps[-1].do
    assert answer.steps[-1].checked
    assert answer.incomplete is not None
    assert answer.incomplete.reason is IncompleteReason.TIMEOUT


def test_the_number_of_trials_is_bounded_and_the_answer_says_so(short: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_budget, "MOST_TRIES", 1)
    monkeypatch.setattr(step_budget, "LEAST_TRIES", 1)
    answer = ask(short, "Deployment", "d")
    assert len(answer.steps) == 1
    assert answer.incomplete is not None
    assert answer.incomplete.reason is IncompleteReason.TRIALS
    assert "--all tries more" in answer.incomplete.sentence
    whole = ask(short, "Deployment", "d", everything=True, budget=StepBudget(math.inf))
    assert len(whole.steps) > 1
    assert whole.incomplete is None


def _interrupt_the_second_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    original, number = step_search.StepTries.try_proposal, 0

    def tried(self: step_search.StepTries, *arguments: object) -> object:
        nonlocal number
        number += 1
        if number == 2:
            signal.raise_signal(signal.SIGINT)
        return original(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(step_search.StepTries, "try_proposal", tried)


def test_an_interrupt_keeps_what_was_found_if_the_caller_wants_that(
    short: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    _interrupt_the_second_trial(monkeypatch)
    answer = ask(short, "Deployment", "d", budget=StepBudget(interrupted=lambda: False))
    assert len(answer.steps) == 1
    assert answer.incomplete is not None
    assert answer.lines()[-1] == "1 of 3 proposals was tried before the interrupt."


def test_an_interrupt_is_raised_otherwise(short: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    _interrupt_the_second_trial(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        short.explain("Deployment", "d")


def test_an_interrupt_that_python_dropped_ends_the_search_all_the_same() -> None:
    pressed = False
    budget = StepBudget(interrupted=lambda: pressed)
    budget.begin(pods=10)
    budget.check()
    pressed = True
    with pytest.raises(StepsStopped):
        budget.check()
    assert budget.incomplete is not None
    assert budget.incomplete.reason is IncompleteReason.INTERRUPTED


def test_a_test_may_bound_the_time_and_see_the_answer_grow(short: Lab) -> None:
    seen: list[Answer] = []
    answer = short.explain("Deployment", "d", timeout=600, on_answer=seen.append)
    assert seen[0].cause == answer.cause
    assert not seen[0].steps
    assert seen[-1] == answer
    assert answer.incomplete is None


@pytest.mark.parametrize("timeout", [-1, math.nan])
def test_a_time_that_is_none_is_refused(short: Lab, timeout: float) -> None:
    with pytest.raises(InputError, match="0 or more"):
        short.explain("Deployment", "d", timeout=timeout)


def test_a_mistyped_name_needs_no_trial_in_a_large_lab(trials: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_search, "FILTERED_FROM", 0)
    with _lab(job("late", "taem", 2)) as lab:
        answer = ask(lab, "Job", "late", budget=StepBudget(0))
        assert (trials, answer.incomplete) == ([], None)
        (step,) = answer.steps
        assert (step.checked, step.outcome) == (False, None)
        assert answer.lines()[-1].startswith("To correct the name: Name queue team in the label")
        assert answer.lines()[-1].endswith("(not tried: team is the nearest name that exists)")
        assert answer.data()["steps"][0]["unchecked"] == "not tried: team is the nearest name that exists"
        assert len(ask(lab, "Job", "late", everything=True).steps) > 1


def test_in_a_small_lab_a_trial_shows_that_the_right_name_is_enough() -> None:
    with _lab(job("late", "taem", 2)) as lab:
        step = ask(lab, "Job", "late").steps[0]
    assert step.do.startswith("Name queue team ")
    assert step.checked


def test_the_name_that_was_meant_comes_first_also_where_others_have_to_go() -> None:
    product = "nvidia.com/gpu.product"
    models = ("NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-80GB")
    with Lab.open(fleet(*({"count": 1, "gpuModel": model} for model in models))) as lab:
        full = deployment("full", "others", 4, nodeSelector={product: "NVIDIA-H100-80GB-HBM3"})
        lab.apply([queue("team", quota=4), queue("others", quota=0), full])
        lab.settle()
        lab.apply([pod("p", "team", 2, nodeSelector={product: "H100"})])
        lab.settle()
        first, second = ask(lab, "Pod", "p").steps[:2]
    assert "gpu.product=NVIDIA-H100-80GB-HBM3" in first.do
    assert first.outcome.evicted
    assert "gpu.product=NVIDIA-A100-SXM4-80GB" in second.do
    assert not second.outcome.evicted


def test_the_name_that_was_meant_comes_first_also_where_the_work_then_waits() -> None:
    product = "nvidia.com/gpu.product"
    models = ("NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-80GB")
    with Lab.open(fleet(*({"count": 1, "gpuModel": model} for model in models))) as lab:
        full = deployment("full", "team", 4, priority="", nodeSelector={product: "NVIDIA-H100-80GB-HBM3"})
        lab.apply([queue("team", quota=8), full])
        lab.apply([pod("p", "team", 2, nodeSelector={product: "H100"})])
        lab.settle()
        answer = lab.explain("Pod", "p")
    first, second = answer.steps[:2]
    assert f"{product}=NVIDIA-H100-80GB-HBM3" in first.do
    assert not first.checked
    assert "it still waits" in first.describe()
    assert f"{product}=NVIDIA-A100-SXM4-80GB" in second.do
    assert second.checked
    assert [line.partition(":")[0] for line in answer.lines()[-len(answer.steps) :]][:2] == [
        "To correct the name",
        "To let it run",
    ]


def test_all_mistyped_names_of_a_selector_are_corrected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_search, "FILTERED_FROM", 0)
    with Lab.open(fleet({"gpuModel": "NVIDIA-H100-80GB-HBM3", "labels": {"lab/zone": "north"}})) as lab:
        lab.apply(
            [queue("team"), pod("p", "team", nodeSelector={"nvidia.com/gpu.product": "H100", "lab/zone": "noth"})]
        )
        lab.settle()
        steps = lab.explain("Pod", "p").steps
    assert [step.do.partition(" (now")[0] for step in steps] == [
        "Select nodes by nvidia.com/gpu.product=NVIDIA-H100-80GB-HBM3",
        "Select nodes by lab/zone=north",
    ]
