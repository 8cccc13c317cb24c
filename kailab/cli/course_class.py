"""For whoever teaches: ``course class``, how far each student is, and ``course slides``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kailab.cli import completing, options, terminal
from kailab.cli.options import TextOrJson

if TYPE_CHECKING:
    from kailab.course.progress import Progress


AT_WORK = 2
"""So many challenges of a student are named in the table of a class; those that were judged most."""


@click.command("class")
@click.argument("file", type=options.PATH, help="The class file: YAML with name, and students with name and progress.")
@click.option("--student", default="", help="Show one student, lesson by lesson and challenge by challenge.")
@options.output
def class_command(file: Path, student: str, output: TextOrJson) -> None:
    """Show how far each student of a class is, from the files of their progress."""
    from kailab.cli.table import render
    from kailab.course.class_file import progress_of, standing_of

    if student:
        _show_one(progress_of(file, student), output)
        return
    found = standing_of(file)
    if output is TextOrJson.json:
        terminal.say(json.dumps(found.data(), indent=2))
        return
    terminal.say(f"{found.name}: {len(found.students)} students")
    rows = [
        (
            one.name,
            f"{one.lessons}/{found.lessons}",
            f"{one.foretold[0]}/{one.foretold[1]}",
            f"{one.challenges}/{found.challenges}",
            str(one.hints),
            _at_work(one.begun),
            one.last,
        )
        for one in found.students
    ]
    terminal.say(render(("STUDENT", "LESSONS", "FORETOLD", "CHALLENGES", "HINTS", "AT WORK ON (CHECKS)", "LAST"), rows))
    if missing := [one.name for one in found.students if one.missing]:
        terminal.warn(f"no file of progress yet: {', '.join(missing)}")


def _at_work(begun: Sequence[tuple[str, int]]) -> str:
    most = sorted(begun, key=lambda one: -one[1])
    named = [f"{name} ({checks})" for name, checks in most[:AT_WORK]]
    return ", ".join([*named, *([f"{len(most) - AT_WORK} more"] if len(most) > AT_WORK else [])])


def _show_one(progress: Progress, output: TextOrJson) -> None:
    from kailab.cli.table import render
    from kailab.course.lesson_reading import lessons
    from kailab.course.progress import Done, Taken
    from kailab.course.reading import challenges

    taken = [
        (one.name, progress.status_of_lesson(one.name), progress.lessons.get(one.name, Taken())) for one in lessons()
    ]
    done = [(one.name, progress.status(one.name), progress.challenges.get(one.name, Done())) for one in challenges()]
    if output is TextOrJson.json:
        data = {
            "lessons": [
                {"name": name, "status": status, "foretold": one.unaided, "seen": one.seen, "quiz_tries": one.tries}
                for name, status, one in taken
            ],
            "challenges": [
                {"name": name, "status": status, "checks": one.checks, "hints": one.hints} for name, status, one in done
            ],
        }
        terminal.say(json.dumps(data, indent=2))
        return
    rows = [
        (name, status, _numbers(one.unaided), _numbers(one.seen), str(one.tries or "")) for name, status, one in taken
    ]
    terminal.say(render(("LESSON", "STATUS", "FORETOLD", "SEEN", "QUIZ TRIES"), rows))
    begun = [(name, status, str(one.checks), str(one.hints)) for name, status, one in done if status]
    if begun:
        terminal.say("\n" + render(("CHALLENGE", "STATUS", "CHECKS", "HINTS"), begun))
    terminal.notice(f"{len(done) - len(begun)} challenges not begun")


def _numbers(values: Sequence[float]) -> str:
    return " ".join(f"{one:g}" for one in values)


@click.command()
@click.argument("name", shell_complete=completing.lessons, help="A lesson: its name or number.")
@click.option("--out", type=options.PATH, help="The file to write, if not NAME.html.")
def slides(name: str, out: Path | None) -> None:
    """Write a lesson's slides as one HTML file without anything to load."""
    from kailab.course.lesson_reading import lesson
    from kailab.course.slides import deck, html
    from kailab.errors import InputError, Where

    task = lesson(name)
    file = out or Path(f"{task.name}.html")
    made = deck(task)
    try:
        file.write_text(html(made), encoding="utf-8")
    except OSError as error:
        raise InputError(f"can't be written: {error.strerror or error}", Where(file=str(file))) from error
    terminal.say(str(file))
    terminal.notice(f"{len(made.slides)} slides: arrow keys, Home, End; one page each in print")
