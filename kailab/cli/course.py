"""``course``: lessons (read, predict, run, compare, answer a quiz), challenges on labs that start broken, and commands for teachers. All of them share the file of the
student's progress.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kailab.cli import completion, options, terminal
from kailab.cli.options import TextOrJson

if TYPE_CHECKING:
    from kailab.course.challenge import Challenge
    from kailab.course.judging import ChallengeVerdict, JudgedCondition
    from kailab.course.lesson import Lesson
    from kailab.course.progress import LessonProgress, Progress


WIDTH = 110
"""No line is longer."""
_ITEM = re.compile(r"(?:[-*]|\d+\.) ")
_AS_IT_IS = ("    ", "```", "#", "|", ">")


def text_width() -> int:
    """Of prose; on a terminal no more than its columns."""
    return min(WIDTH, shutil.get_terminal_size().columns) if sys.stdout.isatty() else WIDTH


def wrap_paragraph(text: str, first: str = "", rest: str = "") -> str:
    """One paragraph. ``first``, ``rest``: what stands before its first line and before the others."""
    return click.wrap_text(text, text_width(), first, rest)


def wrap_markdown(text: str) -> str:
    """Markdown: as it is where nobody looks at it on a terminal."""
    return "\n".join(_wrapped_lines(text)) if sys.stdout.isatty() else text


def _wrapped_lines(text: str) -> Iterator[str]:
    fenced, held = False, list[str]()
    for line in text.splitlines():
        fence = line.startswith("```")
        apart = fenced or not line.strip() or line.startswith(_AS_IT_IS)
        if held and (apart or _ITEM.match(line)):
            yield _paragraph(held)
            held = []
        if apart:
            yield line
        else:
            held.append(line.strip())
        fenced ^= fence
    if held:
        yield _paragraph(held)


def _paragraph(lines: list[str]) -> str:
    text = " ".join(lines)
    mark = found[0] if (found := _ITEM.match(text)) else ""
    return wrap_paragraph(text.removeprefix(mark), mark, " " * len(mark))


progress_option = click.option(
    "--progress", "file", type=options.PATH, help="The file of your progress, if not $KAILAB_COURSE or your own."
)


def read_progress(file: Path | None) -> tuple[Path, Progress]:
    """The file, and what is in it. Raises StateError."""
    from kailab.course import progress as record

    path = file or record.progress_file()
    return path, record.read(path)


@click.command("lessons")
@progress_option
@options.output
def list_lessons(file: Path | None, output: TextOrJson) -> None:
    """List the lessons, and how far you are in each."""
    from kailab.cli.table import render_table
    from kailab.course.lesson import lessons

    _, progress = read_progress(file)
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
    terminal.say(render_table(("", "NAME", "TIME", "STATUS", "TITLE"), rows))
    terminal.notice("Begin one: kailab course lesson NAME")


@click.command()
@click.argument("name", shell_complete=completion.lessons, help="A lesson: its name or number.")
@click.argument("folder", required=False, type=options.PATH, help="Where its files will be: NAME.")
@click.option("--fresh", is_flag=True, help="Begin anew: with a new prediction, and without the lab that was there.")
@progress_option
def lesson(name: str, folder: Path | None, fresh: bool, file: Path | None) -> None:
    """Begin a lesson: its idea, and what you are to foretell before anything runs."""
    from kailab.course import progress as record
    from kailab.course import workspace
    from kailab.course.lesson import lesson as read

    task = read(name)
    with record.changing(read_progress(file)[0]) as progress:
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
        terminal.say(f"\nYou foretold {_numbers_line(taken.prediction)}. {_to_do(task, taken)}")
        terminal.notice(f"\nNext: kailab course compare {task.name}")
    else:
        terminal.notice(f"\nNext: kailab course predict {task.name} {' '.join('N' for _ in task.predict)}")


def _introduced(task: Lesson) -> Iterator[str]:
    yield f"# {task.number}. {task.title}\n"
    yield f"{wrap_markdown(task.concept)}\n"
    yield "## Predict first\n"
    for number, one in enumerate(task.predict, 1):
        yield wrap_paragraph(one.ask, f"{number}. ", "   ")


@click.command()
@click.argument("name", shell_complete=completion.lessons, help="A lesson: its name or number.")
@click.argument("numbers", nargs=-1, required=True, help="A number for each question of the lesson.")
@progress_option
def predict(name: str, numbers: tuple[str, ...], file: Path | None) -> None:
    """Record what you foretell, once, before the lesson's lab runs; then see what to do."""
    from kailab.course import progress as record
    from kailab.course import workspace
    from kailab.course.teaching import read_prediction
    from kailab.errors import InputError

    with record.changing(read_progress(file)[0]) as progress:
        task, taken = _begun_lesson(progress, name)
        given = read_prediction(task, numbers)
        again = f"begin anew with `kailab course lesson {task.name} --fresh`"
        if taken.predicted:
            raise InputError(
                f"you foretold {_numbers_line(taken.prediction)} at {taken.predicted}; a prediction is made once ({again})"
            )
        if workspace.lab_was_here(Path(taken.folder)):
            raise InputError(f"{taken.folder}: the lab runs already, or did; a prediction is made before ({again})")
        taken.predicted, taken.prediction = record.now(), list(given)
    terminal.say(f"Recorded: {_numbers_line(taken.prediction)}. {_to_do(task, taken)}")
    terminal.notice(f"\nNext: kailab course compare {task.name}")


