"""Links of README and docs lead somewhere, and the site of all documents has each page once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_CODE = re.compile(r"^```.*?^```|^    .*?$|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def pages() -> list[Path]:
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS.rglob("*.md")]


def headings(page: Path) -> set[str]:
    """The anchors that GitHub and mkdocs make of a page's headings."""
    titles = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.MULTILINE)
    words = [re.sub(r"\]\([^)]*\)", "", title).replace("`", "").lower() for title in titles]
    return {re.sub(r"[^\w\- ]", "", title).strip().replace(" ", "-") for title in words}


def test_every_link_leads_to_a_file_and_a_heading() -> None:
    lost = []
    for page in pages():
        for link in _LINK.findall(_CODE.sub("", page.read_text("utf-8"))):
            if link.startswith(("http:", "https:", "mailto:")):
                continue
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            if not target.exists() or (anchor and target.suffix == ".md" and anchor not in headings(target)):
                lost.append(f"{page.relative_to(ROOT)}: {link}")
    assert lost == []


def test_every_page_is_once_in_the_menu_of_the_site() -> None:
    configured = yaml.safe_load((ROOT / "docs.yml").read_text("utf-8"))
    menu = list(_names(configured["nav"]))
    assert len(menu) == len(set(menu))
    there = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    assert set(menu) == there - {configured["exclude_docs"]}


def _names(entry: Any) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
    for part in entry if isinstance(entry, list) else entry.values() if isinstance(entry, dict) else ():
        yield from _names(part)
