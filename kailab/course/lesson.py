"""A lesson as a value, with the commands that a student types for its steps."""

from __future__ import annotations

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
    """A number that is foretold. ``about``: a part of the lab, as in a challenge; ``count``: its running pods or their GPUs, after a step
    (the last if ``after`` is 0)."""

    ask: str
    about: Mapping[str, Any]
    count: str
    after: int = 0


class QuizQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """``choices``: by letter, a, b, c in order."""

    ask: str
    choices: tuple[str, ...]


class QuizAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """``answer``: the letter. ``why``: told with it. ``others``: for each other letter what speaks against it, told to whoever chose it;
    it does not say which is right."""

    answer: str
    why: str
    others: Mapping[str, str]


class ExplainedSubject(msgspec.Struct, frozen=True, kw_only=True):
    """What is explained after a step (the last if ``after`` is 0): kind and name, as ``kailab explain`` takes them."""

    explain: str
    after: int = 0


class Lesson(msgspec.Struct, frozen=True, kw_only=True):
    """``folder``: where its files are. ``number``: in the order of the course. ``slides``: a few points each. ``answers``: as many as there
    are questions in ``quiz``."""

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

    def commands(self) -> list[list[str]]:
        """What a student types, step by step: all that happens and all that is looked at."""
        fleet = "" if self.fleet == "lesson" else f" --fleet {self.fleet}"
        found = [_commands(step) for step in self.steps]
        scheduler = "" if self.scheduler == "kailab" else f" --scheduler {self.scheduler}"
        found[0] = [f"kailab up{fleet}{scheduler}", *found[0]]
        return found


def _commands(step: Mapping[str, Any]) -> list[str]:
    found = []
    if "apply" in step:
        found.append("kailab apply " + " ".join(f"-f {name}" for name in step["apply"]))
    if "delete" in step:
        found.append(f"kailab delete {step['delete']['kind'].lower()} {step['delete']['name']}")
    if "scale" in step:
        one = step["scale"]
        found.append(f"kailab scale {one['kind'].lower()} {one['name']} --replicas {one['replicas']}")
    found += [f"kailab {verb} {step[verb]}" for verb in ("fail", "recover") if verb in step]
    if "advance" in step:
        found.append(f"kailab run --for {step['advance']}")
    return [*found, *step.get("look", ())]


# Lessons from their folders, with every fault of a folder named by file and field.
#
# lessons/NAME/
#     lesson.yaml    in the form of lesson_schema.json
#     concept.md     the idea
#     answers.yaml   the quiz's right answers: what is on no page of a question
#     *.yaml         the manifests

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
        found = msgspec.convert(value, list[QuizAnswer])
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
