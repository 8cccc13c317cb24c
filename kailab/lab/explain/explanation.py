"""An answer to "why": a few lines for people, the same facts as data for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kailab.lab.wording import count as count
from kailab.lab.wording import gpus as gpus
from kailab.lab.wording import some as some


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

    def indented(self, by: str = "  ") -> str:
        """The text with the first line outdented, for use inside a longer message."""
        first, *rest = self.lines
        return "\n".join([by + first, *(by * 2 + line for line in rest)])


def told(found: Sequence[Explanation], all_of_it: bool = False) -> str:
    """Explanations as text, ``all_of_it`` or a screen. Of those that give the same reason the first is told in full, and the others by name: a Deployment of
    many replicas is a screen to read."""
    alike: dict[tuple[str, str], list[Explanation]] = {}
    for one in found:
        pending = one.data.get("pending")
        reason = pending["reason"] if pending else one.lines[0].replace(one.name, "")
        alike.setdefault((one.kind, reason), []).append(one)
    if all_of_it:
        return "\n\n".join("\n".join((*one.lines, *one.more)) for one in found)
    return "\n\n".join(_with_those_like_it(first, others) for first, *others in alike.values())


def _with_those_like_it(first: Explanation, others: Sequence[Explanation]) -> str:
    if not others:
        return str(first)
    pending = first.data.get("pending")
    how = f"wait for the same reason ({pending['reason']})" if pending else "stand like it"
    return f"{first}\n{len(others)} more {how}: {some([one.name for one in others])}."
