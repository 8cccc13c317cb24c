"""A hook of mkdocs: on the site, a link to a file outside docs/ becomes its text and the path in the repository."""

from __future__ import annotations

import posixpath
import re
from typing import Any

_LINK = re.compile(r"\[([^\]]*)\]\((\.\.?/[^)#]*|course-solutions\.md)(?:#[^)]*)?\)")


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """The text of a page, as mkdocs asks for it."""
    folder = posixpath.dirname(page.file.src_uri)

    def replaced(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join("docs", folder, link[2]))
        inside = path.startswith("docs/") and not path.endswith("course-solutions.md")
        return link[0] if inside else f"{link[1]} (`{path}` in the repository)"

    return _LINK.sub(replaced, markdown)
