"""The differences between two runs, and between two values.

``diff`` compares runs: first causes (settings, fleet, objects, steps), then effects (outcomes, the first decision that differs, workloads that ended
elsewhere). ``field_changes`` compares two structures field by field (``spec.resources.gpu.quota 16 -> 8``). ``moved_workloads`` compares where the
workloads of two labs ended; names of pods and UIDs do not count, because a Deployment's pods get other names as soon as one more was created
before them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from kailab.errors import EvidenceError, os_errors_as
from kailab.evidence import canonical, run, store
from kailab.evidence.canonical import as_plain_json, compact_json
from kailab.evidence.entries import Decision, GroupWaits, PodBound, PodEvicted, PodPromised, RecordedStep, WriteRefused
from kailab.evidence.history import LabHistory
from kailab.evidence.large_files import SUFFIX, read_stored_file
from kailab.evidence.observed_decisions import ACTION
from kailab.evidence.recorder import RESULT
from kailab.evidence.run import RUN
from kailab.evidence.store import TestEvidence
from kailab.evidence.subject_timeline import message_without_names
from kailab.model import yamltext
from kailab.model.markup import html_table
from kailab.model.objects import full_name, labels_of, metadata_of, node_of, phase_of

NOTHING: Any = None
"""Stands for a value that one side does not have."""

_LONGEST = 120


class FieldChange(NamedTuple):
    """One field. ``path``: its place, with dots between the keys."""

    path: str
    first: Any
    second: Any

    def __str__(self) -> str:
        return f"{self.path} {format_in_line(self.first)} -> {format_in_line(self.second)}"


def field_changes(first: Any, second: Any, path: str = "") -> Iterator[FieldChange]:
    """Yield every field that differs, in the order of the first value."""
    if first == second:
        return
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        for key in [*first, *(key for key in second if key not in first)]:
            yield from field_changes(
                first.get(key, NOTHING), second.get(key, NOTHING), f"{path}.{key}" if path else str(key)
            )
        return
    # Lists of different length are compared as a whole: index by index, an insertion at the front would change every item.
    if isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        for number, (left, right) in enumerate(zip(first, second)):
            yield from field_changes(left, right, f"{path}[{number}]")
        return
    yield FieldChange(path, first, second)


def object_changes(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[FieldChange]:
    """The differences between two states of an object. Resources of queues are shortened to ``gpu quota``."""
    for change in field_changes(first, second):
        path = change.path.removeprefix("spec.")
        if first.get("kind") == "Queue" and path.startswith("resources."):
            path = " ".join(path.split(".")[1:])
        yield change._replace(path=path)


def format_in_line(value: Any) -> str:
    if value is NOTHING:
        return "nothing"
    text = value if isinstance(value, str) else compact_json(value).decode()
    text = " ".join(text.split()) or '""'
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


@dataclass(frozen=True)
class WorkloadEndedElsewhere:
    """A workload that ended elsewhere. ``first``, ``second``: phase and node (``Running on a100-0``) -> number of pods; empty if it has no pods.
    ``decisions``: the first decisions about it that differ (None: no decision), and ``words``: both in words."""

    workload: str
    first: dict[str, int]
    second: dict[str, int]
    decisions: tuple[Decision | None, Decision | None]
    words: tuple[str, str]

    def data(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Where the workload ended and the decision, for each side."""
        left, right = (None if decision is None else as_plain_json(decision) for decision in self.decisions)
        return {"ended": self.first, "decision": left}, {"ended": self.second, "decision": right}

    def __str__(self) -> str:
        text = f"{self.workload} ended otherwise: {_ending_words(self.first)} -> {_ending_words(self.second)}"
        if self.decisions == (None, None):
            return text
        return f"{text}; first decided otherwise: {self.words[0]} -> {self.words[1]}"


def moved_workloads(first: LabHistory, second: LabHistory) -> Iterator[WorkloadEndedElsewhere]:
    """Yield the workloads that ended elsewhere, in the order of their first appearance."""
    endings_first, endings_second = _endings(first), _endings(second)
    left, right = _decisions_by_workload(first), _decisions_by_workload(second)
    # Only binds and evictions are known of a scheduler that reports no decisions, and not their actions.
    observed = any(entry.action == ACTION for history in (first, second) for entry in history.decisions)
    first_difference = _first_observed_difference if observed else _first_difference
    for workload in dict.fromkeys((*endings_first, *endings_second, *left, *right)):
        before, after = endings_first.get(workload, {}), endings_second.get(workload, {})
        if before == after:
            continue
        pair = first_difference(left.get(workload, []), right.get(workload, []))
        yield WorkloadEndedElsewhere(
            workload, before, after, pair, (_decision_words(pair[0]), _decision_words(pair[1]))
        )


