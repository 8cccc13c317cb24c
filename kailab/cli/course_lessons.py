"""The lessons of ``course``: read, foretell, do, compare, be asked."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kailab.cli import completing, options, prose, terminal
from kailab.cli.course_progress import progress_of, progress_option
from kailab.cli.options import TextOrJson

if TYPE_CHECKING:
    from kailab.course.lesson import Lesson
    from kailab.course.progress import Progress, Taken


@click.command("lessons")
@progress_option
@options.output
def list_lessons(file: Path | None, output: TextOrJson) -> None:
    """List the lessons, and how far you are in each."""
    from kailab.cli.table import render
    from kailab.course.lesson_reading import lessons

    _, progress = progress_of(file)
    every = lessons()
    if output is TextOrJson.json:
        data = [
            {"number": one.number, "name": one.name, "title": one.title, "minutes": one.minutes, "status": progress.status_of_lesson(one.name)}
            for one in every
        ]  # fmt: skip
        terminal.say(json.dumps(data, indent=2))
        return
    rows = [
        (str(one.number), one.name, f"{one.minutes} min", progress.status_of_lesson(one.name), one.title)
        for one in every
    ]
    terminal.say(render(("", "NAME", "TIME", "STATUS", "TITLE"), rows))
    terminal.notice("Begin one: kailab course lesson NAME")


@click.command()
@click.argument("name", shell_complete=completing.lessons, help="A lesson: its name or number.")
@click.argument("folder", required=False, type=options.PATH, help="Where its files will be: NAME.")
@click.option("--fresh", is_flag=True, help="Begin anew: with a new prediction, and without the lab that was there.")
@progress_option
def lesson(name: str, folder: Path | None, fresh: bool, file: Path | None) -> None:
    """Begin a lesson: its idea, and what you are to foretell before anything runs."""
    from kailab.course import progress as record
    from kailab.course import workspace
    from kailab.course.lesson_reading import lesson as read

    task = read(name)
    with record.changing(progress_of(file)[0]) as progress:
        before = progress.lessons.get(task.name)
        there = Path(before.folder) if before is not None and folder is None and before.folder else None
        place = (folder or there or Path(task.name)).absolute()
        workspace.lay_out(task, place, fresh=fresh)
        taken = progress.of_lesson(task.name)
        if fresh:
            taken.begin_anew()
        taken.folder, taken.started = str(place), taken.started or record.now()
    terminal.say("\n".join(_introduced(task)))
    if taken.predicted:
        terminal.say(f"\nYou foretold {_said(taken.prediction)}. {_to_do(task, taken)}")
        terminal.notice(f"\nNext: kailab course compare {task.name}")
    else:
        terminal.notice(f"\nNext: kailab course predict {task.name} {' '.join('N' for _ in task.predict)}")


def _introduced(task: Lesson) -> Iterator[str]:
    yield f"# {task.number}. {task.title}\n"
    yield f"{prose.page(task.concept)}\n"
    yield "## Predict first\n"
    for number, one in enumerate(task.predict, 1):
        yield prose.wrapped(one.ask, f"{number}. ", "   ")


@click.command()
@click.argument("name", shell_complete=completing.lessons, help="A lesson: its name or number.")
@click.argument("numbers", nargs=-1, required=True, help="A number for each question of the lesson.")
@progress_option
def predict(name: str, numbers: tuple[str, ...], file: Path | None) -> None:
    """Record what you foretell, once, before the lesson's lab runs; then see what to do."""
    from kailab.course import progress as record
    from kailab.course import workspace
    from kailab.course.teaching import read_prediction
    from kailab.errors import InputError

    with record.changing(progress_of(file)[0]) as progress:
        task, taken = _begun(progress, name)
        given = read_prediction(task, numbers)
        again = f"begin anew with `kailab course lesson {task.name} --fresh`"
        if taken.predicted:
            raise InputError(
                f"you foretold {_said(taken.prediction)} at {taken.predicted}; a prediction is made once ({again})"
            )
        if workspace.lab_was_here(Path(taken.folder)):
            raise InputError(f"{taken.folder}: the lab runs already, or did; a prediction is made before ({again})")
        taken.predicted, taken.prediction = record.now(), list(given)
    terminal.say(f"Recorded: {_said(taken.prediction)}. {_to_do(task, taken)}")
    terminal.notice(f"\nNext: kailab course compare {task.name}")


def _to_do(task: Lesson, taken: Taken) -> str:
    """The lesson's steps, as what is to be typed."""
    lines = [f"Now see for yourself:\n\n    cd {taken.folder}"]
    for step, commands in zip(task.steps, task.commands(), strict=True):
        lines += ["", *([prose.wrapped(step["told"])] if "told" in step else [])]
        lines += [f"    {command}" for command in commands]
    return "\n".join(lines)


