"""How a trial came out, as plain values: what text, JSON, JUnit and HTML are made of."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from msgspec import to_builtins

from kailab.errors import EvidenceError
from kailab.evidence.store import load_test
from kailab.trials.comparing import ratio
from kailab.trials.comparing import told as verdict_told
from kailab.trials.counting import counts
from kailab.trials.first_decision import told as decision_told
from kailab.trials.outcome import Outcome, Row


def data(outcome: Outcome) -> dict[str, Any]:
    """``counts``: of verdicts, by subject and column. ``differences``: by row and column, each with both sides' evidence, the first decision that differs, and the reason for which
    it is accepted, if it is."""
    return {
        "trial": outcome.trial.name,
        "folder": str(outcome.folder),
        "same": outcome.same,
        "complete": outcome.complete,
        "columns": columns(outcome),
        "counts": to_builtins(counts(outcome)),
        "rows": [_row(outcome, row) for row in outcome.rows],
        "differing": list(differing(outcome)),
        "staleBaseline": [str(one) for one in outcome.stale],
    }


def columns(outcome: Outcome) -> list[dict[str, Any]]:
    """What each contender is, in each isolation; in their order."""
    return [
        {"name": name, "scheduler": one.scheduler, "config": one.config, "isolation": isolation,
         "version": _version(outcome, name), "reference": outcome.reference_of(name) == name}
        for name, one, isolation in outcome.trial.columns()
    ]  # fmt: skip


def _version(outcome: Outcome, column: str) -> str:
    """Of the scheduler under test, as its first lab's evidence has it; empty: nothing is known."""
    for row in outcome.rows:
        path = row.evidence(column)
        if path is None:
            continue
        with suppress(EvidenceError):
            for facts in load_test(path.parent.parent, "/".join(path.parts[-2:])).labs.values():
                return facts.versions.get("scheduler", "")
    return ""


def _row(outcome: Outcome, row: Row) -> dict[str, Any]:
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


def times(outcome: Outcome, row: Row, column: str) -> list[dict[str, Any]]:
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


def differing(outcome: Outcome) -> Iterator[dict[str, Any]]:
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


def table(outcome: Outcome) -> tuple[list[str], list[list[str]]]:
    """Headers and rows: the verdict of each test in each column, with its mark."""
    found = marks(outcome)
    rows = []
    for row in outcome.rows:
        cells = [
            f"{verdict_told(result)} {found.get((row.test, column), '')}".strip()
            for column, result in row.results.items()
        ]
        rows.append([row.test, *cells])
    return ["TEST", *(column.upper() for column in outcome.columns)], rows


def marks(outcome: Outcome) -> dict[tuple[str, str], str]:
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