def _endings(history: LabHistory) -> dict[str, dict[str, int]]:
    by_workload: dict[str, Counter[str]] = {}
    for pod in history.after.get("pods", ()):
        # The history contains every pod of this reading.
        past = history.pods[full_name(pod)]
        node = node_of(pod)
        ending = f"{phase_of(pod)} on {node}" if node else phase_of(pod)
        by_workload.setdefault(past.workload, Counter())[ending] += 1
    # Sorted, because the order of pods depends on their names.
    return {workload: dict(sorted(counts.items())) for workload, counts in by_workload.items()}


def _decisions_by_workload(history: LabHistory) -> dict[str, list[Decision]]:
    by_workload: dict[str, list[Decision]] = {}
    for entry in history.decisions:
        if isinstance(entry, GroupWaits) or (not isinstance(entry, WriteRefused) and entry.podgroup):
            workload = history.workloads.get(entry.podgroup, entry.podgroup)
        else:
            workload = history.pods[entry.pod].workload if entry.pod in history.pods else f"Pod {entry.pod}"
        by_workload.setdefault(workload, []).append(entry)
    return by_workload


def _first_difference(first: list[Decision], second: list[Decision]) -> tuple[Decision | None, Decision | None]:
    for left, right in zip_longest(first, second):
        # Compared in words: cycle, time and pod names may differ for the same decision.
        if _decision_words(left) != _decision_words(right):
            return left, right
    return None, None


def _first_observed_difference(
    first: list[Decision], second: list[Decision]
) -> tuple[Decision | None, Decision | None]:
    """The first difference in binds and evictions. If one side made no further decision, its last reason to wait, if known."""
    pairs = zip_longest(
        *([entry for entry in side if isinstance(entry, PodBound | PodEvicted)] for side in (first, second))
    )
    for left, right in pairs:
        if _observed_key(left) != _observed_key(right):
            return left or _last_wait(first), right or _last_wait(second)
    return None, None


def _observed_key(entry: PodBound | PodEvicted | None) -> tuple[str, str]:
    return ("", "") if entry is None else (str(entry.__struct_config__.tag), entry.node)


def _last_wait(entries: list[Decision]) -> Decision | None:
    return next((entry for entry in reversed(entries) if isinstance(entry, GroupWaits)), None)


def _decision_words(entry: Decision | None) -> str:
    """A decision in words, without pod names."""
    match entry:
        case None:
            return "nothing"
        case GroupWaits():
            return f"waits ({entry.reason}: {message_without_names(entry)})"
        case WriteRefused():
            return f"{entry.verb} refused ({' '.join(entry.reason.split())})"
        case PodEvicted():
            beneficiary = f" for queue {entry.beneficiary_queue}" if entry.beneficiary_queue else ""
            return f"{'moved' if entry.is_move else 'evicted'} from {entry.node} by {entry.action}{beneficiary}"
        case PodPromised():
            return f"promised {entry.node} by {entry.action}"
        case PodBound():
            return f"bound to {entry.node} by {entry.action}"


def _ending_words(counts: dict[str, int]) -> str:
    return ", ".join(f"{number} {ending}" for ending, number in counts.items()) or "no pods"


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
"""Facts that follow from the fleet, whose differences are listed by themselves."""


@dataclass(frozen=True)
class RunDifference:
    """One difference. ``first``, ``second``: the values of the two runs (None: no value). ``detail``: the place of the difference."""

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
            return f"{place}: {self.detail}: {describe_decisions(self.first, self.second)}"
        if self.what == "workload":
            return f"{place}: {self.detail}"
        if self.what == "file":
            return f"{place}: the file {self.detail} differs"
        return f"{place}: {FieldChange(self.detail or self.what, self.first, self.second)}"


