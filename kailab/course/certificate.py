"""A certificate: who solved what, when and with which files and answers, under a digest of all of it.

The digest shows that nothing was changed by mistake; that the work was done is shown by deciding it again: the files that solved each
challenge and the answers to each quiz are in the certificate, and ``check`` judges them anew.
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
    """``hints``: how many were shown. ``files``: those with which it was solved, text by name."""

    name: str
    title: str
    solved: str
    checks: int
    hints: int
    files: dict[str, str]


class PassedLesson(msgspec.Struct, frozen=True):
    """``answers``: of its quiz, letters."""

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
    """SHA-256 of all but the digest, as JSON with sorted keys and no spaces."""
    told = msgspec.structs.replace(certificate, digest="")
    return f"sha256:{hashlib.sha256(msgspec.json.encode(msgspec.to_builtins(told), order='sorted')).hexdigest()}"


def certificate(progress: Progress, student: str) -> Certificate:
    """Raises InputError where something is not solved yet."""
    every = challenges()
    missing = [one.name for one in every if one.name not in progress.solved()]
    if missing:
        raise InputError(f"{len(missing)} of {len(every)} challenges are not solved yet: {', '.join(missing)}")
    taught = lessons()
    missing = [one.name for one in taught if one.name not in progress.passed()]
    if missing:
        raise InputError(f"the quiz of {len(missing)} of {len(taught)} lessons is not passed yet: {', '.join(missing)}")
    if not student.strip():
        raise InputError("a certificate has a name on it; expected --name NAME")
    made = Certificate(
        student=student.strip(),
        written=now(),
        lessons=tuple(_passed(progress, taught)),
        challenges=tuple(_solved(progress, every)),
    )
    return msgspec.structs.replace(made, digest=digest_of(made))


def _solved(progress: Progress, every: Iterable[Challenge]) -> Iterable[SolvedChallenge]:
    for one in every:
        done = progress.challenges[one.name]
        yield SolvedChallenge(one.name, one.title, done.solved, done.checks, done.hints, dict(done.files))


def _passed(progress: Progress, taught: Iterable[Lesson]) -> Iterable[PassedLesson]:
    for one in taught:
        taken = progress.lessons[one.name]
        yield PassedLesson(one.name, one.title, taken.quiz, list(taken.answers))


def encoded(made: Certificate) -> bytes:
    return msgspec.json.format(msgspec.json.encode(made), indent=2) + b"\n"


def check(path: Path) -> tuple[Certificate, list[str]]:
    """The certificate, and what is wrong with it as sentences: the digest, and each challenge that its files do not solve. Raises
    InputError for a file that is none."""
    try:
        found = msgspec.json.decode(read_bytes(path), type=Certificate)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InputError(f"is no certificate: {error}", Where(file=str(path))) from error
    if found.kind != KIND:
        raise InputError(f"is no certificate, but {found.kind!r:.80}", Where(file=str(path)))
    faults = [] if found.digest == digest_of(found) else ["the digest is another: it was changed after it was written"]
    known = {one.name: one for one in challenges()}
    told = {one.name: one for one in found.challenges}
    faults += [f"{name}: is not in it" for name in known if name not in told]
    passed = {one.name: one for one in found.lessons}
    for taught in lessons():
        there = passed.get(taught.name)
        faults += [f"{taught.name}: the lesson is not in it"] if there is None else _marked_again(taught, there)
    for name, solved in told.items():
        faults += (
            _decided_again(known[name], solved) if name in known else [f"{name}: this kailab has no such challenge"]
        )
    return found, faults


def _marked_again(lesson: Lesson, told: PassedLesson) -> list[str]:
    try:
        marked = mark(lesson, told.answers)
    except InputError as error:
        return [f"{lesson.name}: {error}"]
    return [f"{lesson.name}: {one.given} is not the answer to: {one.ask}" for one in marked if not one.right]


def _decided_again(challenge: Challenge, told: SolvedChallenge) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        for name, text in told.files.items():
            if name in challenge.files.edit and PurePath(name).name == name:
                (Path(folder) / name).write_text(text, encoding="utf-8")
        try:
            verdict = judge(challenge, Path(folder))
        except KailabError as error:
            return [f"{challenge.name}: its files can't be used: {error}"]
    return [f"{challenge.name}: {one.say} It does not hold." for one in verdict.judged if not one.held]
