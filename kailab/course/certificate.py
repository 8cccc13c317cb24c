"""Certificates: who solved what, when, and with which files and answers, under a digest of all of it.

The digest detects accidental changes. The work itself is proved by judging it again: ``check`` judges the files and
answers in the certificate.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterable
from pathlib import Path, PurePath

import msgspec

from kailab.course.challenge import Challenge, challenges
from kailab.course.judging import judge
from kailab.course.lesson import Lesson, lessons
from kailab.course.progress import Progress, now
from kailab.course.teaching import mark
from kailab.errors import InputError, KailabError, Where
from kailab.model.files import read_bytes

KIND = "kailab course certificate"


class SolvedChallenge(msgspec.Struct, frozen=True):
    """``hints``: number of hints shown. ``files``: the files that solved it, text by name."""

    name: str
    title: str
    solved: str
    checks: int
    hints: int
    files: dict[str, str]


class PassedLesson(msgspec.Struct, frozen=True):
    """``answers``: letters of its quiz."""

    name: str
    title: str
    passed: str
    answers: list[str]


class Certificate(msgspec.Struct, frozen=True, kw_only=True):
    kind: str = KIND
    format: int = 1
    student: str
    written: str
    lessons: tuple[PassedLesson, ...]
    challenges: tuple[SolvedChallenge, ...]
    digest: str = ""


def digest_of(certificate: Certificate) -> str:
    """SHA-256 of everything except the digest, as JSON with sorted keys and no spaces."""
    content = msgspec.structs.replace(certificate, digest="")
    return f"sha256:{hashlib.sha256(msgspec.json.encode(msgspec.to_builtins(content), order='sorted')).hexdigest()}"


def certificate(progress: Progress, student: str) -> Certificate:
    """Make a certificate. Raises InputError if something is not solved yet."""
    all_challenges = challenges()
    missing = [each.name for each in all_challenges if each.name not in progress.solved()]
    if missing:
        raise InputError(f"{len(missing)} of {len(all_challenges)} challenges are not solved yet: {', '.join(missing)}")
    all_lessons = lessons()
    missing = [each.name for each in all_lessons if each.name not in progress.passed()]
    if missing:
        raise InputError(
            f"the quiz of {len(missing)} of {len(all_lessons)} lessons is not passed yet: {', '.join(missing)}"
        )
    if not student.strip():
        raise InputError("a certificate needs the student's name; expected --name NAME")
    unsigned = Certificate(
        student=student.strip(),
        written=now(),
        lessons=tuple(_passed(progress, all_lessons)),
        challenges=tuple(_solved(progress, all_challenges)),
    )
    return msgspec.structs.replace(unsigned, digest=digest_of(unsigned))


def _solved(progress: Progress, all_challenges: Iterable[Challenge]) -> Iterable[SolvedChallenge]:
    for challenge in all_challenges:
        done = progress.challenges[challenge.name]
        yield SolvedChallenge(challenge.name, challenge.title, done.solved, done.checks, done.hints, dict(done.files))


def _passed(progress: Progress, all_lessons: Iterable[Lesson]) -> Iterable[PassedLesson]:
    for lesson in all_lessons:
        taken = progress.lessons[lesson.name]
        yield PassedLesson(lesson.name, lesson.title, taken.quiz, list(taken.answers))


def encoded(certificate: Certificate) -> bytes:
    return msgspec.json.format(msgspec.json.encode(certificate), indent=2) + b"\n"


def check(path: Path) -> tuple[Certificate, list[str]]:
    """Read a certificate and check it.

    Returns the certificate and its faults as sentences: a wrong digest, and each quiz and challenge that its answers
    and files do not solve. Raises InputError for a file that is not a certificate.
    """
    try:
        given = msgspec.json.decode(read_bytes(path), type=Certificate)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InputError(f"the file is not a certificate: {error}", Where(file=str(path))) from error
    if given.kind != KIND:
        raise InputError(f"the file is not a certificate, but {given.kind!r:.80}", Where(file=str(path)))
    faults = []
    if given.digest != digest_of(given):
        faults.append("the digest differs: the certificate was changed after it was written")
    known = {entry.name: entry for entry in challenges()}
    solved_by_name = {entry.name: entry for entry in given.challenges}
    faults += [f"{name}: the challenge is not in the certificate" for name in known if name not in solved_by_name]
    passed_by_name = {entry.name: entry for entry in given.lessons}
    for required in lessons():
        entry_of_lesson = passed_by_name.get(required.name)
        if entry_of_lesson is None:
            faults.append(f"{required.name}: the lesson is not in the certificate")
        else:
            faults += _marked_again(required, entry_of_lesson)
    for name, solved in solved_by_name.items():
        if name in known:
            faults += _decided_again(known[name], solved)
        else:
            faults.append(f"{name}: this kailab has no such challenge")
    return given, faults


def _marked_again(lesson: Lesson, entry: PassedLesson) -> list[str]:
    try:
        marked = mark(lesson, entry.answers)
    except InputError as error:
        return [f"{lesson.name}: {error}"]
    return [
        f"{lesson.name}: {answer.given} is not the answer to: {answer.ask}" for answer in marked if not answer.right
    ]


def _decided_again(challenge: Challenge, entry: SolvedChallenge) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        for name, text in entry.files.items():
            if name in challenge.files.edit and PurePath(name).name == name:
                (Path(folder) / name).write_text(text, encoding="utf-8")
        try:
            verdict = judge(challenge, Path(folder))
        except KailabError as error:
            return [f"{challenge.name}: its files cannot be used: {error}"]
    return [
        f"{challenge.name}: {condition.say} It does not hold." for condition in verdict.judged if not condition.held
    ]
