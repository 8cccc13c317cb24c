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
from kailab.evidence.run import replace_file
from kailab.trials.baseline import Accepted, read_baseline
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
    before = read_baseline(path).accepted if path.exists() else ()
    text = path.read_text() if path.exists() else "accepted:\n"
    if text and not text.endswith("\n"):
        text += "\n"
    text += yaml.safe_dump([_written(one) for one in added], sort_keys=False, allow_unicode=True, width=1000)
    partial = path.with_name(f".{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(partial, text.encode())
        try:
            # Whatever style the file is in: it is taken only if it now says what it said and what was added.
            whole = _plain(read_baseline(partial).accepted) == _plain((*before, *added))
        except InputError:
            whole = False
        if not whole:
            raise InputError(
                "can't be added to: expected the key accepted with one entry after the other in lines that begin with a dash, "
                "and nothing after them",
                Where(file=str(path)),
            )
        partial.replace(path)
    except OSError as error:
        raise StateError(f"{path}: can't be written: {error.strerror or error}") from error
    finally:
        partial.unlink(missing_ok=True)


def _written(one: Accepted) -> dict[str, str]:
    said = {"contender": one.contender, "test": one.test, "kind": one.kind}
    return {**said, **({"what": one.what} if one.what != "*" else {}), "reason": one.reason}


def _plain(accepted: Iterable[Accepted]) -> list[tuple[str, ...]]:
    return [(one.contender, one.test, one.kind, one.what, one.reason) for one in accepted]
