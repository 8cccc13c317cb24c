"""``course``: lessons (read, predict, run, compare, answer a quiz), challenges on labs that start broken, and commands for teachers. All share the
student's progress file.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kailab.cli import completion, configurations, options, terminal
from kailab.cli.error_messages import CommandGroup
from kailab.cli.options import TextOrJson
from kailab.cli.table import render_table
from kailab.course import progress as record
from kailab.course.lesson import LETTERS, Lesson, lessons
from kailab.course.lesson import lesson as find_lesson
from kailab.course.progress import ChallengeProgress, LessonProgress, Progress
from kailab.errors import InputError
from kailab.lab.lab_files import DEFAULT_FILE
from kailab.model.files import read_text
from kailab.model.wording import count, some

if TYPE_CHECKING:
    from kailab.course.challenge import Challenge
    from kailab.course.class_file import StudentStanding
    from kailab.course.judging import ChallengeVerdict, JudgedCondition


WIDTH = 110
"""Longest line of prose."""
_ITEM = re.compile(r"(?:[-*]|\d+\.) ")
_UNWRAPPED = ("    ", "```", "#", "|", ">")


def text_width() -> int:
    """Width of prose: ``WIDTH``, or the columns of a narrower terminal."""
    return min(WIDTH, shutil.get_terminal_size().columns) if sys.stdout.isatty() else WIDTH


def wrap_paragraph(text: str, first: str = "", rest: str = "") -> str:
    """Wrap a paragraph. ``first``, ``rest``: indents of its first line and of the others."""
    return click.wrap_text(text, text_width(), first, rest)


def wrap_markdown(text: str) -> str:
    """Wrap Markdown on a terminal; elsewhere return it unchanged."""
    return "\n".join(_wrapped_lines(text)) if sys.stdout.isatty() else text


def _wrapped_lines(text: str) -> Iterator[str]:
    fenced, paragraph = False, list[str]()
    for line in text.splitlines():
        fence = line.startswith("```")
        verbatim = fenced or not line.strip() or line.startswith(_UNWRAPPED)
        if paragraph and (verbatim or _ITEM.match(line)):
            yield _wrap_lines(paragraph)
            paragraph = []
        if verbatim:
            yield line
        else:
            paragraph.append(line.strip())
        fenced ^= fence
    if paragraph:
        yield _wrap_lines(paragraph)


def _wrap_lines(lines: list[str]) -> str:
    text = " ".join(lines)
    mark = match[0] if (match := _ITEM.match(text)) else ""
    return wrap_paragraph(text.removeprefix(mark), mark, " " * len(mark))


progress_option = options.path_option(
    "--progress", "file", help="Progress file instead of $KAILAB_COURSE or the default one."
)


def read_progress(file: Path | None) -> tuple[Path, Progress]:
    """Return the progress file's path and its content. Raises StateError."""
    path = file or record.progress_file()
    return path, record.read_progress_file(path)


@click.command("lessons")
@progress_option
@options.output
def list_lessons(file: Path | None, output: TextOrJson) -> None:
    """List the lessons with your progress."""
    _, progress = read_progress(file)
    all_lessons = lessons()
    if output is TextOrJson.json:
        data = [
            {"number": lesson.number, "name": lesson.name, "title": lesson.title, "minutes": lesson.minutes, "status": progress.status_of_lesson(lesson.name)}
            for lesson in all_lessons
        ]  # fmt: skip
        terminal.say_json(data)
        return
    rows = [
        (str(lesson.number), lesson.name, f"{lesson.minutes} min", progress.status_of_lesson(lesson.name), lesson.title)
        for lesson in all_lessons
    ]
    terminal.say(render_table(("", "NAME", "TIME", "STATUS", "TITLE"), rows))
    terminal.notice("Begin one: kailab course lesson NAME")


_lesson = click.argument(
    "name",
    required=False,
    shell_complete=completion.lessons,
    help="Name or number of a lesson; default: that of the current folder.",
)


def _lesson_or_here(progress: Progress, name: str | None) -> Lesson:
    """The named lesson, by default that of the current folder. Raises InputError."""
    name = name if name is not None else progress.lesson_here()
    if name is None:
        raise InputError("no lesson was begun in this folder; give a name (`kailab course lessons` lists them)")
    return find_lesson(name)


