"""Decide a run again from its folder: rebuild each cycle's input, run the engine, and compare the decisions with those in ``cycles.jsonl`` (as the engine has
them) and in ``decisions.jsonl`` (with names).

The engine is a pure function of records, configuration and time, so all decisions must be equal. A different decision means that the folder was changed
afterwards, that another version of the engine decided, or that the decision depends on something that is not recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import structs

from kailab.engine.config import EngineConfig
from kailab.engine.cycle import name_faults, run_cycle
from kailab.engine.decisions import Decisions
from kailab.engine.snapshot import jsonform
from kailab.engine.working.workingset import WorkingSet
from kailab.errors import EvidenceError, ExtensionError, InputError, PolicyError
from kailab.evidence import cycles as cycle_files
from kailab.evidence import store
from kailab.evidence.canonical import as_plain_json
from kailab.evidence.cycles import CycleHead, RecordedCycle
from kailab.evidence.decision_file import NamedCycles
from kailab.evidence.diff import describe_decisions, field_changes, format_in_line
from kailab.evidence.entries import Decision, LabFacts, PodBound, PodEvicted, PodPromised, WriteRefused
from kailab.evidence.run import test_folders
from kailab.evidence.wording import count
from kailab.model.multimap import multimap
from kailab.scheduler.settings.policies import with_policies
from kailab.version import __version__

DECIDES = "kailab"
"""The kind of scheduler under test whose cycles are recorded."""

_FEW = 6


class ReplayDifference(msgspec.Struct, frozen=True, kw_only=True):
    """The first cycle with different decisions. ``time``: seconds since the epoch, on the lab's clock. ``recorded``, ``again``: the decisions in the form of the
    file ``file``. ``what``: the fields that differ."""

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
                f"{self.test} ({self.lab}), cycle {self.cycle}: decisions differ (recorded -> replayed, {self.file})",
                *(f"  {difference}" for difference in self.what),
                *([self.because] if self.because else []),
            ]
        )


class ReplayResult(msgspec.Struct, frozen=True, kw_only=True):
    """What was replayed, up to the first difference. ``decisions``: number of binds, promises, evictions and pending reasons. ``passed_over``: lab without
    cycles -> reason. ``problems``: files that were changed since they were written."""

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
        counted = ", ".join(count(number, name) for number, name in named)
        if self.difference is not None:
            return f"{self.difference}\n{counted} replayed until then"
        return f"{counted} replayed: all decisions are the same" if self.labs else "nothing to replay"


class _LabReplay(NamedTuple):
    """The result of one lab: what was replayed, and the first difference."""

    cycles: int
    decisions: int
    difference: ReplayDifference | None


def replay_run(run: Path, test: str = "") -> ReplayResult:
    """Replay a run, or one test (``exercise/test``) of it, up to the first difference.

    Raises EvidenceError if the folder can't be read or has another format. Files that were changed since they were written are listed in ``problems`` and
    replayed as they are now.
    """
    tests = [test] if test else test_folders(run)
    if not tests:
        raise EvidenceError(f"{run}: there is no evidence")
    problems = tuple(map(str, store.verify_evidence(run / test if test else run)))
    counted = ReplayResult(run=run.name, problems=problems)
    for name in tests:
        counted = _replay_test(counted, store.load_test(run, name))
        if counted.difference is not None:
            break
    return counted


def _replay_test(counted: ReplayResult, test: store.TestEvidence) -> ReplayResult:
    began = counted.labs
    for lab, facts in test.labs.items():
        if not cycle_files.has_cycles(test.path / lab):
            passed_over = {**counted.passed_over, f"{test.name} ({lab})": _why_no_cycles(facts)}
            counted = structs.replace(counted, passed_over=passed_over)
            continue
        result = _replay_lab(test, lab)
        counted = structs.replace(
            counted,
            labs=counted.labs + 1,
            cycles=counted.cycles + result.cycles,
            decisions=counted.decisions + result.decisions,
            difference=result.difference,
        )
        if result.difference is not None:
            break
    return structs.replace(counted, tests=counted.tests + (counted.labs > began))


def _why_no_cycles(facts: LabFacts) -> str:
    if (facts.scheduler_kind or facts.scheduler) == DECIDES:
        return "no cycle ran, or its scheduler kept none"
    return f"decided by {facts.scheduler}: there are no cycles of kailab's engine"


def _replay_lab(test: store.TestEvidence, lab: str) -> _LabReplay:
    folder = test.path / lab
    head, cycles = cycle_files.read_cycles_file(folder)
    # A refusal of the cluster is not a decision.
    entries_of = multimap((entry.cycle, entry) for entry in test.decisions(lab) if not isinstance(entry, WriteRefused))
    named_cycles = NamedCycles(head.opened)
    decisions = 0
    for replayed, (cycle, recorded, again) in enumerate(_decided_again(cycles, folder), 1):
        decisions += sum(
            len(decisions_of_kind)
            for decisions_of_kind in (recorded.binds, recorded.pipelines, recorded.evictions, recorded.pending)
        )
        entries = named_cycles.entries(cycle, again)
        place = _Place(test.name, lab, cycle.number, cycle.now, head)
        # Names are compared last: if the engine decides the same, only the file with names can differ.
        difference = _compare_decisions(place, named_cycles, recorded, again) or _compare_entries(
            place, entries_of.pop(cycle.number, []), entries
        )
        if difference is not None:
            return _LabReplay(replayed, decisions, difference)
    # Entries of a cycle that is not recorded were added afterwards.
    for number, more in entries_of.items():
        return _LabReplay(len(cycles), decisions, _compare_entries(_Place(test.name, lab, number, 0.0, head), more, []))
    return _LabReplay(len(cycles), decisions, None)


def _decided_again(cycles: list[RecordedCycle], folder: Path) -> Iterator[tuple[RecordedCycle, Decisions, Decisions]]:
    """Yield each cycle with its recorded and its new decisions."""
    working = WorkingSet()
    checked: EngineConfig | None = None
    try:
        for cycle, config, recorded in cycle_files.whole_cycles(cycles):
            # The configuration object stays the same until it changes, so policies are checked once for each configuration.
            if config is not checked:
                checked = config
                with_policies(config)
            # The first cycle of each scheduler process has all records; earlier changes do not count.
            if cycle.changes.whole:
                working = WorkingSet.of(cycle.changes.set)
            else:
                working.apply(cycle.changes)
            again = name_faults(run_cycle(working, config, cycle.now), working, config, cycle.now)
            yield cycle, recorded, jsonform.decode(jsonform.encode(again), Decisions)  # numbers in the form of a file
    # Records that were edited can be contradictory and fail anywhere in the engine.
    except (InputError, ExtensionError, PolicyError, KeyError, ValueError) as error:
        raise EvidenceError(f"{folder}: the cycles can't be replayed: {error}") from error


class _Place(NamedTuple):
    """Where decisions are compared. ``time``: seconds since the epoch."""

    test: str
    lab: str
    cycle: int
    time: float
    head: CycleHead

    def difference(self, file: str, what: list[str], recorded: Any, again: Any) -> ReplayDifference:
        more = len(what) - _FEW
        fields = (*map(format_in_line, what[:_FEW]), *([f"and {more} more"] if more > 0 else []))
        return ReplayDifference(
            test=self.test, lab=self.lab, cycle=self.cycle, time=self.time, file=file, what=fields, recorded=recorded, again=again,
            because=_possible_reasons(self.head),
        )  # fmt: skip


def _compare_decisions(
    place: _Place, names: NamedCycles, recorded: Decisions, again: Decisions
) -> ReplayDifference | None:
    """Compare the engine's decisions; describe a difference by entries, if they show it."""
    before, after = jsonform.builtins(recorded), jsonform.builtins(again)
    if before == after:
        return None
    # Field by field only if the entries are equal, because they do not have all fields of the engine.
    what = _differing_pairs(names.entries_alone(recorded), names.entries_alone(again)) or [
        str(change) for change in field_changes(before, after)
    ]
    return place.difference(cycle_files.NAME, what, before, after)