def _to_do(task: Lesson, taken: LessonProgress) -> str:
    """The lesson's steps, as what is to be typed."""
    lines = [f"Now see for yourself:\n\n    cd {taken.folder}"]
    for step, commands in zip(task.steps, task.commands(), strict=True):
        lines += ["", *([wrap_paragraph(step["told"])] if "told" in step else [])]
        lines += [f"    {command}" for command in commands]
    return "\n".join(lines)


@click.command()
@click.argument("name", shell_complete=completion.lessons, help="A lesson: its name or number.")
@progress_option
@options.output
def compare(name: str, file: Path | None, output: TextOrJson) -> None:
    """Put what you foretold beside what is seen, on a lab that goes through the lesson's steps; and say why it is so."""
    from kailab.course import progress as record
    from kailab.course.teaching import walk
    from kailab.errors import InputError

    path, before = read_progress(file)
    task, taken = _begun_lesson(before, name)
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
        mark = terminal.paint("right", "green", sys.stdout) if right else terminal.paint("other", "yellow", sys.stdout)
        terminal.say(wrap_paragraph(one.ask))
        terminal.say(f"  {mark}  foretold {foretold:g}, seen {seen:g}\n")
    terminal.say(wrap_paragraph(task.happened))
    for why in walked.why:
        terminal.say(f"\n$ kailab explain {why.what}")
        for line in why.lines:
            terminal.say(f"  {line}")
    terminal.say(f"\n{wrap_paragraph(f'What fake GPUs show, and what not: {task.fakes}')}")
    terminal.notice(f"\nNext: kailab course quiz {task.name}")


@click.command()
@click.argument("name", shell_complete=completion.lessons, help="A lesson: its name or number.")
@click.argument("answers", nargs=-1, help="A letter for each question; none to see the questions.")
@progress_option
def quiz(name: str, answers: tuple[str, ...], file: Path | None) -> None:
    """Ask the lesson's questions, or judge your answers to them. Exits 1 if one is wrong."""
    from kailab.course import progress as record
    from kailab.course.lesson import LETTERS
    from kailab.course.teaching import mark

    path, before = read_progress(file)
    task, _ = _begun_lesson(before, name)
    if not answers:
        for number, one in enumerate(task.quiz, 1):
            terminal.say(wrap_paragraph(one.ask, f"{number}. ", "   "))
            for letter, choice in zip(LETTERS, one.choices, strict=False):
                terminal.say(wrap_paragraph(choice, f"   {letter}) ", "      "))
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
            terminal.paint("right", "green", sys.stdout) if judged.right else terminal.paint("wrong", "red", sys.stdout)
        )
        terminal.say(wrap_paragraph(f"{judged.given}. {judged.why}", f"{number}. {word}: ", "   "))
    if not passed:
        terminal.notice(f"\nLook again: kailab course compare {task.name}, and the exercise {task.exercise}")
        raise click.exceptions.Exit(1)
    terminal.notice(f"\nPassed: {task.title}")


def _numbers_line(numbers: list[float]) -> str:
    return ", ".join(f"{one:g}" for one in numbers)


