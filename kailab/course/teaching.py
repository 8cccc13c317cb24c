"""What a lesson does on a lab: its steps, what was foretold against what is seen, and why it is so, from ``explain``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kailab.course.conditions import subject_of
from kailab.course.lesson import LETTERS, Lesson
from kailab.errors import InputError
from kailab.lab import Lab, Subject
from kailab.lab.subjects import everything
from kailab.scenarios.running import do


@dataclass(frozen=True)
class LessonExplanation:
    """``lines``: from the lab's explain."""

    what: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class LessonWalk:
    """``seen``: a number for each prediction of the lesson."""

    seen: tuple[float, ...]
    why: tuple[LessonExplanation, ...]


def walk(lesson: Lesson) -> LessonWalk:
    """Do all steps on a lab of their own."""
    last = len(lesson.steps)
    seen: dict[int, float] = {}
    why: dict[int, LessonExplanation] = {}
    with Lab.open(lesson.fleet, scheduler=lesson.scheduler) as lab:
        lab.base = lesson.folder
        for number, step in enumerate(lesson.steps, 1):
            do(lab, step)
            lab.settle()
            for place, one in enumerate(lesson.predict):
                if (one.after or last) == number:
                    seen[place] = counted(lab, one.about, one.count)
            for place, what in enumerate(lesson.why):
                if (what.after or last) == number:
                    kind, _, name = what.explain.partition(" ")
                    why[place] = LessonExplanation(what.explain, tuple(lab.explain(kind, name).lines()))
    return LessonWalk(tuple(seen[place] for place in sorted(seen)), tuple(why[place] for place in sorted(why)))


def counted(lab: Lab, about: Mapping[str, Any], count: str) -> float:
    """Running pods of a part of the lab, or their GPUs."""
    found = subject_of(lab, about)
    subject = found if isinstance(found, Subject) else everything(lab)
    rows = [row for row in subject.pods(lab.picture()) if row.phase == "Running"]
    return sum(row.milli_gpus for row in rows) / 1000 if count == "gpus" else len(rows)


def read_prediction(lesson: Lesson, given: Sequence[str]) -> tuple[float, ...]:
    """Numbers for the lesson's predictions. Raises InputError."""
    if len(given) != len(lesson.predict):
        raise InputError(
            f"{len(given)} numbers; expected {len(lesson.predict)}, one for each question:\n"
            + "\n".join(f"{number}. {one.ask}" for number, one in enumerate(lesson.predict, 1))
        )
    try:
        numbers = tuple(float(one) for one in given)
    except ValueError:
        raise InputError(f"a prediction is made of numbers, not {' '.join(given)!r:.80}") from None
    if not all(0 <= one < 1e9 for one in numbers):
        raise InputError(f"a prediction is made of numbers from 0, not {' '.join(given)!r:.80}")
    return numbers


@dataclass(frozen=True)
class MarkedAnswer:
    """One answer of a quiz. ``why``: it is right, or what speaks against it."""

    ask: str
    given: str
    right: bool
    why: str


def mark(lesson: Lesson, given: Sequence[str]) -> list[MarkedAnswer]:
    """Raises InputError for what are no answers to the lesson's questions."""
    if len(given) != len(lesson.quiz):
        raise InputError(f"{len(given)} answers; expected {len(lesson.quiz)}, a letter for each question")
    for letter, one in zip(given, lesson.quiz, strict=True):
        if len(letter) != 1 or letter not in LETTERS[: len(one.choices)]:
            raise InputError(
                f"{letter!r:.20} is no answer to {one.ask!r}; expected {', '.join(LETTERS[: len(one.choices)])}"
            )
    return [
        MarkedAnswer(
            one.ask, letter, letter == right.answer, right.why if letter == right.answer else right.others[letter]
        )
        for letter, one, right in zip(given, lesson.quiz, lesson.answers, strict=True)
    ]
