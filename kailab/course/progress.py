"""The progress file of a student: the user's own, or a named one.

The file is written atomically, so a killed command leaves it unchanged. Changes are made under a lock, so concurrent
commands do not lose each other's.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from kailab.errors import StateError, os_errors_as
from kailab.model.files import read_bytes
from kailab.model.private_files import make_folder, open_private, replace_file

FORMAT = 1
VARIABLE = "KAILAB_COURSE"
"""Environment variable that names the file."""


class ChallengeProgress(msgspec.Struct, omit_defaults=True):
    """Progress in a challenge. Times are wall time. ``hints``: number of hints shown; ``files``: the files that solved
    it, text by name."""

    folder: str = ""
    started: str = ""
    checks: int = 0
    hints: int = 0
    solved: str = ""
    files: Mapping[str, str] = {}


class LessonProgress(msgspec.Struct, omit_defaults=True):
    """Progress in a lesson.

    ``predicted``: when the ``prediction`` was made. ``compared``: when it was compared with what was ``seen``.
    ``first``: the first prediction, if the lesson was restarted. ``quiz``: when all ``answers`` were correct, after
    ``tries`` attempts.
    """

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
        """The prediction made before anything of the lesson had been seen."""
        return self.first or self.prediction

    def begin_anew(self) -> None:
        """Restart the lesson with a new prediction; the first prediction and a passed quiz stay."""
        self.first = self.unaided
        self.started, self.predicted, self.prediction, self.compared = "", "", [], ""


class Progress(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    format: int = FORMAT
    challenges: dict[str, ChallengeProgress] = {}
    lessons: dict[str, LessonProgress] = {}

    def of(self, name: str) -> ChallengeProgress:
        """The progress in a challenge; a new entry if there is none."""
        return self.challenges.setdefault(name, ChallengeProgress())

    def of_lesson(self, name: str) -> LessonProgress:
        return self.lessons.setdefault(name, LessonProgress())

    def default_folder(self, name: str, before: ChallengeProgress | LessonProgress | None) -> Path:
        """The folder of a lesson or challenge if none is given: where it was begun, if that still exists, otherwise ``name``
        here, or beside the folder of another lesson or challenge if that is the current one."""
        if before is not None and before.folder and Path(before.folder).is_dir():
            return Path(before.folder)
        here = Path.cwd()
        return (here.parent if any(map(is_here, self._folders())) else here) / name

    def _folders(self) -> list[str]:
        """The folders in which challenges and lessons were begun."""
        return [done.folder for done in self.challenges.values()] + [taken.folder for taken in self.lessons.values()]

    def lesson_here(self) -> str | None:
        """The lesson that was begun in the current folder."""
        return next((name for name, taken in self.lessons.items() if is_here(taken.folder)), None)

    def challenge_here(self) -> str | None:
        """The challenge that was begun in the current folder."""
        return next((name for name, done in self.challenges.items() if is_here(done.folder)), None)

    def folders_nearby(self) -> list[Path]:
        """Folders of lessons and challenges right below the current folder, beside it, or above it."""
        here = Path.cwd()
        folders = {Path(folder) for folder in self._folders() if folder and Path(folder).is_dir()}
        return sorted(
            folder
            for folder in folders
            if folder != here and (folder.parent in (here, here.parent) or folder in here.parents)
        )

    def status(self, name: str) -> str:
        """The status of a challenge; empty if it was not started."""
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
        """Lessons whose quiz is passed."""
        return {name for name, taken in self.lessons.items() if taken.quiz}


def is_here(folder: str) -> bool:
    """True if ``folder`` is the current folder, by whichever path."""
    return bool(folder) and Path(folder).is_dir() and Path(folder).samefile(Path.cwd())


def progress_file() -> Path:
    """The path of the user's own progress file."""
    if named := os.environ.get(VARIABLE):
        return Path(named)
    # The XDG specification says to ignore a relative path.
    base = Path(os.environ.get("XDG_DATA_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".local" / "share") / "kailab" / "course.json"


def read_progress_file(path: Path) -> Progress:
    """Read a progress file; empty if it does not exist. Raises StateError for a damaged file."""
    if not path.exists():
        return Progress()
    try:
        progress = msgspec.json.decode(read_bytes(path), type=Progress)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise StateError(
            f"{path} is not a progress file of the course: {error}; copy it again from its source, or move it away to start a new one"
        ) from error
    if progress.format != FORMAT:
        raise StateError(f"{path} has format {progress.format}; this kailab reads format {FORMAT}")
    return progress


@contextmanager
def edit_progress(path: Path) -> Iterator[Progress]:
    """Yield the progress and write it at the end, unless an error occurs. Other processes wait. Raises StateError."""
    with os_errors_as(StateError, f"{path}: cannot write the progress"):
        make_folder(path.parent)
        with open_private(Path(f"{path}.lock"), "a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            progress = read_progress_file(path)
            yield progress
            replace_file(path, msgspec.json.format(msgspec.json.encode(progress), indent=2) + b"\n")


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
