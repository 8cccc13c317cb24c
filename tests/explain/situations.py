"""The situations of $KAILAB_SHARED/explain: labs, questions about them, and what a right answer to each contains."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from checks.recorded_files import shared_folder
from kailab.errors import KailabError
from kailab.explain.subject import SubjectRef
from kailab.fleet.fleet import Fleet
from kailab.fleet.reading import read_fleet
from kailab.lab import Lab

Changes = Sequence[Mapping[str, Any]]

FOLDER = shared_folder() / "explain"


@dataclass(frozen=True)
class Question:
    """``situation``: the content of the file. ``number``: 0 for the first question of it."""

    situation: Mapping[str, Any]
    number: int
    asked: Mapping[str, Any]

    @property
    def name(self) -> str:
        own = self.situation["name"]
        return f"{own}-{self.number}" if self.number else own

    @property
    def kind(self) -> str:
        return str(self.asked["ask"]["kind"])

    @property
    def subject(self) -> str:
        return str(self.asked["ask"]["name"])

    @property
    def namespace(self) -> str:
        return str(self.asked["ask"].get("namespace", "default"))


def questions(*names: str) -> list[Question]:
    """All of them, or those of some situations."""
    found = []
    for path in sorted(FOLDER.glob("*.yaml")):
        situation = _read(path)
        asked = [situation, *situation.get("more", ())]
        found += [Question(situation, number, one) for number, one in enumerate(asked)]
    return [one for one in found if not names or one.name in names or one.situation["name"] in names]


@cache
def _read(path: Path) -> Mapping[str, Any]:
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(content, dict)
    return content


def opened(situation: Mapping[str, Any]) -> Lab:
    """A fresh lab in that situation."""
    lab = Lab.open(_fleet(situation["fleet"]), config=situation.get("config"))
    try:
        carry_out(lab, situation["steps"])
    except BaseException:
        lab.close()
        raise
    return lab


def _fleet(content: Mapping[str, Any]) -> Fleet:
    return read_fleet(yaml.safe_dump(dict(content)))


def carry_out(lab: Lab, changes: Changes) -> None:
    """In order; after each the lab settles."""
    for change in changes:
        _carry_out(lab, change)
        lab.settle()


def _carry_out(lab: Lab, change: Mapping[str, Any]) -> None:
    if "apply" in change:
        lab.apply([dict(one) for one in change["apply"]])
    elif "patch" in change:
        one = change["patch"]
        lab.patch(one["kind"], one["name"], one["patch"], one.get("namespace", "default"))
    elif "delete" in change:
        one = change["delete"]
        lab.delete(one["kind"], one["name"], one.get("namespace", "default"))
    elif "advance" in change:
        lab.advance(change["advance"])
    elif "refuse" in change:
        one = change["refuse"]
        lab.cluster.refuse_binds(one.get("namespace", "default"), one["pods"], one["message"])
    elif "kind" in change:
        lab.apply(dict(change))
    else:
        raise AssertionError(f"no change: {change}")


def lets_run(question: Question, changes: Changes) -> str:
    """What is wrong with changes that are said to let the subject run; empty where they do, on a fresh copy of the situation."""
    with opened(question.situation) as lab:
        subject = SubjectRef(question.kind, "" if question.kind == "Queue" else question.namespace, question.subject)
        before = len(subject.state(lab).running) if subject.object(lab) is not None else 0
        try:
            carry_out(lab, changes)
        except KailabError as error:
            return f"refused: {error}"
        state = subject.state(lab)
        after = len(state.running)
        if not state.runs:
            return f"does not run after it ({after} of {state.wanted} run, {len(state.waiting)} wait)"
        return "" if after > before else f"runs no more pods than before ({after})"


def faults(question: Question, answer: Mapping[str, Any], *, tried: bool = True) -> Iterator[str]:
    """What of an answer (as ``-o json`` gives it) is wrong. ``tried``: with every step that says that it was checked."""
    asked = question.asked
    cause = answer["cause"] or {"code": None, "sentence": ""}
    if cause["code"] not in asked["cause"]:
        yield f"cause {cause['code']}, not {'/'.join(asked['cause'])}"
    if answer["verdict"] != asked["verdict"]:
        yield f"verdict {answer['verdict']}, not {asked['verdict']}"
    for name in asked["names"]:
        if not says(cause["sentence"], str(name)):
            yield f"the sentence does not say {name!r}"
    if not tried:
        return
    checked = [step for step in answer["steps"] if step["checked"]]
    wrong = [(step["do"], why) for step in checked if (why := lets_run(question, step["changes"]))]
    for do, why in wrong:
        yield f"step {do!r} {why}"
    if asked["fix"] and len(wrong) == len(checked):
        yield "no step that lets it run"


def says(sentence: str, name: str) -> bool:
    """A number has to stand by itself: 20 is in "20 GPUs" and in "20Gi", not in "120" nor in "2.20"."""
    if re.fullmatch(r"\d+(\.\d+)?", name):
        return re.search(rf"(?<![\d.]){re.escape(name)}(?!\d|\.\d)", sentence) is not None
    return name.lower() in sentence.lower()
