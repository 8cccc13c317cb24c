"""Differences that are known and accepted, each with its reason, so that a trial serves in CI.

accepted:
- contender: kube-scheduler      # a column; * stands for any text, here and in test
  test: quota/*
  kind: outcome                  # leave it out for every kind
  what: "team-*"                 # of which app or queue; leave it out for all
  reason: it knows no queues
"""

from __future__ import annotations

import glob
from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

import yaml

from kailab.errors import InputError, InputErrors, StateError, Where
from kailab.evidence.run import write_file
from kailab.model.files import read_text
from kailab.model.manifests import line_of
from kailab.model.schema_files import find_schema_faults, read_schema
from kailab.model.yamltext import read_document
from kailab.trials.differences import TrialDifference

_SCHEMA = Path(__file__).with_name("baseline.schema.json")


@dataclass(frozen=True)
class AcceptedDifference:
    """``line``: of the file; it has no part in whether two are equal."""

    contender: str
    test: str
    reason: str
    kind: str = ""
    what: str = "*"
    line: int = field(default=0, compare=False)

    def holds_for(self, one: TrialDifference) -> bool:
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
class AcceptedBaseline:
    accepted: tuple[AcceptedDifference, ...] = ()

    def accepts(self, one: TrialDifference) -> AcceptedDifference | None:
        return next((accepted for accepted in self.accepted if accepted.holds_for(one)), None)


def read_baseline(path: Path) -> AcceptedBaseline:
    """Raises InputError, or InputErrors with every fault of the file."""
    return parse_baseline(read_text(path), str(path))


def parse_baseline(text: str, file: str) -> AcceptedBaseline:
    """``file``: the name that faults are told with. Raises as ``read_baseline``."""
    value, lines = read_document(text, file, "one with the key accepted")
    errors = [
        InputError(message, Where(file, line_of(lines, name), "baseline", name))
        for name, message in find_schema_faults(value, read_schema(_SCHEMA))
    ]
    if errors:
        raise InputErrors.of(errors)
    return AcceptedBaseline(
        tuple(
            AcceptedDifference(**entry, line=line_of(lines, f"accepted[{number}]"))
            for number, entry in enumerate(value["accepted"])
        )
    )


# Differences of a trial written down as accepted, at the end of a baseline file.
#
# What stands in the file stays as it is, comments included.


def baseline_entries(
    found: Iterable[TrialDifference], reason: str, contender: str = "*", test: str = "*"
) -> list[AcceptedDifference]:
    """One for each kind and app or queue of each test. ``contender``, ``test``: only of those; * stands for any text."""
    chosen = (one for one in found if fnmatchcase(one.column, contender) and fnmatchcase(one.test, test))
    # A name is meant as it is, and not as a pattern.
    return list(
        dict.fromkeys(
            AcceptedDifference(
                contender=glob.escape(one.column),
                test=glob.escape(one.test),
                reason=reason,
                kind=one.kind,
                what=glob.escape(one.what) if one.what else "*",
            )
            for one in chosen
        )
    )


def add_to_baseline(path: Path, accepted: Iterable[AcceptedDifference]) -> None:
    """To a file, which is made where there is none. Raises InputError where it is no baseline or can't be added to, StateError
    where it can't be written; then it is as it was."""
    added = tuple(accepted)
    text = read_text(path) if path.exists() else ""
    before = parse_baseline(text, str(path)).accepted if path.exists() else ()
    text = text or "accepted:\n"
    if not text.endswith("\n"):
        text += "\n"
    text += yaml.safe_dump([_written(one) for one in added], sort_keys=False, allow_unicode=True, width=1000)
    # Whatever style the file is in: it is taken only if it now says what it said and what was added.
    if _said(text) != (*before, *added):
        raise InputError(
            "can't be added to: expected the key accepted with one entry after the other in lines that begin with a dash, "
            "and nothing after them",
            Where(file=str(path)),
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StateError(f"{path}: can't be written: {error.strerror or error}") from error
    write_file(path, text.encode())


def _said(text: str) -> tuple[AcceptedDifference, ...] | None:
    try:
        return parse_baseline(text, "").accepted
    except InputError:
        return None


def _written(one: AcceptedDifference) -> dict[str, str]:
    said = {"contender": one.contender, "test": one.test, "kind": one.kind}
    return {**said, **({"what": one.what} if one.what != "*" else {}), "reason": one.reason}
