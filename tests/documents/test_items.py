"""The account of the documents' items: what it refers to is there, and no item is left out."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from checks.recorded_files import VARIABLE, shared_folder
from kailab.cli.commands import COMMANDS

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "docs" / "document-items.md"
DOCUMENTS = {"S0": "A", "S1": "M", "S2": "L", "S3": "P", "S4": "R"}


def rows() -> list[list[str]]:
    lines = [line for line in TABLE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


def anchors(page: Path) -> set[str]:
    """Of a page's headings, as GitHub makes them."""
    heads = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def test_each_row_is_whole() -> None:
    assert len(rows()) > 40
    for row in rows():
        item, what, state, where = row
        assert re.fullmatch(r"[AMLPR]\d+", item), row
        assert state in ("here", "in part", "KAI has none", "not"), row
        assert what, row
        assert where, row
        if state == "here":
            assert "`" in where or "](" in where, f"{item}: what is here is shown somewhere"
        if state == "KAI has none":
            assert re.search(r"`(tests|exercises)/", where), f"{item}: a run shows what happens instead"


def test_links_lead_somewhere() -> None:
    text = TABLE.read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#]+)(?:#([^)]+))?\)", text)
    assert len(links) > 20
    for file, anchor in links:
        page = TABLE.parent / file
        assert page.exists(), file
        assert not anchor or anchor in anchors(page), f"{file}#{anchor}"


def test_what_is_named_is_there() -> None:
    named = [word for row in rows() for word in re.findall(r"`([^`]+)`", row[3])]
    commands = [word.split()[1] for word in named if word.startswith("kailab ")]
    assert len(commands) > 10
    assert set(commands) <= set(COMMANDS)
    paths = [word for word in named if word.startswith(("tests/", "exercises/"))]
    assert len(paths) > 10
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_no_item_is_left_out() -> None:
    path = shared_folder() / "DOCUMENT-ITEMS.md"
    if not path.exists():
        pytest.skip(f"{path.name} is not there: {VARIABLE} names no folder with the documents")
    _, _, listed = path.read_text(encoding="utf-8").partition("## Absent or in part")
    numbers: Counter[str] = Counter()
    wanted = set()
    for documents in re.findall(r"^\| (S[^|]*) \|", listed, flags=re.MULTILINE):
        letter = DOCUMENTS[documents.split(",")[0]]
        numbers[letter] += 1
        wanted.add(f"{letter}{numbers[letter]}")
    assert len(wanted) > 15
    assert {row[0] for row in rows()} == wanted


def test_every_test_that_a_claim_is_shown_by_is_there() -> None:
    text = (ROOT / "docs" / "documents.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:tests|exercises)/[\w/.]+)(?:::(\w+))?`", text)
    assert sum(bool(test) for _, test in named) > 20
    for file, test in named:
        assert (ROOT / file).exists(), file
        assert not test or f"def {test}(" in (ROOT / file).read_text(encoding="utf-8"), f"{file}::{test}"
