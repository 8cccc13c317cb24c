"""Faults in the folder of a challenge or lesson are reported with file, line and field."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kailab.course.challenge import CHALLENGES, challenges, read_challenge
from kailab.course.lesson import LESSONS, lessons, read_lesson
from kailab.errors import InputError

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(CHALLENGES / "will-not-borrow", tmp_path / "own"))


def edit(folder: Path, old: str, new: str) -> None:
    file = folder / "challenge.yaml"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("title: A Deployment that will not borrow\n", "", "title: is required"),
        ("level: 1", "level: 7", "level: 7 is not valid; expected 1 or 2 or 3"),
        ("[render.yaml]", "[rendr.yaml]", "no file 'rendr.yaml'"),
        ("apply: [late.yaml]", "apply: [other.yaml]", "'other.yaml' is not one of its files"),
        ("{running: {pods: 16, gpus: 16}}", "{runing: {pods: 16}}", "unknown word; expected one of running"),
        ("{running: {pods: 16, gpus: 16}}", "{running: {pod: 16}}", "invalid arguments"),
        ("after: 1", "after: 9", "after: there are only 2 steps"),
        ("about: {deployment: render}", "aboot: {deployment: render}", "unknown field; did you mean about?"),
        ("expect: {in_queue: {name: team-a}}", "about: {app: render}", "is given twice"),
        (
            "about: {deployment: render}\n    expect: {in_queue: {name: team-a}}",
            "manifest: {kind: Queue, name: team-a}\n    field: spec.parentQueue",
            "expected field and one of unchanged, is, at_least, at_most",
        ),
        (
            "about: {deployment: render}\n    expect: {in_queue: {name: team-a}}",
            "manifest: {kind: Deployment, name: render}\n    field: spec.replicas\n    is: 16",
            "manifest: expected a Queue; for workloads use has, each, gang, in_queue, spared",
        ),
        ("{in_queue: {name: team-a}}", "{has: {pod: 3}}", "invalid arguments"),
        ("shown: 1", "shown: 3", "shown: there are only 2 steps"),
        ("    about: {queue: team-b}\n", "", "expected one of about"),
        ("expect: {running: {gpus: {at_least: 16}}}", "expect: {running: true}\n    stays: soon", "stays: "),
    ],
)
def test_a_fault_is_told_with_its_place(folder: Path, old: str, new: str, said: str) -> None:
    edit(folder, old, new)
    with pytest.raises(InputError) as error:
        read_challenge(folder)
    assert str(folder / "challenge.yaml") in str(error.value)
    assert said in str(error.value)


def test_a_folder_as_it_is_meant_is_read(folder: Path) -> None:
    assert read_challenge(folder).title == "A Deployment that will not borrow"


def test_each_challenge_leads_to_an_exercise() -> None:
    there = {path.name for path in (ROOT / "exercises").iterdir() if path.is_dir()}
    assert {one.exercise for one in challenges()} <= there
    assert {one.exercise for one in lessons()} <= there


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        ("lesson.yaml", "number: 1\n", "", "number: is required"),
        (
            "lesson.yaml",
            "[queues.yaml, services.yaml]\npredict",
            "[queues.yaml, service.yaml]\npredict",
            "no file",
        ),
        ("lesson.yaml", "count: pods", "count: cores", "count: 'cores' is not valid; expected pods or gpus"),
        ("lesson.yaml", "look: [kailab explain", "look: [kailab delete", "expected a kailab command that only looks"),
        ("lesson.yaml", "explain: queue team-a\n", "explain: queue team-a\n    after: 2\n", "there are only 1 steps"),
        ("answers.yaml", "answer: b", "answer: e", "answer 1 is 'e'; expected a, b, c"),
        ("answers.yaml", "- answer: a", "- {answer: a, why: more, others: {}}\n- answer: a", "4 answers; expected 3"),
        ("answers.yaml", "answer: b", "answers: b", "answer"),
        ("answers.yaml", "    c:", "    d:", "answer 1 explains a, d under others; expected a, c"),
    ],
)
def test_a_fault_of_a_lesson_is_told_with_its_place(tmp_path: Path, file: str, old: str, new: str, said: str) -> None:
    folder = Path(shutil.copytree(LESSONS / "quota", tmp_path / "own"))
    text = (folder / file).read_text()
    assert old in text
    (folder / file).write_text(text.replace(old, new, 1))
    with pytest.raises(InputError) as error:
        read_lesson(folder)
    assert str(folder / file) in str(error.value)
    assert said in str(error.value)


def test_no_solution_is_given_out() -> None:
    assert not [path for path in CHALLENGES.rglob("*") if "solution" in path.name]
    kinds = {path.suffix for path in CHALLENGES.rglob("*") if path.is_file()}
    assert kinds == {".yaml", ".md"}