def _compare_entries(place: _Place, recorded: Sequence[Decision], again: Sequence[Decision]) -> ReplayDifference | None:
    """Compare decisions with names, except for fields that no record has."""
    what = _differing_pairs(recorded, again)
    return place.difference("decisions.jsonl", what, as_plain_json(recorded), as_plain_json(again)) if what else None


def _differing_pairs(recorded: Sequence[Decision], again: Sequence[Decision]) -> list[str]:
    """Describe each pair of entries that differ."""
    pairs = zip_longest(map(_without_labels, recorded), map(_without_labels, again))
    return [describe_decisions(before, after) for before, after in pairs if before != after]


def _without_labels(entry: Decision) -> Decision:
    """The entry without the pod's app and owner, which no record has."""
    if isinstance(entry, PodEvicted | PodBound):
        return structs.replace(entry, app="", owner="")
    return structs.replace(entry, app="") if isinstance(entry, PodPromised) else entry


def _possible_reasons(head: CycleHead) -> str:
    reasons = []
    if head.kailab != __version__:
        reasons.append(f"recorded by kailab {head.kailab}, replayed by kailab {__version__}")
    if head.cut:
        reasons.append(f"{head.cut} texts of the records were left out of the evidence, which may be the cause")
    return "; ".join(reasons)
