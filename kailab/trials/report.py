"""Render a trial's outcome: plain values for JSON, a text table, Markdown, JUnit XML and HTML."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jinja2
import msgspec
from msgspec import to_builtins

from kailab.errors import EvidenceError
from kailab.evidence.store import load_test
from kailab.model.markup import Markup, bold, code, escape_markup, italic, markdown_table
from kailab.model.multimap import multimap
from kailab.trials.differences import describe_first_decision, format_verdict, ratio
from kailab.trials.outcome import TrialOutcome, TrialRow
from kailab.trials.results import TestResult


def report_data(outcome: TrialOutcome) -> dict[str, Any]:
    """The outcome as plain values.

    ``counts``: of verdicts, by subject and column. ``differing``: by row and column, with both sides' evidence, the
    first decision that differs, and the reason of an accepted difference. ``errors``: tests that could not be run, by
    column; they are no differences.
    """
    return {
        "trial": outcome.trial.name,
        "folder": str(outcome.folder),
        "same": outcome.same,
        "complete": outcome.complete,
        "columns": report_columns(outcome),
        "counts": to_builtins(count_verdicts(outcome)),
        "rows": [_row(outcome, row) for row in outcome.rows],
        "differing": list(differing(outcome)),
        "errors": list(_errors(outcome)),
        "staleBaseline": [str(entry) for entry in outcome.stale],
    }


def report_columns(outcome: TrialOutcome) -> list[dict[str, Any]]:
    """The contender and isolation of each column, in order."""
    return [
        {"name": name, "scheduler": contender.scheduler, "config": contender.config, "isolation": isolation,
         "version": _version(outcome, name), "reference": outcome.reference_of(name) == name}
        for name, contender, isolation in outcome.trial.columns()
    ]  # fmt: skip


def _version(outcome: TrialOutcome, column: str) -> str:
    """The scheduler's version as its first lab's evidence has it; empty if unknown."""
    for row in outcome.rows:
        path = row.evidence(column)
        if path is None:
            continue
        with suppress(EvidenceError):
            for facts in load_test(path.parent.parent, "/".join(path.parts[-2:])).labs.values():
                return facts.versions.get("scheduler", "")
    return ""


def _row(outcome: TrialOutcome, row: TrialRow) -> dict[str, Any]:
    results = row.results
    return {
        "subject": row.subject,
        "test": row.test,
        "results": {
            column: {
                "verdict": result.verdict,
                "concept": result.concept,
                "message": result.message,
                "why": _first_words(result.message),
                "seconds": result.seconds,
                "times": times(outcome, row, column),
                "evidence": str(row.evidence(column) or ""),
            }
            for column, result in results.items()
        },
    }


def _errors(outcome: TrialOutcome) -> Iterator[dict[str, Any]]:
    for column, test, message in outcome.errors:
        accepted = outcome.accepts_error(column, test)
        yield {"test": test, "column": column, "message": message, "accepted": accepted.reason if accepted else None}


def times(outcome: TrialOutcome, row: TrialRow, column: str) -> list[dict[str, Any]]:
    """For each phase, the seconds until the last pod was placed, and the ratio to the reference's."""
    results = row.results
    here, reference = results[column], results[outcome.reference_of(column)]
    phases = []
    for lab, measured in here.labs.items():
        other = reference.labs.get(lab)
        for number, phase in enumerate(measured.phases):
            left = other.phases[number] if other is not None and number < len(other.phases) else None
            times_as_long = ratio(left, phase) if left is not None else None
            phases.append(
                {
                    "lab": lab,
                    "after": list(phase.operations),
                    "seconds": phase.seconds,
                    "ratio": None if times_as_long is None else round(times_as_long, 2),
                }
            )
    return phases


def differing(outcome: TrialOutcome) -> Iterator[dict[str, Any]]:
    """The differences, one entry for each test and column that differs."""
    rows = {row.test: row for row in outcome.rows}
    by_test_and_column: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for difference, accepted in outcome.all_differences:
        entry = {
            **to_builtins(difference),
            "text": str(difference),
            "accepted": accepted.reason if accepted else None,
        }
        by_test_and_column.setdefault((difference.test, difference.column), []).append(entry)
    for (test, column), differences in by_test_and_column.items():
        row, reference = rows[test], outcome.reference_of(column)
        yield {
            "test": test,
            "column": column,
            "reference": reference,
            "differences": differences,
            "firstDecision": describe_first_decision(row.evidence(reference), row.evidence(column)),
            "evidence": {name: str(row.evidence(name) or "") for name in (reference, column)},
            "messages": {name: row.results[name].message for name in (reference, column)},
        }


