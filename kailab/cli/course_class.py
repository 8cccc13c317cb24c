"""For whoever teaches: ``course class``, how far each student is, and ``course slides``."""

from __future__ import annotations

import json
from pathlib import Path

import click

from kailab.cli import completing, options, terminal
from kailab.cli.options import TextOrJson


@click.command("class")
@click.argument("file", type=options.PATH, help="The class file: YAML with name, and students with name and progress.")
@options.output
def class_command(file: Path, output: TextOrJson) -> None:
    """Show how far each student of a class is, from the files of their progress."""
    from kailab.cli.table import render
    from kailab.course.class_file import standing_of

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
            ", ".join(f"{name} ({checks})" for name, checks in one.begun),
            one.last,
        )
        for one in found.students
    ]
    terminal.say(render(("STUDENT", "LESSONS", "FORETOLD", "CHALLENGES", "HINTS", "AT WORK ON (CHECKS)", "LAST"), rows))
    if missing := [one.name for one in found.students if one.missing]:
        terminal.warn(f"no file of progress yet: {', '.join(missing)}")


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
