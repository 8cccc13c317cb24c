"""Run kailab's scheduler as a process beside a plane, find its health endpoint, and detect when it is idle."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from kailab.cluster.protocol import Cluster
from kailab.model import labels
from kailab.model.callbacks import Tell
from kailab.model.files import read_bytes
from kailab.model.private_files import write_bytes
from kailab.undertest import programs
from kailab.undertest.contract import IdleDetector, Plane, StartSettings
from kailab.version import __version__

SCHEDULER = "kailab-scheduler"
"""The name of the process beside a plane."""

_IDLE_TURNS = 3  # one turn that may have begun before the change, and two whole ones
_HEALTH = re.compile(r"health and metrics at (http://\S+)")


def health_url(log: Path) -> str | None:
    """The URL in the log of the scheduler; None: not written yet."""
    urls = _HEALTH.findall(log.read_text(errors="replace")) if log.exists() else None
    return urls[-1] if urls else None


class KailabIdleDetector:
    """The scheduler is idle when it has looked at everything since the last change and had nothing to do, a few times. A fixed time would be
    too short on a busy machine. ``plane``: that runs it."""

    def __init__(self, plane: Plane) -> None:
        from kailab.scheduler.service.metrics import IDLE_TURNS

        self._plane = plane
        self._shown = re.compile(rf"^{IDLE_TURNS}_total (\S+)$", re.MULTILINE)
        self._url: str | None = None
        self._since: float | None = None

    def changed(self) -> None:
        self._since = None

    def is_idle(self) -> bool:
        """True also for a scheduler that has ended."""
        turns = self._idle_turns()
        if turns is None:
            return not any(process.running for process in self._plane.processes() if process.name == SCHEDULER)
        # Fewer than before: the process was restarted and counts from 0.
        if self._since is None or turns < self._since:
            self._since = turns
        return turns - self._since >= _IDLE_TURNS

    def _idle_turns(self) -> float | None:
        """None: unknown."""
        self._url = self._url or health_url(self._plane.log(SCHEDULER))
        match = self._shown.search(programs.fetch_url(f"{self._url}/metrics")[0]) if self._url is not None else None
        if match is None:
            self._url = None  # it may be another process now
        return float(match[1]) if match else None


# --- the process ------------------------------------------------------------------------------------------------------

DECISIONS = "decisions.json"
CONFIG = "scheduler.yaml"


class KailabProcesses(programs.LocalProcesses):
    """``election``: it uses leader election, as in a cluster with several. ``telling``: it writes its decisions to a file."""

    def __init__(self, plane: Plane, *, election: bool = False, telling: bool = True) -> None:
        super().__init__(plane)
        self._election = election
        self._telling = telling

    def start(self, cluster: Cluster, start: StartSettings, tell: Tell = lambda _: None) -> None:
        """Returns when it has listed all objects and leads."""
        tell("starting kailab's scheduler")
        names = [labels.SCHEDULER_NAME, *([labels.DEFAULT_SCHEDULER_NAME] if start.adopt_default_scheduler else [])]
        config = start.file
        if config is not None:
            # A copy, because the user's file may change or be removed while the lab is up.
            kept = Path(self._plane.folder) / CONFIG
            write_bytes(kept, read_bytes(config))
            config = kept
        command = scheduler_command(
            self._plane.kubeconfig,
            names=names,
            no_election=not self._election,
            decisions=self.decisions if self._telling else None,
            config=config,
        )
        # Port 0: it chooses a free port and logs it.
        programs.run_programs(self._plane, [programs.Program(SCHEDULER, Path(command[0]), command[1:], 0, self._works)])

    def _works(self) -> str | None:
        url = health_url(self._plane.log(SCHEDULER))
        return "it does not say where it answers" if url is None else programs.fetch_url(f"{url}/readyz")[1]

    @property
    def names(self) -> Sequence[str]:
        return (SCHEDULER,)

    def version(self) -> str:
        return f"kailab {__version__}"

    def idle_detector(self, cluster: Cluster) -> IdleDetector:
        return KailabIdleDetector(self._plane)

    @property
    def decisions(self) -> Path:
        return Path(self._plane.folder) / DECISIONS

    @property
    def url(self) -> str | None:
        return health_url(self._plane.log(SCHEDULER))


def scheduler_command(
    kubeconfig: Path,
    *,
    names: Sequence[str] = (),
    no_election: bool = False,
    decisions: Path | None = None,
    config: Path | None = None,
) -> list[str]:
    """The command that runs kailab's scheduler as a process."""
    command = [sys.executable, "-m", "kailab", "scheduler", "run", "--kubeconfig", str(kubeconfig)]
    command += [part for name in names for part in ("--scheduler-name", name)]
    command += ["--no-leader-elect"] if no_election else []
    command += ["--decisions", str(decisions), "--record-cycles"] if decisions is not None else []
    command += ["--scheduler-config", str(config)] if config is not None else []
    return command
