"""Runs recorded scheduling cases through the engine: one session, or several cycles with the cluster updated in
between.
"""

from __future__ import annotations

import dataclasses
import traceback
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec import structs

from checks.case_input import NOW
from checks.cluster_changes import ClusterChange, forget_deleted
from checks.invariants import settle_violations, undetermined
from checks.recorded.case_reading import RecordedCase
from checks.recorded.expectations import (
    Level,
    asserted_tasks,
    final_differences,
    operation_differences,
    recorded_round_differences,
)
from checks.recorded.loading_check import loading_differences
from checks.report import Grouping, ImitatedOutcome, Report, Result
from checks.simulated_cluster import SimulatedCluster
from kailab.engine.config import EngineConfig
from kailab.engine.cycle import run_cycle
from kailab.engine.decisions import Decisions
from kailab.engine.faults import FAULTS, KaiFault, faults_behind
from kailab.engine.working.workingset import WorkingSet
from kailab.errors import InputError

Tell = Callable[[str, int, int], None]
Decide = Callable[[WorkingSet, EngineConfig, float], Decisions]


class Outcome(NamedTuple):
    """What a run showed. ``same_status``: see ``Result``."""

    differences: list[str]
    same_status: bool | None = None


def run_case(case: RecordedCase, level: Level = "nodes", decide: Decide = run_cycle) -> Result:
    """Run one case to its end and compare. A failure of the engine is a difference, never an exception.

    ``decide`` takes the decisions: the engine, or another function with its signature.
    """
    table = SimulatedCluster(case)
    reasons: dict[str, str] = {}
    try:
        play = _invariants if case.invariants_only else _integration if case.integration else _session
        outcome = play(case, table, level, reasons, decide)
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        last = traceback.format_exception_only(error)[-1].strip()
        failure = f"the engine failed: {last} ({Path(place.filename).name}:{place.lineno})"
        outcome = Outcome([failure], False if _compares_nodes(case, level) else None)
    return Result(
        id=case.id,
        suite=case.suite,
        differences=tuple(_with_reasons(case, outcome.differences, reasons)),
        tags=case.tags,
        notes=(*case.notes, *case.unsupported),
        counted=not case.unsupported,
        same_status=outcome.same_status,
        size=len(case.nodes),
    )


def _invariants(
    case: RecordedCase, table: SimulatedCluster, level: Level, reasons: dict[str, str], decide: Decide
) -> Outcome:
    found: list[str] = []
    start = 0
    for cycle, change in (*case.changes, (case.rounds_until_match, None)):
        since = f"after {start} cycles, " if start else ""
        if cycle > start:
            found += [f"{since}{violation}" for violation in settle_violations(table, decide, cycle - start)]
            forget_deleted(table)
        if change is not None:
            change.make(table)
        start = cycle
    return Outcome(found + undetermined(case, decide))


def _session(
    case: RecordedCase, table: SimulatedCluster, level: Level, reasons: dict[str, str], decide: Decide
) -> Outcome:
    decisions, faults = _cycle(case, table, reasons, decide)
    same_status = _same_status(case, table, level)
    return Outcome(
        faults + operation_differences(case, decisions, "") + final_differences(case, table, level), same_status
    )


def _integration(
    case: RecordedCase, table: SimulatedCluster, level: Level, reasons: dict[str, str], decide: Decide
) -> Outcome:
    differences: list[str] = []
    same_status: bool | None = None
    changes: dict[int, list[ClusterChange]] = {}
    for number, change in case.changes:
        changes.setdefault(number, []).append(change)
    cycles = case.rounds_until_match + case.rounds_after_match
    for number in range(cycles + 1):
        if number == case.rounds_until_match:
            differences += final_differences(case, table, level)
            same_status = _same_status(case, table, level)
        if number == cycles:
            break
        for change in changes.get(number, ()):
            forget_deleted(table)
            change.make(table)
        decisions, faults = _cycle(case, table, reasons, decide)
        where = f"cycle {number + 1}: "
        differences += [where + fault for fault in faults]
        if case.recorded_only:
            differences += recorded_round_differences(case, number, table, decisions, level)
        else:
            differences += operation_differences(case, decisions, where)
            if number >= case.rounds_until_match:
                differences += asserted_tasks(case, table, where)
        table.settle_round()
    return Outcome(differences, same_status)


