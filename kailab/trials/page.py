"""A trial as one HTML file that stands by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2


def render(told: dict[str, Any]) -> str:
    """``told``: see ``telling.data``."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
        autoescape=True,
    )
    differing = {(one["test"], one["column"]): one for one in told["differing"]}
    return environment.get_template("page.html.j2").render(told=told, differing=differing)
