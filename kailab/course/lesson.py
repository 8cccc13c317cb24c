"""Lessons, read from their folders, with the commands that a student types for their steps. Every fault of a folder is
reported with file and field.

    lessons/NAME/
        lesson.yaml    in the form of lesson_schema.json
        concept.md     the idea
        answers.yaml   correct answers of the quiz, kept apart from the questions
        *.yaml         the manifests

``lessons`` reads all of them, ``lesson`` reads one. A teacher's own ones are in a folder that
``$KAILAB_COURSE_FOLDER`` names.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from kailab.errors import InputError, Where
from kailab.model import yamltext
from kailab.model.files import read_text
from kailab.model.schema_files import SchemaFault, read_schema_file
from kailab.model.suggestions import closest_names


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """A number to predict. ``about``: a part of the lab, as in a challenge. ``count``: its running pods or their GPUs,
    after a step (the last one if ``after`` is 0)."""

    ask: str
    about: Mapping[str, Any]
    count: str
    after: int = 0


class QuizQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """``choices``: in the order of their letters a, b, c."""

    ask: str
    choices: tuple[str, ...]


class QuizAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """``answer``: the letter. ``why``: shown with it. ``others``: for each other letter why it is wrong, without
    telling which one is right."""

    answer: str
    why: str
    others: Mapping[str, str]


class ExplainedSubject(msgspec.Struct, frozen=True, kw_only=True):
    """A subject to explain after a step (the last one if ``after`` is 0): kind and name, as ``kailab explain`` takes
    them."""

    explain: str
    after: int = 0


class Lesson(msgspec.Struct, frozen=True, kw_only=True):
    """A lesson. ``number``: its place in the course. ``points``: for a slide. ``answers``: one for each question of
    ``quiz``."""

    folder: Path
    name: str
    number: int
    title: str
    minutes: int
    exercise: str
    concept: str
    points: tuple[str, ...]
    files: tuple[str, ...]
    predict: tuple[Prediction, ...]
    steps: tuple[Mapping[str, Any], ...]
    why: tuple[ExplainedSubject, ...]
    happened: str
    fakes: str
    quiz: tuple[QuizQuestion, ...]
    answers: tuple[QuizAnswer, ...]
    fleet: str = "lesson"
    scheduler: str = "kailab"

    @property
    def own(self) -> bool:
        """Whether it is a teacher's own lesson, not one of kailab's."""
        return self.folder.parent != LESSONS

    @property
    def minutes_in_class(self) -> int:
        return self.minutes + IN_CLASS

    @property
    def answer_command(self) -> str:
        """The command that answers the quiz, with a placeholder for each answer."""
        return f"kailab course quiz {self.name} {' '.join('LETTER' for _ in self.quiz)}"

    def commands(self) -> list[list[str]]:
        """The commands that a student types for each step."""
        fleet = "" if self.fleet == "lesson" else f" --fleet {self.fleet}"
        commands = [_commands(step) for step in self.steps]
        scheduler = "" if self.scheduler == "kailab" else f" --scheduler {self.scheduler}"
        commands[0] = [f"kailab up{fleet}{scheduler}", *commands[0]]
        return commands


def _commands(step: Mapping[str, Any]) -> list[str]:
    commands = []
    if "apply" in step:
        commands.append("kailab apply " + " ".join(f"-f {name}" for name in step["apply"]))
    if "delete" in step:
        commands.append(f"kailab delete {step['delete']['kind'].lower()} {step['delete']['name']}")
    if "scale" in step:
        target = step["scale"]
        commands.append(f"kailab scale {target['kind'].lower()} {target['name']} --replicas {target['replicas']}")
    commands += [f"kailab {verb} {step[verb]}" for verb in ("fail", "recover") if verb in step]
    if "advance" in step:
        commands.append(f"kailab run --for {step['advance']}")
    return [*commands, *step.get("look", ())]


LESSONS = Path(__file__).with_name("lessons")
FOLDER_VARIABLE = "KAILAB_COURSE_FOLDER"
"""Environment variable that names a folder with a teacher's own ``lessons/NAME`` and ``challenges/NAME``."""
LETTERS = "abcdef"
IN_CLASS = 10
"""Minutes that a lesson takes longer in a class, for discussion."""
_SCHEMA = Path(__file__).with_name("lesson_schema.json")
_FILE, _CONCEPT, _ANSWERS = "lesson.yaml", "concept.md", "answers.yaml"