def _split_words(
    progress: Progress, words: tuple[str, ...], questions: Callable[[Lesson], Sequence[object]]
) -> tuple[str | None, tuple[str, ...]]:
    """Split a lesson's name, if the words begin with one, from the answers to its ``questions``. In a lesson's folder as many
    words as it has questions are all answers, so that a number is not taken for that of a lesson."""
    here = progress.lesson_here()
    if here is not None and words[0] not in (each.name for each in lessons()):
        task = find_lesson(here)
        if len(words) == len(questions(task)) or words[0] not in (str(each.number) for each in lessons()):
            return here, words
    return words[0], words[1:]


@click.command()
@_lesson
@click.argument(
    "folder",
    required=False,
    type=options.PATH,
    help="Folder for its files; default: where the lesson was begun, or NAME.",
)
@options.flag("--fresh", help="Restart the lesson: with a new prediction and without the old lab.")
@progress_option
def lesson(name: str | None, folder: Path | None, fresh: bool, file: Path | None) -> None:
    """Begin a lesson: read its idea, and the questions to answer with a prediction before anything runs."""
    from kailab.course import workspace

    path, before = read_progress(file)
    task = _lesson_or_here(before, name)
    with record.edit_progress(path) as progress:
        place = (folder or progress.default_folder(task.name, progress.lessons.get(task.name))).absolute()
        workspace.lay_out(task, place, fresh=fresh)
        status = progress.of_lesson(task.name)
        if fresh:
            status.begin_anew()
        status.folder, status.started = str(place), status.started or record.now()
    terminal.say("\n".join(_introduction(task)))
    if status.predicted:
        terminal.say(f"\nYou predicted {_format_numbers(status.prediction)}. {_instructions(task, status)}")
        terminal.notice(f"\nNext: kailab course compare {task.name}")
    else:
        terminal.notice(f"\nNext: kailab course predict {task.name} {' '.join('N' for _ in task.predict)}")


def _introduction(task: Lesson) -> Iterator[str]:
    yield f"# {task.number}. {task.title}\n"
    yield f"{wrap_markdown(task.concept)}\n"
    yield "## Predict first\n"
    for number, question in enumerate(task.predict, 1):
        yield wrap_paragraph(question.ask, f"{number}. ", "   ")


@click.command()
@click.argument(
    "words",
    nargs=-1,
    required=True,
    metavar="[NAME] NUMBER...",
    shell_complete=completion.lessons,
    help="The lesson, by default that of the current folder, and a number for each of its questions.",
)
@progress_option
def predict(words: tuple[str, ...], file: Path | None) -> None:
    """Record your prediction before the lesson's lab runs; then see the next steps. A prediction is recorded once."""
    from kailab.course import workspace
    from kailab.course.teaching import read_prediction

    with record.edit_progress(read_progress(file)[0]) as progress:
        name, numbers = _split_words(progress, words, lambda lesson: lesson.predict)
        task, status = _begun_lesson(progress, name)
        prediction = read_prediction(task, numbers)
        again = f"`kailab course lesson {task.name} --fresh` restarts the lesson"
        if status.predicted:
            raise InputError(
                f"you predicted {_format_numbers(status.prediction)} at {status.predicted}; a prediction is recorded once ({again})"
            )
        if workspace.lab_was_here(Path(status.folder)):
            raise InputError(f"{status.folder}: the lab has run already; a prediction is recorded before ({again})")
        status.predicted, status.prediction = record.now(), list(prediction)
    terminal.say(f"Recorded: {_format_numbers(status.prediction)}. {_instructions(task, status)}")
    terminal.notice(f"\nNext: kailab course compare {task.name}")


def _instructions(task: Lesson, status: LessonProgress) -> str:
    """The lesson's steps as commands to type."""
    lines = [f"Now see for yourself:\n\n    cd {status.folder}"]
    for step, commands in zip(task.steps, task.commands(), strict=True):
        lines += ["", *([wrap_paragraph(step["told"])] if "told" in step else [])]
        lines += [f"    {command}" for command in commands]
    return "\n".join(lines)


