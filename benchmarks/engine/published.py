"""KAI's published figures (``kai.json``): what our times stand beside."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

_FILE = Path(__file__).with_name("kai.json")


@dataclass(frozen=True, slots=True)
class PublishedTime:
    """``milliseconds`` None: it did not end within the cap."""

    benchmark: str
    milliseconds: float | None


@dataclass(frozen=True, slots=True)
class Figures:
    """``by_setup``: by the name of the set-up. ``cap``: milliseconds after which a run was given up."""

    source: str
    cap: float
    by_setup: dict[str, PublishedTime]


def figures() -> Figures:
    """The figures of the file beside this module."""
    data = json.loads(_FILE.read_text(encoding="utf-8"))
    rows = {name: PublishedTime(row["name"], row["ms"]) for name, row in data["benchmarks"].items()}
    return Figures(data["source"], data["cap_ms"], rows)
