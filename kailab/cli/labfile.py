"""The lab between commands: resumed from its file, acted on, saved again; one command at a time.

A command that changes the lab holds its lock from reading to saving. Until the new state is in place the old one is
untouched, so a command that fails or is killed has done nothing. Commands that only look need no lock: the file is
replaced as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from kailab.cli import terminal
from kailab.errors import StateError

if TYPE_CHECKING:
    from kailab.lab import Lab

STATE = Path(".kailab/lab.state")
"""Where a lab is kept unless somebody says otherwise."""
PATIENCE_SECONDS = 30.0
_PAUSE_SECONDS = 0.1


@contextmanager
def looked_at(path: Path) -> Iterator[Lab]:
    """The saved lab, to read. Raises StateError."""
    from kailab.lab import Lab
    from kailab.lab.garbage import collector_off_for_good

    with collector_off_for_good(), Lab.resume(path, read_only=True) as lab:
        yield lab


@contextmanager
def changed(path: Path, *, save: bool = True) -> Iterator[Lab]:
    """The saved lab, to change: saved if the block ends well, with a record of what was done. Raises StateError."""
    from kailab.evidence.journal import Journal
    from kailab.lab import Lab

    # The lock comes before reading: between reading and saving no other command may change the lab.
    with locked(path):
        journal = Journal(path)
        recorder = None
        with _only_told(path):
            recorder = journal.recorder() if save else None
        with Lab.resume(path, [] if recorder is None else [recorder]) as lab:
            try:
                yield lab
                if save:
                    lab.save(path)
                    if recorder is not None:
                        with _only_told(path):
                            journal.add(recorder)
            finally:
                if recorder is not None:
                    lab.observers.remove(recorder)  # the lab goes on: nothing takes a last look


@contextmanager
def _only_told(path: Path) -> Iterator[None]:
    """The lab matters more than the record of what is done to it."""
    from kailab.errors import EvidenceError

    try:
        yield
    except EvidenceError as error:
        terminal.warn(f"{path}: what is done now is not recorded: {error}")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lab; if another command does, wait a little for it. Raises StateError."""
    from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_delay, wait_fixed

    from kailab.cluster.embedded.storage.persistence import StateLock

    def in_use(error: BaseException) -> bool:
        # A lock file that can't be opened or made will not be better in a moment.
        return isinstance(error, StateError) and not isinstance(error.__cause__, OSError)

    def tell(state: RetryCallState) -> None:
        if state.attempt_number == 1 and state.outcome is not None:
            terminal.notice(f"{state.outcome.exception()} ...")

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
    """Half-written files of commands that were killed. We hold the lock, so nobody is writing."""
    for left in path.parent.glob(f".{path.name}.*.tmp"):
        with suppress(OSError):
            left.unlink()