@click.command()
@_lesson
@progress_option
@options.output
def compare(name: str | None, file: Path | None, output: TextOrJson) -> None:
    """Compare your prediction with a lab that runs the lesson's steps, and explain the result."""
    from kailab.course.teaching import terms_in, walk

    path, before = read_progress(file)
    task, status = _begun_lesson(before, name)
    if not status.predicted:
        raise InputError(
            f"no prediction is recorded yet; record one: kailab course predict {task.name} {' '.join('N' for _ in task.predict)}"
        )
    walked = walk(task)
    with record.edit_progress(path) as progress:
        status = progress.of_lesson(task.name)
        status.compared, status.seen = record.now(), list(walked.seen)
    compared = list(zip(task.predict, status.prediction, walked.seen, strict=True))
    if output is TextOrJson.json:
        terminal.say_json(
            {
                "lesson": task.name,
                "predictions": [
                    {"ask": item.ask, "predicted": predicted, "seen": observed}
                    for item, predicted, observed in compared
                ],
                "why": [{"what": item.what, "lines": list(item.lines)} for item in walked.why],
            }
        )
        return
    for item, predicted, observed in compared:
        right = predicted == observed
        mark = (
            terminal.paint("right", "green", sys.stdout) if right else terminal.paint("differs", "yellow", sys.stdout)
        )
        terminal.say(wrap_paragraph(item.ask))
        terminal.say(f"  {mark}  predicted {predicted:g}, observed {observed:g}\n")
    terminal.say(wrap_paragraph(task.happened))
    for why in walked.why:
        terminal.say(f"\n{why.command}")
        for line in why.lines:
            terminal.say(f"  {line}")
    for meaning in terms_in(line for why in walked.why for line in why.lines):
        terminal.say(f"\n{wrap_paragraph(meaning)}")
    terminal.say(f"\n{wrap_paragraph(f'What fake GPUs show, and what not: {task.fakes}')}")
    terminal.notice(f"\nNext: kailab course quiz {task.name}")


@click.command()
@click.argument(
    "words",
    nargs=-1,
    metavar="[NAME] [LETTER...]",
    shell_complete=completion.lessons,
    help="The lesson, by default that of the current folder, and a letter for each question; without letters the questions are shown.",
)
@progress_option
def quiz(words: tuple[str, ...], file: Path | None) -> None:
    """Show the lesson's questions, or check your answers. Exit code 1 if one is wrong."""
    from kailab.course.teaching import mark

    path, before = read_progress(file)
    name, answers = _split_words(before, words, lambda lesson: lesson.quiz) if words else (None, ())
    task, _ = _begun_lesson(before, name)
    if not answers:
        for number, question in enumerate(task.quiz, 1):
            terminal.say(wrap_paragraph(question.ask, f"{number}. ", "   "))
            for letter, choice in zip(LETTERS, question.choices, strict=False):
                terminal.say(wrap_paragraph(choice, f"   {letter}) ", "      "))
        terminal.notice(f"\nAnswer: {task.answer_command}")
        return
    marked = mark(task, answers)
    passed = all(question.right for question in marked)
    with record.edit_progress(path) as progress:
        status = progress.of_lesson(task.name)
        status.tries += 1
        if passed:
            status.quiz, status.answers = status.quiz or record.now(), [question.given for question in marked]
    for number, judged in enumerate(marked, 1):
        word = (
            terminal.paint("right", "green", sys.stdout) if judged.right else terminal.paint("wrong", "red", sys.stdout)
        )
        terminal.say(wrap_paragraph(f"{judged.given}. {judged.why}", f"{number}. {word}: ", "   "))
    if not passed:
        terminal.notice(f"\nLook again: kailab course lesson {task.name}, kailab course compare {task.name}")
        raise click.exceptions.Exit(1)
    terminal.notice(f"\nPassed: {task.title}")


def _format_numbers(numbers: Sequence[float], separator: str = ", ") -> str:
    return separator.join(f"{number:g}" for number in numbers)


def _begun_lesson(progress: Progress, name: str | None) -> tuple[Lesson, LessonProgress]:
    """Return a lesson with its progress. Raises InputError if the lesson was not begun."""
    task = _lesson_or_here(progress, name)
    status = progress.lessons.get(task.name)
    if status is None:
        raise InputError(f"the lesson {task.name} was not begun; begin it with `kailab course lesson {task.name}`")
    return task, status


MOST_NAMED = 2
"""The table of a class names so many challenges of a student: those that were checked most often."""


