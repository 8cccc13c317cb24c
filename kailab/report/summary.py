"""A run's evidence as a page of text or Markdown. All of it comes from the folder: nothing is run again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2

from kailab.errors import InputError
from kailab.evidence import store
from kailab.evidence.entries import Reason
from kailab.evidence.store import TestEvidence

FORMATS = {"text": "run.txt.j2", "markdown": "run.md.j2"}


def render(run: Path, format: str = "text") -> str:
    """The report of a run's folder. Raises InputError for an unknown format, EvidenceError."""
    if format not in FORMATS:
        raise InputError(f"there is no report format {format!r}; expected one of: {', '.join(FORMATS)}")
    summary, tests = store.show(run)
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # text and Markdown, not HTML
    )
    exercises: dict[str, list[dict[str, Any]]] = {}
    for test in tests:
        exercises.setdefault(test.name.partition("/")[0], []).append(_told(test))
    return environment.get_template(FORMATS[format]).render(run=summary, exercises=exercises)


def _told(test: TestEvidence) -> dict[str, Any]:
    return {
        "name": test.name.partition("/")[2],
        "outcome": test.outcome,
        "message": test.result.message,
        "labs": [
            {
                "name": lab,
                "facts": facts,
                "expectations": test.expectations(lab),
                "pending": _by_reason(test.pending(lab)),
                "timeline": test.text(lab, "timeline.txt"),
            }
            for lab, facts in test.labs.items()
        ],
    }


def _by_reason(pending: list[Reason]) -> list[dict[str, Any]]:
    """Pod groups that wait in one queue for one reason, told once."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for entry in pending:
        key = (entry.queue, entry.reason)
        told = found.setdefault(
            key, {"queue": key[0], "reason": key[1], "message": " ".join(entry.message.split()), "count": 0}
        )
        told["count"] += 1
    return list(found.values())
