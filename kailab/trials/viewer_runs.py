"""A trial as the viewer's page: each contender as a run, to travel through its labs and to see two of them side by side."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kailab.errors import EvidenceError
from kailab.evidence.store import load_test
from kailab.report import page
from kailab.report.page_data import RunForm, TestForm
from kailab.trials import report
from kailab.trials.outcome import TrialOutcome, TrialRow


def write(outcome: TrialOutcome, file: Path) -> int:
    """Bytes of the file. Raises InputError where it can't be written."""
    chunks: dict[str, bytes] = {}
    differs = {(one["test"], one["column"]): _differences(one) for one in report.differing(outcome)}
    runs = [_run(outcome, column, f"r{place}", differs, chunks) for place, column in enumerate(outcome.columns)]
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
    for place, row in enumerate(outcome.rows):
        form = _test(outcome, row, column, f"{chunk}t{place}", chunks, problems)
        form.differs = differs.get((row.test, column), [])
        tests.append(form)
    outcomes: dict[str, int] = {}
    for one in tests:
        outcomes[one.outcome] = outcomes.get(one.outcome, 0) + 1
    return RunForm(
        run=column, facts=None, outcomes=outcomes, problems=problems, tests=tests, about=_about(outcome, column)
    )


def _test(
    outcome: TrialOutcome, row: TrialRow, column: str, chunk: str, chunks: dict[str, bytes], problems: list[str]
) -> TestForm:
    """As its evidence has it, with the trial's verdict; where there is no evidence, the verdict alone."""
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


def _differences(one: Mapping[str, Any]) -> list[str]:
    """``one``: of ``telling.differing``."""
    found = []
    for each in one["differences"]:
        accepted = f"; accepted: {each['accepted']}" if each["accepted"] else ""
        found.append(f"{each['text']}{accepted}")
    first = one["firstDecision"]
    return [*found, first] if first else found


def _about(outcome: TrialOutcome, column: str) -> str:
    (one,) = [one for one in report.report_columns(outcome) if one["name"] == column]
    told = [f"scheduler {one['scheduler']}"]
    told += [f"configuration {one['config']}"] if one["config"] else []
    told += [f"isolation {one['isolation']}"]
    told += [f"version {one['version']}"] if one["version"] else []
    told += ["the reference"] if one["reference"] else []
    return f"{', '.join(told)}."
