"""Compare a contender's results with the reference, test by test, and find the first decision that differs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import msgspec

from kailab.errors import EvidenceError
from kailab.evidence.diff import WorkloadEndedElsewhere, moved_workloads
from kailab.evidence.history import LabHistory
from kailab.evidence.store import load_test
from kailab.evidence.wording import gpus
from kailab.model.multimap import multimap
from kailab.trials.results import LabPhase, LabResult, TestResult

SOONEST_SECONDS = 1.0
"""Times have whole seconds, so shorter ones count as this long."""


class TrialDifference(msgspec.Struct, frozen=True, kw_only=True):
    """``kind``: of ``matrix.KINDS``. ``lab``: of the test. ``after``: the change after which it shows. ``what``: app or
    queue. ``reference``, ``here``: both values as text."""

    column: str
    test: str
    kind: str
    reference: str
    here: str
    lab: str = ""
    after: str = ""
    what: str = ""

    def __str__(self) -> str:
        place = " ".join(part for part in (self.what, f"after {self.after}" if self.after else "") if part)
        return f"{self.kind}: {f'{place}: ' if place else ''}{self.reference} -> {self.here}"


def differences_of(
    column: str, reference: TestResult, here: TestResult, kinds: tuple[str, ...], time_ratio: float | None
) -> list[TrialDifference]:
    """The differences of one test, in order of occurrence. None are reported for a test that could not be run on one
    side."""
    if "error" in (reference.verdict, here.verdict):
        return []
    differences = []
    if reference.verdict != here.verdict:
        differences.append(
            TrialDifference(
                column=column,
                test=here.name,
                kind="verdict",
                reference=format_verdict(reference),
                here=format_verdict(here),
            )
        )
    # A test that did not run has no further differences.
    if {reference.verdict, here.verdict} & {"not expressible", "skipped"}:
        return [difference for difference in differences if difference.kind in kinds]
    for lab in dict.fromkeys((*reference.labs, *here.labs)):
        if lab in reference.labs and lab in here.labs:
            for difference in _labs(reference.labs[lab], here.labs[lab], time_ratio):
                differences.append(msgspec.structs.replace(difference, column=column, test=here.name, lab=lab))
    wanted = (*kinds, "time") if time_ratio is not None else kinds
    return [difference for difference in differences if difference.kind in wanted]


def format_verdict(test: TestResult) -> str:
    """Format a verdict for the table."""
    if test.verdict == "error":
        return "not run"
    return f"not expressible ({test.concept})" if test.concept else test.verdict


def _labs(reference: LabResult, here: LabResult, time_ratio: float | None) -> Iterator[TrialDifference]:
    # A failed test stops, so later phases of the other side have no counterpart.
    for left, right in zip(reference.phases, here.phases):
        after = "; ".join(operation.partition(": ")[0] for operation in left.operations)
        yield from _phases(left, right, reference.classes, here.classes, after)
        if time_ratio is not None:
            yield from _times(left, right, time_ratio, after)
    if len(reference.phases) == len(here.phases):
        for work in sorted({*reference.waits, *here.waits}):
            left_codes, right_codes = reference.waits.get(work, ()), here.waits.get(work, ())
            if left_codes != right_codes:
                yield _difference(
                    "reasons", work, "", ", ".join(left_codes) or "none", ", ".join(right_codes) or "none"
                )


def _phases(
    left: LabPhase, right: LabPhase, left_classes: Mapping[str, str], right_classes: Mapping[str, str], after: str
) -> Iterator[TrialDifference]:
    for work, (before, now) in _pairs(left.running, right.running):
        yield _difference("outcome", work, after, f"{before} running", f"{now} running")
    for work, (before, now) in _pairs(left.evicted, right.evicted):
        yield _difference("evictions", work, after, f"{before} evicted", f"{now} evicted")
    for queue, _ in _pairs(dips(left), dips(right)):
        yield _difference("lowest", f"queue {queue}", after, _lowest(left, queue), _lowest(right, queue))
    for work in sorted({*left.placement, *right.placement}):
        # Placement is only comparable if equally many pods run.
        if left.running.get(work) != right.running.get(work):
            continue
        expected, here = left.placement.get(work, {}), right.placement.get(work, {})
        if pods_by_node_class(expected, left_classes) != pods_by_node_class(here, right_classes):
            yield _difference("placement", work, after, format_nodes(expected), format_nodes(here))


def dips(phase: LabPhase) -> dict[str, int]:
    """Map each queue to the milli-GPU by which its holdings dropped below both their start and their end: taken away
    and given back."""
    drops = {}
    for queue, low in phase.lowest.items():
        ends = min(phase.begun.get(queue, 0), phase.held.get(queue, 0))
        if low < ends:
            drops[queue] = ends - low
    return drops


def _lowest(phase: LabPhase, queue: str) -> str:
    begun, low, held = (amounts.get(queue, 0) for amounts in (phase.begun, phase.lowest, phase.held))
    return f"{gpus(begun)}, {gpus(low)} at the lowest, then {gpus(held)}"


def pods_by_node_class(nodes: Mapping[str, int], classes: Mapping[str, str]) -> dict[str, list[int]]:
    """Number of pods on each node, grouped by classes of equal nodes and sorted, so that node names do not matter."""
    numbers_by_class = multimap((classes.get(node, node), number) for node, number in nodes.items())
    return {name: sorted(numbers, reverse=True) for name, numbers in sorted(numbers_by_class.items())}


def format_nodes(nodes: Mapping[str, int]) -> str:
    return ", ".join(f"{number} on {node}" for node, number in nodes.items()) or "nowhere"


def ratio(left: LabPhase, right: LabPhase) -> float | None:
    """How many times as long the right side took until its last pod was placed."""
    if left.seconds is None or right.seconds is None:
        return None
    return max(right.seconds, SOONEST_SECONDS) / max(left.seconds, SOONEST_SECONDS)


def _times(left: LabPhase, right: LabPhase, most: float, after: str) -> Iterator[TrialDifference]:
    factor = ratio(left, right)
    if factor is not None and not 1 / most <= factor <= most:
        yield _difference("time", "", after, f"{left.seconds:g} s", f"{right.seconds:g} s ({factor:.2g} times)")


def _pairs(left: Mapping[str, int], right: Mapping[str, int]) -> Iterator[tuple[str, tuple[int, int]]]:
    for name in sorted({*left, *right}):
        pair = left.get(name, 0), right.get(name, 0)
        if pair[0] != pair[1]:
            yield name, pair


def _difference(kind: str, what: str, after: str, reference: str, here: str) -> TrialDifference:
    return TrialDifference(column="", test="", kind=kind, what=what, after=after, reference=reference, here=here)


@dataclass(frozen=True)
class FirstDecision:
    """The first decision that differs. ``workload``: its subject. ``reference``, ``here``: the decisions in words."""

    lab: str
    workload: str
    reference: str
    here: str

    def __str__(self) -> str:
        return f"first decided otherwise ({self.workload}): {self.reference} -> {self.here}"


def first_decision(reference: Path, here: Path) -> FirstDecision | None:
    """Compare the evidence of one test.

    None if all workloads ended in the same place, or if no decision about them is known to differ. Raises
    EvidenceError.
    """
    reference_histories, own_histories = _histories(reference), _histories(here)
    for lab in (name for name in reference_histories if name in own_histories):
        moved = [
            workload
            for workload in moved_workloads(reference_histories[lab], own_histories[lab])
            if workload.decisions != (None, None)
        ]
        if moved:
            first = min(moved, key=_when)
            return FirstDecision(lab, first.workload, *first.words)
    return None


@lru_cache(maxsize=8)
def _histories(path: Path) -> dict[str, LabHistory]:
    """Histories by lab, cached because the reference's are needed for each contender."""
    test = load_test(path.parent.parent, "/".join(path.parts[-2:]))
    return {lab: test.history(lab) for lab in test.labs}


def _when(workload: WorkloadEndedElsewhere) -> float:
    """Time of the decision, by the reference's clock where it is known."""
    left, right = workload.decisions
    entry = left or right
    return entry.t if entry is not None else 0.0


def describe_first_decision(reference: Path | None, here: Path | None) -> str:
    """One line, or empty if nothing is known. Evidence that cannot be read is reported."""
    if reference is None or here is None:
        return ""
    try:
        decision = first_decision(reference, here)
    except EvidenceError as error:
        return f"the first decision that differs is unknown: {error}"
    return str(decision) if decision is not None else ""
