"""The lessons from the command line: foretell, do what they say, compare, be asked; and a class of students."""

from __future__ import annotations

import json
import shlex
import shutil
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kailab.course import progress
from kailab.course.challenge import CHALLENGES
from kailab.course.lesson import LESSONS, Lesson, lessons
from kailab.course.teaching import counted, walk
from kailab.lab import Lab

NAMES = [one.name for one in lessons()]


@pytest.fixture(autouse=True)
def record(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = home / "course.json"
    monkeypatch.setenv("KAILAB_COURSE", str(path))
    return path


def named(name: str) -> Lesson:
    return next(one for one in lessons() if one.name == name)


def test_there_are_eight_and_the_first_takes_three_commands() -> None:
    assert [one.number for one in lessons()] == list(range(1, len(NAMES) + 1))
    assert [command for step in lessons()[0].commands() for command in step] == [
        "kailab up",
        "kailab apply -f queues.yaml -f services.yaml",
        "kailab explain queue team-a",
    ]


@pytest.mark.parametrize("name", NAMES)
def test_the_commands_of_a_lesson_lead_to_the_compared_result(kailab, home: Path, name: str, monkeypatch) -> None:
    task = named(name)
    assert kailab("course", "lesson", name).code == 0
    assert kailab("course", "predict", name, *("1" for _ in task.predict)).code == 0
    monkeypatch.chdir(home / name)
    last = len(task.steps)
    seen = {}
    for number, commands in enumerate(task.commands(), 1):
        for command in commands:
            done = kailab(*shlex.split(command)[1:])
            assert (done.code, done.out != "") == (0, True), f"{command}: {done.err}"
        with Lab.resume(".kailab/lab.state", read_only=True) as lab:
            for place, one in enumerate(task.predict):
                if (one.after or last) == number:
                    seen[place] = counted(lab, one.about, one.count)
    assert tuple(seen[place] for place in sorted(seen)) == walk(task).seen


@pytest.mark.parametrize("name", NAMES)
def test_the_explanation_of_a_lesson_comes_from_explain(kailab, name: str, record: Path) -> None:
    task = named(name)
    kailab("course", "lesson", name)
    kailab("course", "predict", name, *("1" for _ in task.predict))
    compared = json.loads(kailab("course", "compare", name, "-o", "json").out)
    assert [one["predicted"] for one in compared["predictions"]] == [1] * len(task.predict)
    assert [one["what"] for one in compared["why"]] == [one.explain for one in task.why]
    assert all(len(one["lines"]) > 1 for one in compared["why"])
    assert json.loads(record.read_text())["lessons"][name]["seen"] == [one["seen"] for one in compared["predictions"]]


def test_a_prediction_comes_before_the_lab_and_once(kailab, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kailab("course", "lesson", "quota")
    assert "no prediction is recorded yet" in kailab("course", "compare", "quota").err
    monkeypatch.chdir(home / "quota")
    kailab("up")
    late = kailab("course", "predict", "quota", "16", "8")
    assert (late.code, "the lab has run already" in late.err) == (2, True)
    monkeypatch.chdir(home)
    assert kailab("course", "lesson", "quota", "--fresh").code == 0
    assert kailab("course", "predict", "quota", "24", "12").code == 0
    again = kailab("course", "predict", "quota", "16", "8")
    assert (again.code, "recorded once" in again.err) == (2, True)
    compared = kailab("course", "compare", "quota")
    assert "predicted 24, observed 16" in compared.out


def test_a_quiz_is_judged_and_gives_nothing_away(kailab) -> None:
    kailab("course", "lesson", "quota")
    asked = kailab("course", "quiz", "quota")
    right = [one.answer for one in named("quota").answers]
    assert all(one.why not in asked.out for one in named("quota").answers)
    wrong = kailab("course", "quiz", "quota", right[0], *("c" for _ in right[1:]))
    assert wrong.code == 1
    marks = [line.split(" ")[1] for line in wrong.out.splitlines() if not line.startswith(" ")]
    assert marks == ["right:", "wrong:", "wrong:"]
    told = " ".join(wrong.out.split())
    for one in named("quota").answers[1:]:
        assert one.why not in told
        assert one.others["c"] in told
    assert kailab("course", "quiz", "quota", *(letter.upper() for letter in right)).code == 0
    status = {one["name"]: one["status"] for one in json.loads(kailab("course", "lessons", "-o", "json").out)}
    assert (status["quota"], status["borrow"]) == ("passed", "")


def test_in_the_folder_of_a_lesson_its_name_is_not_needed(kailab, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no lesson was begun in this folder" in kailab("course", "compare").err
    kailab("course", "lesson", "quota")
    monkeypatch.chdir(home / "quota")
    assert "16, 8" in kailab("course", "predict", "16", "8").out
    assert "once" in kailab("course", "predict", "1", "16", "8").err  # lesson 1 is quota
    assert "right" in kailab("course", "compare").out
    assert "a) " in kailab("course", "quiz").out
    assert "Passed" in kailab("course", "quiz", *(right.answer for right in named("quota").answers)).err
    assert "You predicted 16, 8" in kailab("course", "lesson").out


def test_a_restarted_lesson_keeps_its_first_prediction_and_its_quiz(kailab, home: Path, record: Path) -> None:
    kailab("course", "lesson", "quota")
    kailab("course", "predict", "quota", "24", "12")
    kailab("course", "compare", "quota")
    kailab("course", "quiz", "quota", *(one.answer for one in named("quota").answers))
    kailab("course", "lesson", "quota", "--fresh")
    kailab("course", "predict", "quota", "16", "8")  # which is known by now
    taken = json.loads(record.read_text())["lessons"]["quota"]
    assert (taken["first"], taken["prediction"], bool(taken["quiz"])) == ([24, 12], [16, 8], True)
    (home / "class.yaml").write_text("name: Spring\nstudents: [{name: Ada, progress: course.json}]\n")
    [ada] = json.loads(kailab("course", "class", "class.yaml", "-o", "json").out)["students"]
    assert (ada["lessons"], ada["predicted_right"], ada["predicted"]) == (1, 0, 2)


def test_a_predicted_lesson_names_the_next_command(kailab) -> None:
    kailab("course", "lesson", "quota")
    kailab("course", "predict", "quota", "24", "12")
    again = kailab("course", "lesson", "quota")
    assert "You predicted 24, 12." in again.out
    assert "    kailab apply -f queues.yaml -f services.yaml" in again.out.splitlines()
    assert "Next: kailab course compare quota" in again.err


def test_a_lab_that_was_taken_down_was_seen_all_the_same(kailab, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kailab("course", "lesson", "quota")
    monkeypatch.chdir(home / "quota")
    kailab("up")
    kailab("down")
    late = kailab("course", "predict", "quota", "16", "8")
    assert (late.code, "the lab has run already" in late.err) == (2, True)


@pytest.mark.parametrize("words", [("lesson", "borrow", "quota"), ("start", "no-weight", "lost-queue", "--fresh")])
def test_work_in_another_folder_is_left_alone(kailab, home: Path, words: tuple[str, ...]) -> None:
    kailab("course", "lesson", "quota")
    kailab("course", "start", "lost-queue")
    before = {path: path.read_bytes() for path in home.rglob("*.yaml")}
    refused = kailab("course", *words)
    assert (refused.code, "has something else" in refused.err) == (2, True)
    assert {path: path.read_bytes() for path in home.rglob("*.yaml")} == before


def test_changes_of_two_commands_at_once_are_both_kept(record: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: _begun(record, f"lesson-{number}"), range(40)))
    assert len(progress.read_progress_file(record).lessons) == 40


def _begun(record: Path, name: str) -> None:
    with progress.edit_progress(record) as kept:
        kept.of_lesson(name)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("lesson", "quotta"), "did you mean quota?"),
        (("lesson", "quota", "full"), "is not empty"),
        (("predict", "borrow", "1", "2"), "was not begun"),
        (("predict", "quota", "1"), "1 number; expected 2"),
        (("predict", "quota", "many", "8"), "is not a prediction"),
        (("predict", "quota", "nan", "8"), "is not a prediction"),
        (("quiz", "quota", "a"), "1 answer; expected 3"),
        (("quiz", "quota", "a", "b", "z"), "expected a, b, c"),
        (("class", "nowhere.yaml"), "nowhere.yaml"),
        (("class", "full/class.yaml"), "expected name, and students"),
        (("class", "full/two.yaml", "--student", "Adda"), "Spring has no student 'Adda'; did you mean Ada?"),
    ],
)
def test_what_can_not_be_done_is_said(kailab, home: Path, arguments: tuple[str, ...], said: str) -> None:
    (home / "full").mkdir()
    (home / "full" / "class.yaml").write_text("name: Spring\nstudents: [Ada]\n")
    (home / "full" / "two.yaml").write_text("name: Spring\nstudents: [{name: Ada, progress: a.json}]\n")
    kailab("course", "lesson", "quota")
    refused = kailab("course", *arguments)
    assert refused.code == 2
    assert said in refused.err


