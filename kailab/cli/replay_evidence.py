"""The evidence of a replay, as its options ask for it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kailab.cli import terminal

if TYPE_CHECKING:
    from kailab.evidence.recorder import Recorder
    from kailab.fleet import Fleet
    from kailab.replay.trace import Trace


def write(recorders: Sequence[Recorder], trace: Trace, fleets: Sequence[Fleet], folder: Path) -> None:
    """Write it, and say where. Raises EvidenceError."""
    from kailab.replay import evidence

    run = evidence.write(recorders, trace, fleets, folder)
    terminal.notice(f"evidence: {run}; look at it: kailab report {run} --html FILE")
