"""What a shell is offered."""

from __future__ import annotations

import pytest
from click.shell_completion import BashComplete

from kailab.cli.main import app


def offered(*words: str) -> list[str]:
    *before, incomplete = words
    found = BashComplete(app, {}, "kailab", "_KAILAB_COMPLETE").get_completions(list(before), incomplete)
    return [item.value for item in found]


def test_kinds_and_names_of_the_lab(busy) -> None:
    assert {"pods", "podgroups"} <= set(offered("get", "po"))
    assert offered("describe", "queue", "") == ["team-a"]
    assert len(offered("get", "pods", "train-")) == 20
    assert offered("explain", "job/t") == ["job/train"]
    assert offered("drain", "l40s") == ["l40s-0", "l40s-1"]
    assert offered("get", "pods", "-n", "def") == ["default"]


def test_what_is_changed_of_objects(busy) -> None:
    assert offered("label", "queue", "") == offered("annotate", "queue", "") == ["team-a"]
    assert offered("taint", "nodes", "l40s") == ["l40s-0", "l40s-1"]


def test_several_kinds() -> None:
    assert {"pods,podgroups", "pods,pods"} <= set(offered("get", "pods,po"))


def test_values_of_options() -> None:
    assert offered("get", "pods", "-o", "j") == ["json", "jsonpath="]
    assert offered("wait", "pod/a", "--for", "c") == ["condition=", "create"]
    assert offered("up", "--backend", "kube") == ["kubeconfig"]
    assert {"kailab", "kai"} <= set(offered("up", "--scheduler", "kai"))


def test_files_are_left_to_the_shell() -> None:
    found = BashComplete(app, {}, "kailab", "_KAILAB_COMPLETE").get_completions(["apply", "-f"], "ma")
    assert [(one.type, one.value) for one in found] == [("file", "ma")]


def test_fleets(home) -> None:
    assert "lesson" in offered("up", "--fleet", "le")


def test_lessons_and_challenges(home) -> None:
    assert offered("course", "lesson", "quo") == offered("course", "slides", "quo") == ["quota"]
    assert "preempt" in offered("course", "compare", "p")
    assert offered("course", "start", "will") == offered("course", "hint", "will") == ["will-not-borrow"]


def test_the_queues_of_the_lab(busy) -> None:
    assert offered("submit", "llama", "--queue", "") == ["team-a"]


@pytest.mark.parametrize("words", [("get", "pods", ""), ("drain", ""), ("get", "nope/")])
def test_without_a_lab_nothing_is_offered(home, words) -> None:
    assert offered(*words) == []
