"""A trial as it came out: a table of verdicts, and what differs, with both sides' evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from kailab.model.markup import html_table
from kailab.trials.baseline import AcceptedBaseline, AcceptedDifference
from kailab.trials.differences import TrialDifference, compare
from kailab.trials.matrix import Trial, TrialCell
from kailab.trials.results import CellResult, TestResult
from kailab.trials.store import TrialFolder

NOT_RUN = "it has not been run"


@dataclass(frozen=True)
class EndedCell:
    """A cell with what it came to. ``folder``: of its evidence; ``result`` None: it is not done."""

    cell: TrialCell
    folder: Path
    result: CellResult | None
    tests: Mapping[str, TestResult]

    def test(self, name: str) -> TestResult:
        found = self.tests.get(name)
        if found is not None:
            return found
        error = self.result.error if self.result is not None else ""
        return TestResult(name=name, verdict="error", message=error or NOT_RUN)


@dataclass(frozen=True)
class TrialRow:
    """One test of a subject, in every column."""

    subject: str
    test: str
    ended: Mapping[str, EndedCell]

    @property
    def results(self) -> dict[str, TestResult]:
        return {column: one.test(self.test) for column, one in self.ended.items()}

    def evidence(self, column: str) -> Path | None:
        one = self.ended[column]
        told = one.test(self.test).evidence
        return one.folder / told if told else None


@dataclass(frozen=True)
class TrialOutcome:
    """``columns``: names, the reference's first."""

    trial: Trial
    folder: Path
    columns: tuple[str, ...]
    rows: tuple[TrialRow, ...]
    baseline: AcceptedBaseline = field(default_factory=AcceptedBaseline)

    @classmethod
    def of(
        cls, folder: TrialFolder, trial: Trial, cells: Mapping[tuple[str, str], TrialCell], baseline: AcceptedBaseline
    ) -> TrialOutcome:
        """``cells``: by subject and column."""
        columns = tuple(name for name, _, _ in trial.columns())
        rows: list[TrialRow] = []
        for subject in trial.subjects:
            ended = {}
            for column in columns:
                cell = cells[subject.name, column]
                place = folder.cell(cell)
                ended[column] = EndedCell(cell, place.evidence, place.result, place.tests())
            # In their own order where a cell has come to its end, and never fewer than there are.
            known = [name for one in ended.values() if one.result is not None for name in one.result.tests]
            known += [name for one in ended.values() for name in one.tests]
            rows += [TrialRow(subject.name, name, ended) for name in dict.fromkeys(known or [subject.name])]
        return cls(trial, folder.path, columns, tuple(rows), baseline)

    @cached_property
    def all_differences(self) -> tuple[tuple[TrialDifference, AcceptedDifference | None], ...]:
        """Row by row; each with what accepts it."""
        found = []
        for row in self.rows:
            results = row.results
            # Each isolation is compared with the reference in the same one.
            for column in self.columns:
                first = self.reference_of(column)
                if column == first:
                    continue
                for one in compare(column, results[first], results[column], self.trial.compared, self.trial.time_ratio):
                    found.append((one, self.baseline.accepts(one)))
        return tuple(found)

    def reference_of(self, column: str) -> str:
        """The column that it is compared with: the reference, in the same isolation; of one contender alone its first isolation."""
        if len(self.trial.contenders) == 1:
            return self.columns[0]
        named = {name: (contender.name, isolation) for name, contender, isolation in self.trial.columns()}
        return next(name for name in self.columns if named[name] == (self.trial.reference, named[column][1]))

    @property
    def differences(self) -> list[TrialDifference]:
        """Those that nobody accepted."""
        return [one for one, accepted in self.all_differences if accepted is None]

    @cached_property
    def errors(self) -> list[tuple[str, str, str]]:
        """(column, test, why) of what could not be run, the reference's too. Of a cell that came to no end though no test that anybody knows of
        is missing, the subject stands in the test's place."""
        found = [
            (column, row.test, result.message)
            for row in self.rows
            for column, result in row.results.items()
            if result.verdict == "error"
        ]
        told = {(column, why) for column, _, why in found}
        for subject, ended in {row.subject: row.ended for row in self.rows}.items():
            for column, one in ended.items():
                why = one.result.error if one.result is not None else ""
                if why and (column, why) not in told:
                    found.append((column, subject, why))
        return found

    @property
    def stale(self) -> list[AcceptedDifference]:
        """Accepted differences that are none any more; none of a contender alone, of whom nothing is known to differ or not."""
        if len(self.columns) == 1:
            return []
        used = {id(accepted) for _, accepted in self.all_differences if accepted is not None}
        return [one for one in self.baseline.accepted if id(one) not in used]

    @property
    def complete(self) -> bool:
        return all(one.result is not None for row in self.rows for one in row.ended.values())

    @property
    def same(self) -> bool:
        """Nothing differs but what is accepted, and all could be run."""
        accepted_errors = {(one.column, one.test) for one, accepted in self.all_differences if accepted is not None}
        return not self.differences and all((column, test) in accepted_errors for column, test, _ in self.errors)

    def _repr_html_(self) -> str:
        """For notebooks: verdicts, and what nobody accepted."""
        differs: dict[tuple[str, str], list[str]] = {}
        for one in self.differences:
            differs.setdefault((one.test, one.column), []).append(str(one))
        rows = []
        for row in self.rows:
            told = [f"{name}: {each}" for name in self.columns for each in differs.get((row.test, name), ())]
            rows.append((row.test, *(result.verdict for result in row.results.values()), "; ".join(told)))
        return html_table(f"Trial {self.trial.name}", ("test", *self.columns, "differs"), rows)
