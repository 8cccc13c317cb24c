"""Functions stay small enough to be read at a glance. Modules are as long as their idea.

A function may be longer where its first lines say why: ``# long: the reason`` between ``def`` and its body.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("kailab", "checks", "tests", "benchmarks", "exercises", "tools")
MOST_OF_A_FUNCTION = 60
_LONG = re.compile(r"# long: \S+( \S+){2,}")
"""A reason is a few words at least."""


def modules(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def functions(source: str) -> Iterator[tuple[str, int, bool]]:
    """Name, lines from ``def`` to the end, and whether a reason for its length is given."""
    written = source.splitlines()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            head = written[node.lineno - 1 : node.body[0].lineno]
            yield node.name, node.end_lineno - node.lineno + 1, any(_LONG.search(line) for line in head)


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_function_is_too_long_without_a_reason(folder: str) -> None:
    found = [
        f"{module.relative_to(ROOT)}: {name} has {length} lines"
        for module in modules(folder)
        for name, length, reason in functions(module.read_text(encoding="utf-8"))
        if length > MOST_OF_A_FUNCTION and not reason
    ]
    assert found == []


def test_reasons_are_given_only_where_they_are_needed() -> None:
    found = [
        f"{module.relative_to(ROOT)}: {name} has {length} lines"
        for folder in FOLDERS
        for module in modules(folder)
        for name, length, reason in functions(module.read_text(encoding="utf-8"))
        if reason and length <= MOST_OF_A_FUNCTION
    ]
    assert found == []


@pytest.mark.parametrize(
    ("head", "given"), [("", False), ("  # long: yes", False), ("  # long: a table of all kinds", True)]
)
def test_a_reason_is_a_comment_of_a_few_words(head: str, given: bool) -> None:
    [(name, length, reason)] = functions(f"def f({head}\n    a, b\n):\n    return a\n")
    assert (name, length, reason) == ("f", 4, given)
