"""When waiting work runs if nobody changes anything: found by running the lab forward on a copy."""

from __future__ import annotations

import pytest

from kailab.explain.questions import ask, growing_answer
from kailab.explain.step_budget import StepBudget
from kailab.explain.steps import work_steps
from kailab.lab import Lab
from kailab.lab.answer import Answer, Verdict
from tests.explain.manifests import Object, fleet, job, queue

HOUR = 3600


def waiting(*works: Object) -> Lab:
    """One node of 4 GPUs, and work that came one after the other."""
    lab = Lab.open(fleet({"count": 1}))
    lab.apply([queue("q")])
    for work in works:
        lab.apply([work])
        lab.settle()
    return lab


def asked(lab: Lab, name: str = "want", **options: object) -> Answer:
    answer = ask(lab, "Job", name, **options)  # type: ignore[arg-type]
    assert answer.verdict is Verdict.LATER
    return answer


def test_work_whose_end_is_known_gives_a_time() -> None:
    with waiting(job("have", "q", 4, run=4 * HOUR + 12 * 60), job("want", "q", 4, gang=True)) as lab:
        answer = asked(lab)
        ahead = answer.forecast
        assert ahead is not None
        assert (ahead.known, ahead.running) == (4, 4)
        assert "it waits for another 4 h 1" in ahead.sentence
        assert "where 4 of 4 running pods end at a known time" in ahead.sentence
        # The step to wait says the same time, and after it the work runs.
        assert ahead.seconds in [step.changes[0].get("advance") for step in answer.steps]
        lab.advance(ahead.seconds - 5)
        assert not lab.job("want").pods(lab.picture())[0].node
        lab.advance(5)
        assert all(row.node for row in lab.job("want").pods(lab.picture()))


def test_work_that_never_runs_is_not_run_forward(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[object] = []
    monkeypatch.setattr(work_steps, "forecast", lambda state, budget: looked.append(state))
    with waiting(job("have", "q", 2, run=HOUR)) as lab:
        lab.apply([queue("q", limit=3), job("want", "q", 4, gang=True)])
        lab.settle()
        answer = ask(lab, "Job", "want")
    assert answer.verdict is Verdict.NEVER
    assert answer.steps
    assert not looked


def test_a_deadline_is_a_known_end() -> None:
    bounded = job("have", "q", 4)
    bounded["spec"]["activeDeadlineSeconds"] = 2 * HOUR
    with waiting(bounded, job("want", "q", 4)) as lab:
        ahead = asked(lab).forecast
        assert ahead is not None
        assert (ahead.known, ahead.running) == (4, 4)
        assert 2 * HOUR - 60 < (ahead.seconds or 0) <= 2 * HOUR + 60


def test_a_deadline_of_pods_is_a_known_end_too() -> None:
    with waiting(job("have", "q", 4, activeDeadlineSeconds=HOUR), job("want", "q", 4, gang=True)) as lab:
        # The Job replaces pods that have exceeded it, up to its backoffLimit, so no place comes free for others.
        ahead = ask(lab, "Job", "want").forecast
        assert ahead is not None
        assert (ahead.known, ahead.running) == (4, 4)


def test_a_schedule_counts() -> None:
    nightly = {
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "nightly"},
        "spec": {
            "schedule": "0 6 * * *",
            "jobTemplate": {"metadata": {"labels": {"kai.scheduler/queue": "q"}}, "spec": job("x", "q", 4, run=HOUR)["spec"]},
        },
    }  # fmt: skip
    with waiting(nightly) as lab:
        ahead = ask(lab, "CronJob", "nightly").forecast
        assert ahead is not None
        assert 6 * HOUR - 60 < (ahead.seconds or 0) <= 6 * HOUR + 60
        assert "1 CronJob follows its schedule" in ahead.sentence
    with waiting(job("have", "q", 3), nightly) as lab:
        ahead = ask(lab, "CronJob", "nightly").forecast
        assert ahead is not None
        assert ahead.seconds is None


