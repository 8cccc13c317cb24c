"""Slides of a lesson as one HTML file, made from the lesson and from what happens on its lab."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from kailab.course.drawing import GpuMap, QueueTreeDrawing
from kailab.course.lesson import Lesson
from kailab.course.teaching import LessonWalk, terms_in, walk
from kailab.evidence.wording import count

_TEMPLATE = Path(__file__).with_name("slides.html")
STYLE = _TEMPLATE.with_suffix(".css")
SCRIPT = _TEMPLATE.with_suffix(".js")
_LINES = 5
"""Lines of an explanation on one slide."""
_CODE = re.compile(r"`([^`]+)`")
_STRONG = re.compile(r"\*\*([^*]+)\*\*")


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
            f"Lesson {lesson.number}: {lesson.minutes_in_class} minutes in a class, {lesson.minutes} alone",
            f"Fleet: {lesson.fleet}{_size(walked)}",
            *_scheduler(lesson),
        ),
    )
    yield Slide("The idea", tuple(lesson.concept.split("\n\n")))
    if walked.drawn:
        yield Slide(
            "The queues",
            (
                "GPUs that each queue owns (quota), and may have at most (limit). A parent's numbers are for the queues below it together.",
            ),
            tree=walked.drawn[0].tree,
        )
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
    yield Slide("Your prediction and the lab", blocks=(f"kailab course compare {lesson.name}",))
    yield Slide("What happened", numbers=seen)
    for number, (step, drawing) in enumerate(zip(lesson.steps, walked.drawn, strict=False), 1):
        yield Slide(f"After step {number}", (step["told"],) if "told" in step else (), gpus=drawing.gpus)
    yield Slide("Why", (lesson.happened,))
    for explanation in walked.why:
        yield Slide(
            "As the lab tells it",
            tuple(terms_in(explanation.lines[:_LINES])),
            blocks=(explanation.command, "\n".join(_shortened(explanation.lines))),
        )
    yield Slide("What fake GPUs show, and what not", (lesson.fakes,))
    for question in lesson.quiz:
        yield Slide("Ask yourself", (question.ask,), choices=question.choices)
    yield Slide("Your answers", blocks=(f"kailab course quiz {lesson.name}",))
    yield Slide("To remember", points=lesson.points)


def _shortened(lines: Sequence[str]) -> list[str]:
    """The first lines of an output, and a mark of what is left out."""
    left_out = len(lines) - _LINES
    return [*lines[:_LINES], *([f"... ({count(left_out, 'more line')})"] if left_out > 0 else [])]


def _prose(markdown: str) -> str:
    """A paragraph as HTML, with its code and strong words."""
    text = escape(" ".join(markdown.split()))
    return _STRONG.sub(r"<strong>\1</strong>", _CODE.sub(r"<code>\1</code>", text))


def html(deck: Deck, *, beside: bool = False) -> str:
    """Render the whole file. ``beside``: style and script are separate files, which several decks share."""
    import jinja2

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["prose"] = _prose
    template = environment.from_string(_TEMPLATE.read_text(encoding="utf-8"))
    style, script = (path.read_text(encoding="utf-8") for path in (STYLE, SCRIPT))
    return template.render(deck=deck, beside=beside, style=style, script=script).rstrip("\n") + "\n"
