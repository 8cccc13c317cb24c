"""The baseline of a trial: differences that are known and accepted, each with its reason, so that a trial can run in
CI.

    accepted:
    - contender: kube-scheduler      # a column; * matches any text, here and in test
      test: quota/*
      kind: outcome                  # omit it for every kind
      what: "team-*"                 # app or queue; omit it for all
      reason: it knows no queues

``add_to_baseline`` appends entries and leaves the rest of the file unchanged, including comments.
"""

from __future__ import annotations

import glob
from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

import yaml

from kailab.errors import InputError, InputErrors, StateError, Where, os_errors_as
from kailab.evidence.run import write_file
from kailab.model.files import read_text
from kailab.model.manifests import line_of
from kailab.model.schema_files import find_schema_faults, read_schema
from kailab.model.yamltext import read_document
from kailab.trials.differences import TrialDifference

_SCHEMA = Path(__file__).with_name("baseline.schema.json")


@dataclass(frozen=True)
class AcceptedDifference:
    """``line``: in the file; it does not count in comparisons."""

    contender: str
    test: str
    reason: str
    kind: str = ""
    what: str = "*"
    line: int = field(default=0, compare=False)

    def holds_for(self, difference: TrialDifference) -> bool:
        return (
            fnmatchcase(difference.column, self.contender)
            and fnmatchcase(difference.test, self.test)
            and self.kind in ("", difference.kind)
            and fnmatchcase(difference.what, self.what)
        )

    def __str__(self) -> str:
        kind = f" {self.kind}" if self.kind else ""
        what = f" of {self.what}" if self.what != "*" else ""
        return f"{self.contender}: {self.test}{kind}{what} ({self.reason})"


@dataclass(frozen=True)
class AcceptedBaseline:
    accepted: tuple[AcceptedDifference, ...] = ()

    def accepts(self, difference: TrialDifference) -> AcceptedDifference | None:
        return next((accepted for accepted in self.accepted if accepted.holds_for(difference)), None)


def read_baseline(path: Path) -> AcceptedBaseline:
    """Read a baseline. Raises InputError, or InputErrors with every fault of the file."""
    return parse_baseline(read_text(path), str(path))


def parse_baseline(text: str, file: str) -> AcceptedBaseline:
    """Parse a baseline. ``file``: the name used in messages. Raises as ``read_baseline`` does."""
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


def baseline_entries(
    differences: Iterable[TrialDifference], reason: str, contender: str = "*", test: str = "*"
) -> list[AcceptedDifference]:
    """One entry for each kind and app or queue of each test. ``contender``, ``test``: patterns that select
    differences."""
    chosen = (
        difference
        for difference in differences
        if fnmatchcase(difference.column, contender) and fnmatchcase(difference.test, test)
    )
    # Names are literal text, not patterns.
    return list(
        dict.fromkeys(
            AcceptedDifference(
                contender=glob.escape(difference.column),
                test=glob.escape(difference.test),
                reason=reason,
                kind=difference.kind,
                what=glob.escape(difference.what) if difference.what else "*",
            )
            for difference in chosen
        )
    )


def add_to_baseline(path: Path, accepted: Iterable[AcceptedDifference]) -> None:
    """Append entries to a baseline file, or create it.

    Raises InputError if the file is not a baseline or entries cannot be appended, StateError if it cannot be written.
    The file then stays unchanged.
    """
    added = tuple(accepted)
    text = read_text(path) if path.exists() else ""
    before = parse_baseline(text, str(path)).accepted if path.exists() else ()
    text = text or "accepted:\n"
    if not text.endswith("\n"):
        text += "\n"
    text += yaml.safe_dump([_fields(entry) for entry in added], sort_keys=False, allow_unicode=True, width=1000)
    # The file may use any YAML style, so check that it now holds the old entries and the new ones.
    if _parse_or_none(text) != (*before, *added):
        raise InputError(
            "cannot append entries: expected the key accepted with a block list, whose entries begin with a dash, "
            "at the end of the file",
            Where(file=str(path)),
        )
    with os_errors_as(StateError, f"{path}: cannot write the file"):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, text.encode())


def _parse_or_none(text: str) -> tuple[AcceptedDifference, ...] | None:
    try:
        return parse_baseline(text, "").accepted
    except InputError:
        return None


def _fields(entry: AcceptedDifference) -> dict[str, str]:
    fields = {"contender": entry.contender, "test": entry.test, "kind": entry.kind}
    return {**fields, **({"what": entry.what} if entry.what != "*" else {}), "reason": entry.reason}