@click.command("class")
@click.argument(
    "file",
    type=options.PATH,
    help="Class file (YAML with name, and students with name and progress), or a folder with a NAME.json or a NAME/course.json for each student.",
)
@click.option("--student", default="", help="Show one student in detail.")
@options.output
def class_command(file: Path, student: str, output: TextOrJson) -> None:
    """Show the progress of each student of a class."""
    from kailab.course.class_file import progress_of, standing_of

    if student:
        _show_one(progress_of(file, student), output)
        return
    standings = standing_of(file)
    if output is TextOrJson.json:
        terminal.say_json(standings.data())
        return
    terminal.say(f"{standings.name}: {count(len(standings.students), 'student')}")
    rows = [
        (
            student_row.name,
            f"{student_row.lessons}/{standings.lessons}",
            f"{student_row.predicted[0]}/{student_row.predicted[1]}",
            f"{student_row.challenges}/{standings.challenges}",
            str(student_row.hints),
            "file can't be read" if student_row.fault else _at_work(student_row),
            student_row.last,
        )
        for student_row in standings.students
    ]
    terminal.say(
        render_table(("STUDENT", "LESSONS", "PREDICTED", "CHALLENGES", "HINTS", "WORKING ON (CHECKS)", "LAST"), rows)
    )
    if missing := [student_row.name for student_row in standings.students if student_row.missing]:
        terminal.warn(f"no progress file yet: {', '.join(missing)}")
    for student_row in standings.students:
        if student_row.fault:
            terminal.warn(f"{student_row.name}: {student_row.fault}")


def _at_work(student: StudentStanding) -> str:
    named = [f"{name} ({checks})" for name, checks in sorted(student.begun, key=lambda entry: -entry[1])]
    named += [f"lesson {name} ({status})" for name, status in student.lessons_begun]
    return some(named, MOST_NAMED)


def _show_one(progress: Progress, output: TextOrJson) -> None:
    from kailab.course.challenge import challenges

    taken = [
        (item.name, progress.status_of_lesson(item.name), progress.lessons.get(item.name, LessonProgress()))
        for item in lessons()
    ]
    done = [
        (item.name, progress.status(item.name), progress.challenges.get(item.name, ChallengeProgress()))
        for item in challenges()
    ]
    if output is TextOrJson.json:
        data = {
            "lessons": [
                {"name": name, "status": status, "predicted": item.unaided, "seen": item.seen, "quiz_tries": item.tries}
                for name, status, item in taken
            ],
            "challenges": [
                {"name": name, "status": status, "checks": item.checks, "hints": item.hints}
                for name, status, item in done
            ],
        }
        terminal.say_json(data)
        return
    rows = [
        (name, status, _format_numbers(item.unaided, " "), _format_numbers(item.seen, " "), str(item.tries or ""))
        for name, status, item in taken
    ]
    terminal.say(render_table(("LESSON", "STATUS", "PREDICTED", "OBSERVED", "QUIZ TRIES"), rows))
    begun = [(name, status, str(item.checks), str(item.hints)) for name, status, item in done if status]
    if begun:
        terminal.say("\n" + render_table(("CHALLENGE", "STATUS", "CHECKS", "HINTS"), begun))
    if left := len(done) - len(begun):
        terminal.notice(f"{count(left, 'challenge')} {'is' if left == 1 else 'are'} not begun")


@click.command()
@_lesson
@options.path_option("--out", help="File to write instead of NAME.html.")
@progress_option
def slides(name: str | None, out: Path | None, file: Path | None) -> None:
    """Write a lesson's slides as a self-contained HTML file."""
    from kailab.course.slides import deck, html
    from kailab.evidence.run import write_file

    task = find_lesson(name) if name is not None else _lesson_or_here(read_progress(file)[1], None)
    written = out or Path(f"{task.name}.html")
    slide_deck = deck(task)
    write_file(written, html(slide_deck).encode())
    terminal.say(str(written))
    terminal.notice(f"{len(slide_deck.slides)} slides: arrow keys, Home, End; one page each in print")


MOST_LINES = 7
"""Lines of the reason why a condition does not hold."""
_LEVELS = {1: "one field", 2: "the cause is elsewhere", 3: "several causes"}


@click.group(cls=CommandGroup)
def group() -> None:
    """Learn how a GPU cluster is shared: lessons with predictions, and challenges that start broken.

    Lesson 1 begins with `kailab course lesson quota`. For teachers, `slides` writes the slides of a lesson, and `class` shows the progress
    of each student."""


