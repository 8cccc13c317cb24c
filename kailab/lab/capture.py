"""The evidence of a lab that commands worked on, in the form that the evidence of a test has."""

from __future__ import annotations

import platform
from pathlib import Path

from kailab.evidence.cycles import read_cycle_file, whole_cycles
from kailab.evidence.decision_file import NamedCycles
from kailab.evidence.lab_record import LabRecord
from kailab.evidence.recorder import Recorder, write_test
from kailab.evidence.recording import STEP, Recording
from kailab.evidence.run import RunFolder
from kailab.lab.lab import Lab
from kailab.version import __version__

EXERCISE, TEST = "lab", "by-hand"
OUTCOME = "captured"


def capture(lab: Lab, journal: LabRecord, root: Path) -> Path:
    """Write a run with what commands recorded of a lab, and its present state. Returns the run's folder. The lab goes on. Raises
    EvidenceError if nothing was recorded, the record is damaged, or ``root`` can't be written."""
    recorder = make_recorder(lab, journal.whole())
    run = RunFolder.begin(root)
    run.write(EXERCISE, TEST, lambda folder: write_test(folder, f"{EXERCISE}/{TEST}", [recorder], OUTCOME))
    settings = {"backend": lab.backend, "scheduler": lab.scheduler, "fleet": lab.fleet}
    run.finish({"kailab": __version__, "python": platform.python_version()}, settings)
    return run.path


def make_recorder(lab: Lab, recording: Recording, *, events: bool = True) -> Recorder:
    """A recorder with ``recording``, which it takes over, and the present state of the lab. ``events``: Kubernetes Events too. Raises
    EvidenceError if the scheduler's own record is damaged."""
    # Commands do not record the cycles of a scheduler in its own process: it writes them itself.
    decided = lab.venue.decided(lab.under_test)
    if decided is not None and decided.cycles:
        _copy_cycles(recording, Path(decided.cycles), lab)
    recorder = Recorder(so_far=recording)
    recorder.go_on(lab.cluster)
    record = recorder.on_closing if events else recorder.record_final_state
    record(lambda: lab.picture().waiting())
    return recorder


def _copy_cycles(recording: Recording, path: Path, lab: Lab) -> None:
    """Merge the cycles and decisions of a scheduler in its own process with the steps, in order of time."""
    # The file may begin with cycles of an earlier lab.
    recording.cycles = [cycle for cycle in read_cycle_file(path) if cycle.now >= recording.opened]
    named = NamedCycles(recording.opened, lab.log.names)
    decisions = [
        entries
        for cycle, _, decisions in whole_cycles(recording.cycles)
        if (entries := named.entries(cycle, decisions))
    ]
    # At the same moment a step comes before the decisions on it.
    moments = [(entries[0].t, 1, len(entries)) for entries in decisions] + [
        (step.t, 0, STEP) for step in recording.steps
    ]
    recording.order = [entry for _, _, entry in sorted(moments)]
    recording.decisions = [entry for entries in decisions for entry in entries]
