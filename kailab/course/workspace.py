"""The student's folder: the task, the files, and a lab on which the challenge has started.

It has ``TASK.md`` or ``LESSON.md``, the files, and ``.kailab/lab.state``.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from kailab.cluster.embedded.storage.state_file import StateLock
from kailab.course.challenge import Challenge
from kailab.course.judging import do_step
from kailab.course.lesson import Lesson, lessons
from kailab.errors import EvidenceError, InputError, Where
from kailab.evidence.lab_record import LabRecord
from kailab.fleet.reading import load_fleet
from kailab.lab import Lab
from kailab.lab.lab_files import DEFAULT_FILE
from kailab.lab.life import begin, end
from kailab.model.files import read_text
from kailab.model.private_files import make_folder, write_bytes, write_text
from kailab.scheduler.settings.config_file import settings_of
from kailab.undertest.selection import choose_scheduler

TASK, LESSON = "TASK.md", "LESSON.md"


def start_challenge(challenge: Challenge, folder: Path, *, fresh: bool = False) -> list[Path]:
    """Write a challenge's files and open its lab.

    ``fresh``: also if the challenge was started there before; changed files are renamed and returned. Raises InputError
    if the folder has something else or cannot be written.
    """
    renamed: list[Path] = []
    try:
        begun = _begun_here(folder, TASK, challenge.title)
        if begun and not fresh:
            raise InputError(
                "the challenge was started here before; continue there, or restart with --fresh (your files are renamed)",
                Where(file=str(folder)),
            )
        make_folder(folder)
        for name in (*challenge.files.edit, *challenge.files.given):
            renamed += _keep(folder / name, challenge.folder / name)
            write_bytes(folder / name, (challenge.folder / name).read_bytes())
        write_text(folder / TASK, task_text(challenge))
    except OSError as error:
        raise InputError(f"can't be written: {error.strerror or error}", Where(file=str(folder))) from error
    open_challenge(challenge, folder / DEFAULT_FILE)
    return renamed


def lay_out(lesson: Lesson, folder: Path, *, fresh: bool = False) -> None:
    """Write a lesson's files; the student opens its lab.

    ``fresh``: also if it was started there before; its lab ends. Raises InputError if the folder has something else or
    cannot be written.
    """
    try:
        if _begun_here(folder, LESSON, lesson.title) and not fresh:
            return
        make_folder(folder)
        for name in lesson.files:
            _keep(folder / name, lesson.folder / name)
            write_bytes(folder / name, (lesson.folder / name).read_bytes())
        write_text(folder / LESSON, f"{_headed(lesson.title)}\n{lesson.concept}\n")
        state = folder / DEFAULT_FILE
        if state.exists():
            with StateLock(state):
                end(state)
        if state.parent.exists():
            shutil.rmtree(state.parent)  # ``lab_was_here`` looks for this folder
    except OSError as error:
        raise InputError(f"can't be written: {error.strerror or error}", Where(file=str(folder))) from error


def lab_was_here(folder: Path) -> bool:
    """True if a lab runs in the folder or did: the state file goes with the lab, its folder does not."""
    return (folder / DEFAULT_FILE.parent).exists()


def _begun_here(folder: Path, text: str, title: str) -> bool:
    """True if the lesson or challenge was started in the folder, by the first line of its text. Raises InputError for a
    folder with something else."""
    if not folder.is_dir() or not any(folder.iterdir()):
        return False
    if not (folder / text).is_file():
        raise InputError("the folder is not empty; expected a new folder", Where(file=str(folder)))
    head = read_text(folder / text).split("\n", 1)[0]
    if head != _headed(title).strip():
        raise InputError(
            f"the folder has something else, {head.removeprefix('# ')!r:.80}; expected a new folder",
            Where(file=str(folder)),
        )
    return True


def _headed(title: str) -> str:
    return f"# {title}\n"


def _keep(own: Path, shipped: Path) -> list[Path]:
    if not own.is_file() or own.read_bytes() == shipped.read_bytes():
        return []
    number = 1
    while (renamed := own.with_name(f"{own.name}.{number}")).exists():
        number += 1
    own.rename(renamed)
    return [renamed]


def task_text(challenge: Challenge) -> str:
    """The text of TASK.md: the task, what happens, and which files to edit."""
    steps = [f"{number}. {_step(step)}" for number, step in enumerate(challenge.steps, 1)]
    goals = [f"- {condition['say']}" for condition in challenge.judged if not condition.get("rule")]
    rules = [f"- {condition['say']}" for condition in challenge.judged if condition.get("rule")]
    upto = f"the steps up to step {challenge.shown}" if challenge.shown else "the steps"
    parts = [
        _headed(challenge.title).strip(),
        challenge.task,
        "## What happens",
        "\n".join(steps),
        "## It is solved when",
        "\n".join(goals),
        *(["## And these hold", "\n".join(rules)] if rules else []),
        "## Your files",
        f"- edit: {', '.join(challenge.files.edit)}\n- given, and to stay as they are: {', '.join(challenge.files.given)}",
        f"The lab in this folder has gone through {upto} with the files as they are. Look with `kailab get pods` and\n"
        f"`kailab get queues`, ask with `{challenge.explain_command}`, try changes with `kailab apply`. Then:",
        f"    kailab course check {challenge.name}\n    kailab course hint {challenge.name}",
        where_idea_is_taught(challenge.exercise),
    ]
    return "\n\n".join(parts) + "\n"


def is_unedited(challenge: Challenge, folder: Path) -> bool:
    """True if each file that the student is to edit is as it was given."""
    return all((folder / name).read_bytes() == (challenge.folder / name).read_bytes() for name in challenge.files.edit)


def where_idea_is_taught(exercise: str) -> str:
    """A sentence on where the idea is taught. An installation has the lessons, and a checkout the exercises, too."""
    if exercise in {lesson.name for lesson in lessons()}:
        return f"Its idea is taught by lesson `{exercise}`: `kailab course lesson {exercise}`."
    return f"Its idea is taught by the exercise `{exercise}` of kailab's repository."


def _step(step: Mapping[str, Any]) -> str:
    sentence = str(step.get("told", ""))
    actions = [f"`{name}` is applied" for name in step.get("apply", ())]
    if "delete" in step:
        actions.append(f"{step['delete']['kind']}/{step['delete']['name']} is deleted")
    if "scale" in step:
        actions.append(f"{step['scale']['kind']}/{step['scale']['name']} is scaled to {step['scale']['replicas']}")
    if "lose" in step:
        actions.append(f"a pod of the app {step['lose']['app']} is lost")
    if "fail" in step:
        actions.append(f"node {step['fail']} fails")
    if "recover" in step:
        actions.append(f"node {step['recover']} recovers")
    if "advance" in step:
        actions.append(f"{step['advance']} pass")
    return f"{sentence} ({', '.join(actions)})" if sentence else f"{', '.join(actions)}."


def open_challenge(challenge: Challenge, state: Path, folder: Path | None = None) -> None:
    """Open a saved lab with the challenge's steps done, replacing the one there. ``folder``: the student's files."""
    config = challenge.path_of(challenge.config, folder) if challenge.config else None
    settings = settings_of(config)
    make_folder(state.parent)
    with StateLock(state):
        if state.exists():
            end(state)
        begin(
            state,
            load_fleet(challenge.fleet_source),
            "embedded",
            choose_scheduler("kailab"),
            settings,
            {"config": config},
        ).close()
        _do_steps(challenge, state, folder)


def _do_steps(challenge: Challenge, state: Path, folder: Path | None) -> None:
    journal, recorder = LabRecord(state), None
    with suppress(EvidenceError):  # a lab without a record is better than none
        recorder = journal.recorder()
    with Lab.resume(state, [] if recorder is None else [recorder]) as lab:
        for step in challenge.steps[: challenge.shown or None]:
            do_step(lab, challenge, step, folder)
            lab.settle()
        lab.save(state)
        if recorder is not None:
            with suppress(EvidenceError):
                journal.add(recorder)
            lab.observers.remove(recorder)
