"""How a trial came out, as plain values: what text, JSON, JUnit and HTML are made of."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jinja2
import msgspec
from msgspec import to_builtins

from kailab.errors import EvidenceError
from kailab.evidence.store import load_test
from kailab.model.markup import Markup, bold, code, italic, markdown_table, plain
from kailab.trials.differences import describe_first_decision as decision_told
from kailab.trials.differences import format_verdict as verdict_told
from kailab.trials.differences import ratio
from kailab.trials.outcome import TrialOutcome, TrialRow
from kailab.trials.results import TestResult


def report_data(outcome: TrialOutcome) -> dict[str, Any]:
    """``counts``: of verdicts, by subject and column. ``differences``: by row and column, each with both sides' evidence, the first decision that differs, and the reason for which
    it is accepted, if it is."""
    return {
        "trial": outcome.trial.name,
        "folder": str(outcome.folder),
        "same": outcome.same,
        "complete": outcome.complete,
        "columns": report_columns(outcome),
        "counts": to_builtins(count_verdicts(outcome)),
        "rows": [_row(outcome, row) for row in outcome.rows],
        "differing": list(differing(outcome)),
        "staleBaseline": [str(one) for one in outcome.stale],
    }


def report_columns(outcome: TrialOutcome) -> list[dict[str, Any]]:
    """What each contender is, in each isolation; in their order."""
    return [
        {"name": name, "scheduler": one.scheduler, "config": one.config, "isolation": isolation,
         "version": _version(outcome, name), "reference": outcome.reference_of(name) == name}
        for name, one, isolation in outcome.trial.columns()
    ]  # fmt: skip


def _version(outcome: TrialOutcome, column: str) -> str:
    """Of the scheduler under test, as its first lab's evidence has it; empty: nothing is known."""
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
                "seconds": result.seconds,
                "times": times(outcome, row, column),
                "evidence": str(row.evidence(column) or ""),
            }
            for column, result in results.items()
        },
    }


def times(outcome: TrialOutcome, row: TrialRow, column: str) -> list[dict[str, Any]]:
    """Phase by phase: seconds until the last pod had its place, and how many times as long as the reference's."""
    results = row.results
    here, reference = results[column], results[outcome.reference_of(column)]
    found = []
    for lab, measured in here.labs.items():
        other = reference.labs.get(lab)
        for number, phase in enumerate(measured.phases):
            left = other.phases[number] if other is not None and number < len(other.phases) else None
            times_as_long = ratio(left, phase) if left is not None else None
            found.append(
                {
                    "lab": lab,
                    "after": list(phase.operations),
                    "seconds": phase.seconds,
                    "ratio": None if times_as_long is None else round(times_as_long, 2),
                }
            )
    return found


def differing(outcome: TrialOutcome) -> Iterator[dict[str, Any]]:
    """What differs, a test of a column at a time."""
    rows = {row.test: row for row in outcome.rows}
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for one, accepted in outcome.all_differences:
        entry = {
            **to_builtins(one),
            "text": str(one),
            "accepted": accepted.reason if accepted else None,
        }
        found.setdefault((one.test, one.column), []).append(entry)
    for (test, column), differences in found.items():
        row, reference = rows[test], outcome.reference_of(column)
        yield {
            "test": test,
            "column": column,
            "reference": reference,
            "differences": differences,
            "firstDecision": decision_told(row.evidence(reference), row.evidence(column)),
            "evidence": {name: str(row.evidence(name) or "") for name in (reference, column)},
            "messages": {name: row.results[name].message for name in (reference, column)},
        }


def report_table(outcome: TrialOutcome) -> tuple[list[str], list[list[str]]]:
    """Headers and rows: the verdict of each test in each column, with its mark."""
    found = difference_marks(outcome)
    rows = []
    for row in outcome.rows:
        cells = [
            f"{verdict_told(result)} {found.get((row.test, column), '')}".strip()
            for column, result in row.results.items()
        ]
        rows.append([row.test, *cells])
    return ["TEST", *(column.upper() for column in outcome.columns)], rows


def difference_marks(outcome: TrialOutcome) -> dict[tuple[str, str], str]:
    """By test and column, none for the reference, and none where one of the two was not run: ``=`` where nothing else differs from the
    reference, ``~`` where all that differs is accepted, ``!`` else."""
    compared = [(column, first) for column in outcome.columns if (first := outcome.reference_of(column)) != column]
    found: dict[tuple[str, str], str] = {}
    for row in outcome.rows:
        ran = {column for column, result in row.results.items() if result.verdict != "error"}
        found |= {(row.test, column): "=" for column, first in compared if {column, first} <= ran}
    for one, accepted in outcome.all_differences:
        key = (one.test, one.column)
        if key in found:
            found[key] = "!" if accepted is None or found[key] == "!" else "~"
    return found


