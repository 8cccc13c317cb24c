"""Certificates: who solved what, when, and with which files and answers, under a digest of all of it.

A certificate needs the quiz of every lesson of kailab, and one solved challenge of each lesson that has challenges: what
a class of two days can do. It lists everything that was passed and solved.

The digest detects accidental changes. The work itself is proved by judging it again: ``check`` judges the files and
answers in the certificate.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Container, Iterable
from html import escape
from pathlib import Path, PurePath

import msgspec

from kailab.course.challenge import Challenge, challenges
from kailab.course.judging import judge
from kailab.course.lesson import Lesson, lessons
from kailab.course.progress import Progress, now
from kailab.course.teaching import mark
from kailab.errors import InputError, KailabError, Where
from kailab.model.files import read_bytes
from kailab.model.multimap import multimap
from kailab.model.wording import count

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
    """Make a certificate. Raises InputError if something that it needs is missing."""
    if lacking := _lacking(progress.passed(), progress.solved()):
        raise InputError("no certificate yet: " + "\n".join(lacking))
    if not student.strip():
        raise InputError("a certificate needs the student's name; expected --name NAME")
    unsigned = Certificate(
        student=student.strip(),
        written=now(),
        lessons=tuple(_passed(progress)),
        challenges=tuple(_solved(progress)),
    )
    return msgspec.structs.replace(unsigned, digest=digest_of(unsigned))


def _lacking(passed: Container[str], solved: Container[str]) -> list[str]:
    """What a certificate still needs, as sentences. A teacher's own lessons and challenges are not needed."""
    needed = [lesson.name for lesson in lessons() if not lesson.own]
    quizzes = [name for name in needed if name not in passed]
    by_lesson = _challenges_by_lesson()
    unsolved = {name: tasks for name, tasks in by_lesson.items() if not any(task in solved for task in tasks)}
    lacking = []
    if quizzes:
        lacking.append(f"{len(quizzes)} of {len(needed)} quizzes are not passed: {', '.join(quizzes)}")
    if unsolved:
        listed = "; ".join(f"{name}: {' or '.join(tasks)}" for name, tasks in unsolved.items())
        lacking.append(f"{len(unsolved)} of {len(by_lesson)} lessons with challenges have none solved yet ({listed})")
    return lacking


def _challenges_by_lesson() -> dict[str, list[str]]:
    """Lesson -> names of kailab's challenges beside it, if it has some."""
    by_exercise = multimap((challenge.exercise, challenge.name) for challenge in challenges() if not challenge.own)
    return {
        lesson.name: by_exercise[lesson.exercise]
        for lesson in lessons()
        if not lesson.own and lesson.exercise in by_exercise
    }


def _solved(progress: Progress) -> Iterable[SolvedChallenge]:
    for challenge in challenges():
        if challenge.name in progress.solved():
            done = progress.challenges[challenge.name]
            yield SolvedChallenge(
                challenge.name, challenge.title, done.solved, done.checks, done.hints, dict(done.files)
            )


def _passed(progress: Progress) -> Iterable[PassedLesson]:
    for lesson in lessons():
        if lesson.name in progress.passed():
            taken = progress.lessons[lesson.name]
            yield PassedLesson(lesson.name, lesson.title, taken.quiz, list(taken.answers))


def summary(certificate: Certificate) -> str:
    """How much of the course it covers."""
    return (
        f"{len(certificate.lessons)} of {len(lessons())} lessons and "
        f"{len(certificate.challenges)} of {len(challenges())} challenges"
    )


def encoded(certificate: Certificate) -> bytes:
    return msgspec.json.format(msgspec.json.encode(certificate), indent=2) + b"\n"


def certificate_page(certificate: Certificate) -> str:
    """A page to print. The proof is the certificate itself, which the page names by its digest."""
    lines = [f"<li>{escape(entry.title)}, {entry.passed[:10]}</li>" for entry in certificate.lessons]
    solved = [
        f"<li>{escape(entry.title)}, {entry.solved[:10]} ({count(entry.hints, 'hint')})</li>"
        for entry in certificate.challenges
    ]
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Certificate of {escape(certificate.student)}</title>
<style>@page {{ size: A4; margin: 18mm; }} body {{ font: 11pt/1.4 system-ui, sans-serif; max-width: 45em; margin: 2em auto; }}
h1 {{ font-size: 22pt; }} .digest {{ font-size: 8pt; overflow-wrap: anywhere; }}</style></head><body>
<p>Sharing a GPU cluster: a course on kailab</p>
<h1>{escape(certificate.student)}</h1>
<p>{escape(summary(certificate))}, {certificate.written[:10]}</p>
<h2>Lessons with a passed quiz</h2>
<ul>{"".join(lines)}</ul>
<h2>Solved challenges</h2>
<ul>{"".join(solved)}</ul>
<p class="digest">This page belongs to a certificate file with the digest {escape(certificate.digest)}.
<code>kailab course certificate --check FILE</code> judges every answer and solution in that file again.</p>
</body></html>
"""


def check_certificate(path: Path) -> tuple[Certificate, list[str]]:
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
    faults += _lacking({entry.name for entry in given.lessons}, {entry.name for entry in given.challenges})
    known_lessons = {lesson.name: lesson for lesson in lessons()}
    for entry in given.lessons:
        if entry.name in known_lessons:
            faults += _marked_again(known_lessons[entry.name], entry)
        else:
            faults.append(f"{entry.name}: there is no such lesson here")
    known_challenges = {challenge.name: challenge for challenge in challenges()}
    for solved in given.challenges:
        if solved.name in known_challenges:
            faults += _decided_again(known_challenges[solved.name], solved)
        else:
            faults.append(f"{solved.name}: there is no such challenge here")
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
        f"{challenge.name}: {condition.say} It does not hold." for condition in verdict.judged if not condition.holds
    ]
