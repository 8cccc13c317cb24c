"""The course's pages agree with the data, are complete, and have no answers beside the questions."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

import pytest
import yaml

from kailab.course.challenge import challenges
from kailab.course.lesson import lesson, lessons
from kailab.course.slides import deck, html
from kailab.course.teaching import LessonExplanation, LessonWalk, walk
from tools.course_site import MADE, ROOT, SOLUTIONS, TARGET, pages, solutions

_LINK = re.compile(r"\]\(([^)#]+)")
_NAMED = re.compile(r"`([a-z]+(?:-[a-z]+)+)`")


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    return {name: text.rstrip("\n") + "\n" for name, text in pages().items()}


def test_the_pages_are_current(made: dict[str, str]) -> None:
    there = {
        path.relative_to(TARGET).as_posix()
        for folder in MADE
        for path in (TARGET / folder).rglob("*")
        if path.is_file()
    }
    assert there == {name for name in made if name.startswith(MADE)}, "run `make docs`"
    assert {name for name, text in made.items() if (TARGET / name).read_text("utf-8") != text} == set(), (
        "run `make docs`"
    )
    assert SOLUTIONS.read_text("utf-8") == solutions().rstrip("\n") + "\n", "run `make docs`"


def test_every_page_is_in_the_menu_and_every_link_leads_somewhere() -> None:
    menu = set(re.findall(r"\S+\.md", (ROOT / "mkdocs.yml").read_text("utf-8")))
    there = {path.relative_to(TARGET).as_posix(): path.read_text("utf-8") for path in TARGET.rglob("*.md")}
    assert menu == set(there)
    for name, text in there.items():
        for link in _LINK.findall(text):
            if not link.startswith("https://"):
                assert (TARGET / PurePosixPath(name).parent / link).is_file(), f"{name}: {link}"


def test_the_menu_can_be_read() -> None:
    configured = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))
    assert (configured["docs_dir"], configured["strict"], configured["theme"]["font"]) == ("docs/course", True, False)


def test_challenges_that_pages_name_are_there(made: dict[str, str]) -> None:
    known = set(re.findall(r"^`([a-z-]+)`, about", made["challenges.md"], re.MULTILINE))
    assert len(known) == 27
    for page in ("cases.md", "instructor.md"):
        named = set(_NAMED.findall((TARGET / page).read_text("utf-8")))
        assert named <= known, named - known


def test_the_parts_of_the_agenda_have_what_a_certificate_needs_and_the_time_for_it() -> None:
    guide = (TARGET / "instructor.md").read_text("utf-8")
    parts = re.findall(r"^\| \d: [^|]+\| ([^|]+) \| ([^|]+) \|\D+(\d+) min \|$", guide, re.MULTILINE)
    taught = [name for names, _, _ in parts for name in names.split(", ")]
    assert sorted(taught) == sorted(one.name for one in lessons())
    of_name = {task.name: task for task in challenges()}
    for names, tasks, minutes in parts:
        given = [of_name[name] for name in _NAMED.findall(tasks)]
        held = [lesson(name) for name in names.split(", ")]
        assert sum(one.minutes_in_class for one in held) + sum(task.minutes for task in given) <= int(minutes)
    practised = {of_name[name].exercise for _, tasks, _ in parts for name in _NAMED.findall(tasks)}
    possible = {task.exercise for task in of_name.values()}
    assert practised >= {one.exercise for one in lessons() if one.exercise in possible}


def test_no_answer_is_on_the_page_of_its_question(made: dict[str, str]) -> None:
    for one in lessons():
        for page in (f"lessons/{one.name}.md", f"slides/{one.name}.html"):
            shown = " ".join(made[page].split())
            assert all(text not in shown for right in one.answers for text in (right.why, *right.others.values())), page
        assert all(right.why in made[f"after/{one.name}.md"] for right in one.answers)


def test_no_slide_answers_a_question_that_comes_later(made: dict[str, str]) -> None:
    """What happened, the drawings of the lab and what to remember come after the questions that they answer."""
    for one in lessons():
        titles = re.findall(r"<h2>([^<]*)</h2>", made[f"slides/{one.name}.html"])
        assert titles[-1] == "To remember"
        assert titles.index("Predict first") < titles.index("What happened") < titles.index("After step 1")
        assert {"The queues", "Ask yourself"} <= set(titles)


def test_slides_draw_the_queues_and_what_they_hold(made: dict[str, str]) -> None:
    text = " ".join(made["slides/quota.html"].split())
    assert 'aria-label="team-a: quota 8, no limit. team-b: quota 8, no limit. org: quota 32, no limit. "' in text
    # 32 GPUs, of which both teams hold their quota.
    assert "team-a 8" in text
    assert text.count('<rect class="free"') == 32
    assert text.count('<rect class="queue-0"') - 1 == text.count('<rect class="queue-1"') - 1 == 8
    assert "Pending: team-a 4 pods, team-b 4 pods." in text


def test_an_explanation_before_the_last_step_says_after_which_it_was() -> None:
    """A lesson may explain one workload twice, with different answers."""
    [lesson] = [one for one in lessons() if one.name == "nodefailure"]
    commands = [why.command for why in walk(lesson).why]
    assert commands == ["$ kailab explain job next    # after step 3", "$ kailab explain job train"]


def test_slides_load_nothing_and_show_what_is_given_as_text() -> None:
    one = lessons()[0]
    walked = LessonWalk(
        tuple(7.0 for _ in one.predict), (LessonExplanation("queue <b>", ("<script>alert(1)</script>",)),)
    )
    text = html(deck(one, walked))
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert" in text
    assert text.count("<section") == len(deck(one, walked).slides)
    assert not re.search(r"""(src|href)=|@import|url\(|https?://""", text)
    assert ">7</td>" in text


def test_slides_mark_what_they_leave_out_and_show_code_as_code(made: dict[str, str]) -> None:
    one = lessons()[0]
    lines = tuple(f"line {number} of the fair share" for number in range(7))
    text = html(deck(one, LessonWalk((1.0, 1.0), (LessonExplanation("queue a", lines),))))
    assert "line 4 of the fair share\n... (2 more lines)</pre>" in text
    assert "<p>Fair share: " in text
    assert "A queue has no field <code>resources</code>." in made["slides/quota.html"]
    # The command comes before its result.
    titles = re.findall(r"<h2>([^<]*)</h2>", text)
    assert titles.index("Your prediction and the lab") + 1 == titles.index("What happened")


def test_the_page_of_solutions_has_all_hints_and_why_each_wrong_answer_fails() -> None:
    text = solutions()
    assert all(hint in text for task in challenges() for hint in task.hints)
    assert '- *no protection* (in scheduler.yaml `- name: minruntime` becomes nothing): this is not met: "' in text
