"""What became of a lab while a command ran."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kailab.cli import terminal
from kailab.lab.became import LabChanges

if TYPE_CHECKING:
    from kailab.lab import Lab

__all__ = ["LabChanges", "settled"]


def settled(lab: Lab, before: LabChanges, settle: bool) -> str:
    """Settles the lab, unless ``settle`` is off; returns what to tell."""
    if not settle:
        return "not settled: nothing has acted on it yet; `kailab run` lets the lab go on"
    with terminal.waiting("settling"):
        lab.settle()
    return before.told()
