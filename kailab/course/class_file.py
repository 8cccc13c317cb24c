"""A class file: a teacher's list of students, each with their progress file.

    name: Spring course
    students:
      - {name: Ada, progress: ada.json}

A folder is a class, too: each ``NAME.json`` and each ``NAME/course.json`` in it is the progress of the student NAME.
``standing_of`` summarises the class.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from kailab.course.challenge import challenges
from kailab.course.lesson import lessons, name_hint
from kailab.course.progress import Progress, read_progress_file
from kailab.errors import InputError, KailabError, Where
from kailab.model import yamltext
from kailab.model.files import read_text


class Student(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``progress``: the progress file, relative to the class file."""

    name: str
    progress: str


class ClassFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    students: tuple[Student, ...]


@dataclass(frozen=True)
class StudentStanding:
    """How far a student is.

    ``predicted``: correct first predictions, and predictions compared. ``begun``: started and unsolved challenges with
    the number of checks. ``lessons_begun``: lessons without a passed quiz, with their status. ``last``: time of the last activity. ``missing``: there is no progress file yet. ``fault``: why
    the file can't be read; the numbers are 0 then.
    """

    name: str
    lessons: int
    predicted: tuple[int, int]
    challenges: int
    hints: int
    begun: tuple[tuple[str, int], ...]
    lessons_begun: tuple[tuple[str, str], ...]
    last: str
    missing: bool = False
    fault: str = ""


@dataclass(frozen=True)
class ClassStanding:
    """``lessons`` and ``challenges``: numbers of all that exist."""

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
                    "name": student.name, "lessons": student.lessons, "predicted_right": student.predicted[0], "predicted": student.predicted[1],
                    "challenges": student.challenges, "hints": student.hints, "begun": dict(student.begun),
                    "lessons_begun": dict(student.lessons_begun), "last": student.last,
                    "missing": student.missing, "fault": student.fault,
                }
                for student in self.students
            ],
        }  # fmt: skip


def standing_of(path: Path) -> ClassStanding:
    """Read a class file, or a folder, and all progress files. A damaged progress file is the ``fault`` of its student.
    Raises InputError(s) for an invalid class file."""
    class_file = _class_in(path)
    students = []
    for student in class_file.students:
        file = _progress_file(path, student)
        try:
            students.append(_standing(student.name, read_progress_file(file), missing=not file.exists()))
        except KailabError as error:
            students.append(replace(_standing(student.name, Progress(), missing=False), fault=str(error)))
    return ClassStanding(class_file.name, len(lessons()), len(challenges()), tuple(students))


def _progress_file(path: Path, student: Student) -> Path:
    return (path if path.is_dir() else path.parent) / student.progress


def progress_of(path: Path, student: str) -> Progress:
    """The progress of one student of the class. Raises InputError for an unknown student, StateError for an invalid
    progress file."""
    class_file = _class_in(path)
    entry = next((each for each in class_file.students if each.name == student), None)
    if entry is None:
        hint = name_hint(student, [each.name for each in class_file.students])
        raise InputError(f"{class_file.name} has no student {student!r:.80}; {hint}", Where(file=str(path)))
    return read_progress_file(_progress_file(path, entry))


def _class_in(path: Path) -> ClassFile:
    if path.is_dir():
        students = [Student(file.stem, file.name) for file in path.glob("*.json")]
        students += [
            Student(file.parent.name, f"{file.parent.name}/{file.name}") for file in path.glob("*/course.json")
        ]
        if not students:
            raise InputError(
                "the folder has no progress files; expected a NAME.json or a NAME/course.json for each student",
                Where(file=str(path)),
            )
        return _checked(ClassFile(path.resolve().name, tuple(sorted(students, key=lambda each: each.name))), path)
    value, _ = yamltext.read_document(read_text(path), str(path), "one class")
    try:
        class_file = msgspec.convert(value, ClassFile)
    except msgspec.ValidationError as error:
        raise InputError(
            f"{error}; expected name, and students with name and progress", Where(file=str(path))
        ) from None
    return _checked(class_file, path)


def _checked(class_file: ClassFile, path: Path) -> ClassFile:
    names = [student.name for student in class_file.students]
    if doubled := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(f"two students are named {doubled[0]!r:.80}; expected each name once", Where(file=str(path)))
    return class_file


def _standing(name: str, progress: Progress, *, missing: bool) -> StudentStanding:
    lessons, challenges = progress.lessons.values(), progress.challenges.values()
    compared = [pair for entry in lessons if entry.seen for pair in zip(entry.unaided, entry.seen, strict=False)]
    times = [when for entry in lessons for when in (entry.started, entry.predicted, entry.compared, entry.quiz)]
    times += [when for entry in challenges for when in (entry.started, entry.solved)]
    return StudentStanding(
        name,
        len(progress.passed()),
        (sum(predicted == seen for predicted, seen in compared), len(compared)),
        len(progress.solved()),
        sum(entry.hints for entry in challenges),
        tuple((name, entry.checks) for name, entry in progress.challenges.items() if entry.folder and not entry.solved),
        tuple((name, progress.status_of_lesson(name)) for name, entry in progress.lessons.items() if not entry.quiz),
        max(times, default=""),
        missing,
    )