def report_table(outcome: TrialOutcome) -> tuple[list[str], list[list[str]]]:
    """Headers and rows: the verdict of each test in each column, with its mark; last, if a test did not pass, the reason."""
    marks = difference_marks(outcome)
    reasons = [failure_reason(row.results) for row in outcome.rows]
    rows = []
    for row, reason in zip(outcome.rows, reasons, strict=True):
        cells = [
            f"{format_verdict(result)} {marks.get((row.test, column), '')}".strip()
            for column, result in row.results.items()
        ]
        rows.append([row.test, *cells, *([reason] if any(reasons) else [])])
    headers = ["TEST", *(column.upper() for column in outcome.columns), *(["WHY"] if any(reasons) else [])]
    return headers, rows


def failure_reason(results: Mapping[str, TestResult]) -> str:
    """Why a test failed or was skipped, in one line, with the columns that it holds for unless the test did so in all."""
    by_reason = multimap(
        (_first_words(result.message), column)
        for column, result in results.items()
        if result.verdict in ("failed", "skipped") and result.message
    )
    return "; ".join(
        reason if len(columns) == len(results) else f"{', '.join(columns)}: {reason}"
        for reason, columns in by_reason.items()
        if reason
    )


def _first_words(message: str) -> str:
    """The first line of a message; of a failed expectation also what was expected and what was seen."""
    lines = [" ".join(line.split()) for line in message.splitlines() if line.strip()]
    return "; ".join([*lines[:1], *(line for line in lines[1:3] if line.startswith(("expected ", "seen ")))])


def difference_marks(outcome: TrialOutcome) -> dict[tuple[str, str], str]:
    """Marks by test and column: ``=`` if nothing differs from the reference, ``~`` if all differences are accepted,
    otherwise ``!``.

    The reference has no marks, nor have tests that were not run on one of the two sides.
    """
    compared = [(column, first) for column in outcome.columns if (first := outcome.reference_of(column)) != column]
    marks: dict[tuple[str, str], str] = {}
    for row in outcome.rows:
        ran = {column for column, result in row.results.items() if result.verdict != "error"}
        marks |= {(row.test, column): "=" for column, first in compared if {column, first} <= ran}
    for difference, accepted in outcome.all_differences:
        key = (difference.test, difference.column)
        if key in marks:
            marks[key] = "!" if accepted is None or marks[key] == "!" else "~"
    return marks


