"""Who goes for a step: a few names in the short text, all of them with everything and in the data."""

from __future__ import annotations

from kailab.lab.answer import Answer, Step, StepOutcome, Verdict


def test_everything_names_all_that_goes() -> None:
    pods = tuple(f"default/a-{number}" for number in range(6))
    changes = tuple({"delete": {"kind": "Job", "name": f"j{number}"}} for number in range(5))
    step = Step(
        "Delete Job j0, Job j1, Job j2 and 2 more.", changes, True, StepOutcome(2, evicted=pods, failed=("Job k",) * 1)
    )
    answer = Answer("Job", "default", "w", Verdict.LATER, steps=(step,))
    (short,), (long,) = answer.step_lines(), answer.step_lines(everything=True)
    assert "default/a-2 and 3 more" in short
    assert "j4" not in short
    assert "These are: Job j0, Job j1, Job j2, Job j3, Job j4." in long
    assert ", ".join(pods) in long
    assert "more;" not in long
    assert step.data()["outcome"]["evicted"] == list(pods)
