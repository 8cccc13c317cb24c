"""How many tests of each subject came to which verdict, column by column."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from kailab.trials.outcome import Outcome
from kailab.trials.results import TestResult


class Count(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Of tests. ``not_run``: those that could not be run, or have not been run yet."""

    passed: int = 0
    failed: int = 0
    not_expressible: int = 0
    skipped: int = 0
    not_run: int = 0

    @property
    def ran(self) -> int:
        """Those of which the scheduler decided something."""
        return self.passed + self.failed

    def __str__(self) -> str:
        rest = {"not expressible": self.not_expressible, "not run": self.not_run}
        told = [f"{self.passed} of {self.ran}"] if self.ran else []
        return ", ".join([*told, *(f"{number} {what}" for what, number in rest.items() if number)]) or "–"


def counts(outcome: Outcome) -> dict[str, dict[str, Count]]:
    """By subject and column, each subject once, in the trial's order."""
    subjects = dict.fromkeys(row.subject for row in outcome.rows)
    return {
        subject: {
            column: counted(row.results[column] for row in outcome.rows if row.subject == subject)
            for column in outcome.columns
        }
        for subject in subjects
    }


def counted(results: Iterable[TestResult]) -> Count:
    found = Counter(one.verdict for one in results)
    return Count(
        passed=found["passed"],
        failed=found["failed"],
        not_expressible=found["not expressible"],
        skipped=found["skipped"],
        not_run=found["error"],
    )
