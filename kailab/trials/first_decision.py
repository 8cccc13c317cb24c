"""The first decision that two contenders took otherwise in one test, and the workloads that ended elsewhere because of such."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from kailab.errors import EvidenceError
from kailab.evidence.diff import WorkloadEndedElsewhere, moved_workloads
from kailab.evidence.history import LabHistory
from kailab.evidence.store import load_test


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


def told(reference: Path | None, here: Path | None) -> str:
    """In a line; empty where nothing can be said. Evidence that can't be read is told."""
    if reference is None or here is None:
        return ""
    try:
        found = first_decision(reference, here)
    except EvidenceError as error:
        return f"the first decision that differs is not known: {error}"
    return str(found) if found is not None else ""
