"""Write the evidence of a replay: its lab is recorded as a test's lab is, for viewing, comparing and deciding again."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from pathlib import Path

from kailab.errors import InputError
from kailab.evidence.recorder import Recorder, write_test
from kailab.evidence.run import RunFolder, check_writable
from kailab.fleet.fleet import Fleet
from kailab.replay.trace import Trace
from kailab.version import __version__

EXERCISE = "replay"
OUTCOME = "replayed"
MOST_JOBS = 5_000
"""The record of a lab stays in memory until the lab closes and takes some tens of KiB per job."""


def check_evidence(trace: Trace, lasting: int | None, root: Path) -> None:
    """Check before a replay that its evidence can be recorded.

    Raises InputError for too many jobs, EvidenceError if ``root`` is not writable.
    """
    jobs = trace.jobs
    end = None if lasting is None else jobs[0].arrival + lasting
    arriving = sum(end is None or job.arrival <= end for job in jobs)
    if arriving > MOST_JOBS:
        raise InputError(
            f"--evidence: {arriving} jobs arrive; expected at most {MOST_JOBS}, because the record is kept in memory. Cut the replay off "
            "with --for, or replay a part of the trace"
        )
    check_writable(root)


def write_evidence(recorders: Sequence[Recorder], trace: Trace, fleets: Sequence[Fleet], root: Path) -> Path:
    """Write a run with the records of one or more labs. Returns its folder. Raises EvidenceError."""
    run, name = RunFolder.begin(root), Path(trace.file).name
    run.write(EXERCISE, name, lambda folder: write_test(folder, f"{EXERCISE}/{name}", recorders, OUTCOME))
    fleet = "+".join(dict.fromkeys(entry.name for entry in fleets))
    settings = {"backend": "embedded", "scheduler": "kailab", "fleet": fleet}
    run.finish({"kailab": __version__, "python": platform.python_version()}, settings)
    return run.path