@dataclass(frozen=True)
class RunComparison:
    """``identical``: every file of every test is equal byte for byte, except for the source lines of tests."""

    first: str
    second: str
    differences: list[RunDifference] = field(default_factory=list)

    @property
    def identical(self) -> bool:
        return not self.differences

    def _repr_html_(self) -> str:
        caption = f"{self.first} and {self.second}: {'identical' if self.identical else f'{len(self.differences)} differences'}"
        rows = (
            (difference.test, difference.lab, difference.what.replace("_", " "), str(difference).partition(": ")[2])
            for difference in self.differences
        )
        return html_table(caption, ("test", "lab", "what", "difference"), rows)


def compare_runs(first: Path, second: Path) -> RunComparison:
    """Compare two run folders. The times at which they ran do not count. Raises EvidenceError."""
    tests_first = {test.name: test for test in store.read_run(first)[1]}
    tests_second = {test.name: test for test in store.read_run(second)[1]}
    differences: list[RunDifference] = []
    for name in sorted(tests_first.keys() | tests_second.keys()):
        if name not in tests_second:
            differences.append(RunDifference("only_in_first", name))
        elif name not in tests_first:
            differences.append(RunDifference("only_in_second", name))
        else:
            differences += _compare_tests(tests_first[name], tests_second[name])
    return RunComparison(first.name, second.name, differences)


def _compare_tests(first: TestEvidence, second: TestEvidence) -> list[RunDifference]:
    name = first.name
    differences: list[RunDifference] = []
    if list(first.labs) != list(second.labs):
        differences.append(RunDifference("labs", name, "", list(first.labs), list(second.labs), "labs"))
    shared = [lab for lab in first.labs if lab in second.labs]
    for lab in shared:
        # Causes of all labs first, then the outcome, then the effects.
        differences += _causes(first, second, lab)
    if first.outcome != second.outcome:
        differences.append(RunDifference("outcome", name, "", first.outcome, second.outcome, "outcome"))
    for lab in shared:
        differences += _effects(first, second, lab)
    # Files are compared only if nothing else differs, because each cause changes many files.
    return differences or _files(first, second)


# --- causes ----------------------------------------------------------------------------------------------------------


def _causes(first: TestEvidence, second: TestEvidence, lab: str) -> Iterator[RunDifference]:
    for change in field_changes(as_plain_json(first.labs[lab]), as_plain_json(second.labs[lab])):
        if change.path not in _COUNTS:
            yield RunDifference("facts", first.name, lab, change.first, change.second, change.path)
    for change in field_changes(_fleet(first, lab), _fleet(second, lab)):
        if change.path != "name":  # the facts have it
            yield RunDifference("fleet", first.name, lab, change.first, change.second, f"fleet: {change.path}")
    yield from _objects(first, second, lab)
    yield from _steps(first, second, lab)


def _fleet(test: TestEvidence, lab: str) -> Any:
    """The fleet with its pools by name, so that an added pool does not shift the others."""
    if not (test.path / lab / "fleet.yaml").exists():
        return {}
    (definition,) = _documents(test, lab, "fleet.yaml")
    return {**definition, "pools": {pool["name"]: pool for pool in definition["pools"]}}


def _objects(first: TestEvidence, second: TestEvidence, lab: str) -> Iterator[RunDifference]:
    left, right = _applied(first, lab), _applied(second, lab)
    for key in [*left, *(key for key in right if key not in left)]:
        name, again = key
        label = f"{name}, applied again ({again})" if again else name
        if key not in right or key not in left:
            in_first, in_second = ("applied" if key in side else NOTHING for side in (left, right))
            yield RunDifference("object", first.name, lab, in_first, in_second, label)
            continue
        for change in list(object_changes(left[key], right[key]))[:_FEW]:
            yield RunDifference("object", first.name, lab, change.first, change.second, f"{label}: {change.path}")


def _applied(test: TestEvidence, lab: str) -> dict[tuple[str, int], dict[str, Any]]:
    """(``queue team-a``, how often it was applied before) -> the applied object."""
    applied: dict[tuple[str, int], dict[str, Any]] = {}
    counts: dict[str, int] = {}
    for file in sorted((test.path / lab / "manifests").glob("*")):
        for obj in _documents(test, lab, f"manifests/{file.name}"):
            meta = metadata_of(obj)
            space = f"{meta['namespace']}/" if meta.get("namespace") not in (None, "default") else ""
            name = f"{obj['kind'].lower()} {space}{meta.get('name') or meta.get('generateName')}"
            # An object may be applied several times: the first application is compared with the first, and so on.
            applied[name, counts.get(name, 0)] = obj
            counts[name] = counts.get(name, 0) + 1
    return applied


