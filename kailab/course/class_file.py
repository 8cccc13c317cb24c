"""A class file: a teacher's list of students, each with the file of their progress.

name: Spring course
students:
  - {name: Ada, progress: ada.json}
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from kailab.course.challenge import challenges
from kailab.course.lesson import lessons
from kailab.course.progress import Progress, read
from kailab.errors import InputError, InputErrors, KailabError, Where
from kailab.model import yamltext
from kailab.model.files import read_text
from kailab.model.suggestions import closest_names


class Student(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``progress``: the file, seen from the class file."""

    name: str
    progress: str


class ClassFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    students: tuple[Student, ...]


@dataclass(frozen=True)
class StudentStanding:
    """How far a student is. ``foretold``: first predictions that were right, of those compared; ``begun``: challenges that are begun and not
    solved, with how often they were judged; ``last``: when something was last done. ``missing``: there is no file of theirs yet."""

    name: str
    lessons: int
    foretold: tuple[int, int]
    challenges: int
    hints: int
    begun: tuple[tuple[str, int], ...]
    last: str
    missing: bool = False


@dataclass(frozen=True)
class ClassStanding:
    """``lessons`` and ``challenges``: how many there are."""

    name: str
    lessons: int
    challenges: int
    students: tuple[StudentStanding, ...]

    def data(self) -> dict[str, Any]:
        return {
            "class": self.name,
            "lessons": self.lessons,
            "challenges": self.challenges,
            "students": [
                {
                    "name": one.name, "lessons": one.lessons, "foretold_right": one.foretold[0], "foretold": one.foretold[1],
                    "challenges": one.challenges, "hints": one.hints, "begun": dict(one.begun), "last": one.last,
                    "missing": one.missing,
                }
                for one in self.students
            ],
        }  # fmt: skip


def standing_of(path: Path) -> ClassStanding:
    """Raises InputError(s) for a class file that is none, and for progress files that are none."""
    found = _class_in(path)
    errors: list[InputError] = []
    students = []
    for one in found.students:
        file = path.parent / one.progress
        try:
            students.append(_standing(one.name, read(file), missing=not file.exists()))
        except KailabError as error:
            errors.append(InputError(f"{one.name}: {error}", Where(file=str(path))))
    if errors:
        raise InputErrors.of(errors)
    return ClassStanding(found.name, len(lessons()), len(challenges()), tuple(students))


def progress_of(path: Path, student: str) -> Progress:
    """Of one student of the class. Raises InputError where there is none of that name, StateError for a progress file that is none."""
    found = _class_in(path)
    one = next((one for one in found.students if one.name == student), None)
    if one is None:
        names = [one.name for one in found.students]
        close = closest_names(student, names)
        hint = f"did you mean {close[0]}?" if close else f"expected one of: {', '.join(names)}"
        raise InputError(f"{found.name} has no student {student!r:.80}; {hint}", Where(file=str(path)))
    return read(path.parent / one.progress)


def _class_in(path: Path) -> ClassFile:
    value, _ = yamltext.read_document(read_text(path), str(path), "one class")
    try:
        found = msgspec.convert(value, ClassFile)
    except msgspec.ValidationError as error:
        raise InputError(
            f"{error}; expected name, and students with name and progress", Where(file=str(path))
        ) from None
    names = [one.name for one in found.students]
    if doubled := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(f"two students are called {doubled[0]!r:.80}", Where(file=str(path)))
    return found


def _standing(name: str, progress: Progress, *, missing: bool) -> StudentStanding:
    taken, done = progress.lessons.values(), progress.challenges.values()
    compared = [pair for one in taken if one.seen for pair in zip(one.unaided, one.seen, strict=False)]
    times = [when for one in taken for when in (one.started, one.predicted, one.compared, one.quiz)]
    times += [when for one in done for when in (one.started, one.solved)]
    return StudentStanding(
        name,
        len(progress.passed()),
        (sum(foretold == seen for foretold, seen in compared), len(compared)),
        len(progress.solved()),
        sum(one.hints for one in done),
        tuple((name, one.checks) for name, one in progress.challenges.items() if one.folder and not one.solved),
        max(times, default=""),
        missing,
    )
