"""The course from the command line: begin, look, mend, be judged, be helped, have it certified."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kailab.course.challenge import challenge
from kailab.course.lesson import lessons
from tests.course.answers import answers

NAME = "will-not-borrow"
CLASS = "        kai.scheduler/queue: team-a\n"


@pytest.fixture(autouse=True)
def record(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = home / "course.json"
    monkeypatch.setenv("KAILAB_COURSE", str(path))
    return path


@pytest.fixture
def begun(kailab, home: Path) -> Path:
    assert kailab("course", "start", NAME).code == 0
    return home / NAME


def mend(folder: Path) -> None:
    file = folder / "render.yaml"
    file.write_text(file.read_text().replace(CLASS, f"{CLASS}        priorityClassName: train\n"))


def status(kailab) -> dict[str, str]:
    return {one["name"]: one["status"] for one in json.loads(kailab("course", "challenges", "-o", "json").out)}


def test_a_challenge_is_begun_mended_and_solved(kailab, begun: Path, record: Path) -> None:
    assert status(kailab)[NAME] == "begun"
    before = kailab("course", "check", NAME)
    assert before.code == 1
    assert "NonPreemptibleOverQuota" in before.out
    assert "It would run" not in before.out
    mend(begun)
    after = kailab("course", "check", NAME)
    assert after.code == 0
    assert "Solved: A Deployment that will not borrow." in after.out
    assert status(kailab)[NAME] == "solved"
    done = json.loads(record.read_text())["challenges"][NAME]
    assert (done["checks"], done["files"]) == (2, {"render.yaml": (begun / "render.yaml").read_text()})


def test_the_folders_lab_starts_broken_and_can_be_asked(kailab, begun: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(begun)
    assert "8/16" in kailab("get", "deployments").out
    assert "NonPreemptibleOverQuota" in kailab("explain", "deployment", "render").out
    # In the challenge's folder its name is not needed.
    assert kailab("course", "check").code == 1


def test_the_lab_that_was_judged_can_be_looked_into(kailab, begun: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mend(begun)
    assert kailab("course", "check", NAME, "--open").code == 0
    monkeypatch.chdir(begun)
    assert "16/16" in kailab("get", "deployments").out


def test_the_printed_explain_command_works(kailab, begun: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert f"`{challenge(NAME).explain_command}`" in (begun / "TASK.md").read_text()
    monkeypatch.chdir(begun)
    assert kailab(*challenge(NAME).explain_command.split()[1:]).code == 0


def test_commands_beside_the_labs_folder_say_where_it_is(kailab, begun: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = kailab("get", "pods")
    assert (refused.code, "no lab is here" in refused.err) == (2, True)
    assert f"near this one: {NAME} (cd there first)" in refused.err
    (begun / "notes").mkdir()
    monkeypatch.chdir(begun / "notes")
    assert "near this one: .. (cd there first)" in kailab("get", "pods").err


def test_a_lab_that_takes_the_place_of_the_folders_is_named(
    kailab, begun: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kailab("up", "--state", "other.state")
    monkeypatch.chdir(begun)
    assert "KAILAB_STATE" not in kailab("get", "pods").err
    monkeypatch.setenv("KAILAB_STATE", str(begun.parent / "other.state"))
    assert (
        f"this is the lab {begun.parent / 'other.state'}, and not the one of this folder" in kailab("get", "pods").err
    )
    monkeypatch.setenv("KAILAB_STATE", str(begun / ".kailab" / "lab.state"))
    assert "KAILAB_STATE" not in kailab("get", "pods").err


def test_a_verdict_is_data_too(kailab, begun: Path) -> None:
    verdict = json.loads(kailab("course", "check", NAME, "-o", "json").out)
    assert (verdict["challenge"], verdict["solved"]) == (NAME, False)
    [failed] = [one for one in verdict["judged"] if not one["held"]]
    assert failed["say"].startswith("All 16 renderers run")
    assert "8 Running" in failed["why"]


def test_hints_come_one_by_one_and_stay(kailab, begun: Path) -> None:
    every = len(challenge(NAME).hints)
    said = [kailab("course", "hint", NAME) for _ in range(every + 1)]
    assert [one.out.count("\n1. ") + one.out.startswith("1. ") for one in said] == [1] * (every + 1)
    assert "2. " not in said[0].out
    assert f"{every}. " in said[-2].out
    assert said[-1].out == said[-2].out
    assert "the last" in said[-1].err


def test_what_is_not_the_students_to_change_is_told(kailab, begun: Path) -> None:
    mend(begun)
    queues = begun / "queues.yaml"
    queues.write_text(queues.read_text().replace("quota: 8", "quota: 16"))
    checked = kailab("course", "check", NAME)
    assert checked.code == 1
    assert "BROKEN The files that are given stay as they are." in checked.out
    assert "queues.yaml was changed" in checked.out


def test_files_that_no_lab_takes_are_an_error_with_their_place(kailab, begun: Path) -> None:
    (begun / "render.yaml").write_text(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: render}\nspec: {replicas: many}\n"
    )
    checked = kailab("course", "check", NAME)
    assert checked.code == 2
    assert f"{begun / 'render.yaml'}:4" in checked.err


def test_work_is_not_written_over(kailab, begun: Path) -> None:
    mend(begun)
    mended = (begun / "render.yaml").read_text()
    again = kailab("course", "start", NAME)
    assert again.code == 2
    assert "--fresh" in again.err
    assert (begun / "render.yaml").read_text() == mended
    fresh = kailab("course", "start", NAME, "--fresh")
    assert fresh.code == 0
    assert (begun / "render.yaml.1").read_text() == mended
    assert "priorityClassName" not in (begun / "render.yaml").read_text()


def test_a_challenge_starts_again_where_it_was_begun(kailab, begun: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody whose lab is broken is in its folder."""
    mend(begun)
    monkeypatch.chdir(begun)
    fresh = kailab("course", "start", NAME, "--fresh")
    assert fresh.code == 0
    assert f"cd {begun}" in fresh.err
    assert not (begun / NAME).exists()
    assert "priorityClassName" not in (begun / "render.yaml").read_text()


