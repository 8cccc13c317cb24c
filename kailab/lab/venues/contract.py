"""What a backend gives to labs: a *provider* opens venues, attaches to those that were left, and takes them down; a *venue* is a
cluster in which labs live, one after the other.

A new backend is a module with these two, and its name in the registry (``kailab.cluster.backends``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from kailab.cluster.protocol import Cluster

if TYPE_CHECKING:
    from kailab.evidence.decision_file import SchedulerDecisions
    from kailab.fleet import Fleet
    from kailab.lab.parts import Parts
    from kailab.lab.settle import Settling
    from kailab.lab.spec import LabSpec
    from kailab.scheduler import SchedulerSettings
    from kailab.scheduler.observers import Observer
    from kailab.undertest.contract import SchedulerUnderTest

Tell = Callable[[str], None]


def silent(_: str) -> None:
    """Tells nobody."""


def unrecorded(_: Place) -> None:
    """Keeps nothing."""


class Place(msgspec.Struct, kw_only=True, frozen=True):
    """Where the cluster of a lab is, as the lab's file has it. ``folder``: of its processes and data, empty where none are ours.
    ``mark``: what the lab's objects carry there. ``more``: whatever else the backend needs to find it."""

    backend: str
    folder: str = ""
    kubeconfig: str = ""
    context: str | None = None
    mark: str = ""
    more: dict[str, str] = {}


@dataclass(frozen=True)
class Request:
    """What a venue is asked for. ``folder``: where it keeps its files (None: a temporary one, and the venue ends with this process).
    ``scheduler``: the first that is to decide there, so that what it lacks is told before anything is started. ``get``: download
    or build programs that are missing, which may take many minutes. ``options``: by the names of ``kailab.cluster.choices``. ``record``: is told
    where the venue will be, before the first process or object of it is made there, so that it is found even if this process is killed."""

    scheduler: SchedulerUnderTest
    folder: Path | None = None
    get: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    tell: Tell = silent
    record: Callable[[Place], None] = unrecorded


class RunningProcess(Protocol):
    """A process of a venue. ``why``: for what reason it does not run."""

    @property
    def name(self) -> str: ...

    @property
    def running(self) -> bool: ...

    @property
    def why(self) -> str: ...


class LabCluster(Cluster, Protocol):
    """What a lab needs of its cluster."""

    def kinds(self) -> Sequence[str]:
        """Kinds beside those that kailab knows."""


class Venue(Protocol):
    """A cluster in which labs live, one after the other. It is left by ``clear`` (for the next lab), ``leave`` (as it is) or
    ``close`` (for good)."""

    @property
    def backend(self) -> str: ...

    @property
    def cluster(self) -> LabCluster: ...

    @property
    def place(self) -> Place | None:
        """Where to find it again; None: its cluster is kept in the lab's file."""

    @property
    def kubernetes(self) -> str:
        """Version of the API server; empty where there is none."""

    @property
    def kubeconfig(self) -> Path | None:
        """For kubectl and others; None: nobody else can reach it."""

    @property
    def exclusive(self) -> bool:
        """Whether nothing but the lab's own parts can act in the cluster."""

    def furnish(
        self, fleet: Fleet, scheduler: SchedulerUnderTest, settings: SchedulerSettings, *, devices: bool = False
    ) -> None:
        """A lab moves in: what it needs, the nodes of the fleet, and the scheduler under test. ``devices``: the fleet's GPUs are
        there for claims."""

    def versions(self, scheduler: SchedulerUnderTest) -> dict[str, str]:
        """Of what a lab runs on here (``kubernetes``, ``scheduler`` ...), as far as they are known."""

    def run(self, spec: LabSpec, observer: Observer, changing: Callable[[], list[str]]) -> tuple[Parts, Settling]:
        """Controllers and the scheduler over the cluster, and how time passes there. ``observer`` is told what happens; ``changing``
        names what the latest cycle changed."""

    def decided(self, scheduler: SchedulerUnderTest) -> SchedulerDecisions | None:
        """What a scheduler decided that runs in a process of its own and keeps a file of it."""

    def answers_at(self, scheduler: SchedulerUnderTest) -> str | None:
        """Where a scheduler that runs in a process of its own serves its health and kailab's metrics; None: not known."""

    def processes(self) -> Sequence[RunningProcess]:
        """Those that are ours."""

    def dry_run(self) -> None:
        """From now on writes are only tried. Where the cluster is kept in the lab's file, nobody sees them before it is saved."""

    def outlive(self, spec: LabSpec, config: Path | None, tell: Tell) -> None:
        """Make the lab go on when this process ends. ``config``: the file of the scheduler's settings, if one was given."""

    def save(self, path: Path, sections: Callable[[], dict[str, Any]]) -> None:
        """Write the lab's file anew, if the cluster is kept there; ``sections``: what the lab adds. Raises StateError."""

    def clear(self) -> None:
        """Take out what the lab brought in; its nodes may stay for the next one."""

    def leave(self) -> None:
        """Let go of the cluster; all stays as it is."""

    def close(self) -> None:
        """End what is ours: processes and files, or in a cluster of somebody else's all that carries the mark."""


class Provider(Protocol):
    """The code of a backend."""

    def lacking(self) -> str | None:
        """Why it can't be used here; None: it can, as far as a quick look tells."""

    def completed(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Options with what is meant where nothing was said, as ``open`` would take it from the environment, so that a lab that is
        up can be compared with what is asked for."""

    def open(self, request: Request) -> Venue:
        """A new venue, empty. If it fails nothing is left. Raises KailabError."""

    def attach(self, place: Place, state: Mapping[str, Any], read_only: bool) -> Venue:
        """The venue of a saved lab. ``state``: what its file holds; ``read_only``: it is not to be changed. Raises StateError;
        ConnectError where its cluster does not answer."""

    def take_down(self, place: Place) -> None:
        """End it and remove all that is left of it. Raises KailabError; then it can be tried again."""
