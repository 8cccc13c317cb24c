"""The backend embedded: a cluster in this process, with a clock of its own, that a lab's file keeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kailab import __version__
from kailab.cluster.embedded import EmbeddedCluster
from kailab.cluster.embedded.storage.persistence import write_state
from kailab.errors import InputError
from kailab.lab.venues.contract import Place, Request, RunningProcess, Tell
from kailab.scheduler.observers import Observer
from kailab.undertest.contract import Decider, SchedulerUnderTest

# A lab that is only looked at runs nothing: no controllers, no scheduler.
if TYPE_CHECKING:
    from kailab.fleet import Fleet
    from kailab.lab.parts import Parts
    from kailab.lab.settle import VirtualSettling
    from kailab.lab.spec import LabSpec
    from kailab.scheduler import SchedulerSettings


class EmbeddedVenue:
    """Has room for one lab."""

    backend = "embedded"
    place: Place | None = None
    kubernetes = ""
    kubeconfig: Path | None = None
    exclusive = True

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.cluster = cluster

    def furnish(
        self, fleet: Fleet, scheduler: SchedulerUnderTest, settings: SchedulerSettings, *, devices: bool = False
    ) -> None:
        from kailab.cluster.install.devices import furnishings

        for obj in furnishings(fleet, devices):
            self.cluster.create(obj)

    def versions(self, scheduler: SchedulerUnderTest) -> dict[str, str]:
        return {
            "kubernetes": f"none (kailab {__version__} stands in for the API server)",
            "scheduler": scheduler.version(live=False),
        }

    def run(
        self, spec: LabSpec, observer: Observer, changing: Callable[[], list[str]]
    ) -> tuple[Parts, VirtualSettling]:
        """The controllers of Kubernetes and of the operators are stood in for, too."""
        from kailab.lab.parts import parts_over
        from kailab.lab.settle import VirtualSettling
        from kailab.workloads import ResourceClaimController, WorkloadControllers

        others = (WorkloadControllers(self.cluster), ResourceClaimController(self.cluster))
        parts = parts_over(self.cluster, spec, observer, live=False, others=others)
        return parts, VirtualSettling(
            self.cluster,
            parts.controllers,
            parts.scheduler,
            changing,
            retry_at=parts.retry_at,
            as_kai=partial(_as_kai, parts.scheduler),
        )

    def decided(self, scheduler: SchedulerUnderTest) -> None:
        """Who decides does so in this process."""

    def answers_at(self, scheduler: SchedulerUnderTest) -> None:
        """Nobody serves anything."""

    def processes(self) -> Sequence[RunningProcess]:
        return ()

    def dry_run(self) -> None:
        """Changes are nobody's before they are saved."""

    def outlive(self, spec: LabSpec, config: Path | None, tell: Tell) -> None:
        """Its file is all that goes on."""

    def save(self, path: Path, sections: Callable[[], dict[str, Any]]) -> None:
        write_state(path, {**self.cluster.dump(), **sections()})

    def clear(self) -> None:
        """Nobody moves in after a lab."""

    def leave(self) -> None:
        """It goes with whoever holds it."""

    close = leave


class EmbeddedProvider:
    def lacking(self) -> str | None:
        return None

    def completed(self, options: Mapping[str, Any]) -> dict[str, Any]:
        return dict(options)

    def open(self, request: Request) -> EmbeddedVenue:
        return EmbeddedVenue(EmbeddedCluster())

    def attach(self, place: Place, state: Mapping[str, Any], read_only: bool) -> EmbeddedVenue:
        """Of one that is only looked at, just what is asked for is taken in, which is quick however large it is."""
        try:
            return EmbeddedVenue(EmbeddedCluster.restore(state, read_only=read_only))
        except InputError as error:  # nobody's input: what the file holds is not what was saved
            raise ValueError(str(error)) from error

    def take_down(self, place: Place) -> None:
        """Its file is all there is of it."""


def _as_kai(scheduler: Decider) -> str:
    from kailab.lab.endless_moves import explain_endless_moves
    from kailab.scheduler.loop import Scheduler

    return explain_endless_moves(scheduler) if isinstance(scheduler, Scheduler) else ""
