"""Warnings of ``lab.apply`` as warnings of pytest: in its summary, with the line of the test. Imported when a lab is used."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

from kailab.evidence.entries import SourceLine
from kailab.scheduler.observers import Observer


class ApplyWarning(pytest.PytestWarning):
    """``-W error::kailab.pytest_plugin.apply_warnings.ApplyWarning`` lets a test fail at it."""


class WarningReporter(Observer):
    """Passes warnings of ``lab.apply`` on to pytest. ``here``: the line of the test."""

    def __init__(self, here: Callable[[], SourceLine | None]) -> None:
        self._here = here

    def on_step(self, operation: str, text: str = "", *, state: bool = False, **detail: Any) -> None:
        given = detail.get("warnings", ()) if operation == "apply" else ()
        if not given:
            return
        at = self._here()
        file, line = ("kailab", 0) if at is None else (at.file, at.line)
        for warning in given:
            warnings.warn_explicit(ApplyWarning(f"lab.apply: {warning}"), None, file, line)
