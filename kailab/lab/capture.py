"""The evidence of a lab in hand: what was done to it by commands, written as a test's is."""

from __future__ import annotations

import platform
from pathlib import Path

from kailab import __version__
from kailab.evidence.cycles import read_cycle_file, whole_cycles
from kailab.evidence.decision_file import NamedCycles
from kailab.evidence.lab_record import LabRecord
from kailab.evidence.recorder import Recorder, write_test
from kailab.evidence.recording import STEP, Recording
from kailab.evidence.run import RunFolder
from kailab.lab.lab import Lab

EXERCISE, TEST = "lab", "by-hand"
OUTCOME = "captured"


def capture(lab: Lab, journal: LabRecord, root: Path) -> Path:
    """Write a run with what was recorded of a lab between commands, and how it stands now. Returns the run's folder. The lab goes on.
    Raises EvidenceError where nothing was recorded, the record is damaged, or ``root`` can't be written."""
    recorder = recorded(lab, journal.whole())
    run = RunFolder.begin(root)
    run.write(EXERCISE, TEST, lambda folder: write_test(folder, f"{EXERCISE}/{TEST}", [recorder], OUTCOME))
    settings = {"backend": lab.backend, "scheduler": lab.scheduler, "fleet": lab.fleet}
    run.finish({"kailab": __version__, "python": platform.python_version()}, settings)
    return run.path


def recorded(lab: Lab, recording: Recording, *, events: bool = True) -> Recorder:
    """What was recorded of a lab between commands, which is taken over, and how it stands now. ``events``: Kubernetes Events, too. Raises
    EvidenceError where the scheduler's own record is damaged."""
    # The commands recorded no cycles of a scheduler that is a process of its own: it kept them itself.
    decided = lab.venue.decided(lab.under_test)
    if decided is not None and decided.cycles:
        _take_cycles(recording, Path(decided.cycles), lab)
    recorder = Recorder(so_far=recording)
    recorder.go_on(lab.cluster)
    look = recorder.on_closing if events else recorder.look
    look(lambda: lab.picture().waiting())
    return recorder


def _take_cycles(recording: Recording, path: Path, lab: Lab) -> None:
    """Of a scheduler in a process of its own: its cycles and decisions, in order of time among the steps."""
    # The file goes on from lab to lab in one place; what is from before this one is another's.
    recording.cycles = [cycle for cycle in read_cycle_file(path) if cycle.now >= recording.opened]
    teller = NamedCycles(recording.opened, lab.log.names)
    told = [
        entries
        for cycle, _, decisions in whole_cycles(recording.cycles)
        if (entries := teller.entries(cycle, decisions))
    ]
    # At the same moment a step comes before what was decided on it.
    moments = [(entries[0].t, 1, len(entries)) for entries in told] + [(step.t, 0, STEP) for step in recording.steps]
    recording.order = [what for _, _, what in sorted(moments)]
    recording.decisions = [entry for entries in told for entry in entries]
