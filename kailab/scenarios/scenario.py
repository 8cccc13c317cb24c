"""A scenario as a value."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

Step = Mapping[str, Any]
"""What is done, and what is then expected, in the form of the file (``schema.json``)."""


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """``suite``: the file that it is from, without its ending. ``fleet``: a name, or a file. ``base``: files that its steps name are
    seen from there. ``placement``: where pods are is compared. ``unsettled``: the cluster it was recorded on was
    still changing."""

    suite: str
    name: str
    steps: tuple[Step, ...]
    fleet: str = "lesson"
    placement: bool = False
    unsettled: bool = False
    base: Path | None = None

    @property
    def id(self) -> str:
        return f"{self.suite}/{self.name}"
