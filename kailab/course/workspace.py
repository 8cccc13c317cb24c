"""The student's folder: the task, the files, and a lab on which the challenge has happened as it starts.

TASK.md, the files of the challenge, .kailab/lab.state
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
from kailab.course.lesson import Lesson
from kailab.errors import EvidenceError, InputError, Where
from kailab.evidence.lab_record import LabRecord
from kailab.fleet import load_fleet
from kailab.lab import Lab
from kailab.lab.life import begin, end
from kailab.model.files import read_text
from kailab.model.private_files import make_folder, write_bytes, write_text
from kailab.scheduler import settings_of
from kailab.undertest.selection import choose_scheduler

STATE = Path(".kailab/lab.state")
TASK, LESSON = "TASK.md", "LESSON.md"


def start(challenge: Challenge, folder: Path, *, fresh: bool = False) -> list[Path]:
    """Write the files and bring the lab about. ``fresh``: also where the challenge was begun before; files that differ are kept beside,
    and returned. Raises InputError where something else is in the folder, or the folder can't be written."""
    kept: list[Path] = []
    try:
        there = _begun_here(folder, TASK, challenge.title)
        if there and not fresh:
            raise InputError(
                "the challenge was begun here before; go on there, or begin anew with --fresh (your files are kept beside)",
                Where(file=str(folder)),
            )
        make_folder(folder)
        for name in (*challenge.files.edit, *challenge.files.given):
            kept += _keep(folder / name, challenge.folder / name)
            write_bytes(folder / name, (challenge.folder / name).read_bytes())
        write_text(folder / TASK, task_text(challenge))
    except OSError as error:
        raise InputError(f"can't be written: {error.strerror or error}", Where(file=str(folder))) from error
    open_lab(challenge, folder / STATE)
    return kept


def lay_out(lesson: Lesson, folder: Path, *, fresh: bool = False) -> None:
    """Write a lesson's files; its lab is the student's to begin. ``fresh``: also where it was begun before; the lab there ends. Raises
    InputError where something else is in the folder, or it can't be written."""
    try:
        if _begun_here(folder, LESSON, lesson.title) and not fresh:
            return
        make_folder(folder)
        for name in lesson.files:
            _keep(folder / name, lesson.folder / name)
            write_bytes(folder / name, (lesson.folder / name).read_bytes())
        write_text(folder / LESSON, f"{_headed(lesson.title)}\n{lesson.concept}\n")
        state = folder / STATE
        if state.exists():
            with StateLock(state):
                end(state)
        if state.parent.exists():
            shutil.rmtree(state.parent)  # the sign that a lab was there
    except OSError as error:
        raise InputError(f"can't be written: {error.strerror or error}", Where(file=str(folder))) from error


def lab_was_here(folder: Path) -> bool:
    """Whether a lab runs in the folder, or did: its file goes with it, what lies beside does not."""
    return (folder / STATE.parent).exists()


def _begun_here(folder: Path, text: str, title: str) -> bool:
    """Whether the lesson or challenge of that title was begun in the folder, by the file with its text. Raises InputError where something
    else is there."""
    if not folder.is_dir() or not any(folder.iterdir()):
        return False
    if not (folder / text).is_file():
        raise InputError("is not empty; expected a new folder", Where(file=str(folder)))
    head = read_text(folder / text).split("\n", 1)[0]
    if head != _headed(title).strip():
        raise InputError(
            f"has something else, {head.removeprefix('# ')!r:.80}; expected a new folder", Where(file=str(folder))
        )
    return True


def _headed(title: str) -> str:
    return f"# {title}\n"


def _keep(own: Path, shipped: Path) -> list[Path]:
    if not own.is_file() or own.read_bytes() == shipped.read_bytes():
        return []
    number = 1
    while (kept := own.with_name(f"{own.name}.{number}")).exists():
        number += 1
    own.rename(kept)
    return [kept]


def task_text(challenge: Challenge) -> str:
    """For people: what is to be done, what happens meanwhile, and which files are whose."""
    steps = [f"{number}. {_step(step)}" for number, step in enumerate(challenge.steps, 1)]
    goals = [f"- {one['say']}" for one in challenge.judged if not one.get("rule")]
    rules = [f"- {one['say']}" for one in challenge.judged if one.get("rule")]
    upto = f"the steps up to {challenge.shown}" if challenge.shown else "the steps"
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
        "`kailab get queues`, ask with `kailab explain`, try changes with `kailab apply`. Then:",
        f"    kailab course check {challenge.name}\n    kailab course hint {challenge.name}",
        f"The idea behind it is in the exercise `{challenge.exercise}`.",
    ]
    return "\n\n".join(parts) + "\n"


def _step(step: Mapping[str, Any]) -> str:
    told = str(step.get("told", ""))
    doing = [f"`{name}` is applied" for name in step.get("apply", ())]
    if "delete" in step:
        doing.append(f"{step['delete']['kind']}/{step['delete']['name']} is deleted")
    if "scale" in step:
        doing.append(f"{step['scale']['kind']}/{step['scale']['name']} is scaled to {step['scale']['replicas']}")
    if "lose" in step:
        doing.append(f"a pod of the app {step['lose']['app']} is lost")
    if "fail" in step:
        doing.append(f"node {step['fail']} fails")
    if "recover" in step:
        doing.append(f"node {step['recover']} is well again")
    if "advance" in step:
        doing.append(f"{step['advance']} pass")
    return f"{told} ({', '.join(doing)})" if told else f"{', '.join(doing)}."


def open_lab(challenge: Challenge, state: Path, folder: Path | None = None) -> None:
    """A lab kept in a file, with the challenge's steps done, in place of the one there. ``folder``: with the student's files."""
    config = challenge.place(challenge.config, folder) if challenge.config else None
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
    with suppress(EvidenceError):  # the lab matters more than its record
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
