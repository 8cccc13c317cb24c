"""A run decided again from its folder alone: each cycle is rebuilt from what was kept of it, and its decisions are compared with
those that were taken, as the engine has them (``cycles.jsonl``) and as people read them (``decisions.jsonl``).

The engine is a pure function of records, configuration and time, so every decision must be the same. One that is not was
changed in the folder afterwards, was taken by another version of the engine, or depends on something that is not kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import structs

from kailab import __version__
from kailab.engine.config import EngineConfig
from kailab.engine.cycle import run_cycle
from kailab.engine.decisions import Decisions
from kailab.engine.snapshot import jsonform
from kailab.engine.working.workingset import WorkingSet
from kailab.errors import EvidenceError, ExtensionError, InputError, PolicyError
from kailab.evidence import cycles as kept_cycles
from kailab.evidence import store
from kailab.evidence.canonical import as_plain_json
from kailab.evidence.cycles import CycleHead, RecordedCycle
from kailab.evidence.decision_file import NamedCycles
from kailab.evidence.diff import describe_decisions, field_changes, format_value
from kailab.evidence.entries import Decision, LabFacts, PodBound, PodEvicted, PodPromised, WriteRefused
from kailab.evidence.run import test_folders
from kailab.scheduler.settings.policies import with_policies

DECIDES = "kailab"
"""The kind of scheduler under test whose cycles are kept."""

_FEW = 6


class ReplayDifference(msgspec.Struct, frozen=True, kw_only=True):
    """The first cycle that was decided otherwise. ``time``: seconds since the epoch, on the lab's clock. ``recorded`` and
    ``again``: what the cycle decided, as the file ``file`` has it. ``what``: what differs, field by field."""

    test: str
    lab: str
    cycle: int
    time: float
    file: str
    what: tuple[str, ...]
    recorded: Any
    again: Any
    because: str = ""

    def __str__(self) -> str:
        return "\n".join(
            [
                f"{self.test} ({self.lab}), cycle {self.cycle}: decided otherwise (recorded -> decided again, {self.file})",
                *(f"  {one}" for one in self.what),
                *([self.because] if self.because else []),
            ]
        )


class ReplayResult(msgspec.Struct, frozen=True, kw_only=True):
    """What was decided again until the first difference, if there was one. ``decisions``: binds, promises, evictions and
    reasons to wait. ``passed_over``: labs without cycles -> why. ``problems``: how the folder is not what was written."""

    run: str
    tests: int = 0
    labs: int = 0
    cycles: int = 0
    decisions: int = 0
    passed_over: dict[str, str] = {}
    problems: tuple[str, ...] = ()
    difference: ReplayDifference | None = None

    @property
    def same(self) -> bool:
        return self.difference is None

    def __str__(self) -> str:
        named = ((self.tests, "test"), (self.labs, "lab"), (self.cycles, "cycle"), (self.decisions, "decision"))
        counted = ", ".join(f"{number} {name}{'' if number == 1 else 's'}" for number, name in named)
        if self.difference is not None:
            return f"{self.difference}\n{counted} decided again until then"
        return f"{counted} decided again: every decision is the same" if self.labs else "nothing to replay"


class _Lab(NamedTuple):
    """One lab decided again."""

    cycles: int
    decisions: int
    difference: ReplayDifference | None


def replay_run(run: Path, test: str = "") -> ReplayResult:
    """Decide a run again, or one test (``exercise/test``) of it, until something differs.

    Raises EvidenceError where the folder can't be read or is of another format. Files that are not what was written are named
    in ``problems``; what they hold now is decided again.
    """
    tests = [test] if test else test_folders(run)
    if not tests:
        raise EvidenceError(f"{run}: no evidence is there")
    problems = tuple(map(str, store.verify_evidence(run / test if test else run)))
    counted = ReplayResult(run=run.name, problems=problems)
    for name in tests:
        counted = _test(counted, store.load_test(run, name))
        if counted.difference is not None:
            break
    return counted


def _test(counted: ReplayResult, test: store.TestEvidence) -> ReplayResult:
    began = counted.labs
    for lab, facts in test.labs.items():
        if not kept_cycles.has_cycles(test.path / lab):
            passed_over = {**counted.passed_over, f"{test.name} ({lab})": _why_none(facts)}
            counted = structs.replace(counted, passed_over=passed_over)
            continue
        found = _lab(test, lab)
        counted = structs.replace(
            counted,
            labs=counted.labs + 1,
            cycles=counted.cycles + found.cycles,
            decisions=counted.decisions + found.decisions,
            difference=found.difference,
        )
        if found.difference is not None:
            break
    return structs.replace(counted, tests=counted.tests + (counted.labs > began))


def _why_none(facts: LabFacts) -> str:
    if (facts.scheduler_kind or facts.scheduler) == DECIDES:
        return "no cycle ran, or its scheduler kept none"
    return f"decided by {facts.scheduler}: there are no cycles of kailab's engine"


def _lab(test: store.TestEvidence, lab: str) -> _Lab:
    folder = test.path / lab
    head, cycles = kept_cycles.read_cycles_file(folder)
    told: dict[int, list[Decision]] = {}
    for entry in test.decisions(lab):
        if not isinstance(entry, WriteRefused):  # what a cluster refuses is not decided
            told.setdefault(entry.cycle, []).append(entry)
    teller = NamedCycles(head.opened)
    count = decisions = 0
    for cycle, recorded, again in _decided_again(cycles, folder):
        count += 1
        decisions += sum(len(one) for one in (recorded.binds, recorded.pipelines, recorded.evictions, recorded.pending))
        entries = teller.tell(cycle, again)
        place = _Place(test.name, lab, cycle.number, cycle.now, head)
        # Names are compared last: where the engine decides the same, only the file of names can differ.
        difference = _engines(place, teller, recorded, again) or _entries(place, told.pop(cycle.number, []), entries)
        if difference is not None:
            return _Lab(count, decisions, difference)
    # Entries of a cycle that is not among the cycles: somebody added them.
    for number, more in told.items():
        return _Lab(count, decisions, _entries(_Place(test.name, lab, number, 0.0, head), more, []))
    return _Lab(count, decisions, None)


def _decided_again(cycles: list[RecordedCycle], folder: Path) -> Iterator[tuple[RecordedCycle, Decisions, Decisions]]:
    """Each cycle, what it decided, and what it decides now."""
    working = WorkingSet()
    checked: EngineConfig | None = None
    try:
        for cycle, config, recorded in kept_cycles.whole_cycles(cycles):
            # ``whole`` hands on the same object until it changes, so policies are checked once for each configuration.
            if config is not checked:
                checked = config
                with_policies(config)
            # The first cycle of each scheduler that was begun has all records, and nothing before it counts.
            if cycle.changes.whole:
                working = WorkingSet.of(cycle.changes.set)
            else:
                working.apply(cycle.changes)
            again = run_cycle(working, config, cycle.now)
            yield cycle, recorded, jsonform.decode(jsonform.encode(again), Decisions)  # numbers as in a file
    # Records that were changed by hand may contradict each other anywhere in the engine.
    except (InputError, ExtensionError, PolicyError, KeyError, ValueError) as error:
        raise EvidenceError(f"{folder}: the cycles can't be decided again: {error}") from error


class _Place(NamedTuple):
    test: str
    lab: str
    cycle: int
    time: float
    head: CycleHead

    def difference(self, file: str, what: list[str], recorded: Any, again: Any) -> ReplayDifference:
        more = len(what) - _FEW
        told = (*map(format_value, what[:_FEW]), *([f"and {more} more"] if more > 0 else []))
        return ReplayDifference(
            test=self.test, lab=self.lab, cycle=self.cycle, time=self.time, file=file, what=told, recorded=recorded, again=again,
            because=_because(self.head),
        )  # fmt: skip


def _engines(place: _Place, teller: NamedCycles, recorded: Decisions, again: Decisions) -> ReplayDifference | None:
    """Decisions as the engine has them; told as entries where those tell the difference."""
    before, after = jsonform.builtins(recorded), jsonform.builtins(again)
    if before == after:
        return None
    # Field by field only where both sound the same: entries leave out some of what the engine says.
    what = _pairs(teller.once(recorded), teller.once(again)) or [str(change) for change in field_changes(before, after)]
    return place.difference(kept_cycles.NAME, what, before, after)


def _entries(place: _Place, recorded: list[Decision], again: list[Decision]) -> ReplayDifference | None:
    """Decisions as people read them, but for what no record tells."""
    what = _pairs(recorded, again)
    return place.difference("decisions.jsonl", what, as_plain_json(recorded), as_plain_json(again)) if what else None


def _pairs(recorded: list[Decision], again: list[Decision]) -> list[str]:
    """Each entry that is another, with both sides."""
    pairs = zip_longest(map(_without_labels, recorded), map(_without_labels, again))
    return [describe_decisions(one, other) for one, other in pairs if one != other]


def _without_labels(entry: Decision) -> Decision:
    """Without what no record tells: the pod's app, and who owns it."""
    if isinstance(entry, PodEvicted | PodBound):
        return structs.replace(entry, app="", owner="")
    return structs.replace(entry, app="") if isinstance(entry, PodPromised) else entry


def _because(head: CycleHead) -> str:
    told = []
    if head.kailab != __version__:
        told.append(f"kailab {head.kailab} decided, this is kailab {__version__}")
    if head.cut:
        told.append(f"{head.cut} texts of the records were cut when the evidence was written, which may matter here")
    return "; ".join(told)
