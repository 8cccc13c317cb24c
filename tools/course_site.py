"""Write the pages of docs/course that are generated from the course's data: ``python -m tools.course_site``.

``after/`` has the answers to the questions of a lesson's page, so that no answer is on the page of its question. The
solutions of the challenges go to docs/course-solutions.md, which the site does not have: it is for teachers.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from kailab.course.challenge import Challenge, challenges
from kailab.course.lesson import IN_CLASS, LETTERS, Lesson, lessons
from kailab.course.slides import SCRIPT, STYLE, deck, html
from kailab.course.teaching import LessonWalk, terms_in, walk

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "docs" / "course"
SOLUTIONS = ROOT / "docs" / "course-solutions.md"
_ANSWERS = ROOT / "tests" / "course" / "solutions"
EXERCISES = ROOT / "exercises"
MADE = ("lessons", "after", "slides")
"""Folders whose files are all generated."""

_HEAD = "<!-- Made from kailab/course by `make docs`; change that, not this file. -->\n\n"
_PROVEN = "What fake GPUs prove, and what they don't"
_SHOWN = "What fakes can and can't show"
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_SHORT = 80
"""Longest value of a field in the line of a wrong answer."""
_LEVELS = {1: "one field", 2: "the cause is elsewhere", 3: "several causes, or a trade"}


def pages() -> dict[str, str]:
    """Texts by path relative to docs/course."""
    texts = {
        "challenges.md": _HEAD + "\n".join(_challenges(challenges())),
        "timing.md": _HEAD + "\n".join(_timing()),
        "fakes.md": _HEAD + "\n".join(_fakes()),
    }
    for lesson in lessons():
        walked = walk(lesson, drawn=True)
        texts[f"lessons/{lesson.name}.md"] = _HEAD + "\n".join(_lesson(lesson))
        texts[f"after/{lesson.name}.md"] = _HEAD + "\n".join(_after(lesson, walked))
        texts[f"slides/{lesson.name}.html"] = html(deck(lesson, walked), beside=True)
    texts |= {f"slides/{path.name}": path.read_text(encoding="utf-8") for path in (STYLE, SCRIPT)}
    return texts


def _lesson(lesson: Lesson) -> Iterator[str]:
    yield f"# {lesson.number}. {lesson.title}\n\nAbout {lesson.minutes} minutes alone, {lesson.minutes_in_class} in a class. [Slides](../slides/{lesson.name}.html)\n"
    yield f"    kailab course lesson {lesson.name}\n\n## The idea\n\n{lesson.concept}\n\n## Predict first\n"
    yield f"Before anything runs: `kailab course predict {lesson.name} {' '.join('N' for _ in lesson.predict)}`\n"
    yield from (f"{number}. {asked.ask}" for number, asked in enumerate(lesson.predict, 1))
    yield f"\n## See for yourself\n\nIn the lesson's folder (`cd {lesson.name}`):\n"
    for step, commands in zip(lesson.steps, lesson.commands(), strict=True):
        yield f"{step['told']}\n" if "told" in step else ""
        yield "\n".join(f"    {command}" for command in commands) + "\n"
    yield f"Then: `kailab course compare {lesson.name}`, or [what happened](../after/{lesson.name}.md).\n\n## Ask yourself\n"
    for number, question in enumerate(lesson.quiz, 1):
        yield f"**{number}. {question.ask}**\n"
        yield (
            "\n".join(f"- {letter}) {choice}" for letter, choice in zip(LETTERS, question.choices, strict=False)) + "\n"
        )
    yield f"Answer with `{lesson.answer_command}`."
    yield f"\n## What fake GPUs show, and what not\n\n{lesson.fakes}\n\n## Its files\n"
    for name in lesson.files:
        yield f'??? note "{name}"\n\n    ```yaml\n{_indented((lesson.folder / name).read_text(encoding="utf-8"))}\n    ```\n'


def _after(lesson: Lesson, walked: LessonWalk) -> Iterator[str]:
    yield f"# After lesson {lesson.number}: {lesson.title}\n\nThis page has the answers to [the lesson's]({'../lessons/' + lesson.name}.md) questions.\n"
    yield "## What happened\n\n| question | result |\n|---|---|"
    yield from (f"| {asked.ask} | {seen:g} |" for asked, seen in zip(lesson.predict, walked.seen, strict=True))
    yield f"\n{lesson.happened}\n\n## Why, as the lab explains it\n"
    for why in walked.why:
        yield f"    {why.command}\n" + "\n".join(f"    {line}" for line in why.lines) + "\n"
    yield from (f"- {meaning}" for meaning in terms_in(line for why in walked.why for line in why.lines))
    yield "\n## The quiz\n"
    for question, right in zip(lesson.quiz, lesson.answers, strict=True):
        yield f"**{question.ask}**\n\n{right.answer}) {question.choices[LETTERS.index(right.answer)]}\n\n{right.why}\n"
        for letter, against in sorted(right.others.items()):
            yield f"- not {letter}) *{question.choices[LETTERS.index(letter)].rstrip('.')}*: {against}"
        yield ""


def _challenges(all_challenges: list[Challenge]) -> Iterator[str]:
    yield f"# Challenges\n\n{len(all_challenges)} labs that start broken. You solve each by editing YAML; the judge looks at the outcome:\n"
    yield "    kailab course start will-not-borrow\n    cd will-not-borrow\n    kailab course check\n"
    yield "Hints come one by one: `kailab course hint NAME`. This site has no solutions, and any right way passes.\n"
    for level, meaning in _LEVELS.items():
        yield f"## Level {level}: {meaning}\n"
        for challenge in all_challenges:
            if challenge.level == level:
                yield f"### {challenge.title}\n\n`{challenge.name}`, about {challenge.minutes} minutes, the idea is in the exercise `{challenge.exercise}`\n\n{challenge.task}\n"


def solutions() -> str:
    """The page of solutions: for each challenge the right answers that the tests try, as changes of its files."""
    return _HEAD + "\n".join(_solutions(challenges()))


def _solutions(all_challenges: list[Challenge]) -> Iterator[str]:
    yield "# Solutions of the challenges\n\nFor teachers, with all hints. Tests try every answer on this page, right and wrong. Other right ways exist; the judge looks at the outcome.\n"
    yield "The judge reads the student's files, so a solution is an edit of these. A change of an object is shown as a merge patch (`null` removes a field), followed by the command that tries it in the challenge's lab; `kailab patch` changes no file.\n"
    for challenge in all_challenges:
        answers = yaml.safe_load((_ANSWERS / f"{challenge.name}.yaml").read_text(encoding="utf-8"))
        yield f"## {challenge.title}\n\n`{challenge.name}`, level {challenge.level}. {challenge.learnt}\n\nHints:\n"
        yield "\n".join(f"{number}. {hint}" for number, hint in enumerate(challenge.hints, 1)) + "\n"
        for answer in answers["solutions"]:
            yield f"**{answer['name']}**\n"
            yield from _change(challenge, answer)
        yield "Tempting and wrong:\n"
        yield (
            "\n".join(
                f"- *{wrong['name']}* ({_in_short(wrong)}): {_failure(challenge, wrong['told'])}"
                for wrong in answers["wrong"]
            )
            + "\n"
        )


def _change(challenge: Challenge, answer: dict[str, Any]) -> Iterator[str]:
    """A right answer in full, with the commands that try it in a lab."""
    for name, change in answer.get("patch", {}).items():
        yield f"{name}:\n\n{_fenced(yaml.safe_dump(change, sort_keys=False, width=110))}\n"
        kind, _, object_name = name.partition("/")
        if kind == "Job":  # an API server refuses most changes of a Job
            yield f"    kailab delete job {object_name} && kailab apply -f {_file_of(challenge, name)}    # once it is edited\n"
        else:
            yield f"    kailab patch {kind.lower()} {object_name} --type merge -p {shlex.quote(json.dumps(change))}\n"
    if dropped := answer.get("drop"):
        yield f"Without {', '.join(dropped)} (`kailab delete {' '.join(name.lower() for name in dropped)}`).\n"
    for file, objects in answer.get("add", {}).items():
        yield f"Added to {file} (`kailab apply -f {file}`):\n\n{_fenced(yaml.safe_dump_all(objects, sort_keys=False, width=110))}\n"
    for file, (old, new) in answer.get("replace", {}).items():
        yield f"In {file} (`kailab course check --open` opens a lab with it), this\n\n{_fenced(old)}\n\nbecomes\n\n{_fenced(new)}\n"


def _file_of(challenge: Challenge, name: str) -> str:
    """The student's file with an object, which is named as Kind/name."""
    for file in challenge.files.edit:
        objects = yaml.safe_load_all((challenge.folder / file).read_text(encoding="utf-8"))
        if any(f"{obj.get('kind')}/{obj.get('metadata', {}).get('name')}" == name for obj in objects if obj):
            return file
    raise AssertionError(f"{challenge.name}: no file has {name}")


