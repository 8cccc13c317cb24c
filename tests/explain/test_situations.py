"""Every question of $KAILAB_SHARED/explain: cause, verdict, what the sentence names, and each step that says it was checked."""

from __future__ import annotations

import pytest

from kailab.conformance.shared import VARIABLE
from kailab.lab.explain.asking import ask
from tests.explain.situations import FOLDER, Question, faults, opened, questions, says

QUESTIONS = questions()
NOT_YET_RIGHT = frozenset(one.name for one in QUESTIONS)


@pytest.mark.skipif(not QUESTIONS, reason=f"no situations at {FOLDER} (set {VARIABLE})")
def test_there_are_situations() -> None:
    assert len({question.name for question in QUESTIONS}) == len(QUESTIONS)


@pytest.mark.parametrize(
    "question",
    [
        pytest.param(one, id=one.name, marks=[pytest.mark.xfail(strict=False)] if one.name in NOT_YET_RIGHT else [])
        for one in QUESTIONS
    ],
)
def test_the_answer_is_right(question: Question) -> None:
    with opened(question.situation) as lab:
        answer = ask(lab, question.kind, question.subject, question.namespace).data()
    assert list(faults(question, answer)) == []


@pytest.mark.parametrize(
    ("sentence", "name", "said"),
    [
        ("wants 20 GPUs", "20", True),
        ("wants 20Gi", "20", True),
        ("wants 120", "20", False),
        ("wants 2.20", "20", False),
        ("wants 20.5", "20", False),
        ("20.", "20", True),
        ("in Queue Team-A", "team-a", True),
    ],
)
def test_a_number_stands_by_itself(sentence: str, name: str, said: bool) -> None:
    assert says(sentence, name) is said