def test_without_a_known_end_it_does_not_run_within_a_day() -> None:
    with waiting(job("have", "q", 4), job("want", "q", 1)) as lab:
        ahead = asked(lab).forecast
        assert ahead is not None
        assert ahead.data() == {
            "seconds": None, "looked_ahead": 86400, "complete": True, "pods_with_known_end": 0, "running_pods": 4, "schedules": 0,
        }  # fmt: skip
        assert ahead.sentence.startswith(
            "It does not run within 24 h if nothing changes: the lab was run forward on a copy, where no running pod"
        )


def test_a_queue_waits_for_all_of_its_work() -> None:
    with waiting(
        job("have", "q", 4, run=HOUR), job("want", "q", 4, run=HOUR, gang=True), job("last", "q", 4, gang=True)
    ) as lab:
        ahead = ask(lab, "Queue", "q").forecast
        assert ahead is not None
        assert ahead.sentence.startswith("If nothing changes, all of its work runs after 2 h")
        lab.apply([job("more", "q", 4, gang=True)])
        lab.settle()
        ahead = ask(lab, "Queue", "q").forecast
        assert ahead is not None
        assert ahead.sentence.startswith("Not all of its work runs within 24 h if nothing changes: ")


def test_who_comes_first_counts() -> None:
    """The place that becomes free goes to the work ahead of it, whose own end is known too."""
    with waiting(
        job("have", "q", 4, run=HOUR), job("first", "q", 4, run=2 * HOUR, gang=True), job("want", "q", 4, gang=True)
    ) as lab:
        first, second = (asked(lab, name).forecast for name in ("first", "want"))
        assert first is not None
        assert second is not None
        assert HOUR - 60 < (first.seconds or 0) <= HOUR + 60
        assert 3 * HOUR - 60 < (second.seconds or 0) <= 3 * HOUR + 60


def test_work_that_never_runs_or_runs_has_no_forecast_and_none_is_made_without_steps() -> None:
    with waiting(job("have", "q", 4, run=HOUR), job("want", "q", 1), job("large", "q", 1, 8)) as lab:
        assert ask(lab, "Job", "large").forecast is None
        assert ask(lab, "Job", "have").forecast is None
        assert asked(lab, tried=False).forecast is None
        assert asked(lab, with_forecast=False).forecast is None


def test_it_comes_before_the_steps_and_within_their_time() -> None:
    with waiting(job("have", "q", 4, run=HOUR), job("want", "q", 1)) as lab:
        answers = list(growing_answer(lab, "Job", "want"))
        assert (answers[0].steps, {answer.forecast for answer in answers}) == ((), {answers[0].forecast})
        lines = answers[-1].lines()
        told = next(place for place, line in enumerate(lines) if line.startswith("If nothing changes, it waits for"))
        assert lines[told + 1].startswith("To let it run: ")
        assert asked(lab, budget=StepBudget(0)).forecast is None


def test_the_verdict_promises_nothing_that_the_forecast_denies() -> None:
    with waiting(job("have", "q", 4, run=HOUR), job("want", "q", 1)) as lab:
        assert asked(lab).lines()[1] == "Can run later: it runs after 59 min 59 s if nothing changes."
        assert (
            asked(lab, tried=False)
            .lines()[1]
            .startswith("Would run if other work ended, or after some time; it is not known")
        )
    with waiting(job("have", "q", 4), job("want", "q", 1)) as lab:
        assert asked(lab).lines()[1] == (
            "Does not run by itself: nothing that is known lets it run within 24 h. Other work has to end, or something has to change."
        )


def test_a_copy_that_is_not_run_to_the_end_says_so() -> None:
    """A clock that passes a second each time it is read ends the forecast early."""
    seconds = iter(range(10_000))
    with waiting(
        *(job(f"j-{n}", "q", 4, run=HOUR, gang=True) for n in range(12)), job("want", "q", 4, gang=True)
    ) as lab:
        ahead = asked(lab, budget=StepBudget(80, clock=lambda: float(next(seconds)))).forecast
        assert ahead is not None
        assert ahead.seconds is None
        assert 0 < ahead.looked < ahead.bound
        assert "the copy of the lab was run no further ahead (a longer --timeout looks further)" in ahead.sentence
        assert ahead.data()["complete"] is False