def _documents(test: TestEvidence, lab: str, file: str) -> list[Any]:
    return [value for value, _ in yamltext.read_documents(test.text(lab, file), str(test.path / lab / file))]


def _steps(first: TestEvidence, second: TestEvidence, lab: str) -> Iterator[RunDifference]:
    """Yield the first step that differs."""
    for number, (left, right) in enumerate(zip_longest(first.steps(lab), second.steps(lab)), 1):
        # Times do not count: a step is the same if it happens later because something took longer.
        if _done(left) != _done(right):
            yield RunDifference("step", first.name, lab, _done(left), _done(right), f"step {number}:")
            return


def _done(step: RecordedStep | None) -> str | None:
    if step is None:
        return None
    return step.title if step.patch is None else f"{step.title} {format_in_line(step.patch)}"


# --- effects ----------------------------------------------------------------------------------------------------------


def _effects(first: TestEvidence, second: TestEvidence, lab: str) -> Iterator[RunDifference]:
    for number, (left, right) in enumerate(zip_longest(first.decisions(lab), second.decisions(lab)), 1):
        if left != right:
            yield RunDifference(
                "decision", first.name, lab, left, right, f"decision {number} is the first that differs"
            )
            break
    # Later differences are mostly consequences of the first one, so only the first is listed.
    for moved in moved_workloads(first.history(lab), second.history(lab)):
        yield RunDifference("workload", first.name, lab, *moved.data(), str(moved))
    before, after = _ending(first, lab), _ending(second, lab)
    for app in sorted(before.keys() | after.keys()):
        if before.get(app) != after.get(app):
            yield RunDifference("ending", first.name, lab, before.get(app), after.get(app), f"pods of {app} at the end")


def _ending(test: TestEvidence, lab: str) -> dict[str, dict[str, int]]:
    """App -> phase -> number of pods when the lab closed."""
    counts: dict[str, Counter[str]] = {}
    for pod in test.objects(lab, "after", "pods"):
        counts.setdefault(labels_of(pod).get("app", "(no app)"), Counter())[phase_of(pod)] += 1
    return {app: dict(phases) for app, phases in counts.items()}


def describe_decisions(first: Decision | None, second: Decision | None) -> str:
    """Describe two decisions on one line; if their words are equal, the fields that differ."""
    left, right = _decision_line(first), _decision_line(second)
    if left != right:
        return f"{left} -> {right}"
    return f"{left}: {'; '.join(map(str, field_changes(as_plain_json(first), as_plain_json(second))))}"


def _decision_line(entry: Decision | None) -> str:
    if entry is None:
        return "nothing"
    subject = entry.podgroup if isinstance(entry, GroupWaits) else entry.pod
    where = entry.reason if isinstance(entry, GroupWaits | WriteRefused) else entry.node
    return f"cycle {entry.cycle}: {entry.__struct_config__.tag} {subject} {where}".rstrip()


def _files(first: TestEvidence, second: TestEvidence) -> list[RunDifference]:
    """The files that differ, if no cause or effect does."""
    left = {name.removesuffix(SUFFIX): _digest(first.path / name) for name in run.files_in(first.path)}
    right = {name.removesuffix(SUFFIX): _digest(second.path / name) for name in run.files_in(second.path)}
    return [
        RunDifference("file", first.name, "", left.get(name), right.get(name), name)
        for name in sorted(left.keys() | right.keys())
        if name != RUN and left.get(name) != right.get(name)  # run.json has wall times
    ]


def _digest(path: Path) -> str:
    """The digest of a file, compressed or not, without source lines of tests, which move with every edit above them."""
    with os_errors_as(EvidenceError, f"{path}: can't be read"):
        content = read_stored_file(path)
    decode = _WITH_SOURCES.get(path.name.removesuffix(SUFFIX))
    if decode is not None:
        # A damaged file is compared byte for byte.
        with suppress(msgspec.MsgspecError, AttributeError):
            content = canonical.json_lines(
                {key: value for key, value in entry.items() if key != "source"} for entry in decode(content)
            )
    return run.digest(content)


_WITH_SOURCES: dict[str, Callable[[bytes], list[dict[str, Any]]]] = {
    "steps.json": msgspec.json.decode,
    "expectations.jsonl": msgspec.json.Decoder().decode_lines,
    RESULT: lambda content: [msgspec.json.decode(content)],
}
"""Files with source lines -> a function that decodes their entries."""