# How many tests of each subject came to which verdict, column by column.


class VerdictCount(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
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


def count_verdicts(outcome: TrialOutcome) -> dict[str, dict[str, VerdictCount]]:
    """By subject and column, each subject once, in the trial's order."""
    subjects = dict.fromkeys(row.subject for row in outcome.rows)
    return {
        subject: {
            column: format_counts(row.results[column] for row in outcome.rows if row.subject == subject)
            for column in outcome.columns
        }
        for subject in subjects
    }


def format_counts(results: Iterable[TestResult]) -> VerdictCount:
    found = Counter(one.verdict for one in results)
    return VerdictCount(
        passed=found["passed"],
        failed=found["failed"],
        not_expressible=found["not expressible"],
        skipped=found["skipped"],
        not_run=found["error"],
    )


# A trial as Markdown, for a document, a merge request or the summary of a CI run: what was counted, and every verdict.

_VERDICTS = {"passed": plain("passed"), "failed": bold("failed"), "skipped": plain("–"), "error": plain("not run")}


def render_markdown(outcome: TrialOutcome) -> str:
    """Two tables with a column for each contender: passed of those that ran, by subject; and each test's verdict."""
    columns = outcome.columns
    return "\n".join(
        [
            markdown_table(["passed, of those that ran", *columns], _counts(outcome)),
            "",
            markdown_table(["test", *columns], _verdicts(outcome)),
        ]
    )


def _counts(outcome: TrialOutcome) -> list[Sequence[object]]:
    return [[code(subject), *row.values()] for subject, row in count_verdicts(outcome).items()]


def _verdicts(outcome: TrialOutcome) -> list[Sequence[object]]:
    marks = difference_marks(outcome)
    return [
        [code(row.test), *(_cell(result, marks.get((row.test, column), "")) for column, result in row.results.items())]
        for row in outcome.rows
    ]


def _cell(result: TestResult, mark: str) -> Markup:
    told = italic(result.concept) if result.concept else _VERDICTS.get(result.verdict, plain(result.verdict))
    return Markup(f"{told} {mark}".strip())


# A trial as JUnit's XML: a suite for each column but the reference's, a case for each test, failed where it differs.

# What XML 1.0 can't hold, even escaped.
_UNFIT = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render_junit(told: dict[str, Any]) -> bytes:
    """``told``: see ``telling.data``."""
    root = ElementTree.Element("testsuites", name=told["trial"])
    differing = {(one["test"], one["column"]): one for one in told["differing"]}
    for column in told["columns"]:
        _suite(root, told, column, differing)
    ElementTree.indent(root)
    content: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return content + b"\n"


def _suite(root: Any, told: dict[str, Any], column: dict[str, Any], differing: dict[Any, Any]) -> None:
    name = column["name"]
    suite = ElementTree.SubElement(root, "testsuite", name=name)
    failures = errors = skipped = 0
    for row in told["rows"]:
        result = row["results"][name]
        case = ElementTree.SubElement(
            suite, "testcase", classname=f"{told['trial']}.{name}", name=row["test"], time=f"{result['seconds']:g}"
        )
        found = differing.get((row["test"], name), {})
        open_ones = [one["text"] for one in found.get("differences", ()) if one["accepted"] is None]
        accepted = [one for one in found.get("differences", ()) if one["accepted"] is not None]
        if result["verdict"] == "error" and not (accepted and not open_ones):
            errors += 1
            _say(ElementTree.SubElement(case, "error", message="it could not be run"), result["message"])
        elif open_ones:
            failures += 1
            lines = [*open_ones, *([found["firstDecision"]] if found["firstDecision"] else [])]
            lines += [f"evidence of {side}: {path}" for side, path in found["evidence"].items() if path]
            message = _fit(f"differs from {found['reference']}: {open_ones[0]}")
            _say(ElementTree.SubElement(case, "failure", message=message), "\n".join(lines))
        elif accepted:
            skipped += 1
            reasons = "; ".join(dict.fromkeys(one["accepted"] for one in accepted))
            ElementTree.SubElement(case, "skipped", message=_fit(f"differs, as accepted: {reasons}"))
    for attribute, number in (
        ("tests", len(told["rows"])), ("failures", failures), ("errors", errors), ("skipped", skipped)
    ):  # fmt: skip
        suite.set(attribute, str(number))


def _say(element: Any, text: str) -> None:
    element.text = _fit(text)


def _fit(text: str) -> str:
    return _UNFIT.sub("?", text)


# A trial as one HTML file that stands by itself.


def render_html(told: dict[str, Any]) -> str:
    """``told``: see ``telling.data``."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
        autoescape=True,
    )
    differing = {(one["test"], one["column"]): one for one in told["differing"]}
    return environment.get_template("page.html.j2").render(told=told, differing=differing)
