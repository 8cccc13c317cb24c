"""Lessons from their folders, with every fault of a folder named by file and field.

lessons/NAME/
    lesson.yaml    in the form of lesson_schema.json
    concept.md     the idea
    answers.yaml   the quiz's right answers: what is on no page of a question
    *.yaml         the manifests
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from kailab.course.lesson import Lesson, Right
from kailab.errors import InputError, Where
from kailab.model import yamltext
from kailab.model.files import read_text
from kailab.model.schema_files import SchemaFault, read_schema_file
from kailab.model.suggestions import closest_names

LESSONS = Path(__file__).with_name("lessons")
LETTERS = "abcdef"
_SCHEMA = Path(__file__).with_name("lesson_schema.json")
_FILE, _CONCEPT, _ANSWERS = "lesson.yaml", "concept.md", "answers.yaml"


def lessons() -> list[Lesson]:
    """All that come with kailab, in order. Raises InputError(s)."""
    found = [read_lesson(folder) for folder in LESSONS.iterdir() if (folder / _FILE).is_file()]
    return sorted(found, key=lambda one: one.number)


def lesson(name: str) -> Lesson:
    """By its name or number. Raises InputError where there is none."""
    every = lessons()
    found = next((one for one in every if name in (one.name, str(one.number))), None)
    if found is None:
        names = [one.name for one in every]
        close = closest_names(name, names)
        hint = f"did you mean {close[0]}?" if close else f"expected one of: {', '.join(names)}"
        raise InputError(f"there is no lesson {name!r:.80}; {hint}")
    return found


def read_lesson(folder: Path) -> Lesson:
    """Raises InputError, or InputErrors with every fault of its description."""
    value = read_schema_file(folder / _FILE, _SCHEMA, "one lesson", _faults)
    told = {
        **value,
        "folder": folder,
        "name": folder.name,
        "concept": read_text(folder / _CONCEPT).strip(),
        "answers": _answers(folder / _ANSWERS, [len(one["choices"]) for one in value["quiz"]]),
    }
    return msgspec.convert(told, Lesson, dec_hook=lambda kind, path: path)


def _faults(value: dict[str, Any], folder: Path) -> Iterator[SchemaFault]:
    """What follows takes the form for granted."""
    for place, name in enumerate(value["files"]):
        if not (folder / name).is_file():
            yield SchemaFault(f"files[{place}]", f"there is no file {name!r} in the folder")
    for number, step in enumerate(value["steps"]):
        for place, name in enumerate(step.get("apply", ())):
            if name not in value["files"]:
                yield SchemaFault(f"steps[{number}].apply[{place}]", f"{name!r} is none of its files")
    for part in ("predict", "why"):
        for number, one in enumerate(value[part]):
            if one.get("after", 1) > len(value["steps"]):
                yield SchemaFault(f"{part}[{number}].after", f"there are {len(value['steps'])} steps")
    if not (folder / _CONCEPT).is_file():
        yield SchemaFault("", f"there is no {_CONCEPT} beside it")


def _answers(file: Path, choices: list[int]) -> list[Any]:
    value, _ = yamltext.read_document(read_text(file), str(file), "one list of answers")
    try:
        found = msgspec.convert(value, list[Right])
    except msgspec.ValidationError as error:
        raise InputError(str(error), Where(file=str(file))) from None
    if len(found) != len(choices):
        raise InputError(f"{len(found)} answers; expected {len(choices)}, one for each question", Where(file=str(file)))
    for number, (one, many) in enumerate(zip(found, choices, strict=True), 1):
        if one.answer not in LETTERS[:many]:
            raise InputError(
                f"answer {number} is {one.answer!r}; expected {', '.join(LETTERS[:many])}", Where(file=str(file))
            )
        wrong = [letter for letter in LETTERS[:many] if letter != one.answer]
        if sorted(one.others) != wrong:
            raise InputError(
                f"answer {number} says what speaks against {', '.join(sorted(one.others)) or 'nothing'}; expected {', '.join(wrong)}",
                Where(file=str(file)),
            )
    return [msgspec.structs.asdict(one) for one in found]
