"""Warnings of ``lab.apply`` and notices about a scheduler's configuration as pytest warnings: its summary lists them with the line of the test.

This module is imported when a lab is used."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from kailab.errors import ApplyWarning, ConfigurationWarning
from kailab.evidence.entries import SourceLine
from kailab.scheduler.observers import Observer


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


def warn_of_configuration(notices: Iterable[str], item: pytest.Item) -> None:
    """Pass the notices of the scheduler's configuration of a test on to pytest."""
    # A class or module that shares a lab has no line.
    file, line, _ = getattr(item, "location", (item.nodeid, None, ""))
    for notice in notices:
        warnings.warn_explicit(ConfigurationWarning(notice), None, file, (line or 0) + 1)
