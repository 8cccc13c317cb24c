"""The evidence of a replay: its lab recorded as that of a test is, to be travelled through, compared and decided again."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from pathlib import Path

from kailab import __version__
from kailab.errors import InputError
from kailab.evidence.recorder import Recorder, write_test
from kailab.evidence.run import RunFolder, check_writable
from kailab.fleet import Fleet
from kailab.replay.trace import Trace

EXERCISE = "replay"
OUTCOME = "replayed"
MOST_JOBS = 5_000
"""All of a lab's record is in memory until the lab closes, some tens of KiB a job."""


def check_evidence(trace: Trace, lasting: int | None, root: Path) -> None:
    """Raises InputError where there are more jobs than can be recorded, EvidenceError where ``root`` can't be written."""
    jobs = trace.jobs
    end = None if lasting is None else jobs[0].arrival + lasting
    arriving = sum(end is None or job.arrival <= end for job in jobs)
    if arriving > MOST_JOBS:
        raise InputError(
            f"--evidence: {arriving} jobs arrive; expected at most {MOST_JOBS}, as all of the record is kept in memory. Cut the replay off "
            "with --for, or replay a part of the trace"
        )
    check_writable(root)


def write_evidence(recorders: Sequence[Recorder], trace: Trace, fleets: Sequence[Fleet], root: Path) -> Path:
    """Write a run with what was recorded, of a lab or of several. Returns its folder. Raises EvidenceError."""
    run, name = RunFolder.begin(root), Path(trace.file).name
    run.write(EXERCISE, name, lambda folder: write_test(folder, f"{EXERCISE}/{name}", recorders, OUTCOME))
    fleet = "+".join(dict.fromkeys(one.name for one in fleets))
    settings = {"backend": "embedded", "scheduler": "kailab", "fleet": fleet}
    run.finish({"kailab": __version__, "python": platform.python_version()}, settings)
    return run.path
