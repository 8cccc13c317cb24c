"""Slides of a lesson: one HTML file, made from the lesson's data and from what is seen on its lab."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kailab.course.lesson import Lesson
from kailab.course.teaching import LessonWalk, walk

_TEMPLATE = Path(__file__).with_name("slides.html")
STYLE = _TEMPLATE.with_suffix(".css")
SCRIPT = _TEMPLATE.with_suffix(".js")
_LINES = 5
"""Of an explanation on one slide."""
_MARKS = re.compile(r"[*`]+")


@dataclass(frozen=True)
class Slide:
    """``numbers``: a question and its number, as text. ``blocks``: commands, or what they said."""

    title: str
    texts: tuple[str, ...] = ()
    points: tuple[str, ...] = ()
    numbers: tuple[tuple[str, str], ...] = ()
    blocks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Deck:
    title: str
    slides: tuple[Slide, ...]


def deck(lesson: Lesson, walked: LessonWalk | None = None) -> Deck:
    """``walked``: what the lesson's lab shows, where it is known already. The quiz comes without its answers."""
    return Deck(f"{lesson.number}. {lesson.title}", tuple(_slides(lesson, walked or walk(lesson))))


def _scheduler(lesson: Lesson) -> tuple[str, ...]:
    return () if lesson.scheduler == "kailab" else (f"Scheduler: {lesson.scheduler}",)


def _slides(lesson: Lesson, walked: LessonWalk) -> Iterator[Slide]:
    yield Slide(
        lesson.title,
        (f"Lesson {lesson.number}, {lesson.minutes} minutes", f"Fleet: {lesson.fleet}", *_scheduler(lesson)),
    )
    yield Slide("The idea", tuple(_plain(part) for part in lesson.concept.split("\n\n")))
    yield Slide("To remember", points=lesson.points)
    yield Slide(
        "Predict first", ("Write a number down before anything runs.",), tuple(one.ask for one in lesson.predict)
    )
    for step, commands in zip(lesson.steps, lesson.commands(), strict=True):
        yield Slide("See for yourself", (step["told"],) if "told" in step else (), blocks=("\n".join(commands),))
    seen = tuple((one.ask, f"{number:g}") for one, number in zip(lesson.predict, walked.seen, strict=True))
    yield Slide("What happened", numbers=seen)
    yield Slide("Why", (lesson.happened,))
    for why in walked.why:
        yield Slide("As the lab tells it", blocks=(f"$ kailab explain {why.what}", "\n".join(why.lines[:_LINES])))
    yield Slide("What fake GPUs show, and what not", (lesson.fakes,))
    for question in lesson.quiz:
        yield Slide("Ask yourself", (question.ask,), question.choices)


def _plain(markdown: str) -> str:
    return _MARKS.sub("", " ".join(markdown.split()))


def html(made: Deck, *, beside: bool = False) -> str:
    """The whole file. ``beside``: its style and its script are files beside it, as where many decks are."""
    import jinja2

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.from_string(_TEMPLATE.read_text(encoding="utf-8"))
    style, script = (path.read_text(encoding="utf-8") for path in (STYLE, SCRIPT))
    return template.render(deck=made, beside=beside, style=style, script=script).rstrip("\n") + "\n"