def _begun_lesson(progress: Progress, name: str) -> tuple[Lesson, LessonProgress]:
    """Raises InputError where the lesson was not begun."""
    from kailab.course.lesson import lesson as read
    from kailab.errors import InputError

    task = read(name)
    taken = progress.lessons.get(task.name)
    if taken is None:
        raise InputError(f"the lesson {task.name} was not begun; begin it with `kailab course lesson {task.name}`")
    return task, taken


AT_WORK = 2
"""So many challenges of a student are named in the table of a class; those that were judged most."""


@click.command("class")
@click.argument("file", type=options.PATH, help="The class file: YAML with name, and students with name and progress.")
@click.option("--student", default="", help="Show one student, lesson by lesson and challenge by challenge.")
@options.output
def class_command(file: Path, student: str, output: TextOrJson) -> None:
    """Show how far each student of a class is, from the files of their progress."""
    from kailab.cli.table import render_table
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
    terminal.say(
        render_table(("STUDENT", "LESSONS", "FORETOLD", "CHALLENGES", "HINTS", "AT WORK ON (CHECKS)", "LAST"), rows)
    )
    if missing := [one.name for one in found.students if one.missing]:
        terminal.warn(f"no file of progress yet: {', '.join(missing)}")


def _at_work(begun: Sequence[tuple[str, int]]) -> str:
    most = sorted(begun, key=lambda one: -one[1])
    named = [f"{name} ({checks})" for name, checks in most[:AT_WORK]]
    return ", ".join([*named, *([f"{len(most) - AT_WORK} more"] if len(most) > AT_WORK else [])])


def _show_one(progress: Progress, output: TextOrJson) -> None:
    from kailab.cli.table import render_table
    from kailab.course.challenge import challenges
    from kailab.course.lesson import lessons
    from kailab.course.progress import ChallengeProgress, LessonProgress

    taken = [
        (one.name, progress.status_of_lesson(one.name), progress.lessons.get(one.name, LessonProgress()))
        for one in lessons()
    ]
    done = [
        (one.name, progress.status(one.name), progress.challenges.get(one.name, ChallengeProgress()))
        for one in challenges()
    ]
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
        (name, status, _format_numbers(one.unaided), _format_numbers(one.seen), str(one.tries or ""))
        for name, status, one in taken
    ]
    terminal.say(render_table(("LESSON", "STATUS", "FORETOLD", "SEEN", "QUIZ TRIES"), rows))
    begun = [(name, status, str(one.checks), str(one.hints)) for name, status, one in done if status]
    if begun:
        terminal.say("\n" + render_table(("CHALLENGE", "STATUS", "CHECKS", "HINTS"), begun))
    terminal.notice(f"{len(done) - len(begun)} challenges not begun")


def _format_numbers(values: Sequence[float]) -> str:
    return " ".join(f"{one:g}" for one in values)


@click.command()
@click.argument("name", shell_complete=completion.lessons, help="A lesson: its name or number.")
@click.option("--out", type=options.PATH, help="The file to write, if not NAME.html.")
def slides(name: str, out: Path | None) -> None:
    """Write a lesson's slides as one HTML file without anything to load."""
    from kailab.course.lesson import lesson
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
    from kailab.cli.table import render_table
    from kailab.course.challenge import challenges

    _, progress = read_progress(file)
    every = challenges()
    if output is TextOrJson.json:
        data = [
            {"name": one.name, "title": one.title, "level": one.level, "minutes": one.minutes,
             "exercise": one.exercise, "status": progress.status(one.name)} for one in every
        ]  # fmt: skip
        terminal.say(json.dumps(data, indent=2))
        return
    rows = [(one.name, str(one.level), f"{one.minutes} min", progress.status(one.name), one.title) for one in every]
    terminal.say(render_table(("NAME", "LEVEL", "TIME", "STATUS", "TITLE"), rows))
    solved = sum(one.name in progress.solved() for one in every)
    levels = "; ".join(f"{level}: {what}" for level, what in _LEVELS.items())
    terminal.notice(f"{solved} of {len(every)} solved. Levels: {levels}. Begin one: kailab course start NAME")