for _command in (list_lessons, lesson, predict, compare, quiz, class_command, slides):
    group.add_command(_command)


_begun = click.argument(
    "name",
    shell_complete=completion.challenges,
    required=False,
    help="Name of a challenge; default: that of the current folder.",
)


@group.command("challenges")
@progress_option
@options.output
def list_challenges(file: Path | None, output: TextOrJson) -> None:
    """List the challenges with your progress."""
    from kailab.course.challenge import challenges

    _, progress = read_progress(file)
    all_challenges = challenges()
    if output is TextOrJson.json:
        data = [
            {"name": challenge.name, "title": challenge.title, "level": challenge.level, "minutes": challenge.minutes,
             "exercise": challenge.exercise, "status": progress.status(challenge.name)} for challenge in all_challenges
        ]  # fmt: skip
        terminal.say_json(data)
        return
    rows = [
        (
            challenge.name,
            str(challenge.level),
            f"{challenge.minutes} min",
            progress.status(challenge.name),
            challenge.title,
        )
        for challenge in all_challenges
    ]
    terminal.say(render_table(("NAME", "LEVEL", "TIME", "STATUS", "TITLE"), rows))
    solved = sum(challenge.name in progress.solved() for challenge in all_challenges)
    levels = "; ".join(f"{level}: {meaning}" for level, meaning in _LEVELS.items())
    terminal.notice(f"{solved} of {len(all_challenges)} solved. Levels: {levels}. Begin one: kailab course start NAME")


@group.command()
@click.argument("name", shell_complete=completion.challenges, help="Name of a challenge.")
@click.argument(
    "folder",
    required=False,
    type=options.PATH,
    help="Folder for your files and your lab; default: where the challenge was begun, or NAME.",
)
@options.flag("--fresh", help="Restart the challenge; your files are kept under other names.")
@progress_option
def start(name: str, folder: Path | None, fresh: bool, file: Path | None) -> None:
    """Prepare a challenge in a folder: its task, its files and a lab that starts broken."""
    from kailab.course import workspace
    from kailab.course.challenge import challenge

    task = challenge(name)
    with record.edit_progress(read_progress(file)[0]) as progress:
        place = (folder or progress.default_folder(name, progress.challenges.get(name))).absolute()
        backups = workspace.start_challenge(task, place, fresh=fresh)
        status = progress.of(name)
        status.folder, status.started = str(place), status.started or record.now()
    for path in backups:
        terminal.notice(f"your file is kept as {path}")
    terminal.say(wrap_markdown(workspace.task_text(task).rstrip("\n")))
    terminal.notice(
        f"\nNext: cd {place}; kailab get pods, kailab get queues, {task.explain_command}; edit; kailab course check"
    )


@group.command()
@_begun
@click.argument(
    "folder", required=False, type=options.PATH, help="Folder with your files; default: where the challenge was begun."
)
@options.flag("--open", "opened", help="Also replace the folder's lab by one with your files.")
@progress_option
@options.output
def check(name: str | None, folder: Path | None, opened: bool, file: Path | None, output: TextOrJson) -> None:
    """Check your solution on a new lab. Exit code 1 if the challenge is not solved."""
    from kailab.course import workspace
    from kailab.course.judging import judge

    path, before = read_progress(file)
    task, place = _begun_challenge(before, name, folder)
    if task.config:
        configurations.print_notices_of_files([task.path_of(task.config, place)])
    verdict = judge(task, place)
    if opened:
        workspace.open_challenge(task, place / DEFAULT_FILE, place)
    with record.edit_progress(path) as progress:
        status = progress.of(task.name)
        status.checks += 1
        if verdict.solved:
            status.solved = status.solved or record.now()
            status.files = {name_of_file: read_text(place / name_of_file) for name_of_file in task.files.edit}
    if output is TextOrJson.json:
        terminal.say_json(verdict.data())
    else:
        for warning in verdict.warnings:
            terminal.warn(warning)
        terminal.say("\n".join(_verdict_lines(task, verdict)))
        if not verdict.solved and workspace.is_unedited(task, place):
            terminal.notice(
                f"{', '.join(task.files.edit)}: as given so far. These files are judged, and not what was changed in the folder's lab."
            )
    if not verdict.solved:
        raise click.exceptions.Exit(1)


