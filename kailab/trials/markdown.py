"""A trial as Markdown, for a document, a merge request or the summary of a CI run: what was counted, and every verdict."""

from __future__ import annotations

from collections.abc import Sequence

from kailab.model.markup import Markup, bold, code, italic, markdown_table, plain
from kailab.trials import telling
from kailab.trials.counting import counts
from kailab.trials.outcome import Outcome
from kailab.trials.results import TestResult

_VERDICTS = {"passed": plain("passed"), "failed": bold("failed"), "skipped": plain("–"), "error": plain("not run")}


def render(outcome: Outcome) -> str:
    """Two tables with a column for each contender: passed of those that ran, by subject; and each test's verdict."""
    columns = outcome.columns
    return "\n".join(
        [
            markdown_table(["passed, of those that ran", *columns], _counts(outcome)),
            "",
            markdown_table(["test", *columns], _verdicts(outcome)),
        ]
    )


def _counts(outcome: Outcome) -> list[Sequence[object]]:
    return [[code(subject), *row.values()] for subject, row in counts(outcome).items()]


def _verdicts(outcome: Outcome) -> list[Sequence[object]]:
    marks = telling.marks(outcome)
    return [
        [code(row.test), *(_cell(result, marks.get((row.test, column), "")) for column, result in row.results.items())]
        for row in outcome.rows
    ]


def _cell(result: TestResult, mark: str) -> Markup:
    told = italic(result.concept) if result.concept else _VERDICTS.get(result.verdict, plain(result.verdict))
    return Markup(f"{told} {mark}".strip())
