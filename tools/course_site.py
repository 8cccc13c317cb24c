"""The pages of docs/course that are made from the course's data: ``python -m tools.course_site``.

``after/`` has the answers to the questions of a lesson's page, so that no answer is on the page of its question.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from kailab.course.challenge import Challenge, challenges
from kailab.course.lesson import LETTERS, Lesson, lessons
from kailab.course.slides import SCRIPT, STYLE, deck, html
from kailab.course.teaching import LessonWalk, walk

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "docs" / "course"
EXERCISES = ROOT / "exercises"
MADE = ("lessons", "after", "slides")
"""Folders whose files are all generated."""

_HEAD = "<!-- Made from kailab/course by `make docs`; change that, not this file. -->\n\n"
_PROVEN = "What fake GPUs prove, and what they don't"
_SHOWN = "What fakes can and can't show"
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_LEVELS = {1: "one field", 2: "the cause is elsewhere", 3: "several causes, or a trade"}


def pages() -> dict[str, str]:
    """Text by path, relative to docs/course."""
    found = {
        "challenges.md": _HEAD + "\n".join(_challenges(challenges())),
        "timing.md": _HEAD + "\n".join(_timing()),
        "fakes.md": _HEAD + "\n".join(_fakes()),
    }
    for one in lessons():
        walked = walk(one)
        found[f"lessons/{one.name}.md"] = _HEAD + "\n".join(_lesson(one))
        found[f"after/{one.name}.md"] = _HEAD + "\n".join(_after(one, walked))
        found[f"slides/{one.name}.html"] = html(deck(one, walked), beside=True)
    found |= {f"slides/{path.name}": path.read_text(encoding="utf-8") for path in (STYLE, SCRIPT)}
    return found


def _lesson(one: Lesson) -> Iterator[str]:
    yield f"# {one.number}. {one.title}\n\nAbout {one.minutes} minutes. [Slides](../slides/{one.name}.html)\n"
    yield f"    kailab course lesson {one.name}\n\n## The idea\n\n{one.concept}\n\n## Predict first\n"
    yield f"Before anything runs: `kailab course predict {one.name} {' '.join('N' for _ in one.predict)}`\n"
    yield from (f"{number}. {asked.ask}" for number, asked in enumerate(one.predict, 1))
    yield f"\n## See for yourself\n\nIn the lesson's folder (`cd {one.name}`):\n"
    for step, commands in zip(one.steps, one.commands(), strict=True):
        yield f"{step['told']}\n" if "told" in step else ""
        yield "\n".join(f"    {command}" for command in commands) + "\n"
    yield f"Then: `kailab course compare {one.name}`, or [what happened](../after/{one.name}.md).\n\n## Ask yourself\n"
    for number, question in enumerate(one.quiz, 1):
        yield f"**{number}. {question.ask}**\n"
        yield (
            "\n".join(f"- {letter}) {choice}" for letter, choice in zip(LETTERS, question.choices, strict=False)) + "\n"
        )
    yield f"Answer with `kailab course quiz {one.name} {' '.join('a' for _ in one.quiz)}`."
    yield f"\n## What fake GPUs show, and what not\n\n{one.fakes}\n\n## Its files\n"
    for name in one.files:
        yield f'??? note "{name}"\n\n    ```yaml\n{_indented((one.folder / name).read_text(encoding="utf-8"))}\n    ```\n'


def _after(one: Lesson, walked: LessonWalk) -> Iterator[str]:
    yield f"# After lesson {one.number}: {one.title}\n\nThis page has the answers to [the lesson's]({'../lessons/' + one.name}.md) questions.\n"
    yield "## What happened\n\n| question | result |\n|---|---|"
    yield from (f"| {asked.ask} | {seen:g} |" for asked, seen in zip(one.predict, walked.seen, strict=True))
    yield f"\n{one.happened}\n\n## Why, as the lab explains it\n"
    for why in walked.why:
        yield f"    $ kailab explain {why.what}\n" + "\n".join(f"    {line}" for line in why.lines) + "\n"
    yield "## The quiz\n"
    for question, right in zip(one.quiz, one.answers, strict=True):
        yield f"**{question.ask}**\n\n{right.answer}) {question.choices[LETTERS.index(right.answer)]}\n\n{right.why}\n"
        for letter, against in sorted(right.others.items()):
            yield f"- not {letter}) *{question.choices[LETTERS.index(letter)].rstrip('.')}*: {against}"
        yield ""


def _challenges(every: list[Challenge]) -> Iterator[str]:
    yield f"# Challenges\n\n{len(every)} labs that start broken. You solve each by editing YAML; the judge looks at the outcome:\n"
    yield "    kailab course start will-not-borrow\n    cd will-not-borrow\n    kailab course check\n"
    yield "Hints come one by one: `kailab course hint NAME`. This site has no solutions; any right way passes.\n"
    for level, what in _LEVELS.items():
        yield f"## Level {level}: {what}\n"
        for one in every:
            if one.level == level:
                yield f"### {one.title}\n\n`{one.name}`, about {one.minutes} minutes, the idea is in the exercise `{one.exercise}`\n\n{one.task}\n"


def _timing() -> Iterator[str]:
    taught, every = lessons(), challenges()
    yield "# Timing\n\nThe times are for a lesson alone; in a class add ten minutes per lesson for discussion.\n"
    yield "| lesson | alone | in a class | then |\n|---|---|---|---|"
    for one in taught:
        fitting = ", ".join(f"`{task.name}`" for task in every if task.exercise == one.exercise) or "-"
        yield f"| [{one.number}. {one.title}](lessons/{one.name}.md) | {one.minutes} min | {one.minutes + 10} min | {fitting} |"
    alone = sum(one.minutes for one in taught)
    yield f"| all | {alone / 60:.1f} h | {(alone + 10 * len(taught)) / 60:.1f} h | |\n"
    yield "| challenges | how many | alone |\n|---|---|---|"
    for level, what in _LEVELS.items():
        of_level = [one for one in every if one.level == level]
        yield f"| level {level}: {what} | {len(of_level)} | {sum(one.minutes for one in of_level) / 60:.1f} h |"
    yield f"| all | {len(every)} | {sum(one.minutes for one in every) / 60:.1f} h |"


def _fakes() -> Iterator[str]:
    """The limits of fakes in every lesson and exercise, on one page."""
    yield "# Fake against real\n"
    yield _section(EXERCISES / "README.md", _PROVEN)
    yield "\n## Lesson by lesson\n\n| lesson | what fakes show, and what not |\n|---|---|"
    yield from (f"| [{one.number}. {one.title}](lessons/{one.name}.md) | {one.fakes} |" for one in lessons())
    yield "\n## Exercise by exercise\n"
    for readme in sorted(EXERCISES.glob("*/README.md")):
        yield f"### {readme.parent.name}\n\n{_section(readme, _SHOWN)}\n"


def _section(page: Path, heading: str) -> str:
    """The text below a heading, up to the next one. Links become their text, because they lead out of the course."""
    _, found, rest = page.read_text(encoding="utf-8").partition(f"## {heading}\n")
    assert found, f"{page} has no section {heading!r}"
    return _LINK.sub(r"\1", rest.partition("\n## ")[0]).strip()


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" if line else "" for line in text.rstrip("\n").splitlines())


def write() -> None:
    """Write all pages, and remove pages that are no longer made."""
    for folder in MADE:
        shutil.rmtree(TARGET / folder, ignore_errors=True)
    for name, text in pages().items():
        path = TARGET / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.rstrip("\n") + "\n", encoding="utf-8")


if __name__ == "__main__":
    write()
