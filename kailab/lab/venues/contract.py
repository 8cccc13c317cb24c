"""The interfaces of a backend. A *provider* opens venues, attaches to existing ones, and takes them down. A *venue* is a cluster in which
labs live, one after the other.

A new backend is a module with these two, and its name in the registry (``kailab.cluster.backends``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from kailab.cluster.protocol import Cluster
from kailab.model.callbacks import Tell

if TYPE_CHECKING:
    from kailab.evidence.decision_file import SchedulerDecisions
    from kailab.fleet.fleet import Fleet
    from kailab.lab.parts import Parts
    from kailab.lab.settle import Settling
    from kailab.lab.spec import LabSpec
    from kailab.scheduler.observers import Observer
    from kailab.scheduler.settings.config_file import SchedulerSettings
    from kailab.undertest.contract import SchedulerUnderTest


def ignore_message(_: str) -> None:
    """Ignore the message."""


def ignore_place(_: Place) -> None:
    """Ignore the place."""


class Place(msgspec.Struct, kw_only=True, frozen=True):
    """Where the cluster of a lab is, as the lab's file keeps it. ``folder``: of its processes and data, empty if none are ours. ``mark``:
    the label value of the lab's objects. ``more``: other data that the backend needs."""

    backend: str
    folder: str = ""
    kubeconfig: str = ""
    context: str | None = None
    mark: str = ""
    more: dict[str, str] = {}


@dataclass(frozen=True)
class Request:
    """A request for a venue. ``folder``: for its files (None: a temporary one, and the venue ends with this process). ``scheduler``: the
    first one to run there, so that missing programs are reported before anything starts. ``get``: download or build missing programs,
    which may take many minutes. ``options``: by the names of ``kailab.cluster.registry``. ``record``: called with the place of the venue
    before its first process or object is made, so that it is found even if this process is killed."""

    scheduler: SchedulerUnderTest
    folder: Path | None = None
    get: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    tell: Tell = ignore_message
    record: Callable[[Place], None] = ignore_place


class RunningProcess(Protocol):
    """A process of a venue. ``why``: the reason why it does not run."""

    @property
    def name(self) -> str: ...

    @property
    def running(self) -> bool: ...

    @property
    def why(self) -> str: ...


class LabCluster(Cluster, Protocol):
    def kinds(self) -> Sequence[str]:
        """Kinds beyond those that kailab knows."""


class Venue(Protocol):
    """A cluster in which labs live, one after the other. A lab leaves it with ``clear`` (for the next lab), ``leave`` (as it is) or
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
        """Version of the API server; empty if there is none."""

    @property
    def kubeconfig(self) -> Path | None:
        """For kubectl and others; None: no other process can reach the cluster."""

    @property
    def exclusive(self) -> bool:
        """True if only the parts of the lab act in the cluster."""

    def furnish(
        self, fleet: Fleet, scheduler: SchedulerUnderTest, settings: SchedulerSettings, *, devices: bool = False
    ) -> None:
        """Prepare the cluster for a lab: kinds, the nodes of the fleet, and the scheduler under test. ``devices``: the fleet's GPUs are
        offered to resource claims."""

    def versions(self, scheduler: SchedulerUnderTest) -> dict[str, str]:
        """Known versions of the software here (``kubernetes``, ``scheduler`` ...)."""

    def run(self, spec: LabSpec, observer: Observer, changing: Callable[[], list[str]]) -> tuple[Parts, Settling]:
        """Start controllers and scheduler over the cluster. Returns them with the object that lets time pass. ``observer``: hears of
        decisions; ``changing``: names the changes of the latest cycle."""

    def decided(self, scheduler: SchedulerUnderTest) -> SchedulerDecisions | None:
        """The decisions of a scheduler in its own process, from the file that it writes."""

    def answers_at(self, scheduler: SchedulerUnderTest) -> str | None:
        """URL of health and kailab's metrics of a scheduler in its own process; None: unknown."""

    def processes(self) -> Sequence[RunningProcess]:
        """The processes that are ours."""

    def dry_run(self) -> None:
        """From now on writes are only tried. This does nothing if the cluster is kept in the lab's file, because nobody else sees it before
        it is saved."""

    def outlive(self, spec: LabSpec, config: Path | None, tell: Tell) -> None:
        """Let the lab go on when this process ends. ``config``: the given file of the scheduler's settings."""

    def save(self, path: Path, sections: Callable[[], dict[str, Any]]) -> None:
        """Write the lab's file again, if the cluster is kept there; ``sections``: those of the lab. Raises StateError."""

    def clear(self) -> None:
        """Remove what the lab created; its nodes may stay for the next lab."""

    def leave(self) -> None:
        """Disconnect from the cluster; everything stays as it is."""

    def close(self) -> None:
        """End kailab's processes and remove its files; in a user's cluster, remove all objects with the mark."""


class Provider(Protocol):
    """The code of a backend."""

    def lacking(self) -> str | None:
        """Why the backend can't be used here; None: a quick look finds no reason."""
        return None

    def completed(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options with the defaults that ``open`` would take from the environment, to compare a lab that is up with a new request."""
        return dict(options)

    def open(self, request: Request) -> Venue:
        """Open a new, empty venue. If it fails nothing is left. Raises KailabError."""

    def attach(self, place: Place, state: Mapping[str, Any], read_only: bool) -> Venue:
        """The venue of a saved lab. ``state``: the content of its file; ``read_only``: the venue is not changed. Raises StateError, and
        ConnectError if its cluster does not answer."""

    def take_down(self, place: Place) -> None:
        """End the venue and remove all that is left of it. Raises KailabError; then it can be tried again."""
