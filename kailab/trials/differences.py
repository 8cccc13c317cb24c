"""What a contender did otherwise than the reference, test by test."""

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
from kailab.lab.wording import gpus
from kailab.trials.results import LabPhase, LabResult, TestResult

SOONEST_SECONDS = 1.0
"""Times have whole seconds: what took less counts as this long."""


class TrialDifference(msgspec.Struct, frozen=True, kw_only=True):
    """``kind``: of ``matrix.KINDS``. ``lab``: of the test; ``after``: the change after which it shows. ``what``: of which app or queue.
    ``reference``, ``here``: both values, as text."""

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


def compare(
    column: str, reference: TestResult, here: TestResult, kinds: tuple[str, ...], time_ratio: float | None
) -> list[TrialDifference]:
    """Of one test, in the order in which they came about."""
    found = []
    if reference.verdict != here.verdict:
        found.append(
            TrialDifference(
                column=column,
                test=here.name,
                kind="verdict",
                reference=format_verdict(reference),
                here=format_verdict(here),
            )
        )
    # What never ran is no difference of its own.
    if {reference.verdict, here.verdict} & {"not expressible", "skipped", "error"}:
        return [one for one in found if one.kind in kinds]
    for lab in dict.fromkeys((*reference.labs, *here.labs)):
        if lab in reference.labs and lab in here.labs:
            for one in _labs(reference.labs[lab], here.labs[lab], time_ratio):
                found.append(msgspec.structs.replace(one, column=column, test=here.name, lab=lab))
    wanted = (*kinds, "time") if time_ratio is not None else kinds
    return [one for one in found if one.kind in wanted]


def format_verdict(test: TestResult) -> str:
    """A verdict as the table has it."""
    return f"not expressible ({test.concept})" if test.concept else test.verdict


def _labs(one: LabResult, two: LabResult, time_ratio: float | None) -> Iterator[TrialDifference]:
    # A test that failed went no further: what the other did after that has nothing to stand beside.
    for left, right in zip(one.phases, two.phases):
        after = "; ".join(operation.partition(": ")[0] for operation in left.operations)
        yield from _phases(left, right, one.classes, two.classes, after)
        if time_ratio is not None:
            yield from _times(left, right, time_ratio, after)
    if len(one.phases) == len(two.phases):
        for work in sorted({*one.waits, *two.waits}):
            left_codes, right_codes = one.waits.get(work, ()), two.waits.get(work, ())
            if left_codes != right_codes:
                yield _difference(
                    "reasons", work, "", ", ".join(left_codes) or "none", ", ".join(right_codes) or "none"
                )


def _phases(
    left: LabPhase, right: LabPhase, left_classes: Mapping[str, str], right_classes: Mapping[str, str], after: str
) -> Iterator[TrialDifference]:
    for work, (one, other) in _pairs(left.running, right.running):
        yield _difference("outcome", work, after, f"{one} running", f"{other} running")
    for work, (one, other) in _pairs(left.evicted, right.evicted):
        yield _difference("evictions", work, after, f"{one} evicted", f"{other} evicted")
    for queue, _ in _pairs(dips(left), dips(right)):
        yield _difference("lowest", f"queue {queue}", after, _lowest(left, queue), _lowest(right, queue))
    for work in sorted({*left.placement, *right.placement}):
        # Where others run there are others to place.
        if left.running.get(work) != right.running.get(work):
            continue
        before, here = left.placement.get(work, {}), right.placement.get(work, {})
        if spread(before, left_classes) != spread(here, right_classes):
            yield _difference("placement", work, after, format_nodes(before), format_nodes(here))


def dips(phase: LabPhase) -> dict[str, int]:
    """Queue -> milli-GPU by which it held less on the way than before and after: what was taken from it and given back."""
    found = {}
    for queue, low in phase.lowest.items():
        ends = min(phase.begun.get(queue, 0), phase.held.get(queue, 0))
        if low < ends:
            found[queue] = ends - low
    return found


def _lowest(phase: LabPhase, queue: str) -> str:
    begun, low, held = (amounts.get(queue, 0) for amounts in (phase.begun, phase.lowest, phase.held))
    return f"{gpus(begun)}, {gpus(low)} at the lowest, then {gpus(held)}"


def spread(nodes: Mapping[str, int], classes: Mapping[str, str]) -> dict[str, list[int]]:
    """Pods on nodes that are alike, whatever their names: how many on each, most first."""
    found: dict[str, list[int]] = {}
    for node, number in nodes.items():
        found.setdefault(classes.get(node, node), []).append(number)
    return {name: sorted(numbers, reverse=True) for name, numbers in sorted(found.items())}


def format_nodes(nodes: Mapping[str, int]) -> str:
    return ", ".join(f"{number} on {node}" for node, number in nodes.items()) or "nowhere"


def ratio(left: LabPhase, right: LabPhase) -> float | None:
    """How many times as long the second took until its last pod had its place."""
    if left.seconds is None or right.seconds is None:
        return None
    return max(right.seconds, SOONEST_SECONDS) / max(left.seconds, SOONEST_SECONDS)


def _times(left: LabPhase, right: LabPhase, most: float, after: str) -> Iterator[TrialDifference]:
    found = ratio(left, right)
    if found is not None and not 1 / most <= found <= most:
        yield _difference("time", "", after, f"{left.seconds:g} s", f"{right.seconds:g} s ({found:.2g} times)")


def _pairs(left: Mapping[str, int], right: Mapping[str, int]) -> Iterator[tuple[str, tuple[int, int]]]:
    for name in sorted({*left, *right}):
        pair = left.get(name, 0), right.get(name, 0)
        if pair[0] != pair[1]:
            yield name, pair


def _difference(kind: str, what: str, after: str, reference: str, here: str) -> TrialDifference:
    return TrialDifference(column="", test="", kind=kind, what=what, after=after, reference=reference, here=here)


# The first decision that two contenders took otherwise in one test, and the workloads that ended elsewhere because of such.


@dataclass(frozen=True)
class FirstDecision:
    """``workload``: which it is about. ``reference``, ``here``: what was decided, in words."""

    lab: str
    workload: str
    reference: str
    here: str

    def __str__(self) -> str:
        return f"first decided otherwise ({self.workload}): {self.reference} -> {self.here}"


def first_decision(reference: Path, here: Path) -> FirstDecision | None:
    """``reference``, ``here``: the evidence of one test. None: nothing ended elsewhere, or of the decisions about what did none is known
    to differ. Raises EvidenceError."""
    one, two = _histories(reference), _histories(here)
    for lab in (name for name in one if name in two):
        found = [each for each in moved_workloads(one[lab], two[lab]) if each.decisions != (None, None)]
        if found:
            first = min(found, key=_when)
            return FirstDecision(lab, first.workload, *first.told)
    return None


@lru_cache(maxsize=8)
def _histories(path: Path) -> dict[str, LabHistory]:
    """By lab. The reference's is asked for once for each contender."""
    test = load_test(path.parent.parent, "/".join(path.parts[-2:]))
    return {lab: LabHistory.of_test(test, lab) for lab in test.labs}


def _when(each: WorkloadEndedElsewhere) -> float:
    """By the reference's time, so that the order hangs on one clock."""
    left, right = each.decisions
    entry = left or right
    return entry.t if entry is not None else 0.0


def describe_first_decision(reference: Path | None, here: Path | None) -> str:
    """In a line; empty where nothing can be said. Evidence that can't be read is told."""
    if reference is None or here is None:
        return ""
    try:
        found = first_decision(reference, here)
    except EvidenceError as error:
        return f"the first decision that differs is not known: {error}"
    return str(found) if found is not None else ""
