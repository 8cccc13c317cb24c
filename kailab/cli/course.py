"""``course``: challenges, each on a lab that starts broken."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kailab.cli import completing, options, prose, terminal
from kailab.cli.course_class import class_command, slides
from kailab.cli.course_lessons import compare, lesson, list_lessons, predict, quiz
from kailab.cli.course_progress import progress_of, progress_option
from kailab.cli.options import TextOrJson

if TYPE_CHECKING:
    from kailab.course.challenge import Challenge
    from kailab.course.judging import Judged, Verdict
    from kailab.course.progress import Progress

MOST_LINES = 7
"""Of the reason why one condition does not hold."""
_LEVELS = {1: "one field", 2: "the cause is elsewhere", 3: "several causes"}


@click.group()
def group() -> None:
    """Learn how a GPU cluster is shared: lessons that ask you first, challenges that start broken."""


for _command in (list_lessons, lesson, predict, compare, quiz, class_command, slides):
    group.add_command(_command)


@group.command("challenges")
@progress_option
@options.output
def list_challenges(file: Path | None, output: TextOrJson) -> None:
    """List the challenges, and which of them are solved."""
    from kailab.cli.table import render
    from kailab.course.reading import challenges

    _, progress = progress_of(file)
    every = challenges()
    if output is TextOrJson.json:
        data = [
            {"name": one.name, "title": one.title, "level": one.level, "minutes": one.minutes,
             "exercise": one.exercise, "status": progress.status(one.name)} for one in every
        ]  # fmt: skip
        terminal.say(json.dumps(data, indent=2))
        return
    rows = [(one.name, str(one.level), f"{one.minutes} min", progress.status(one.name), one.title) for one in every]
    terminal.say(render(("NAME", "LEVEL", "TIME", "STATUS", "TITLE"), rows))
    solved = sum(one.name in progress.solved() for one in every)
    levels = "; ".join(f"{level}: {what}" for level, what in _LEVELS.items())
    terminal.notice(f"{solved} of {len(every)} solved. Levels: {levels}. Begin one: kailab course start NAME")


@group.command()
@click.argument("name", shell_complete=completing.challenges, help="A challenge.")
@click.argument("folder", required=False, type=options.PATH, help="Where your files and your lab will be: NAME.")
@click.option("--fresh", is_flag=True, help="Begin anew where it was begun before; your files are kept beside.")
@progress_option
def start(name: str, folder: Path | None, fresh: bool, file: Path | None) -> None:
    """Prepare a challenge: its task, its files and a lab that starts broken, in a folder of yours."""
    from kailab.course import progress as record
    from kailab.course import workspace
    from kailab.course.reading import challenge

    task = challenge(name)
    place = (folder or Path(name)).absolute()
    with record.changing(progress_of(file)[0]) as progress:
        kept = workspace.start(task, place, fresh=fresh)
        done = progress.of(name)
        done.folder, done.started = str(place), done.started or record.now()
    for one in kept:
        terminal.notice(f"your file is kept as {one}")
    terminal.say(prose.page(workspace.task_text(task).rstrip("\n")))
    terminal.notice(
        f"\nNext: cd {folder or name}; kailab get pods, kailab get queues, kailab explain; edit; kailab course check"
    )


@group.command()
@click.argument(
    "name",
    shell_complete=completing.challenges,
    required=False,
    help="A challenge; that of the folder you are in if none is named.",
)
@click.argument(
    "folder", required=False, type=options.PATH, help="The folder with your files, if not where it was begun."
)
@click.option("--open", "opened", is_flag=True, help="Have the folder's lab be one with your files, to look into.")
@progress_option
@options.output
def check(name: str | None, folder: Path | None, opened: bool, file: Path | None, output: TextOrJson) -> None:
    """Judge your files by what comes of them, on a lab that is opened for it. Exits 1 if it is not solved."""
    from kailab.course import progress as record
    from kailab.course import workspace
    from kailab.course.judging import judge
    from kailab.model.files import read_text

    path, before = progress_of(file)
    task, place = _begun(before, name, folder)
    verdict = judge(task, place)
    if opened:
        workspace.open_lab(task, place / workspace.STATE, place)
    with record.changing(path) as progress:
        done = progress.of(task.name)
        done.checks += 1
        if verdict.solved:
            done.solved = done.solved or record.now()
            done.files = {one: read_text(place / one) for one in task.files.edit}
    if output is TextOrJson.json:
        terminal.say(json.dumps(verdict.data(), indent=2))
    else:
        for warning in verdict.warnings:
            terminal.warn(warning)
        terminal.say("\n".join(_told(task, verdict)))
    if not verdict.solved:
        raise click.exceptions.Exit(1)


def _told(task: Challenge, verdict: Verdict) -> Iterator[str]:
    said: set[str] = set()
    for one in verdict.judged:
        yield from _of_one(one, said)
    yield ""
    if verdict.solved:
        yield f"Solved: {task.title}."
        yield prose.wrapped(task.learnt)
        return
    broken = sum(one.rule and not one.held for one in verdict.judged)
    missing = sum(not one.rule and not one.held for one in verdict.judged)
    parts = [f"{missing} of what is asked for is not there"] if missing else []
    parts += [f"{broken} {'rule is' if broken == 1 else 'rules are'} broken"] if broken else []
    yield f"Not solved: {' and '.join(parts)}. kailab course hint {task.name} helps on."


def _of_one(one: Judged, said: set[str]) -> Iterator[str]:
    """``said``: reasons that were told before are not told again."""
    if one.held:
        yield f"{terminal.painted('ok    ', 'green', sys.stdout)} {one.say}"
        return
    yield f"{terminal.painted('BROKEN' if one.rule else 'not   ', 'red', sys.stdout)} {one.say}"
    lines = [line for line in one.why.splitlines() if line not in said]
    said.update(lines)
    yield from (f"         {line}" for line in lines[:MOST_LINES])


@group.command()
@click.argument(
    "name",
    shell_complete=completing.challenges,
    required=False,
    help="A challenge; that of the folder you are in if none is named.",
)
@progress_option
def hint(name: str | None, file: Path | None) -> None:
    """Show the next hint of a challenge, with those before it."""
    from kailab.course import progress as record

    with record.changing(progress_of(file)[0]) as progress:
        task, _ = _begun(progress, name, None)
        done = progress.of(task.name)
        done.hints = min(done.hints + 1, len(task.hints))
    for number, text in enumerate(task.hints[: done.hints], 1):
        terminal.say(prose.wrapped(text, f"{number}. ", "   "))
    left = len(task.hints) - done.hints
    terminal.notice(
        f"{left} more" if left else f"That was the last. The exercise {task.exercise} has the idea behind it."
    )


@group.command()
@click.option("--name", "student", default="", help="Your name, as it is to stand there.")
@click.option("--out", type=options.PATH, default=Path("certificate.json"), help="The file to write.")
@click.option(
    "--check", "checked", type=options.PATH, help="Check a certificate: its digest, and each solution in it again."
)
@progress_option
def certificate(student: str, out: Path, checked: Path | None, file: Path | None) -> None:
    """Write a certificate once all challenges are solved, or check one. Exits 1 if it does not hold."""
    from kailab.course import certificate as paper
    from kailab.errors import InputError, Where

    if checked is not None:
        found, faults = paper.check(checked)
        for fault in faults:
            terminal.complain(fault)
        if faults:
            raise click.exceptions.Exit(1)
        counted = f"{len(found.lessons)} lessons and {len(found.challenges)} challenges"
        terminal.say(f"{found.student}: {counted}, each judged again and right ({found.digest})")
        return
    made = paper.certificate(progress_of(file)[1], student)
    try:
        out.write_bytes(paper.encoded(made))
    except OSError as error:
        raise InputError(f"can't be written: {error.strerror or error}", Where(file=str(out))) from error
    terminal.say(
        f"{out}: {made.student}, {len(made.lessons)} lessons, {len(made.challenges)} challenges, {made.digest}"
    )
    terminal.notice(f"Anyone can check it: kailab course certificate --check {out}")


def _begun(progress: Progress, name: str | None, folder: Path | None) -> tuple[Challenge, Path]:
    """The challenge that is meant, and the student's folder. Raises InputError."""
    from kailab.course.reading import challenge
    from kailab.errors import InputError

    if name is None:
        here = str(Path.cwd())
        name = next((one for one, done in progress.challenges.items() if done.folder == here), None)
        if name is None:
            raise InputError(
                "no challenge was begun in this folder; expected the name of one (kailab course challenges)"
            )
    task = challenge(name)
    begun = progress.challenges.get(name)
    if folder is None and (begun is None or not begun.folder):
        raise InputError(f"the challenge {name} was not begun; begin it with `kailab course start {name}`")
    place = folder if folder is not None else Path(begun.folder if begun else "")
    if not place.is_dir():
        raise InputError(
            f"{place}: there is no such folder; say where your files are: kailab course check {name} FOLDER"
        )
    return task, place
