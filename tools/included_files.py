"""Write files into code blocks of documents: ``python -m tools.included_files``.

A line ``<!-- file: PATH -->`` marks the code block below it as the content of that file.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = ("docs/extending.md",)
_BLOCK = re.compile(r"(<!-- file: (?P<path>\S+) -->\n```\w*\n)(?P<text>.*?)(^```$)", re.DOTALL | re.MULTILINE)


def with_files(text: str) -> str:
    """A document's text with the present content of the files in its blocks."""
    return _BLOCK.sub(lambda found: found[1] + (ROOT / found["path"]).read_text(encoding="utf-8") + found[4], text)


def included(text: str) -> list[str]:
    """The paths of the files that a document shows."""
    return [found["path"] for found in _BLOCK.finditer(text)]


def main() -> None:
    for name in DOCUMENTS:
        document = ROOT / name
        document.write_text(with_files(document.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