class VerdictCount(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Numbers of tests by verdict. ``not_run``: not run yet, or could not be run."""

    passed: int = 0
    failed: int = 0
    not_expressible: int = 0
    skipped: int = 0
    not_run: int = 0

    @property
    def ran(self) -> int:
        """Tests that passed or failed."""
        return self.passed + self.failed

    def __str__(self) -> str:
        others = {"not expressible": self.not_expressible, "not run": self.not_run}
        parts = [f"{self.passed} of {self.ran}"] if self.ran else []
        return ", ".join([*parts, *(f"{number} {label}" for label, number in others.items() if number)]) or "–"


def count_verdicts(outcome: TrialOutcome) -> dict[str, dict[str, VerdictCount]]:
    """Counts by subject and column, in the trial's order."""
    subjects = dict.fromkeys(row.subject for row in outcome.rows)
    return {
        subject: {
            column: format_counts(row.results[column] for row in outcome.rows if row.subject == subject)
            for column in outcome.columns
        }
        for subject in subjects
    }


def format_counts(results: Iterable[TestResult]) -> VerdictCount:
    counts = Counter(result.verdict for result in results)
    return VerdictCount(
        passed=counts["passed"],
        failed=counts["failed"],
        not_expressible=counts["not expressible"],
        skipped=counts["skipped"],
        not_run=counts["error"],
    )


_VERDICTS = {
    "passed": escape_markup("passed"),
    "failed": bold("failed"),
    "skipped": escape_markup("–"),
    "error": escape_markup("not run"),
}


def render_markdown(outcome: TrialOutcome) -> str:
    """Two tables with a column for each contender: tests passed of those that ran, by subject; and each test's
    verdict."""
    columns = outcome.columns
    return "\n".join(
        [
            markdown_table(["passed, of those that ran", *columns], _counts(outcome)),
            "",
            markdown_table(["test", *columns, *(["why"] if _any_reason(outcome) else [])], _verdicts(outcome)),
        ]
    )


def _counts(outcome: TrialOutcome) -> list[Sequence[object]]:
    return [[code(subject), *row.values()] for subject, row in count_verdicts(outcome).items()]


def _verdicts(outcome: TrialOutcome) -> list[Sequence[object]]:
    marks, explained = difference_marks(outcome), _any_reason(outcome)
    return [
        [
            code(row.test),
            *(_cell(result, marks.get((row.test, column), "")) for column, result in row.results.items()),
            *([failure_reason(row.results)] if explained else []),
        ]
        for row in outcome.rows
    ]


def _any_reason(outcome: TrialOutcome) -> bool:
    return any(failure_reason(row.results) for row in outcome.rows)


def _cell(result: TestResult, mark: str) -> Markup:
    verdict = italic(result.concept) if result.concept else _VERDICTS.get(result.verdict, escape_markup(result.verdict))
    return Markup(f"{verdict} {mark}".strip())


_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold, even escaped."""


def render_junit(data: dict[str, Any]) -> bytes:
    """JUnit XML: a suite for each column and a case for each test, which fails if it differs. ``data``: from
    ``report_data``."""
    root = ElementTree.Element("testsuites", name=data["trial"])
    differing = {(entry["test"], entry["column"]): entry for entry in data["differing"]}
    accepted_errors = {(entry["test"], entry["column"]): entry["accepted"] for entry in data["errors"]}
    for column in data["columns"]:
        _suite(root, data, column, differing, accepted_errors)
    ElementTree.indent(root)
    content: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return content + b"\n"


def _suite(
    root: Any, data: dict[str, Any], column: dict[str, Any], differing: dict[Any, Any], accepted_errors: dict[Any, Any]
) -> None:
    name = column["name"]
    suite = ElementTree.SubElement(root, "testsuite", name=name)
    failures = errors = skipped = 0
    for row in data["rows"]:
        result = row["results"][name]
        case = ElementTree.SubElement(
            suite, "testcase", classname=f"{data['trial']}.{name}", name=row["test"], time=f"{result['seconds']:g}"
        )
        entry = differing.get((row["test"], name), {})
        open_ones = [
            difference["text"] for difference in entry.get("differences", ()) if difference["accepted"] is None
        ]
        accepted = [difference for difference in entry.get("differences", ()) if difference["accepted"] is not None]
        if result["verdict"] == "error" and (reason := accepted_errors.get((row["test"], name))):
            skipped += 1
            ElementTree.SubElement(case, "skipped", message=_xml_text(f"could not be run, as accepted: {reason}"))
        elif result["verdict"] == "error":
            errors += 1
            ElementTree.SubElement(case, "error", message="it could not be run").text = _xml_text(result["message"])
        elif open_ones:
            failures += 1
            lines = [*open_ones, *([entry["firstDecision"]] if entry["firstDecision"] else [])]
            lines += [f"evidence of {side}: {path}" for side, path in entry["evidence"].items() if path]
            message = _xml_text(f"differs from {entry['reference']}: {open_ones[0]}")
            ElementTree.SubElement(case, "failure", message=message).text = _xml_text("\n".join(lines))
        elif accepted:
            skipped += 1
            reasons = "; ".join(dict.fromkeys(difference["accepted"] for difference in accepted))
            ElementTree.SubElement(case, "skipped", message=_xml_text(f"differs, as accepted: {reasons}"))
    for attribute, number in (
        ("tests", len(data["rows"])), ("failures", failures), ("errors", errors), ("skipped", skipped)
    ):  # fmt: skip
        suite.set(attribute, str(number))


def _xml_text(text: str) -> str:
    """The text with ``?`` for characters that XML cannot hold."""
    return _NOT_IN_XML.sub("?", text)


def render_html(data: dict[str, Any]) -> str:
    """A self-contained HTML file. ``data``: from ``report_data``."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
        autoescape=True,
    )
    differing = {(entry["test"], entry["column"]): entry for entry in data["differing"]}
    return environment.get_template("page.html.j2").render(trial=data, differing=differing)
