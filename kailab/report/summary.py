"""A run's evidence as a page of text, or as short Markdown for CI. All of it comes from the folder: nothing is run again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2

from kailab.errors import InputError
from kailab.evidence import store
from kailab.evidence.entries import PendingReason
from kailab.evidence.store import TestEvidence
from kailab.model.markup import Markup, bold, code, fenced, plain

FORMATS = {"text": "run.txt.j2", "markdown": "run.md.j2"}

BAD = {"failed", "interrupted", "xpassed", "error"}
"""Outcomes of tests that somebody has to look at; of these Markdown tells more than a row."""

_IN_FULL = 30
"""Such tests of which Markdown tells more than a row: a CI run's summary takes 1 MiB at most."""

_MOST = 4000
"""Characters of a failure's message in Markdown: the rest is in JUnit and in the evidence."""


def render(run: Path, format: str = "text") -> str:
    """The report of a run's folder. Raises InputError for an unknown format, EvidenceError."""
    if format not in FORMATS:
        raise InputError(f"there is no report format {format!r}; expected one of: {', '.join(FORMATS)}")
    summary, tests = store.read_run(run)
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # text and Markdown, not HTML
        # Whatever a template of Markdown puts in is text, unless a filter made markup of it.
        finalize=plain if format == "markdown" else None,
    )
    environment.filters |= {"bold": bold, "code": code, "fenced": _fenced}
    exercises: dict[str, list[dict[str, Any]]] = {}
    for test in tests:
        exercises.setdefault(test.name.partition("/")[0], []).append(_told(test))
    every = [test for told in exercises.values() for test in told]
    return environment.get_template(FORMATS[format]).render(
        run=summary,
        exercises=exercises,
        looked_at=[test for test in every if test["bad"]],
        in_full=_IN_FULL,
        held=sum(test["held"] for test in every),
        expected=sum(test["expected"] for test in every),
    )


def _told(test: TestEvidence) -> dict[str, Any]:
    found = {lab: test.expectations(lab) for lab in test.labs}
    labs = [
        {
            "name": lab,
            "facts": facts,
            "expectations": found[lab],
            "pending": _by_reason(test.pending(lab)),
        }
        for lab, facts in test.labs.items()
    ]
    expectations = [entry for entries in found.values() for entry in entries]
    return {
        "whole": test.name,
        "name": test.name.partition("/")[2],
        "outcome": test.outcome,
        "bad": test.outcome in BAD,
        "message": test.result.message,
        "reason": test.result.reason,
        "source": test.result.source,
        "sentence": test.result.sentence,
        "expected": len(expectations),
        "held": sum(entry.held for entry in expectations),
        "labs": labs,
    }


def _fenced(text: str) -> Markup:
    """Cut where it is long."""
    left = len(text) - _MOST
    return fenced(text if left <= 0 else f"{text[:_MOST]}\n... and {left} characters more")


def _by_reason(pending: list[PendingReason]) -> list[dict[str, Any]]:
    """Pod groups that wait in one queue for one reason, told once."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for entry in pending:
        key = (entry.queue, entry.reason)
        told = found.setdefault(
            key, {"queue": key[0], "reason": key[1], "message": " ".join(entry.message.split()), "count": 0}
        )
        told["count"] += 1
    return list(found.values())