def _fenced(text: str) -> str:
    return f"```yaml\n{text.rstrip()}\n```"


def _in_short(answer: dict[str, Any]) -> str:
    """What a wrong answer changes, in one line."""
    parts = [f"{name}: {_fields(change)}" for name, change in answer.get("patch", {}).items()]
    parts += [f"without {', '.join(answer['drop'])}"] if "drop" in answer else []
    for file, objects in answer.get("add", {}).items():
        parts += [f"new in {file}: {obj['kind']}/{obj['metadata']['name']}" for obj in objects]
    for file, (old, new) in answer.get("replace", {}).items():
        parts.append(f"in {file} {_code(old)} becomes {_code(new)}")
    return "; ".join(parts)


def _code(text: str) -> str:
    return f"`{' '.join(text.split())}`" if text else "nothing"


def _fields(change: dict[str, Any]) -> str:
    """The changed fields with their values; a long value, such as an affinity, by its field alone."""
    return ", ".join(
        f"`{path}: {json.dumps(value)}`" if len(json.dumps(value)) <= _SHORT else f"`{path.rsplit('.', 1)[-1]}` changed"
        for path, value in _leaves(change, "")
    )


def _leaves(change: dict[str, Any], path: str) -> Iterator[tuple[str, Any]]:
    for name, value in change.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, name)
        else:
            yield f"{path}.{name}" if path else name, value


