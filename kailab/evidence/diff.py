"""Where two runs differ, as data: what was another (settings, fleet, objects, steps), and what came of it (outcomes, the
first decision that is another, which workloads ended elsewhere and what was decided otherwise about each)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal

import msgspec

from kailab.errors import EvidenceError
from kailab.evidence import canonical, store, sums
from kailab.evidence.canonical import plain
from kailab.evidence.changes import NOTHING, Change, changes, object_changes, shown
from kailab.evidence.endings import moved
from kailab.evidence.entries import Decision, Refused, Step, Waits
from kailab.evidence.history import History
from kailab.evidence.record import RESULT
from kailab.evidence.run import RUN
from kailab.evidence.store import TestEvidence
from kailab.model import yamltext
from kailab.model.files import file_bytes
from kailab.model.htmltable import table

What = Literal[
    "only_in_first",
    "only_in_second",
    "outcome",
    "labs",
    "facts",
    "fleet",
    "object",
    "step",
    "decision",
    "workload",
    "ending",
    "file",
]
_FEW = 20
_COUNTS = ("nodes", "gpus")
"""Facts that follow from the fleet, which is told by itself."""


@dataclass(frozen=True)
class Difference:
    """One difference. ``first`` and ``second`` are what each run has (None: nothing); ``detail``: of what."""

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
        if self.what == "decision":
            return f"{place}: {self.detail}: {decisions_told(self.first, self.second)}"
        if self.what == "workload":
            return f"{place}: {self.detail}"
        if self.what == "file":
            return f"{place}: the file {self.detail} differs"
        return f"{place}: {Change(self.detail or self.what, self.first, self.second)}"


@dataclass(frozen=True)
class Comparison:
    """``identical``: every file of every test is the same, byte for byte, but for the lines of the tests that did it."""

    first: str
    second: str
    differences: list[Difference] = field(default_factory=list)

    @property
    def identical(self) -> bool:
        return not self.differences

    def _repr_html_(self) -> str:
        """For notebooks."""
        caption = f"{self.first} and {self.second}: {'identical' if self.identical else f'{len(self.differences)} differences'}"
        rows = (
            (one.test, one.lab, one.what.replace("_", " "), str(one).partition(": ")[2]) for one in self.differences
        )
        return table(caption, ("test", "lab", "what", "difference"), rows)


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
    if list(one.labs) != list(two.labs):
        found.append(Difference("labs", name, "", list(one.labs), list(two.labs), "labs"))
    shared = [lab for lab in one.labs if lab in two.labs]
    for lab in shared:
        # Causes of all labs, then the outcome, then effects: what was another stands before what came of it.
        found += _causes(one, two, lab)
    if one.outcome != two.outcome:
        found.append(Difference("outcome", name, "", one.outcome, two.outcome, "outcome"))
    for lab in shared:
        found += _effects(one, two, lab)
    # Bytes are looked at only where nothing else tells the difference: each cause changes many files.
    return found or _files(one, two)


# --- what was another -------------------------------------------------------------------------------------------------


def _causes(one: TestEvidence, two: TestEvidence, lab: str) -> Iterator[Difference]:
    for change in changes(plain(one.labs[lab]), plain(two.labs[lab])):
        if change.path not in _COUNTS:
            yield Difference("facts", one.name, lab, change.first, change.second, change.path)
    for change in changes(_fleet(one, lab), _fleet(two, lab)):
        if change.path != "name":  # the facts have it
            yield Difference("fleet", one.name, lab, change.first, change.second, f"fleet: {change.path}")
    yield from _objects(one, two, lab)
    yield from _steps(one, two, lab)


def _fleet(test: TestEvidence, lab: str) -> Any:
    """Pools by name, so that one more shifts no other."""
    if not (test.path / lab / "fleet.yaml").exists():
        return {}
    (definition,) = _documents(test, lab, "fleet.yaml")
    return {**definition, "pools": {pool["name"]: pool for pool in definition["pools"]}}


def _objects(one: TestEvidence, two: TestEvidence, lab: str) -> Iterator[Difference]:
    left, right = _applied(one, lab), _applied(two, lab)
    for key in [*left, *(key for key in right if key not in left)]:
        name, again = key
        told = f"{name}, applied again ({again})" if again else name
        if key not in right or key not in left:
            there, here = ("applied" if key in side else NOTHING for side in (left, right))
            yield Difference("object", one.name, lab, there, here, told)
            continue
        for change in list(object_changes(left[key], right[key]))[:_FEW]:
            yield Difference("object", one.name, lab, change.first, change.second, f"{told}: {change.path}")


def _applied(test: TestEvidence, lab: str) -> dict[tuple[str, int], dict[str, Any]]:
    """(``queue team-a``, how often it was applied before) -> the object as it was applied."""
    found: dict[tuple[str, int], dict[str, Any]] = {}
    counts: dict[str, int] = {}
    for file in sorted((test.path / lab / "manifests").glob("*")):
        for obj in _documents(test, lab, f"manifests/{file.name}"):
            meta = obj["metadata"]
            space = f"{meta['namespace']}/" if meta.get("namespace") not in (None, "default") else ""
            name = f"{obj['kind'].lower()} {space}{meta.get('name') or meta.get('generateName')}"
            # The same object may be applied several times: the first time is compared with the first, and so on.
            found[name, counts.get(name, 0)] = obj
            counts[name] = counts.get(name, 0) + 1
    return found


def _documents(test: TestEvidence, lab: str, file: str) -> list[Any]:
    return [value for value, _ in yamltext.read_documents(test.text(lab, file), str(test.path / lab / file))]


def _steps(one: TestEvidence, two: TestEvidence, lab: str) -> Iterator[Difference]:
    """The first step at which something else was done."""
    for number, (left, right) in enumerate(zip_longest(one.steps(lab), two.steps(lab)), 1):
        # Times don't count: a step that comes later because something took longer is the same step.
        if _done(left) != _done(right):
            yield Difference("step", one.name, lab, _done(left), _done(right), f"step {number}:")
            return


def _done(step: Step | None) -> str | None:
    if step is None:
        return None
    told = f"{step.operation} {step.text}".rstrip()
    return told if step.patch is None else f"{told} {shown(step.patch)}"


# --- what came of it --------------------------------------------------------------------------------------------------


def _effects(one: TestEvidence, two: TestEvidence, lab: str) -> Iterator[Difference]:
    for number, (left, right) in enumerate(zip_longest(one.decisions(lab), two.decisions(lab)), 1):
        if left != right:
            yield Difference("decision", one.name, lab, left, right, f"decision {number} is the first that differs")
            break
    # What follows on the first other decision is mostly its consequence, so only this one is told.
    for one_moved in moved(History.of_test(one, lab), History.of_test(two, lab)):
        yield Difference("workload", one.name, lab, *one_moved.data(), str(one_moved))
    first, second = _ending(one, lab), _ending(two, lab)
    for app in sorted(first.keys() | second.keys()):
        if first.get(app) != second.get(app):
            yield Difference("ending", one.name, lab, first.get(app), second.get(app), f"pods of {app} at the end")


def _ending(test: TestEvidence, lab: str) -> dict[str, dict[str, int]]:
    """App -> phase -> number of pods, when the lab closed."""
    counts: dict[str, dict[str, int]] = {}
    for pod in test.objects(lab, "after", "pods"):
        app = (pod["metadata"].get("labels") or {}).get("app", "(no app)")
        phase = (pod.get("status") or {}).get("phase", "Pending")
        phases = counts.setdefault(app, {})
        phases[phase] = phases.get(phase, 0) + 1
    return counts


def decisions_told(first: Decision | None, second: Decision | None) -> str:
    """Two decisions in a line; of two that sound the same, what differs in them."""
    left, right = _decision(first), _decision(second)
    if left != right:
        return f"{left} -> {right}"
    return f"{left}: {'; '.join(map(str, changes(plain(first), plain(second))))}"


def _decision(entry: Decision | None) -> str:
    if entry is None:
        return "nothing"
    what = entry.podgroup if isinstance(entry, Waits) else entry.pod
    where = entry.reason if isinstance(entry, Waits | Refused) else entry.node
    return f"cycle {entry.cycle}: {entry.__struct_config__.tag} {what} {where}".rstrip()


def _files(one: TestEvidence, two: TestEvidence) -> list[Difference]:
    """Files that differ where nothing that matters more does."""
    left = {name: _digest(one.path / name) for name in sums.files_in(one.path)}
    right = {name: _digest(two.path / name) for name in sums.files_in(two.path)}
    return [
        Difference("file", one.name, "", left.get(name), right.get(name), name)
        for name in sorted(left.keys() | right.keys())
        if name != RUN and left.get(name) != right.get(name)  # run.json has wall times
    ]


def _digest(path: Path) -> str:
    """Of a file, but for the lines of the test from which something was done: they move with every edit above them."""
    try:
        content = file_bytes(path)
    except OSError as error:
        raise EvidenceError(f"{path}: can't be read: {error.strerror or error}") from error
    decode = _WITH_SOURCES.get(path.name)
    if decode is not None:
        # One that is damaged is compared as it is.
        with suppress(msgspec.MsgspecError, AttributeError):
            content = canonical.lines(
                {key: value for key, value in one.items() if key != "source"} for one in decode(content)
            )
    return sums.digest(content)


_WITH_SOURCES: dict[str, Callable[[bytes], list[dict[str, Any]]]] = {
    "steps.json": msgspec.json.decode,
    "expectations.jsonl": msgspec.json.Decoder().decode_lines,
    RESULT: lambda content: [msgspec.json.decode(content)],
}
"""File -> its entries."""
