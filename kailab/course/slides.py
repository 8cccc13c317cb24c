"""Slides of a lesson as one HTML file, made from the lesson and from what happens on its lab."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kailab.course.drawing import GpuMap, QueueTreeDrawing
from kailab.course.lesson import Lesson
from kailab.course.teaching import LessonWalk, walk
from kailab.evidence.wording import count

_TEMPLATE = Path(__file__).with_name("slides.html")
STYLE = _TEMPLATE.with_suffix(".css")
SCRIPT = _TEMPLATE.with_suffix(".js")
_LINES = 5
"""Lines of an explanation on one slide."""
_MARKS = re.compile(r"[*`]+")


@dataclass(frozen=True)
class Slide:
    """``choices``: answers of a question, with letters as in the quiz. ``numbers``: questions with their numbers, as text. ``blocks``: commands, or their output. ``tree``, ``gpus``: drawings."""

    title: str
    texts: tuple[str, ...] = ()
    points: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    numbers: tuple[tuple[str, str], ...] = ()
    blocks: tuple[str, ...] = ()
    tree: QueueTreeDrawing | None = None
    gpus: GpuMap | None = None


@dataclass(frozen=True)
class Deck:
    title: str
    slides: tuple[Slide, ...]


def deck(lesson: Lesson, walked: LessonWalk | None = None) -> Deck:
    """The slides of a lesson: no slide before a question answers it, and none has the quiz's answers. ``walked``: the result of its lab, drawn,
    if it is already known."""
    return Deck(f"{lesson.number}. {lesson.title}", tuple(_slides(lesson, walked or walk(lesson, drawn=True))))


def _scheduler(lesson: Lesson) -> tuple[str, ...]:
    return () if lesson.scheduler == "kailab" else (f"Scheduler: {lesson.scheduler}",)


def _size(walked: LessonWalk) -> str:
    if not walked.drawn:
        return ""
    nodes = walked.drawn[0].gpus.nodes
    return f" ({count(sum(node.gpus for node in nodes), 'GPU')} on {count(len(nodes), 'node')})"


def _slides(lesson: Lesson, walked: LessonWalk) -> Iterator[Slide]:
    yield Slide(
        lesson.title,
        (
            f"Lesson {lesson.number}, {lesson.minutes} minutes",
            f"Fleet: {lesson.fleet}{_size(walked)}",
            *_scheduler(lesson),
        ),
    )
    yield Slide("The idea", tuple(lesson.concept.split("\n\n")))
    if walked.drawn:
        yield Slide("The queues", ("GPUs that each queue owns, and may have at most.",), tree=walked.drawn[0].tree)
    yield Slide(
        "Predict first",
        ("Write a number down before anything runs.",),
        tuple(prediction.ask for prediction in lesson.predict),
        blocks=(
            f"kailab course lesson {lesson.name}\n"
            f"kailab course predict {lesson.name} {' '.join('N' for _ in lesson.predict)}\n"
            f"cd {lesson.name}",
        ),
    )
    for step, commands in zip(lesson.steps, lesson.commands(), strict=True):
        yield Slide("See for yourself", (step["told"],) if "told" in step else (), blocks=("\n".join(commands),))
    seen = tuple(
        (prediction.ask, f"{number:g}") for prediction, number in zip(lesson.predict, walked.seen, strict=True)
    )
    yield Slide("What happened", numbers=seen, blocks=(f"kailab course compare {lesson.name}",))
    for number, (step, drawing) in enumerate(zip(lesson.steps, walked.drawn, strict=False), 1):
        yield Slide(f"After step {number}", (step["told"],) if "told" in step else (), gpus=drawing.gpus)
    yield Slide("Why", (lesson.happened,))
    for explanation in walked.why:
        yield Slide(
            "As the lab tells it",
            blocks=(explanation.command, "\n".join(explanation.lines[:_LINES])),
        )
    yield Slide("What fake GPUs show, and what not", (lesson.fakes,))
    for question in lesson.quiz:
        yield Slide("Ask yourself", (question.ask,), choices=question.choices)
    yield Slide("To remember", points=lesson.points, blocks=(f"kailab course quiz {lesson.name}",))


def _plain(markdown: str) -> str:
    return _MARKS.sub("", " ".join(markdown.split()))


def html(deck: Deck, *, beside: bool = False) -> str:
    """Render the whole file. ``beside``: style and script are separate files, which several decks share."""
    import jinja2

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["plain"] = _plain
    template = environment.from_string(_TEMPLATE.read_text(encoding="utf-8"))
    style, script = (path.read_text(encoding="utf-8") for path in (STYLE, SCRIPT))
    return template.render(deck=deck, beside=beside, style=style, script=script).rstrip("\n") + "\n"