def lessons() -> list[Lesson]:
    """All lessons, in order: kailab's, then the teacher's own. Raises InputError(s)."""
    all_lessons = [read_lesson(folder) for folder in course_folders(LESSONS, _FILE)]
    return sorted(all_lessons, key=lambda each: (each.own, each.number))


def course_folders(built_in: Path, file: str) -> list[Path]:
    """Folders that contain ``file``: those in ``built_in``, and those in the folder of the same name below
    ``$KAILAB_COURSE_FOLDER``. Raises InputError if a name exists twice, or if that variable names no such folder."""
    folders = {folder.name: folder for folder in built_in.iterdir() if (folder / file).is_file()}
    given = os.environ.get(FOLDER_VARIABLE)
    if given is None:
        return list(folders.values())
    if not any((Path(given) / part).is_dir() for part in ("lessons", "challenges")):
        raise InputError(
            f"${FOLDER_VARIABLE} names a folder without lessons; expected a folder with lessons/NAME or challenges/NAME",
            Where(file=given),
        )
    own = Path(given) / built_in.name
    for folder in sorted(own.iterdir()) if own.is_dir() else ():
        if (folder / file).is_file():
            if folder.name in folders:
                raise InputError(f"kailab has a {folder.name!r} itself; expected another name", Where(file=str(folder)))
            folders[folder.name] = folder
    return list(folders.values())


def lesson(name: str) -> Lesson:
    """A lesson by name or number. Raises InputError if it does not exist."""
    all_lessons = lessons()
    named = next((each for each in all_lessons if name in (each.name, str(each.number))), None)
    if named is None:
        raise InputError(f"no lesson {name!r:.80}; {name_hint(name, [each.name for each in all_lessons])}")
    return named


def name_hint(name: str, names: list[str]) -> str:
    """The end of an error about an unknown name: the closest of the known names, or all of them."""
    close = closest_names(name, names)
    return f"did you mean {close[0]}?" if close else f"expected one of: {', '.join(names)}"


def read_lesson(folder: Path) -> Lesson:
    """Read a lesson. Raises InputError, or InputErrors with every fault of its description."""
    value = read_schema_file(folder / _FILE, _SCHEMA, "one lesson", _faults)
    fields = {
        **value,
        "folder": folder,
        "name": folder.name,
        "concept": read_text(folder / _CONCEPT).strip(),
        "answers": _answers(folder / _ANSWERS, [len(question["choices"]) for question in value["quiz"]]),
    }
    return msgspec.convert(fields, Lesson, dec_hook=lambda kind, path: path)


def _faults(value: dict[str, Any], folder: Path) -> Iterator[SchemaFault]:
    """Faults beyond the schema, which the value already satisfies."""
    for index, name in enumerate(value["files"]):
        if not (folder / name).is_file():
            yield SchemaFault(f"files[{index}]", f"no file {name!r} in the folder")
    for number, step in enumerate(value["steps"]):
        for index, name in enumerate(step.get("apply", ())):
            if name not in value["files"]:
                yield SchemaFault(f"steps[{number}].apply[{index}]", f"{name!r} is not one of its files")
    for part in ("predict", "why"):
        for number, entry in enumerate(value[part]):
            if entry.get("after", 1) > len(value["steps"]):
                yield SchemaFault(f"{part}[{number}].after", f"there are only {len(value['steps'])} steps")
    if not (folder / _CONCEPT).is_file():
        yield SchemaFault("", f"expected a file {_CONCEPT} beside it")


def _answers(file: Path, choices: list[int]) -> list[Any]:
    value, _ = yamltext.read_document(read_text(file), str(file), "one list of answers")
    try:
        answers = msgspec.convert(value, list[QuizAnswer])
    except msgspec.ValidationError as error:
        raise InputError(str(error), Where(file=str(file))) from None
    if len(answers) != len(choices):
        raise InputError(
            f"{len(answers)} answers; expected {len(choices)}, one for each question", Where(file=str(file))
        )
    for number, (answer, count) in enumerate(zip(answers, choices, strict=True), 1):
        if answer.answer not in LETTERS[:count]:
            raise InputError(
                f"answer {number} is {answer.answer!r}; expected {', '.join(LETTERS[:count])}", Where(file=str(file))
            )
        wrong = [letter for letter in LETTERS[:count] if letter != answer.answer]
        if sorted(answer.others) != wrong:
            raise InputError(
                f"answer {number} explains {', '.join(sorted(answer.others)) or 'nothing'} under others; expected {', '.join(wrong)}",
                Where(file=str(file)),
            )
    return [msgspec.structs.asdict(answer) for answer in answers]
