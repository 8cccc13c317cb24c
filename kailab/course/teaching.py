"""Run a lesson on a lab: its steps, the numbers to compare with predictions, and explanations; and mark its quiz."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kailab.course.conditions import subject_of
from kailab.course.drawing import LabDrawing, draw
from kailab.course.lesson import LETTERS, Lesson
from kailab.errors import InputError
from kailab.evidence.wording import count
from kailab.lab import Lab, Subject
from kailab.lab.subjects import everything
from kailab.scenarios.running import do

TERMS = {
    "fair share": "Fair share: the GPUs that a queue may hold now, its quota and its part of what other queues do not use. Non-preemptible work gets no more than the quota of it.",
    "by weight": "Priority N, by weight: the remainder is divided among the queues of one priority. That is the queue's own priority (100 unless it is set), and not the priority class of work.",
}
"""Terms of ``kailab explain`` that no lesson before defines -> what they mean."""


def terms_in(lines: Iterable[str]) -> list[str]:
    """The meanings of the terms that occur in lines of an explanation."""
    text = "\n".join(lines)
    return [meaning for term, meaning in TERMS.items() if term in text]


@dataclass(frozen=True)
class LessonExplanation:
    """``lines``: from the lab's explain. ``after``: the number of a step, 0 for the last one."""

    what: str
    lines: tuple[str, ...]
    after: int = 0

    @property
    def command(self) -> str:
        """As it is typed; if it was before the last step, with the step."""
        return f"$ kailab explain {self.what}" + (f"    # after step {self.after}" if self.after else "")


@dataclass(frozen=True)
class LessonWalk:
    """``seen``: a number for each prediction of the lesson. ``drawn``: the lab after each step."""

    seen: tuple[float, ...]
    why: tuple[LessonExplanation, ...]
    drawn: tuple[LabDrawing, ...] = ()


def walk(lesson: Lesson, *, drawn: bool = False) -> LessonWalk:
    """Do all steps on a new lab. ``drawn``: also draw the lab after each step."""
    last = len(lesson.steps)
    seen: dict[int, float] = {}
    explanations: dict[int, LessonExplanation] = {}
    drawings: list[LabDrawing] = []
    with Lab.open(lesson.fleet, scheduler=lesson.scheduler) as lab:
        lab.base = lesson.folder
        for number, step in enumerate(lesson.steps, 1):
            do(lab, step)
            lab.settle()
            if drawn:
                drawings.append(draw(lab))
            for index, prediction in enumerate(lesson.predict):
                if (prediction.after or last) == number:
                    seen[index] = counted(lab, prediction.about, prediction.count)
            for index, subject in enumerate(lesson.why):
                if (subject.after or last) == number:
                    kind, _, name = subject.explain.partition(" ")
                    explanations[index] = LessonExplanation(
                        subject.explain, tuple(lab.explain(kind, name).lines()), subject.after if number < last else 0
                    )
    return LessonWalk(
        tuple(seen[index] for index in sorted(seen)),
        tuple(explanations[index] for index in sorted(explanations)),
        tuple(drawings),
    )


def counted(lab: Lab, about: Mapping[str, Any], count: str) -> float:
    """Number of running pods of a part of the lab, or of their GPUs."""
    named = subject_of(lab, about)
    subject = named if isinstance(named, Subject) else everything(lab)
    rows = [row for row in subject.pods(lab.picture()) if row.phase == "Running"]
    return sum(row.milli_gpus for row in rows) / 1000 if count == "gpus" else len(rows)


def read_prediction(lesson: Lesson, given: Sequence[str]) -> tuple[float, ...]:
    """Parse the numbers for the lesson's predictions. Raises InputError."""
    if len(given) != len(lesson.predict):
        raise InputError(
            f"{count(len(given), 'number')}; expected {len(lesson.predict)}, one for each question:\n"
            + "\n".join(f"{number}. {item.ask}" for number, item in enumerate(lesson.predict, 1))
        )
    try:
        numbers = tuple(float(item) for item in given)
    except ValueError:
        raise InputError(f"{' '.join(given)!r:.80} is not a prediction; expected numbers") from None
    if not all(0 <= item < 1e9 for item in numbers):
        raise InputError(f"{' '.join(given)!r:.80} is not a prediction; expected numbers from 0")
    return numbers


@dataclass(frozen=True)
class MarkedAnswer:
    """An answer to a quiz question. ``why``: the explanation if it is right, otherwise why it is wrong."""

    ask: str
    given: str
    right: bool
    why: str


def mark(lesson: Lesson, given: Sequence[str]) -> list[MarkedAnswer]:
    """Mark a quiz; letters may be capitals. Raises InputError for invalid answers."""
    given = [letter.lower() for letter in given]
    if len(given) != len(lesson.quiz):
        raise InputError(f"{count(len(given), 'answer')}; expected {len(lesson.quiz)}, a letter for each question")
    for letter, question in zip(given, lesson.quiz, strict=True):
        if len(letter) != 1 or letter not in LETTERS[: len(question.choices)]:
            raise InputError(
                f"{letter!r:.20} is not an answer to {question.ask!r}; expected {', '.join(LETTERS[: len(question.choices)])}"
            )
    return [
        MarkedAnswer(
            question.ask, letter, letter == right.answer, right.why if letter == right.answer else right.others[letter]
        )
        for letter, question, right in zip(given, lesson.quiz, lesson.answers, strict=True)
    ]
