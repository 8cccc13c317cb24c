"""The outcome of a trial: a table of verdicts, and the differences with both sides' evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from kailab.model.markup import html_table
from kailab.model.multimap import multimap
from kailab.trials.baseline import AcceptedBaseline, AcceptedDifference
from kailab.trials.differences import TrialDifference, differences_of
from kailab.trials.matrix import Trial, TrialCell
from kailab.trials.results import CellResult, TestResult
from kailab.trials.store import TrialFolder

NOT_RUN = "it has not been run"


@dataclass(frozen=True)
class EndedCell:
    """A cell with its results. ``folder``: of its evidence. ``result``: None while it is not done."""

    cell: TrialCell
    folder: Path
    result: CellResult | None
    tests: Mapping[str, TestResult]

    def test(self, name: str) -> TestResult:
        result = self.tests.get(name)
        if result is not None:
            return result
        error = self.result.error if self.result is not None else ""
        return TestResult(name=name, verdict="error", message=error or NOT_RUN)


@dataclass(frozen=True)
class TrialRow:
    """One test of a subject in every column."""

    subject: str
    test: str
    ended: Mapping[str, EndedCell]

    @property
    def results(self) -> dict[str, TestResult]:
        return {column: cell.test(self.test) for column, cell in self.ended.items()}

    def evidence(self, column: str) -> Path | None:
        cell = self.ended[column]
        path = cell.test(self.test).evidence
        return cell.folder / path if path else None


@dataclass(frozen=True)
class TrialOutcome:
    """``columns``: names, the reference first."""

    trial: Trial
    folder: Path
    columns: tuple[str, ...]
    rows: tuple[TrialRow, ...]
    baseline: AcceptedBaseline = field(default_factory=AcceptedBaseline)

    @classmethod
    def of(
        cls, folder: TrialFolder, trial: Trial, cells: Mapping[tuple[str, str], TrialCell], baseline: AcceptedBaseline
    ) -> TrialOutcome:
        """Collect the results. ``cells``: by subject and column."""
        columns = tuple(name for name, _, _ in trial.columns())
        rows: list[TrialRow] = []
        for subject in trial.subjects:
            ended = {}
            for column in columns:
                cell = cells[subject.name, column]
                cell_folder = folder.cell(cell)
                ended[column] = EndedCell(cell, cell_folder.evidence, cell_folder.result, cell_folder.tests())
            # Completed cells give the order of tests; add tests that only unfinished cells have.
            known = [
                name
                for ended_cell in ended.values()
                if ended_cell.result is not None
                for name in ended_cell.result.tests
            ]
            known += [name for ended_cell in ended.values() for name in ended_cell.tests]
            rows += [TrialRow(subject.name, name, ended) for name in dict.fromkeys(known or [subject.name])]
        return cls(trial, folder.path, columns, tuple(rows), baseline)

    @cached_property
    def all_differences(self) -> tuple[tuple[TrialDifference, AcceptedDifference | None], ...]:
        """All differences, row by row, each with the baseline entry that accepts it."""
        differences = []
        for row in self.rows:
            results = row.results
            # Each isolation is compared with the reference in the same one.
            for column in self.columns:
                reference = self.reference_of(column)
                if column == reference:
                    continue
                for difference in differences_of(
                    column, results[reference], results[column], self.trial.compared, self.trial.time_ratio
                ):
                    differences.append((difference, self.baseline.accepts(difference)))
        return tuple(differences)

    def reference_of(self, column: str) -> str:
        """The column to compare with: the reference in the same isolation; for a single contender, its first
        isolation."""
        if len(self.trial.contenders) == 1:
            return self.columns[0]
        named = {name: (contender.name, isolation) for name, contender, isolation in self.trial.columns()}
        return next(name for name in self.columns if named[name] == (self.trial.reference, named[column][1]))

    @property
    def differences(self) -> list[TrialDifference]:
        """Differences that the baseline does not accept."""
        return [difference for difference, accepted in self.all_differences if accepted is None]

    @cached_property
    def errors(self) -> list[tuple[str, str, str]]:
        """(column, test, reason) for everything that could not be run, including the reference's.

        If a cell stopped without a known test missing, the subject stands in place of the test. What has not been run yet
        is no error (``complete``).
        """
        errors = [
            (column, row.test, result.message)
            for row in self.rows
            for column, result in row.results.items()
            if result.verdict == "error" and result.message != NOT_RUN
        ]
        reported = {(column, reason) for column, _, reason in errors}
        for subject, ended in {row.subject: row.ended for row in self.rows}.items():
            for column, cell in ended.items():
                reason = cell.result.error if cell.result is not None else ""
                if reason and (column, reason) not in reported:
                    errors.append((column, subject, reason))
        return errors

    def accepts_error(self, column: str, test: str) -> AcceptedDifference | None:
        """The baseline entry, of kind ``verdict`` or every kind, that accepts a test that could not be run."""
        return self.baseline.accepts(
            TrialDifference(column=column, test=test, kind="verdict", reference="", here="not run")
        )

    @property
    def stale(self) -> list[AcceptedDifference]:
        """Baseline entries that match no difference any more. Empty for a single column, which has nothing to
        compare."""
        if len(self.columns) == 1:
            return []
        used = {id(accepted) for _, accepted in self.all_differences if accepted is not None}
        used |= {id(self.accepts_error(column, test)) for column, test, _ in self.errors}
        return [entry for entry in self.baseline.accepted if id(entry) not in used]

    @property
    def complete(self) -> bool:
        return all(cell.result is not None for row in self.rows for cell in row.ended.values())

    @property
    def same(self) -> bool:
        """True if everything was run, and all differences, and tests that could not be run, are accepted."""
        return (
            self.complete
            and not self.differences
            and all(self.accepts_error(column, test) for column, test, _ in self.errors)
        )

    def _repr_html_(self) -> str:
        """For notebooks: verdicts and unaccepted differences."""
        differs = multimap(((difference.test, difference.column), str(difference)) for difference in self.differences)
        rows = []
        for row in self.rows:
            texts = [f"{name}: {text}" for name in self.columns for text in differs.get((row.test, name), ())]
            rows.append((row.test, *(result.verdict for result in row.results.values()), "; ".join(texts)))
        return html_table(f"Trial {self.trial.name}", ("test", *self.columns, "differs"), rows)