def _compares_nodes(case: RecordedCase, level: Level) -> bool:
    # At the levels beyond "nodes" the cycles count as well, so their differences say nothing about nodes.
    return case.recorded_only and level == "nodes"


def _same_status(case: RecordedCase, table: SimulatedCluster, level: Level) -> bool | None:
    return not final_differences(case, table, "status") if _compares_nodes(case, level) else None


def _cycle(
    case: RecordedCase, table: SimulatedCluster, reasons: dict[str, str], decide: Decide
) -> tuple[Decisions, list[str]]:
    decisions = decide(table.working(), case.config, NOW)
    for pending in decisions.pending:
        tried = "; ".join(f"{action}: {outcome}" for action, outcome in pending.tried)
        reasons[pending.podgroup] = f"{pending.code}: {pending.message}" + (f" [{tried}]" if tried else "")
    return decisions, table.apply(decisions)


def _with_reasons(case: RecordedCase, differences: list[str], reasons: dict[str, str]) -> list[str]:
    """Add the engine's last reason for a PodGroup to the first difference that names one of its tasks."""
    group_of = {task.uid: task.podgroup for task in case.tasks}
    explained: set[str] = set()
    out = []
    for difference in differences:
        words = difference.replace(":", " ").split()
        group = next((group_of[word] for word in words if word in group_of), "")
        if group in reasons and group not in explained and " is Pending" in difference:
            explained.add(group)
            difference = f"{difference} ({reasons[group]})"
        out.append(difference)
    return out


def run_cases(
    cases: Sequence[RecordedCase],
    level: Level = "nodes",
    tell: Tell | None = None,
    imitate_faults: bool = False,
    name_faults: bool = False,
    by: tuple[Grouping, ...] = ("area",),
) -> Report:
    """Run cases. ``tell("engine cases", done, total)`` is called after each. ``imitate_faults``: decide with
    ``EngineConfig.imitate_faults``. ``name_faults``: decide both ways, and find the faults behind each difference.
    ``by``: the properties by which the report counts agreement.
    """
    report = Report("engine cases", by=by)
    decide = _imitating(FAULTS) if imitate_faults else run_cycle
    for case in cases:
        result = run_case(case, level, decide)
        if name_faults:
            result = dataclasses.replace(result, imitating=_imitated_outcome(case, level, result.passed))
        report.results.append(result)
        if tell is not None:
            tell(report.title, len(report.results), len(cases))
    return report


def _imitating(faults: Iterable[KaiFault]) -> Decide:
    """A function that decides with these faults imitated."""
    numbers = tuple(fault.number for fault in faults)

    def decide(working: WorkingSet, config: EngineConfig, now: float) -> Decisions:
        return run_cycle(working, structs.replace(config, imitate_faults=numbers), now)

    return decide


def _imitated_outcome(case: RecordedCase, level: Level, agrees: bool) -> ImitatedOutcome:
    """The outcome with all faults imitated, and which of them are behind a difference. ``agrees``: the case agrees
    without them.
    """
    result = run_case(case, level, _imitating(FAULTS))
    behind = None
    if result.passed and not agrees:
        behind = faults_behind(FAULTS, lambda faults: run_case(case, level, _imitating(faults)).passed)
    return ImitatedOutcome(bool(result.same_status), result.passed, behind)


def check_loading(cases: Iterable[RecordedCase]) -> Report:
    """Compare the loaded cases with the recorded initial state of nodes and queues, without running the engine. Raises
    InputError for a case without one.
    """
    report = Report("opening states")
    for case in cases:
        try:
            differences = tuple(loading_differences(case))
        except KeyError as missing:
            raise InputError(f"case {case.id}: KAI's opening state is not recorded (no {missing})") from None
        report.results.append(Result(id=case.id, suite=case.suite, differences=differences, tags=case.tags))
    return report
