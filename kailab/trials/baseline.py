"""Differences that are known and accepted, each with its reason, so that a trial serves in CI.

accepted:
- contender: kube-scheduler      # a column; * stands for any text, here and in test
  test: quota/*
  kind: outcome                  # leave it out for every kind
  what: "team-*"                 # of which app or queue; leave it out for all
  reason: it knows no queues
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from kailab.errors import InputError, InputErrors, Where
from kailab.model.files import read_text
from kailab.model.manifests import line_of
from kailab.model.schema_faults import faults
from kailab.model.yamltext import read_documents
from kailab.trials.comparing import Difference


@dataclass(frozen=True)
class Accepted:
    """``line``: of the file."""

    contender: str
    test: str
    reason: str
    kind: str = ""
    what: str = "*"
    line: int = 0

    def holds_for(self, one: Difference) -> bool:
        return (
            fnmatchcase(one.column, self.contender)
            and fnmatchcase(one.test, self.test)
            and self.kind in ("", one.kind)
            and fnmatchcase(one.what, self.what)
        )

    def __str__(self) -> str:
        kind = f" {self.kind}" if self.kind else ""
        what = f" of {self.what}" if self.what != "*" else ""
        return f"{self.contender}: {self.test}{kind}{what} ({self.reason})"


@dataclass(frozen=True)
class Baseline:
    accepted: tuple[Accepted, ...] = ()

    def accepts(self, one: Difference) -> Accepted | None:
        return next((accepted for accepted in self.accepted if accepted.holds_for(one)), None)


@cache
def schema() -> dict[str, Any]:
    """The JSON schema of the file."""
    loaded: dict[str, Any] = json.loads(Path(__file__).with_name("baseline.schema.json").read_text("utf-8"))
    return loaded


def read_baseline(path: Path) -> Baseline:
    """Raises InputError, or InputErrors with every fault of the file."""
    documents = list(read_documents(read_text(path), str(path)))
    if len(documents) != 1:
        raise InputError(f"{len(documents)} documents; expected one with the key accepted", Where(file=str(path)))
    value, lines = documents[0]
    errors = [
        InputError(message, Where(str(path), line_of(lines, field), "baseline", field))
        for field, message in faults(value, schema())
    ]
    if errors:
        raise errors[0] if len(errors) == 1 else InputErrors(errors)
    return Baseline(
        tuple(
            Accepted(**entry, line=line_of(lines, f"accepted[{number}]"))
            for number, entry in enumerate(value["accepted"])
        )
    )
