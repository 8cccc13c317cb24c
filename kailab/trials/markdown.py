"""A trial as Markdown, for a document, a merge request or the summary of a CI run: what was counted, and every verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kailab.trials import telling
from kailab.trials.counting import counts
from kailab.trials.outcome import Outcome
from kailab.trials.results import TestResult

_VERDICTS = {"passed": "passed", "failed": "**failed**", "skipped": "–", "error": "not run"}


def render(outcome: Outcome) -> str:
    """Two tables with a column for each contender: passed of those that ran, by subject; and each test's verdict."""
    return "\n".join(
        [*_table("passed, of those that ran", *_counts(outcome)), "", *_table("test", *_verdicts(outcome))]
    )


def _counts(outcome: Outcome) -> tuple[Sequence[str], list[list[str]]]:
    found = counts(outcome)
    return outcome.columns, [[f"`{subject}`", *map(str, row.values())] for subject, row in found.items()]


def _verdicts(outcome: Outcome) -> tuple[Sequence[str], list[list[str]]]:
    marks = telling.marks(outcome)
    rows = [
        [f"`{row.test}`", *(_cell(result, marks.get((row.test, column), "")) for column, result in row.results.items())]
        for row in outcome.rows
    ]
    return outcome.columns, rows


def _cell(result: TestResult, mark: str) -> str:
    told = f"*{result.concept}*" if result.concept else _VERDICTS.get(result.verdict, result.verdict)
    return f"{told} {mark}".strip()


def _table(first: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    for row in ([first, *columns], ["---"] * (len(columns) + 1), *rows):
        # A vertical bar would end its cell.
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"
