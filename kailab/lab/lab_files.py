"""A lab that is kept in a file: resumed, acted on, saved again; by one process at a time.

Who changes the lab holds its lock from reading to saving. Until the new state is in place the old one is untouched, so whoever fails or
is killed has done nothing. Who only looks needs no lock: the file is replaced as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from kailab.errors import StateError

if TYPE_CHECKING:
    from kailab.lab.lab import Lab

Tell = Callable[[str], None]
Stamp = tuple[int, int, int] | None

PATIENCE_SECONDS = 30.0
_PAUSE_SECONDS = 0.1


def stamp(path: Path) -> Stamp:
    """Another one whenever the file was written; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


@contextmanager
def open_read_only(path: Path, *, again: bool = False) -> Iterator[Lab]:
    """The saved lab, to read. ``again``: by a process that goes on and looks more than once. Raises StateError."""
    from kailab.lab.garbage import collector_off, collector_off_for_good
    from kailab.lab.lab import Lab

    with collector_off() if again else collector_off_for_good(), Lab.resume(path, read_only=True) as lab:
        yield lab


@contextmanager
def open_for_change(path: Path, notice: Tell, warn: Tell, *, save: bool = True) -> Iterator[Lab]:
    """The saved lab, to change: saved if the block ends well, with a record of what was done. ``notice`` is told what is waited for,
    ``warn`` what goes unrecorded. Raises StateError."""
    # The lock comes before reading: between reading and saving nobody else may change the lab.
    with lock_lab(path, notice), resume_lab(path, warn, save=save) as lab:
        yield lab


@contextmanager
def resume_lab(path: Path, warn: Tell, *, save: bool = True) -> Iterator[Lab]:
    """As ``changed``, by who holds the lock."""
    from kailab.evidence.lab_record import LabRecord
    from kailab.lab.lab import Lab

    journal = LabRecord(path)
    recorder = None
    with _only_told(path, warn):
        recorder = journal.recorder() if save else None
    with Lab.resume(path, [] if recorder is None else [recorder]) as lab:
        try:
            yield lab
            if save:
                lab.save(path)
                if recorder is not None:
                    with _only_told(path, warn):
                        journal.add(recorder)
        finally:
            if recorder is not None:
                lab.observers.remove(recorder)  # the lab goes on: nothing takes a last look


@contextmanager
def _only_told(path: Path, warn: Tell) -> Iterator[None]:
    """The lab matters more than the record of what is done to it."""
    from kailab.errors import EvidenceError

    try:
        yield
    except EvidenceError as error:
        warn(f"{path}: what is done now is not recorded: {error}")


@contextmanager
def lock_lab(path: Path, notice: Tell) -> Iterator[None]:
    """Hold the lab; if somebody else does, wait a little for it. Raises StateError."""
    from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_delay, wait_fixed

    from kailab.cluster.embedded.storage.persistence import StateLock

    def in_use(error: BaseException) -> bool:
        # A lock file that can't be opened or made will not be better in a moment.
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
    """Half-written files of processes that were killed, beside the lab's file and in the record. We hold the lock, so nobody is writing."""
    from kailab.evidence.lab_record import LabRecord

    for left in (*path.parent.glob(f".{path.name}.*.tmp"), *LabRecord(path).leftovers()):
        with suppress(OSError):
            left.unlink()
