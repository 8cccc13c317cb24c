"""kailab's scheduler as a process beside a plane."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from kailab import __version__
from kailab.cluster.protocol import Cluster
from kailab.model import labels
from kailab.model.files import read_bytes
from kailab.model.private_files import write_bytes
from kailab.undertest import programs
from kailab.undertest.beside import ProgramsBeside
from kailab.undertest.contract import Plane, Rest, Start, Tell
from kailab.undertest.kailab.rest import SCHEDULER, SchedulerRest, health_url
from kailab.undertest.programs import Program, fetch

DECISIONS = "decisions.json"
CONFIG = "scheduler.yaml"


class KailabBeside(ProgramsBeside):
    """``election``: it leads by a lease, as in a cluster with several. ``telling``: it writes down what it decides."""

    def __init__(self, plane: Plane, *, election: bool = False, telling: bool = True) -> None:
        super().__init__(plane)
        self._election = election
        self._telling = telling

    def start(self, cluster: Cluster, start: Start, tell: Tell = lambda _: None) -> None:
        """Returns when it has listed everything, and leads."""
        tell("starting kailab's scheduler")
        names = [labels.SCHEDULER_NAME, *([labels.DEFAULT_SCHEDULER_NAME] if start.adopt_default_scheduler else [])]
        config = start.file
        if config is not None:
            # A copy: the user's file may change or go while the lab is up.
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
        # Port 0: it takes one that is free, and says in its log which.
        programs.run(self._plane, [Program(SCHEDULER, Path(command[0]), command[1:], 0, self._works)])

    def _works(self) -> str | None:
        url = health_url(self._plane.log(SCHEDULER))
        return "it does not say where it answers" if url is None else fetch(f"{url}/readyz")[1]

    @property
    def names(self) -> Sequence[str]:
        return (SCHEDULER,)

    def version(self) -> str:
        return f"kailab {__version__}"

    def rest(self, cluster: Cluster) -> Rest:
        return SchedulerRest(self._plane)

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
    """How kailab's scheduler is run as a process."""
    command = [sys.executable, "-m", "kailab", "scheduler", "run", "--kubeconfig", str(kubeconfig)]
    command += [part for name in names for part in ("--scheduler-name", name)]
    command += ["--no-leader-elect"] if no_election else []
    command += ["--decisions", str(decisions), "--record-cycles"] if decisions is not None else []
    command += ["--scheduler-config", str(config)] if config is not None else []
    return command
