"""Differences of a trial written down as accepted, at the end of a baseline file.

What stands in the file stays as it is, comments included.
"""

from __future__ import annotations

import glob
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path

import yaml

from kailab.errors import InputError, StateError, Where
from kailab.evidence.run import write_file
from kailab.model.files import read_text
from kailab.trials.baseline import Accepted, parse_baseline
from kailab.trials.comparing import Difference


def entries(found: Iterable[Difference], reason: str, contender: str = "*", test: str = "*") -> list[Accepted]:
    """One for each kind and app or queue of each test. ``contender``, ``test``: only of those; * stands for any text."""
    chosen = (one for one in found if fnmatchcase(one.column, contender) and fnmatchcase(one.test, test))
    # A name is meant as it is, and not as a pattern.
    return list(
        dict.fromkeys(
            Accepted(
                contender=glob.escape(one.column),
                test=glob.escape(one.test),
                reason=reason,
                kind=one.kind,
                what=glob.escape(one.what) if one.what else "*",
            )
            for one in chosen
        )
    )


def add(path: Path, accepted: Iterable[Accepted]) -> None:
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


def _said(text: str) -> tuple[Accepted, ...] | None:
    try:
        return parse_baseline(text, "").accepted
    except InputError:
        return None


def _written(one: Accepted) -> dict[str, str]:
    said = {"contender": one.contender, "test": one.test, "kind": one.kind}
    return {**said, **({"what": one.what} if one.what != "*" else {}), "reason": one.reason}
