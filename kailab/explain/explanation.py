"""An answer to "why": a few lines for people, the same facts as data for programs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Explanation:
    """``lines[0]`` says what is; the rest why, what would change it, and who is ahead. ``more``: lines for whoever asks for all."""

    kind: str
    name: str
    lines: tuple[str, ...]
    data: dict[str, Any] = field(default_factory=dict)
    more: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join(self.lines)

    def _repr_html_(self) -> str:
        from kailab.model import markup

        return markup.lines(self.lines)

    def indented(self, by: str = "  ") -> str:
        """The text with the first line outdented, for use inside a longer message."""
        first, *rest = self.lines
        return "\n".join([by + first, *(by * 2 + line for line in rest)])
