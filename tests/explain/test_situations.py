"""Every question of $KAILAB_SHARED/explain: cause, verdict, what the sentence names, and each step that says it was checked."""

from __future__ import annotations

import pytest

from checks.recorded_files import VARIABLE
from kailab.explain.questions import ask
from tests.explain.situations import FOLDER, Question, faults, opened, questions, says

QUESTIONS = questions()

each_question = pytest.mark.parametrize("question", QUESTIONS, ids=[one.name for one in QUESTIONS])


@pytest.mark.skipif(not QUESTIONS, reason=f"no situations at {FOLDER} (set {VARIABLE})")
def test_there_are_situations() -> None:
    assert len({question.name for question in QUESTIONS}) == len(QUESTIONS)


@each_question
def test_the_cause_and_the_verdict_are_right(question: Question) -> None:
    with opened(question.situation) as lab:
        answer = ask(lab, question.kind, question.subject, question.namespace, tried=False).data()
    assert list(faults(question, answer, tried=False)) == []


@pytest.mark.slow
@each_question
def test_what_is_said_to_help_does(question: Question) -> None:
    """``checked`` is not believed: each step is carried out on a fresh copy of the situation."""
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
