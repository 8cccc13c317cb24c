"""The page with its modules and styles (those of the viewer and of the live page), and the library of example manifests. All files are read when
the server starts; no request reads from disk.

An example is a YAML file whose first comment line is its title. The following comment lines say what to observe.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import jinja2
import msgspec

from kailab.report.page import VIEWER

PAGE = Path(__file__).parent / "page"
_STYLES = "styles.css"


class PageFile(NamedTuple):
    content: bytes
    kind: str


class PageFiles:
    """``page``: the HTML; ``named``: the files that it loads, by name; ``script``: the hash of its inline script, as a Content-Security-Policy source."""

    def __init__(self) -> None:
        modules = {f"{folder.name}-{path.name}": path for folder in (VIEWER, PAGE) for path in folder.glob("*.js")}
        styles = "\n".join(
            path.read_text("utf-8") for folder in (VIEWER, PAGE) for path in sorted(folder.glob("*.css"))
        )
        self.named: Mapping[str, PageFile] = {
            **{name: PageFile(path.read_bytes(), "text/javascript") for name, path in modules.items()},
            _STYLES: PageFile(styles.encode(), "text/css"),
        }
        names = {f"{path.parent.name}/{path.stem}": f"/files/{name}" for name, path in sorted(modules.items())}
        imports = msgspec.json.encode({"imports": names}).decode()
        digest = base64.b64encode(hashlib.sha256(imports.encode()).digest()).decode()
        self.script = f"'sha256-{digest}'"
        environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(PAGE), undefined=jinja2.StrictUndefined, autoescape=True
        )
        self.page = environment.get_template("page.html").render(imports=imports, styles=_STYLES).encode()


LIBRARY = Path(__file__).parent / "library"


class Example(NamedTuple):
    name: str
    title: str
    about: str
    text: str


@cache
def examples() -> Sequence[Example]:
    """The example manifests, in order of file name."""
    return tuple(_read_example(path) for path in sorted(LIBRARY.glob("*.yaml")))


def _read_example(path: Path) -> Example:
    text = path.read_text(encoding="utf-8")
    comments = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        comments.append(line.lstrip("# ").rstrip())
    return Example(path.stem, comments[0], " ".join(comments[1:]), text)