def test_no_challenge_is_begun_inside_another_folder_of_the_course(
    kailab, begun: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(begun)
    again = kailab("course", "start", NAME)
    assert (again.code, f"{begun}: the challenge was started here before" in again.err) == (2, True)
    other = kailab("course", "start", "lost-queue")
    assert (other.code, f"cd {home / 'lost-queue'};" in other.err) == (0, True)
    monkeypatch.chdir(home / "lost-queue")
    kailab("course", "lesson", "quota")
    assert (home / "quota" / "LESSON.md").is_file()
    # A folder is the same by whichever path, as below macOS's /tmp.
    (home / "link").symlink_to(begun)
    monkeypatch.chdir(home / "link")
    assert "2 more" in kailab("course", "hint").err


def test_a_lab_that_was_changed_instead_of_the_files_is_told(kailab, begun: Path, record: Path) -> None:
    """Only the files are judged, and warnings are about those that may be changed."""
    assert "render.yaml: as given so far" in kailab("course", "check", NAME).err
    (begun / "render.yaml").write_text("# mine\n" + (begun / "render.yaml").read_text())
    assert "as given so far" not in kailab("course", "check", NAME).err
    kailab("course", "start", "one-pod-too-many")
    warned = kailab("course", "check", "one-pod-too-many").err
    assert "training.yaml" in warned
    assert "queues.yaml" not in warned


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("start", "will-not-borow"), "did you mean will-not-borrow?"),
        (("start", "../../tests"), "no challenge"),
        (("check", NAME), "was not begun"),
        (("check",), "no challenge was begun in this folder"),
        (("hint", NAME), "was not begun"),
        (("start", NAME, "full"), "is not empty"),
        (("check", NAME, "nowhere"), "there is no such folder"),
        (("certificate", "--name", "Ada"), "quizzes are not passed: quota, "),
        (("certificate", "--check", "full/other.txt"), "is not a certificate"),
    ],
)
def test_what_can_not_be_done_is_said(kailab, home: Path, arguments: tuple[str, ...], said: str) -> None:
    (home / "full").mkdir()
    (home / "full" / "other.txt").write_text("mine")
    refused = kailab("course", *arguments)
    assert refused.code == 2
    assert said in refused.err
    assert (home / "full" / "other.txt").read_text() == "mine"


