"""A trial as a page of the viewer: each contender is a run, so that two can be compared side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kailab.errors import EvidenceError
from kailab.evidence.store import load_test
from kailab.report import page
from kailab.report.page_data import RunForm, TestForm
from kailab.trials import report
from kailab.trials.outcome import TrialOutcome, TrialRow


def write_trial_page(outcome: TrialOutcome, file: Path) -> int:
    """Write the page. Returns its size in bytes. Raises InputError if it cannot be written."""
    chunks: dict[str, bytes] = {}
    differs = {(entry["test"], entry["column"]): _differences(entry) for entry in report.differing(outcome)}
    runs = [_run(outcome, column, f"r{index}", differs, chunks) for index, column in enumerate(outcome.columns)]
    return page.write_runs_page(runs, chunks, file, "trial", f"Trial {outcome.trial.name}")


def _run(
    outcome: TrialOutcome,
    column: str,
    chunk: str,
    differs: Mapping[tuple[str, str], list[str]],
    chunks: dict[str, bytes],
) -> RunForm:
    problems: list[str] = []
    tests = []
    for index, row in enumerate(outcome.rows):
        form = _test(outcome, row, column, f"{chunk}t{index}", chunks, problems)
        form.differs = differs.get((row.test, column), [])
        tests.append(form)
    outcomes = dict(Counter(test_form.outcome for test_form in tests))
    return RunForm(
        run=column, facts=None, outcomes=outcomes, problems=problems, tests=tests, about=_about(outcome, column)
    )


def _test(
    outcome: TrialOutcome, row: TrialRow, column: str, chunk: str, chunks: dict[str, bytes], problems: list[str]
) -> TestForm:
    """The test's form from its evidence with the trial's verdict; without evidence, the verdict alone."""
    result, folder = row.results[column], row.evidence(column)
    form = None
    if folder is not None:
        try:
            test = load_test(folder.parent.parent, "/".join(folder.parts[-2:]))
            form = page.read_test_form(test, chunk, chunks, folder.relative_to(outcome.folder).as_posix())
        except EvidenceError as error:
            problems.append(str(error))
    if form is None:
        form = TestForm(
            name=row.test, outcome="", message="", sentence="", cycles=0, decisions=0, expectations=[], labs=[]
        )  # fmt: skip
    form.name, form.message = row.test, result.message
    form.outcome = f"{result.verdict} ({result.concept})" if result.concept else result.verdict
    return form


def _differences(entry: Mapping[str, Any]) -> list[str]:
    """The texts of a ``report.differing`` entry."""
    texts = []
    for difference in entry["differences"]:
        accepted = f"; accepted: {difference['accepted']}" if difference["accepted"] else ""
        texts.append(f"{difference['text']}{accepted}")
    first = entry["firstDecision"]
    return [*texts, first] if first else texts


def _about(outcome: TrialOutcome, column: str) -> str:
    (column_data,) = [column_data for column_data in report.report_columns(outcome) if column_data["name"] == column]
    facts = [f"scheduler {column_data['scheduler']}"]
    facts += [f"configuration {column_data['config']}"] if column_data["config"] else []
    facts += [f"isolation {column_data['isolation']}"]
    facts += [f"version {column_data['version']}"] if column_data["version"] else []
    facts += ["the reference"] if column_data["reference"] else []
    return f"{', '.join(facts)}."