def _failure(challenge: Challenge, reported: str) -> str:
    """What the judge says of a wrong answer. ``reported``: a part of it, which the tests look for."""
    for condition in challenge.judged:
        if reported in condition["say"]:
            return f'{"this rule is broken" if condition.get("rule") else "this is not met"}: "{condition["say"]}"'
    return f'the judge\'s reason has "{reported}".'


def _timing() -> Iterator[str]:
    taught, all_challenges = lessons(), challenges()
    yield f"# Timing\n\nThe times are for a lesson alone; in a class add {IN_CLASS} minutes per lesson for discussion.\n"
    yield "| lesson | alone | in a class | then |\n|---|---|---|---|"
    for item in taught:
        fitting = ", ".join(f"`{task.name}`" for task in all_challenges if task.exercise == item.exercise) or "-"
        yield f"| [{item.number}. {item.title}](lessons/{item.name}.md) | {item.minutes} min | {item.minutes_in_class} min | {fitting} |"
    alone = sum(item.minutes for item in taught)
    yield f"| all | {alone / 60:.1f} h | {(alone + IN_CLASS * len(taught)) / 60:.1f} h | |\n"
    yield "| challenges | how many | alone |\n|---|---|---|"
    for level, meaning in _LEVELS.items():
        of_level = [item for item in all_challenges if item.level == level]
        yield f"| level {level}: {meaning} | {len(of_level)} | {sum(item.minutes for item in of_level) / 60:.1f} h |"
    yield f"| all | {len(all_challenges)} | {sum(item.minutes for item in all_challenges) / 60:.1f} h |"


def _fakes() -> Iterator[str]:
    """The limits of fakes in every lesson and exercise, on one page."""
    yield "# Fake against real\n"
    yield _section(EXERCISES / "README.md", _PROVEN)
    yield "\n## Lesson by lesson\n\n| lesson | what fakes show, and what not |\n|---|---|"
    yield from (
        f"| [{lesson.number}. {lesson.title}](lessons/{lesson.name}.md) | {lesson.fakes} |" for lesson in lessons()
    )
    yield "\n## Exercise by exercise\n"
    for readme in sorted(EXERCISES.glob("*/README.md")):
        yield f"### {readme.parent.name}\n\n{_section(readme, _SHOWN)}\n"


def _section(page: Path, heading: str) -> str:
    """The text below a heading, up to the next one. Links become plain text, because they lead out of the course."""
    _, separator, text = page.read_text(encoding="utf-8").partition(f"## {heading}\n")
    assert separator, f"{page} has no section {heading!r}"
    return _LINK.sub(r"\1", text.partition("\n## ")[0]).strip()


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" if line else "" for line in text.rstrip("\n").splitlines())


def write() -> None:
    """Write all pages, and remove generated files that are no longer part of them."""
    for folder in MADE:
        shutil.rmtree(TARGET / folder, ignore_errors=True)
    for name, text in pages().items():
        path = TARGET / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.rstrip("\n") + "\n", encoding="utf-8")
    SOLUTIONS.write_text(solutions().rstrip("\n") + "\n", encoding="utf-8")


if __name__ == "__main__":
    write()
