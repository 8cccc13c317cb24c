"""Differences that are known and accepted, each with its reason, so that a trial serves in CI.

accepted:
- contender: kube-scheduler      # a column; * stands for any text, here and in test
  test: quota/*
  kind: outcome                  # leave it out for every kind
  what: "team-*"                 # of which app or queue; leave it out for all
  reason: it knows no queues
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from kailab.errors import InputError, InputErrors, Where
from kailab.model.files import read_text
from kailab.model.manifests import line_of
from kailab.model.schema_files import find_schema_faults, read_schema
from kailab.model.yamltext import read_document
from kailab.trials.comparing import Difference

_SCHEMA = Path(__file__).with_name("baseline.schema.json")


@dataclass(frozen=True)
class Accepted:
    """``line``: of the file; it has no part in whether two are equal."""

    contender: str
    test: str
    reason: str
    kind: str = ""
    what: str = "*"
    line: int = field(default=0, compare=False)

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


def read_baseline(path: Path) -> Baseline:
    """Raises InputError, or InputErrors with every fault of the file."""
    return parse_baseline(read_text(path), str(path))


def parse_baseline(text: str, file: str) -> Baseline:
    """``file``: the name that faults are told with. Raises as ``read_baseline``."""
    value, lines = read_document(text, file, "one with the key accepted")
    errors = [
        InputError(message, Where(file, line_of(lines, name), "baseline", name))
        for name, message in find_schema_faults(value, read_schema(_SCHEMA))
    ]
    if errors:
        raise InputErrors.of(errors)
    return Baseline(
        tuple(
            Accepted(**entry, line=line_of(lines, f"accepted[{number}]"))
            for number, entry in enumerate(value["accepted"])
        )
    )
