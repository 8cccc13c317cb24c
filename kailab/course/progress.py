"""What a student has done: a file of the user's own, or the one that is named.

Written as a whole, atomically: a command that is killed leaves it as it was. Who changes it holds a lock, so what two commands do at
once is kept, both.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from kailab.errors import StateError
from kailab.model.files import read_bytes
from kailab.model.private_files import make_folder, open_file, replace_file

FORMAT = 1
VARIABLE = "KAILAB_COURSE"
"""Environment variable that names the file."""


class ChallengeProgress(msgspec.Struct, omit_defaults=True):
    """Of a challenge. Times are of the wall. ``hints``: how many were shown; ``files``: with which it was solved, text by name."""

    folder: str = ""
    started: str = ""
    checks: int = 0
    hints: int = 0
    solved: str = ""
    files: Mapping[str, str] = {}


class LessonProgress(msgspec.Struct, omit_defaults=True):
    """Of a lesson. ``predicted``: when the ``prediction`` was made; ``compared``: when it was with what was ``seen``; ``first``: the first
    prediction of all, where the lesson was begun anew. ``quiz``: when all ``answers`` were right, after so many ``tries``."""

    folder: str = ""
    started: str = ""
    predicted: str = ""
    prediction: list[float] = []
    compared: str = ""
    seen: list[float] = []
    first: list[float] = []
    tries: int = 0
    quiz: str = ""
    answers: list[str] = []

    @property
    def unaided(self) -> list[float]:
        """What was foretold before anything of the lesson had been seen."""
        return self.first or self.prediction

    def begin_anew(self) -> None:
        """With a new prediction. What was foretold first and a quiz that was passed stay."""
        self.first = self.unaided
        self.started, self.predicted, self.prediction, self.compared = "", "", [], ""


class Progress(msgspec.Struct, omit_defaults=True):
    format: int = FORMAT
    challenges: dict[str, ChallengeProgress] = {}
    lessons: dict[str, LessonProgress] = {}

    def of(self, name: str) -> ChallengeProgress:
        """Kept from now on, if it was not."""
        return self.challenges.setdefault(name, ChallengeProgress())

    def of_lesson(self, name: str) -> LessonProgress:
        return self.lessons.setdefault(name, LessonProgress())

    def status(self, name: str) -> str:
        """Of a challenge, in a word; empty where it was not begun."""
        done = self.challenges.get(name)
        return "" if done is None else "solved" if done.solved else "begun"

    def status_of_lesson(self, name: str) -> str:
        taken = self.lessons.get(name)
        if taken is None:
            return ""
        done = (("passed", taken.quiz), ("compared", taken.compared), ("predicted", taken.predicted))
        return next((word for word, when in done if when), "begun")

    def solved(self) -> set[str]:
        return {name for name, done in self.challenges.items() if done.solved}

    def passed(self) -> set[str]:
        """Lessons whose quiz is answered."""
        return {name for name, taken in self.lessons.items() if taken.quiz}


def progress_file() -> Path:
    """Where the user's own is."""
    if named := os.environ.get(VARIABLE):
        return Path(named)
    # A relative path is to be ignored, says the XDG specification.
    base = Path(os.environ.get("XDG_DATA_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".local" / "share") / "kailab" / "course.json"


def read(path: Path) -> Progress:
    """Empty where there is no file yet. Raises StateError for one that is damaged."""
    if not path.exists():
        return Progress()
    try:
        found = msgspec.json.decode(read_bytes(path), type=Progress)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise StateError(
            f"{path}: is no record of the course: {error}; move it away, and a new one is begun"
        ) from error
    if found.format != FORMAT:
        raise StateError(f"{path}: is of format {found.format}; this kailab knows {FORMAT}")
    return found


@contextmanager
def changing(path: Path) -> Iterator[Progress]:
    """What is done to the value is written at the end, unless an error ends it. Others wait meanwhile. Raises StateError."""
    try:
        make_folder(path.parent)
        with open_file(Path(f"{path}.lock"), "a") as alone:
            fcntl.flock(alone, fcntl.LOCK_EX)
            progress = read(path)
            yield progress
            replace_file(path, msgspec.json.format(msgspec.json.encode(progress), indent=2) + b"\n")
    except OSError as error:
        raise StateError(f"{path}: the progress can't be written: {error.strerror or error}") from error


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