@group.command()
@click.argument("name", shell_complete=completion.challenges, help="A challenge.")
@click.argument("folder", required=False, type=options.PATH, help="Where your files and your lab will be: NAME.")
@click.option("--fresh", is_flag=True, help="Begin anew where it was begun before; your files are kept beside.")
@progress_option
def start(name: str, folder: Path | None, fresh: bool, file: Path | None) -> None:
    """Prepare a challenge: its task, its files and a lab that starts broken, in a folder of yours."""
    from kailab.course import progress as record
    from kailab.course import workspace
    from kailab.course.challenge import challenge

    task = challenge(name)
    place = (folder or Path(name)).absolute()
    with record.changing(read_progress(file)[0]) as progress:
        kept = workspace.start(task, place, fresh=fresh)
        done = progress.of(name)
        done.folder, done.started = str(place), done.started or record.now()
    for one in kept:
        terminal.notice(f"your file is kept as {one}")
    terminal.say(wrap_markdown(workspace.task_text(task).rstrip("\n")))
    terminal.notice(
        f"\nNext: cd {folder or name}; kailab get pods, kailab get queues, kailab explain; edit; kailab course check"
    )


@group.command()
@click.argument(
    "name",
    shell_complete=completion.challenges,
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

    path, before = read_progress(file)
    task, place = _begun_challenge(before, name, folder)
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
        terminal.say("\n".join(_verdict_lines(task, verdict)))
    if not verdict.solved:
        raise click.exceptions.Exit(1)


def _verdict_lines(task: Challenge, verdict: ChallengeVerdict) -> Iterator[str]:
    said: set[str] = set()
    for one in verdict.judged:
        yield from _condition_lines(one, said)
    yield ""
    if verdict.solved:
        yield f"Solved: {task.title}."
        yield wrap_paragraph(task.learnt)
        return
    broken = sum(one.rule and not one.held for one in verdict.judged)
    missing = sum(not one.rule and not one.held for one in verdict.judged)
    parts = [f"{missing} of what is asked for is not there"] if missing else []
    parts += [f"{broken} {'rule is' if broken == 1 else 'rules are'} broken"] if broken else []
    yield f"Not solved: {' and '.join(parts)}. kailab course hint {task.name} helps on."


def _condition_lines(one: JudgedCondition, said: set[str]) -> Iterator[str]:
    """``said``: reasons that were told before are not told again."""
    if one.held:
        yield f"{terminal.paint('ok    ', 'green', sys.stdout)} {one.say}"
        return
    yield f"{terminal.paint('BROKEN' if one.rule else 'not   ', 'red', sys.stdout)} {one.say}"
    lines = [line for line in one.why.splitlines() if line not in said]
    said.update(lines)
    yield from (f"         {line}" for line in lines[:MOST_LINES])


@group.command()
@click.argument(
    "name",
    shell_complete=completion.challenges,
    required=False,
    help="A challenge; that of the folder you are in if none is named.",
)
@progress_option
def hint(name: str | None, file: Path | None) -> None:
    """Show the next hint of a challenge, with those before it."""
    from kailab.course import progress as record

    with record.changing(read_progress(file)[0]) as progress:
        task, _ = _begun_challenge(progress, name, None)
        done = progress.of(task.name)
        done.hints = min(done.hints + 1, len(task.hints))
    for number, text in enumerate(task.hints[: done.hints], 1):
        terminal.say(wrap_paragraph(text, f"{number}. ", "   "))
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
            terminal.error(fault)
        if faults:
            raise click.exceptions.Exit(1)
        counted = f"{len(found.lessons)} lessons and {len(found.challenges)} challenges"
        terminal.say(f"{found.student}: {counted}, each judged again and right ({found.digest})")
        return
    made = paper.certificate(read_progress(file)[1], student)
    try:
        out.write_bytes(paper.encoded(made))
    except OSError as error:
        raise InputError(f"can't be written: {error.strerror or error}", Where(file=str(out))) from error
    terminal.say(
        f"{out}: {made.student}, {len(made.lessons)} lessons, {len(made.challenges)} challenges, {made.digest}"
    )
    terminal.notice(f"Anyone can check it: kailab course certificate --check {out}")


def _begun_challenge(progress: Progress, name: str | None, folder: Path | None) -> tuple[Challenge, Path]:
    """The challenge that is meant, and the student's folder. Raises InputError."""
    from kailab.course.challenge import challenge
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
