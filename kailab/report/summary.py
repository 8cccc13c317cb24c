"""Render a run's evidence as text or as short Markdown for CI. Everything is read from the folder; nothing is run
again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2

from kailab.engine.snapshot.records import GPU
from kailab.errors import InputError
from kailab.evidence import store
from kailab.evidence.entries import PendingReason
from kailab.evidence.model_use import use_by_model
from kailab.evidence.store import TestEvidence
from kailab.model.markup import Markup, bold, code, escape_markup, fenced
from kailab.model.multimap import multimap
from kailab.model.objects import name_of

FORMATS = {"text": "run.txt.j2", "markdown": "run.md.j2"}

BAD = {"failed", "interrupted", "xpassed", "error"}
"""Outcomes that need attention; Markdown shows details of these."""

_IN_FULL = 30
"""Number of tests with details in Markdown, because the summary of a CI run is limited to 1 MiB."""

_MOST = 4000
"""Maximum characters of a failure message in Markdown; JUnit and the evidence have the rest."""


def render(run: Path, format: str = "text") -> str:
    """Render the report of a run's folder. Raises InputError for an unknown format, EvidenceError."""
    if format not in FORMATS:
        raise InputError(f"unknown report format {format!r}; expected one of: {', '.join(FORMATS)}")
    summary, tests = store.read_run(run)
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # text and Markdown, not HTML
        # Escape values in Markdown unless a filter has made markup of them.
        finalize=escape_markup if format == "markdown" else None,
    )
    environment.filters |= {"bold": bold, "code": code, "fenced": _fenced}
    exercises = multimap((test.name.partition("/")[0], _test_data(test)) for test in tests)
    every = [test for tests_data in exercises.values() for test in tests_data]
    return environment.get_template(FORMATS[format]).render(
        run=summary,
        exercises=exercises,
        looked_at=[test for test in every if test["bad"]],
        in_full=_IN_FULL,
        warnings=_tests_by_warning(every),
        held=sum(test["held"] for test in every),
        expected=sum(test["expected"] for test in every),
    )


def _test_data(test: TestEvidence) -> dict[str, Any]:
    expectations_by_lab = {lab: test.expectations(lab) for lab in test.labs}
    labs = [
        {
            "name": lab,
            "facts": facts,
            "expectations": expectations_by_lab[lab],
            "warnings": [(step.title, text) for step in test.steps(lab) for text in step.warnings],
            "pending": _by_reason(test.pending(lab)),
            "models": _by_model(test, lab),
        }
        for lab, facts in test.labs.items()
    ]
    expectations = [entry for entries in expectations_by_lab.values() for entry in entries]
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


def _tests_by_warning(tests: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Warning -> the tests in which it was given; many tests apply the same manifests."""
    found: dict[str, dict[str, None]] = {}
    for test in tests:
        for _, text in (entry for lab in test["labs"] for entry in lab["warnings"]):
            found.setdefault(" ".join(text.split()), {})[test["whole"]] = None
    return {text: list(names) for text, names in found.items()}


def _fenced(text: str) -> Markup:
    """A code block, cut if the text is long."""
    surplus = len(text) - _MOST
    return fenced(text if surplus <= 0 else f"{text[:_MOST]}\n... and {surplus} characters more")


def _by_reason(pending: list[PendingReason]) -> list[dict[str, Any]]:
    """Combine PodGroups that wait in one queue for the same reason."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for entry in pending:
        key = (entry.queue, entry.reason)
        row = rows.setdefault(
            key, {"queue": key[0], "reason": key[1], "message": " ".join(entry.message.split()), "count": 0}
        )
        row["count"] += 1
    return list(rows.values())


def _by_model(test: TestEvidence, lab: str) -> list[dict[str, Any]]:
    """GPUs in use by model at the end of a lab; empty if there is one model, or the evidence has no state."""
    state = test.last_state(lab)
    if state is None:
        return []
    nodes = {name_of(node): node for node in test.objects(lab, "after", "nodes")}
    rows = {row.name: row for row in state.nodes}
    known = {name: node for name, node in nodes.items() if name in rows}
    used = {name: rows[name].milli_gpus_used for name in known}
    uses = use_by_model(known, used, lambda node: rows[name_of(node)].gpus * GPU)
    return [use.data() | {"title": use.title} for use in uses.values()] if len(uses) > 1 else []
