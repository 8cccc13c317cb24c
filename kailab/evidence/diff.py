"""Where two runs differ, as data: tests in one only, other outcomes, the first decision that is another, other
endings."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal

from kailab.evidence import store, sums
from kailab.evidence.run import RUN
from kailab.evidence.store import TestEvidence

What = Literal["only_in_first", "only_in_second", "outcome", "labs", "facts", "decision", "ending", "file"]


@dataclass(frozen=True)
class Difference:
    """One difference. ``first`` and ``second`` are what each run has (None: nothing)."""

    what: What
    test: str
    lab: str = ""
    first: Any = None
    second: Any = None
    detail: str = ""

    def __str__(self) -> str:
        place = f"{self.test} ({self.lab})" if self.lab else self.test
        if self.what in ("only_in_first", "only_in_second"):
            return f"{place}: {self.what.replace('_', ' ')}"
        return f"{place}: {self.detail or self.what}: {_short(self.first)} | {_short(self.second)}"


@dataclass(frozen=True)
class Comparison:
    """``identical``: every file of every test is the same, byte for byte."""

    first: str
    second: str
    differences: list[Difference] = field(default_factory=list)

    @property
    def identical(self) -> bool:
        return not self.differences


def diff(first: Path, second: Path) -> Comparison:
    """Compare two runs (folders). Times of the run do not count. Raises EvidenceError."""
    one = {test.name: test for test in store.show(first)[1]}
    two = {test.name: test for test in store.show(second)[1]}
    differences: list[Difference] = []
    for name in sorted(one.keys() | two.keys()):
        if name not in two:
            differences.append(Difference("only_in_first", name))
        elif name not in one:
            differences.append(Difference("only_in_second", name))
        else:
            differences += _tests(one[name], two[name])
    return Comparison(first.name, second.name, differences)


def _tests(one: TestEvidence, two: TestEvidence) -> list[Difference]:
    name = one.name
    found: list[Difference] = []
    if one.outcome != two.outcome:
        found.append(Difference("outcome", name, "", one.outcome, two.outcome, "outcome"))
    if list(one.labs) != list(two.labs):
        found.append(Difference("labs", name, "", list(one.labs), list(two.labs), "labs"))
    for lab in one.labs:
        if lab in two.labs:
            found += _labs(one, two, lab)
    if not found:
        found += _files(one, two)
    return found


def _labs(one: TestEvidence, two: TestEvidence, lab: str) -> list[Difference]:
    found: list[Difference] = []
    facts, others = one.labs[lab], two.labs[lab]
    for key in sorted(facts.keys() | others.keys()):
        if facts.get(key) != others.get(key):
            found.append(Difference("facts", one.name, lab, facts.get(key), others.get(key), key))
    decisions = zip_longest(one.read(lab, "decisions.jsonl"), two.read(lab, "decisions.jsonl"))
    for number, (left, right) in enumerate(decisions, 1):
        if left != right:
            detail = f"decision {number} is the first that differs"
            found.append(Difference("decision", one.name, lab, left, right, detail))
            break
    left, right = _ending(one, lab), _ending(two, lab)
    for app in sorted(left.keys() | right.keys()):
        if left.get(app) != right.get(app):
            found.append(
                Difference("ending", one.name, lab, left.get(app), right.get(app), f"pods of {app} at the end")
            )
    return found


def _ending(test: TestEvidence, lab: str) -> dict[str, dict[str, int]]:
    """App -> phase -> number of pods, when the lab closed."""
    counts: dict[str, dict[str, int]] = {}
    for pod in test.read(lab, "after/pods.json"):
        app = (pod["metadata"].get("labels") or {}).get("app", "(no app)")
        phase = (pod.get("status") or {}).get("phase", "Pending")
        phases = counts.setdefault(app, {})
        phases[phase] = phases.get(phase, 0) + 1
    return counts


def _files(one: TestEvidence, two: TestEvidence) -> list[Difference]:
    """Files that differ where nothing that matters more does."""
    left = {name: sums.digest((one.path / name).read_bytes()) for name in sums.files_in(one.path)}
    right = {name: sums.digest((two.path / name).read_bytes()) for name in sums.files_in(two.path)}
    return [
        Difference("file", one.name, "", left.get(name), right.get(name), name)
        for name in sorted(left.keys() | right.keys())
        if name != RUN and left.get(name) != right.get(name)
    ]


def _short(value: Any) -> str:
    if isinstance(value, dict) and "decision" in value:
        what = value.get("pod") or value.get("podgroup")
        where = value.get("node") or value.get("reason", "")
        return f"cycle {value['cycle']}: {value['decision']} {what} {where}".rstrip()
    if value is None:
        return "nothing"
    text = str(value)
    return text if len(text) <= 120 else text[:117] + "..."
