"""Selection of cases: by suite, by tags, and by an expression over the name, as in ``pytest -k``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from checks.recorded.case_reading import RecordedCase, read_cases
from kailab.errors import InputError

Matches = Callable[[str], bool]
_TOKEN = re.compile(r"\(|\)|[^\s()]+")


def choose(
    paths: Iterable[Path], suite: str = "", tags: Sequence[str] = (), expression: str = ""
) -> list[RecordedCase]:
    """The cases of these files and folders whose suite begins with ``suite``, that have all the tags, and whose id
    matches the expression. Raises ``InputError`` if a file cannot be read or nothing matches.
    """
    matches = matching(expression)
    chosen = [
        case
        for case in read_cases(paths)
        if case.suite.startswith(suite) and all(tag in case.tags for tag in tags) and matches(case.id)
    ]
    if not chosen:
        raise InputError("no case matches")
    return chosen


def matching(expression: str) -> Matches:
    """A predicate of names from an expression: parts of names, joined by ``and``, ``or``, ``not`` and parentheses; case
    does not matter.

    An empty expression matches everything. Raises ``InputError`` for an invalid one.
    """
    tokens = _TOKEN.findall(expression)
    if not tokens:
        return lambda name: True
    parser = _Parser(expression, tokens)
    matches = parser.either()
    if parser.tokens:
        raise parser.error()
    return lambda name: matches(name.lower())


class _Parser:
    def __init__(self, expression: str, tokens: list[str]) -> None:
        self.expression = expression
        self.tokens = tokens

    def error(self) -> InputError:
        at = f"at {self.tokens[0]!r}" if self.tokens else "at its end"
        return InputError(
            f"-k {self.expression!r}: can't be read {at}; expected parts of names joined by and, or, not and parentheses"
        )

    def _take(self, token: str) -> bool:
        if self.tokens and self.tokens[0] == token:
            self.tokens.pop(0)
            return True
        return False

    def either(self) -> Matches:
        parts = [self._both()]
        while self._take("or"):
            parts.append(self._both())
        return lambda name: any(part(name) for part in parts)

    def _both(self) -> Matches:
        parts = [self._term()]
        while self._take("and"):
            parts.append(self._term())
        return lambda name: all(part(name) for part in parts)

    def _term(self) -> Matches:
        if self._take("not"):
            part = self._term()
            return lambda name: not part(name)
        if self._take("("):
            inner = self.either()
            if not self._take(")"):
                raise self.error()
            return inner
        if not self.tokens or self.tokens[0] in ("and", "or", ")"):
            raise self.error()
        word = self.tokens.pop(0).lower()
        return lambda name: word in name