def _verdict_lines(task: Challenge, verdict: ChallengeVerdict) -> Iterator[str]:
    shown: set[str] = set()
    for judged in verdict.judged:
        yield from _condition_lines(judged, shown)
    yield ""
    if verdict.solved:
        yield f"Solved: {task.title}."
        yield wrap_paragraph(task.learnt)
        return
    broken = sum(judged.rule and not judged.holds for judged in verdict.judged)
    missing = sum(not judged.rule and not judged.holds for judged in verdict.judged)
    parts = [f"{missing} {'condition is' if missing == 1 else 'conditions are'} not met"] if missing else []
    parts += [f"{broken} {'rule is' if broken == 1 else 'rules are'} broken"] if broken else []
    yield f"Not solved: {' and '.join(parts)}. kailab course hint {task.name} shows a hint."


def _condition_lines(judged: JudgedCondition, shown: set[str]) -> Iterator[str]:
    """The result of a condition, with the reason if it does not hold. ``shown``: lines of reasons that are not to be repeated."""
    if judged.holds:
        yield f"{terminal.paint('ok    ', 'green', sys.stdout)} {judged.say}"
        return
    yield f"{terminal.paint('BROKEN' if judged.rule else 'not   ', 'red', sys.stdout)} {judged.say}"
    lines = [line for line in judged.why.splitlines() if line not in shown]
    shown.update(lines)
    yield from (f"         {line}" for line in lines[:MOST_LINES])


@group.command()
@_begun
@progress_option
def hint(name: str | None, file: Path | None) -> None:
    """Show the hints so far and the next one."""
    from kailab.course import workspace

    with record.edit_progress(read_progress(file)[0]) as progress:
        task, _ = _begun_challenge(progress, name, None)
        status = progress.of(task.name)
        status.hints = min(status.hints + 1, len(task.hints))
    for number, text in enumerate(task.hints[: status.hints], 1):
        terminal.say(wrap_paragraph(text, f"{number}. ", "   "))
    remaining = len(task.hints) - status.hints
    terminal.notice(
        f"{remaining} more" if remaining else f"That was the last. {workspace.where_idea_is_taught(task.exercise)}"
    )


@group.command()
@click.option("--name", "student", default="", help="Your name on the certificate.")
@click.option("--out", type=options.PATH, default=Path("certificate.json"), help="File to write.")
@options.path_option("--html", "page", help="Also write a page to print; the proof stays the file of --out.")
@options.path_option("--check", "checked", help="Verify a certificate: its digest and each solution in it.")
@progress_option
def certificate(student: str, out: Path, page: Path | None, checked: Path | None, file: Path | None) -> None:
    """Write a certificate once all quizzes are passed and a challenge of each lesson is solved, or verify one. Exit code 1 if it is not
    valid."""
    from kailab.course import certificate as paper
    from kailab.evidence.run import write_file

    if checked is not None:
        if page is not None:
            raise click.UsageError("--html can't be used with --check, which writes nothing")
        verified, faults = paper.check_certificate(checked)
        for fault in faults:
            terminal.error(fault)
        if faults:
            raise click.exceptions.Exit(1)
        terminal.say(f"{verified.student}: {paper.summary(verified)}, each verified again ({verified.digest})")
        return
    document = paper.certificate(read_progress(file)[1], student)
    write_file(out, paper.encoded(document))
    if page is not None:
        write_file(page, paper.certificate_page(document).encode())
    terminal.say(f"{out}: {document.student}, {paper.summary(document)}, {document.digest}")
    terminal.notice(f"Anyone can verify it: kailab course certificate --check {out}")


def _begun_challenge(progress: Progress, name: str | None, folder: Path | None) -> tuple[Challenge, Path]:
    """Return a challenge, by default that of the current folder, and the student's folder. Raises InputError."""
    from kailab.course.challenge import challenge

    if name is None:
        name = progress.challenge_here()
        if name is None:
            raise InputError(
                "no challenge was begun in this folder; give a name (`kailab course challenges` lists them)"
            )
    task = challenge(name)
    begun = progress.challenges.get(name)
    if folder is None and (begun is None or not begun.folder):
        raise InputError(f"the challenge {name} was not begun; begin it with `kailab course start {name}`")
    place = folder if folder is not None else Path(begun.folder if begun else "")
    if not place.is_dir():
        raise InputError(
            f"{place}: there is no such folder; give the folder of your files: kailab course check {name} FOLDER"
        )
    return task, place