def test_a_damaged_record_is_told_and_left_alone(kailab, record: Path) -> None:
    record.write_text('{"format": 1, "challenges": []}')
    refused = kailab("course", "challenges")
    assert refused.code == 2
    assert str(record) in refused.err
    assert record.read_text() == '{"format": 1, "challenges": []}'


def test_a_certificate_is_decided_again(kailab, home: Path, record: Path) -> None:
    """It needs every quiz, and one challenge of each lesson that has some."""
    solved: dict[str, Any] = {}
    exercises = {one.exercise for one in lessons()}
    for answer in answers("solutions"):
        task = challenge(answer.challenge)
        if task.exercise in exercises and (answer.challenge == NAME or task.exercise != challenge(NAME).exercise):
            exercises.remove(task.exercise)
            folder = home / answer.challenge
            folder.mkdir()
            answer.write(folder)
            files = {name: (folder / name).read_text() for name in task.files.edit}
            solved[answer.challenge] = {"solved": "2026-01-01T00:00:00Z", "checks": 1, "files": files}
    passed = {
        one.name: {"quiz": "2026-01-01T00:00:00Z", "answers": [right.answer for right in one.answers]}
        for one in lessons()
    }
    record.write_text(json.dumps({"format": 1, "challenges": solved}))
    refused = kailab("course", "certificate", "--name", "Ada")
    assert (refused.code, "11 of 11 quizzes are not passed: quota, " in refused.err) == (2, True)
    others = {name: entry for name, entry in solved.items() if name != NAME}
    record.write_text(json.dumps({"format": 1, "challenges": others, "lessons": passed}))
    refused = kailab("course", "certificate", "--name", "Ada")
    assert "1 of 9 lessons with challenges have none solved yet (borrow: " in refused.err
    assert len(refused.err.splitlines()) == 1
    assert refused.code == 2
    record.write_text(json.dumps({"format": 1, "challenges": solved, "lessons": passed}))
    assert kailab("course", "certificate").code == 2  # nobody's
    written = kailab("course", "certificate", "--name", "Ada <A>", "--html", "print.html")
    assert "Ada &lt;A&gt;" in Path("print.html").read_text()
    assert json.loads(Path("certificate.json").read_text())["digest"] in Path("print.html").read_text()
    assert written.code == 0
    checked = kailab("course", "certificate", "--check", "certificate.json")
    assert (checked.code, checked.err) == (0, "")
    assert f"Ada <A>: {len(lessons())} of {len(lessons())} lessons and {len(solved)} of " in checked.out

    paper = json.loads(Path("certificate.json").read_text())
    paper["student"] = "Bob"
    paper["lessons"][0]["answers"] = ["c", "c", "c"]
    [one] = [one for one in paper["challenges"] if one["name"] == NAME]
    one["files"]["render.yaml"] = (challenge(NAME).folder / "render.yaml").read_text()
    Path("forged.json").write_text(json.dumps(paper))
    forged = kailab("course", "certificate", "--check", "forged.json")
    assert forged.code == 1
    assert "the digest differs" in forged.err
    assert "quota: c is not the answer" in forged.err
    assert f"{NAME}: All 16 renderers run" in forged.err
