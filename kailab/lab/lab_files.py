"""A lab in a file, which one process at a time resumes, changes and saves.

A process that changes the lab holds its lock from reading to saving. The old file stays until the new one is complete, so a process that
fails or is killed has changed nothing. Readers need no lock, because the file is replaced as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from kailab.errors import EvidenceError, StateError
from kailab.model.callbacks import Tell
from kailab.model.private_files import PARTIAL

if TYPE_CHECKING:
    from kailab.lab.lab import Lab

Stamp = tuple[int, int, int] | None

DEFAULT_FILE = Path(".kailab/lab.state")
"""The file of a lab by default. All that is in its folder is kailab's."""
PATIENCE_SECONDS = 30.0
_PAUSE_SECONDS = 0.1


def stamp(path: Path) -> Stamp:
    """A value that changes whenever the file is written; None if there is no file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


@contextmanager
def open_read_only(path: Path, *, again: bool = False) -> Iterator[Lab]:
    """The saved lab, read-only. ``again``: for a process that reads more than once. Raises StateError."""
    from kailab.lab.garbage import collector_off, collector_off_for_good
    from kailab.lab.lab import Lab

    with collector_off() if again else collector_off_for_good(), Lab.resume(path, read_only=True) as lab:
        yield lab


@contextmanager
def open_for_change(path: Path, notice: Tell, warn: Tell, *, save: bool = True) -> Iterator[Lab]:
    """The saved lab, to change: it is saved if the block ends without error, with a record of the steps. ``notice`` gets a message while
    this waits, ``warn`` one if steps are not recorded. Raises StateError."""
    # The lock comes first: no other process may change the lab between reading and saving.
    with lock_lab(path, notice), resume_lab(path, warn, save=save) as lab:
        yield lab


@contextmanager
def resume_lab(path: Path, warn: Tell, *, save: bool = True) -> Iterator[Lab]:
    """As ``open_for_change``, for a caller that holds the lock."""
    from kailab.evidence.lab_record import LabRecord
    from kailab.lab.lab import Lab

    journal = LabRecord(path)
    recorder = None
    with _warn_of_evidence_errors(path, warn):
        recorder = journal.recorder() if save else None
    with Lab.resume(path, [] if recorder is None else [recorder]) as lab:
        try:
            yield lab
            if save:
                lab.save(path)
                if recorder is not None:
                    with _warn_of_evidence_errors(path, warn):
                        journal.add(recorder)
        finally:
            if recorder is not None:
                lab.observers.remove(recorder)  # the lab goes on, so its end must not be recorded


@contextmanager
def _warn_of_evidence_errors(path: Path, warn: Tell) -> Iterator[None]:
    """Turn errors of the record into warnings: the lab matters more."""
    try:
        yield
    except EvidenceError as error:
        warn(f"{path}: the steps of this command are not recorded: {error}")


@contextmanager
def lock_lab(path: Path, notice: Tell) -> Iterator[None]:
    """Hold the lock of a lab; wait up to ``PATIENCE_SECONDS`` if another process holds it. Raises StateError."""
    from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_delay, wait_fixed

    from kailab.cluster.embedded.storage.state_file import StateLock

    def in_use(error: BaseException) -> bool:
        # Waiting does not help if the lock file can't be opened or made.
        return isinstance(error, StateError) and not isinstance(error.__cause__, OSError)

    def tell(state: RetryCallState) -> None:
        if state.attempt_number == 1 and state.outcome is not None:
            notice(f"{state.outcome.exception()} ...")

    with ExitStack() as held:
        Retrying(
            retry=retry_if_exception(in_use),
            stop=stop_after_delay(PATIENCE_SECONDS),
            wait=wait_fixed(_PAUSE_SECONDS),
            before_sleep=tell,
            reraise=True,
        )(lambda: held.enter_context(StateLock(path)))
        _clear_leftovers(path)
        yield


def _clear_leftovers(path: Path) -> None:
    """Remove half-written files of killed processes, beside the lab's file and in its record. This process holds the lock, so no other
    process is writing them."""
    from kailab.evidence.lab_record import LabRecord

    for left in (*path.parent.glob(f"{PARTIAL}*-{path.name}"), *LabRecord(path).leftovers()):
        with suppress(OSError):
            left.unlink()
