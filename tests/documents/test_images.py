"""The pictures of the documents: each that a document shows is there, and made by the script."""

from __future__ import annotations

import re
from pathlib import Path

from tools.screenshots import ENDING, IMAGES, ROOT, TARGET

_IMAGE = re.compile(r"!\[([^]]*)\]\(([^)\s]+)\)")
MOST_BYTES = 150 * 2**10


def shown() -> list[tuple[Path, str, str]]:
    """(document, what its picture shows in words, path) of each picture in a document."""
    documents = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    return [(one, words, path) for one in documents for words, path in _IMAGE.findall(one.read_text("utf-8"))]


def test_each_picture_that_a_document_shows_is_there_and_told_in_words() -> None:
    for document, words, path in shown():
        if not path.startswith("https://"):
            assert (document.parent / path).is_file(), f"{document}: {path}"
        assert len(words) > 10, f"{document}: {path} says nothing to who does not see it"


def test_the_pictures_are_those_that_the_script_makes_and_each_is_shown() -> None:
    assert {path.name for path in TARGET.iterdir()} == {f"{name}{ENDING}" for name in IMAGES}
    named = {(document.parent / path).resolve() for document, _, path in shown()}
    assert {path for path in TARGET.iterdir() if path not in named} == set()
    assert all(path.stat().st_size < MOST_BYTES for path in TARGET.iterdir())
