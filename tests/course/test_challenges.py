"""Each challenge is unsolved at the start, is solved by several right answers, and rejects tempting wrong ones with a
reason."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from kailab.course.challenge import challenge, challenges
from kailab.course.judging import judge
from tests.course.answers import StudentsAnswer, answers, names
from tests.course.cheating import on_a_node_by_name, rewrite, without_gpus


@pytest.mark.parametrize("name", names())
def test_no_challenge_is_solved_by_its_start(name: str) -> None:
    verdict = judge(challenge(name))
    assert not verdict.solved
    assert [one for one in verdict.judged if one.rule and not one.holds] == []


@pytest.mark.parametrize("answer", answers("solutions"), ids=str)
def test_any_right_way_solves_it(answer: StudentsAnswer, tmp_path: Path) -> None:
    verdict = judge(answer.write(tmp_path), tmp_path)
    assert [(one.say, one.why) for one in verdict.judged if not one.holds] == []
    assert verdict.solved


@pytest.mark.parametrize("answer", answers("wrong"), ids=str)
def test_what_tempts_does_not_solve_it_and_is_told_why(answer: StudentsAnswer, tmp_path: Path) -> None:
    verdict = judge(answer.write(tmp_path), tmp_path)
    assert not verdict.solved
    told = "\n".join(f"{one.say}\n{one.why}" for one in verdict.judged if not one.holds)
    assert answer.told
    assert answer.told in told


@pytest.mark.parametrize("cheat", ["no GPUs", "a node by name"])
@pytest.mark.parametrize("answer", [one for one in answers("solutions") if one.has_pods()], ids=str)
def test_what_makes_pods_run_without_the_lesson_solves_nothing(
    answer: StudentsAnswer, cheat: str, tmp_path: Path
) -> None:
    """The right answer, with pods that ask for no GPU or name their node: both run whatever queues say."""
    task = answer.write(tmp_path)
    for name in task.files.edit:
        if name != task.config:
            rewrite(tmp_path / name, without_gpus if cheat == "no GPUs" else on_a_node_by_name)
    verdict = judge(task, tmp_path)
    assert not verdict.solved
    if cheat != "no GPUs":
        assert "The scheduler chooses the nodes." in [one.say for one in verdict.judged if one.rule and not one.holds]


def test_each_challenge_has_two_solutions_and_three_temptations() -> None:
    right, wrong = (Counter(one.challenge for one in answers(part)) for part in ("solutions", "wrong"))
    assert {name: count for name, count in right.items() if count < 2} == {}
    assert {name: count for name, count in wrong.items() if count < 3} == {}
    assert set(right) == set(wrong) == {one.name for one in challenges()}
