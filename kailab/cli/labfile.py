"""The lab between commands: each command resumes it from its file and saves it again (``kailab.lab.lab_files``). Messages about waiting for
another command, and about changes that can't be recorded, go to the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kailab.cli import terminal
from kailab.cli.signals import interrupts
from kailab.errors import NoLabHere
from kailab.lab import lab_files

if TYPE_CHECKING:
    from kailab.evidence.history import LabHistory
    from kailab.lab import Lab

STATE = lab_files.DEFAULT_FILE
"""The default file of a lab."""


def read_lab(path: Path) -> AbstractContextManager[Lab]:
    """Open the saved lab for reading. Raises StateError."""
    return lab_files.open_read_only(path)


def is_about_cluster(state: Path, kubeconfig: Path | None, context: str | None) -> bool:
    """Whether a command that takes a lab or a cluster is about a cluster: one is named, or no lab is up and kubectl has one. Raises
    StateError if there is neither."""
    from kailab.lab.venues.kubeconfig import kubeconfig_of

    if kubeconfig is not None or context is not None:
        return True
    if state.exists():
        return False
    if not (default := kubeconfig_of(None)).exists():
        raise NoLabHere(
            f"{state}: no lab is here, and there is no kubeconfig {default}; start a lab with `kailab up`, or name a cluster with --kubeconfig"
        )
    return True


@contextmanager
def change_lab(path: Path, *, save: bool = True) -> Iterator[Lab]:
    """Open the saved lab for a change. It is saved and recorded if the block raises nothing. Raises StateError."""
    with lab_files.open_for_change(path, terminal.notice, terminal.warn, save=save) as lab:
        yield lab
        interrupts.check()


def history_of(path: Path, lab: Lab) -> LabHistory:
    """The recorded history of an open lab. ``path``: its file."""
    from kailab.evidence.history import LabHistory
    from kailab.evidence.lab_record import LabRecord
    from kailab.lab.capture import make_recorder

    return LabHistory.of_recording(make_recorder(lab, LabRecord(path).whole()).recording)


def read_history(path: Path) -> LabHistory:
    """The recorded history of the saved lab."""
    with read_lab(path) as lab:
        return history_of(path, lab)


def history_in(evidence: Path, name: str) -> LabHistory:
    """The history of a test in the evidence. ``name``: a run, or RUN/TEST."""
    from kailab.evidence.store import find_lab

    test, lab = find_lab(evidence, name)
    return test.history(lab)


def lock_lab(path: Path) -> AbstractContextManager[None]:
    """Lock the lab; wait shortly if another command holds the lock. Raises StateError."""
    return lab_files.lock_lab(path, terminal.notice)