def test_no_answers_are_on_the_page_of_the_question() -> None:
    for task in lessons():
        pages = "".join(file.read_text() for file in task.folder.iterdir() if file.name != "answers.yaml")
        assert all(one.why not in " ".join(pages.split()) for one in task.answers)
    assert {path.suffix for path in LESSONS.rglob("*") if path.is_file()} == {".yaml", ".md"}


def test_no_letter_is_right_so_often_that_guessing_it_passes() -> None:
    for task in lessons():
        assert len({one.answer for one in task.answers}) > 1, task.name
    letters = Counter(one.answer for task in lessons() for one in task.answers)
    assert max(letters.values()) <= letters.total() / 2


def test_slides_are_written_as_one_file(kailab, home: Path) -> None:
    written = kailab("course", "slides", "gang")
    assert (written.code, written.out) == (0, "gang.html\n")
    assert "<td>20</td>" in (home / "gang.html").read_text()
    refused = kailab("course", "slides", "gang", "--out", "nowhere/gang.html")
    assert (refused.code, "nowhere/gang.html: can't be written" in refused.err) == (2, True)
    refused = kailab("course", "slides", "gang", "--out", ".")
    assert (refused.code, ".: can't be written: is a folder" in refused.err) == (2, True)


def test_a_teacher_sees_how_far_each_is(kailab, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, numbers in (("ada", ("16", "8")), ("bob", ("24", "8"))):
        monkeypatch.setenv("KAILAB_COURSE", str(home / f"{name}.json"))
        kailab("course", "lesson", "quota", f"quota-{name}")
        kailab("course", "predict", "quota", *numbers)
        kailab("course", "compare", "quota")
    kailab("course", "start", "lost-queue", "lost")
    kailab("course", "check", "lost-queue")
    kailab("course", "hint", "lost-queue")
    (home / "class.yaml").write_text(
        "name: Spring\nstudents:\n- {name: Ada, progress: ada.json}\n- {name: Bob, progress: bob.json}\n- {name: Eve, progress: eve.json}\n"
    )
    told = kailab("course", "class", "class.yaml")
    assert told.code == 0
    assert "no progress file yet: Eve" in told.err
    ada, bob, eve = json.loads(kailab("course", "class", "class.yaml", "-o", "json").out)["students"]
    assert (ada["predicted_right"], ada["predicted"], ada["begun"]) == (2, 2, {})
    assert ada["lessons_begun"] == {"quota": "compared"}
    [row] = [line for line in told.out.splitlines() if line.startswith("Ada")]
    assert "lesson quota (compared)" in row
    assert (bob["predicted_right"], bob["hints"], bob["begun"]) == (1, 1, {"lost-queue": 1})
    assert eve["missing"]
    one = json.loads(kailab("course", "class", "class.yaml", "--student", "Bob", "-o", "json").out)
    assert one["lessons"][0] == {
        "name": "quota",
        "status": "compared",
        "predicted": [24, 8],
        "seen": [16, 8],
        "quiz_tries": 0,
    }
    assert {"name": "lost-queue", "status": "begun", "checks": 1, "hints": 1} in one["challenges"]
    lines = kailab("course", "class", "class.yaml", "--student", "Bob").out.splitlines()
    assert ["quota", "compared", "24", "8", "16", "8"] in [line.split() for line in lines]
    assert ["lost-queue", "begun", "1", "1"] in [line.split() for line in lines]
    # The others are shown all the same.
    (home / "bob.json").write_text("{]")
    damaged = kailab("course", "class", "class.yaml")
    assert damaged.code == 0
    assert "Bob: " in damaged.err
    assert "bob.json is not a progress file of the course" in damaged.err
    [row] = [line for line in damaged.out.splitlines() if line.startswith("Bob")]
    assert "file can't be read" in row
    assert any(line.startswith("Ada") and "2/2" in line for line in damaged.out.splitlines())


def test_a_folder_of_progress_files_is_a_class(kailab, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "spring").mkdir()
    assert "has no progress files" in kailab("course", "class", "spring").err
    monkeypatch.setenv("KAILAB_COURSE", str(home / "spring" / "ada.json"))
    kailab("course", "start", "lost-queue", "lost")
    told = json.loads(kailab("course", "class", "spring", "-o", "json").out)
    assert (told["class"], [student["name"] for student in told["students"]]) == ("spring", ["ada"])
    assert "lost-queue" in kailab("course", "class", "spring", "--student", "ada").out
    (home / "spring" / "frank").mkdir()
    (home / "spring" / "frank" / "course.json").write_text((home / "spring" / "ada.json").read_text())
    (home / "spring" / "empty").mkdir()
    told = json.loads(kailab("course", "class", "spring", "-o", "json").out)
    assert [student["name"] for student in told["students"]] == ["ada", "frank"]
    # Another file beside them is no student without progress.
    (home / "spring" / "certificate.json").write_text('{"student": "Ada"}')
    assert "certificate.json is not a progress file of the course" in kailab("course", "class", "spring").err


def test_a_teacher_adds_lessons_and_challenges(kailab, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAILAB_COURSE_FOLDER", str(home / "ours"))
    assert "expected a folder with lessons/NAME or challenges/NAME" in kailab("course", "lessons").err
    shutil.copytree(LESSONS / "quota", home / "ours" / "lessons" / "our-quota")
    shutil.copytree(CHALLENGES / "will-not-borrow", home / "ours" / "challenges" / "ours-too")
    assert "our-quota" in kailab("course", "lessons").out
    assert "ours-too" in kailab("course", "challenges").out
    assert kailab("course", "lesson", "our-quota").code == 0
    assert kailab("course", "start", "ours-too").code == 0
    # A name that kailab has already would hide one of the two.
    shutil.copytree(LESSONS / "quota", home / "ours" / "lessons" / "quota")
    refused = kailab("course", "lessons")
    assert refused.code == 2
    assert "kailab has a 'quota' itself" in refused.err


@pytest.mark.timeout(600)
@pytest.mark.parametrize("words", [("lesson", "gang"), ("start", "after-the-upgrade")])
def test_what_is_to_be_read_fits_a_terminal(home: Path, on_a_terminal, words: tuple[str, ...]) -> None:
    lines = on_a_terminal(80, "course", *words, "--progress", "mine.json")
    assert [line for line in lines if len(line) > 80] == []
    assert len(" ".join(lines).split()) > 60
    # What is to be typed stays on a line of its own.
    if words[0] == "start":
        assert "    kailab course check after-the-upgrade" in lines
