"""What every plane, a control plane or a kind cluster, offers of the processes in its folder."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from kailab.cluster.controlplane.supervision import GRACE_SECONDS, Process, Supervision, record
from kailab.errors import StateError

RESTART_GRACE_SECONDS = 2.0  # an API server waits for its watchers to leave, and they don't


class ControlPlaneFailed(StateError):
    """A process of a control plane ended, or did not get to work. The text has its last words."""


class Supervised(ABC):
    """``own``: names of processes that are the plane's, so that none that is spawned may have them."""

    own: ClassVar[tuple[str, ...]] = ()

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._supervision = Supervision(folder)

    def processes(self) -> list[Process]:
        """All, as they are now: those of the plane, then those spawned."""
        return [self._supervision.look(one) for one in self._supervision.records()]

    status = processes

    def check(self, names: Sequence[str] | None = None) -> None:
        """Raises ControlPlaneFailed if one of these processes (None: any that was not stopped on purpose) has ended."""
        for one in self._supervision.records():
            # Named ones count even if they were stopped on purpose: whoever names them needs them.
            if one.name in names if names is not None else not one.stopped:
                process = self._supervision.look(one)
                if not process.running:
                    raise ControlPlaneFailed(f"{self.folder}: {one.name} does not run: {process.why}")

    def log(self, name: str) -> Path:
        return self._supervision.log(name)

    def spawn(
        self, name: str, argv: Sequence[str | Path], env: Mapping[str, str] | None = None, port: int = 0
    ) -> Process:
        """Run one more process, which lives and ends with the plane. Returns at once.

        ``env``: added to this process's own environment. Paths in ``argv`` should be absolute: it runs in the folder of the
        plane. Raises StateError if one of this name runs.
        """
        if not name or name in self.own or "/" in name:
            raise StateError(f"{name!r} can't be the name of a spawned process")
        made = record(name, argv, env, port, spawned=True)
        self._supervision.start(made)
        return self._supervision.look(made)

    def kill(self, name: str, signal: int = 9) -> None:
        """Send a signal (SIGKILL) to a process. Raises StateError if it does not run."""
        self._supervision.signal(name, signal)

    def stop(self, name: str, grace: float = GRACE_SECONDS) -> None:
        """End one process on purpose: SIGTERM, and SIGKILL after ``grace`` seconds. One that has ended by itself
        counts as stopped then, and is no failure any more."""
        self._supervision.record(name)
        self._supervision.stop([name], grace)

    def restart(self, name: str, grace: float = RESTART_GRACE_SECONDS) -> None:
        """Stop it if it runs, start it as before, with its data and ports; one of the plane works on return."""
        one = self._supervision.record(name)
        self._supervision.stop([name], grace)
        self._supervision.start(one)
        if not one.spawned:
            self._await([name])

    @abstractmethod
    def _await(self, names: Sequence[str]) -> None:
        """Until these processes of the plane work. Raises what its ``up`` does."""