@click.command()
@click.argument("name", shell_complete=completing.lessons, help="A lesson: its name or number.")
@progress_option
@options.output
def compare(name: str, file: Path | None, output: TextOrJson) -> None:
    """Put what you foretold beside what is seen, on a lab that goes through the lesson's steps; and say why it is so."""
    from kailab.course import progress as record
    from kailab.course.teaching import walk
    from kailab.errors import InputError

    path, before = progress_of(file)
    task, taken = _begun(before, name)
    if not taken.predicted:
        raise InputError(
            f"nothing was foretold yet: kailab course predict {task.name} {' '.join('N' for _ in task.predict)}"
        )
    walked = walk(task)
    with record.changing(path) as progress:
        taken = progress.of_lesson(task.name)
        taken.compared, taken.seen = record.now(), list(walked.seen)
    if output is TextOrJson.json:
        terminal.say(
            json.dumps(
                {
                    "lesson": task.name,
                    "predictions": [
                        {"ask": one.ask, "predicted": foretold, "seen": seen}
                        for one, foretold, seen in zip(task.predict, taken.prediction, walked.seen, strict=True)
                    ],
                    "why": [{"what": one.what, "lines": list(one.lines)} for one in walked.why],
                },
                indent=2,
            )
        )
        return
    for one, foretold, seen in zip(task.predict, taken.prediction, walked.seen, strict=True):
        right = foretold == seen
        mark = (
            terminal.painted("right", "green", sys.stdout) if right else terminal.painted("other", "yellow", sys.stdout)
        )
        terminal.say(prose.wrapped(one.ask))
        terminal.say(f"  {mark}  foretold {foretold:g}, seen {seen:g}\n")
    terminal.say(prose.wrapped(task.happened))
    for why in walked.why:
        terminal.say(f"\n$ kailab explain {why.what}")
        for line in why.lines:
            terminal.say(f"  {line}")
    terminal.say(f"\n{prose.wrapped(f'What fake GPUs show, and what not: {task.fakes}')}")
    terminal.notice(f"\nNext: kailab course quiz {task.name}")


@click.command()
@click.argument("name", shell_complete=completing.lessons, help="A lesson: its name or number.")
@click.argument("answers", nargs=-1, help="A letter for each question; none to see the questions.")
@progress_option
def quiz(name: str, answers: tuple[str, ...], file: Path | None) -> None:
    """Ask the lesson's questions, or judge your answers to them. Exits 1 if one is wrong."""
    from kailab.course import progress as record
    from kailab.course.lesson_reading import LETTERS
    from kailab.course.teaching import mark

    path, before = progress_of(file)
    task, _ = _begun(before, name)
    if not answers:
        for number, one in enumerate(task.quiz, 1):
            terminal.say(prose.wrapped(one.ask, f"{number}. ", "   "))
            for letter, choice in zip(LETTERS, one.choices, strict=False):
                terminal.say(prose.wrapped(choice, f"   {letter}) ", "      "))
        terminal.notice(f"\nAnswer: kailab course quiz {task.name} {' '.join('a' for _ in task.quiz)}")
        return
    marked = mark(task, answers)
    passed = all(one.right for one in marked)
    with record.changing(path) as progress:
        taken = progress.of_lesson(task.name)
        taken.tries += 1
        if passed:
            taken.quiz, taken.answers = taken.quiz or record.now(), list(answers)
    for number, judged in enumerate(marked, 1):
        word = (
            terminal.painted("right", "green", sys.stdout)
            if judged.right
            else terminal.painted("wrong", "red", sys.stdout)
        )
        terminal.say(prose.wrapped(f"{judged.given}. {judged.why}", f"{number}. {word}: ", "   "))
    if not passed:
        terminal.notice(f"\nLook again: kailab course compare {task.name}, and the exercise {task.exercise}")
        raise click.exceptions.Exit(1)
    terminal.notice(f"\nPassed: {task.title}")


def _said(numbers: list[float]) -> str:
    return ", ".join(f"{one:g}" for one in numbers)


def _begun(progress: Progress, name: str) -> tuple[Lesson, Taken]:
    """Raises InputError where the lesson was not begun."""
    from kailab.course.lesson_reading import lesson as read
    from kailab.errors import InputError

    task = read(name)
    taken = progress.lessons.get(task.name)
    if taken is None:
        raise InputError(f"the lesson {task.name} was not begun; begin it with `kailab course lesson {task.name}`")
    return task, taken
