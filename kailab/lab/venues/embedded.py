"""The backend embedded: a cluster in this process, with a virtual clock, kept in the lab's file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import structs

from kailab.cluster.embedded import EmbeddedCluster
from kailab.cluster.embedded.storage.state_file import write_state
from kailab.errors import InputError
from kailab.evidence.wording import count
from kailab.lab.venues.contract import Place, Provider, Request, RunningProcess
from kailab.model.callbacks import Tell
from kailab.scheduler.observers import Observer
from kailab.undertest.contract import Decider, SchedulerUnderTest
from kailab.version import __version__

# Showing a lab runs no controllers and no scheduler.
if TYPE_CHECKING:
    from kailab.fleet.fleet import Fleet
    from kailab.lab.parts import Parts
    from kailab.lab.settle import VirtualSettling
    from kailab.lab.spec import LabSpec
    from kailab.scheduler.settings.config_file import SchedulerSettings


class EmbeddedVenue:
    """A venue for one lab."""

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

        if fleet.start_time is not None:
            self.cluster = EmbeddedCluster(fleet.start_time)
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
        """Controllers of Kubernetes and of the operators run here too."""
        from kailab.lab.parts import make_parts
        from kailab.lab.settle import VirtualSettling
        from kailab.workloads import ResourceClaimController, WorkloadControllers

        others = (WorkloadControllers(self.cluster), ResourceClaimController(self.cluster))
        parts = make_parts(self.cluster, spec, observer, live=False, others=others)
        return parts, VirtualSettling(
            self.cluster,
            parts.controllers,
            parts.scheduler,
            changing,
            retry_at=parts.retry_at,
            as_kai=partial(explain_endless_moves, parts.scheduler),
        )

    def decided(self, scheduler: SchedulerUnderTest) -> None:
        """The scheduler decides in this process."""

    def answers_at(self, scheduler: SchedulerUnderTest) -> None:
        """Nothing is served."""

    def processes(self) -> Sequence[RunningProcess]:
        return ()

    def dry_run(self) -> None:
        """Do nothing, because no other process sees changes before they are saved."""

    def outlive(self, spec: LabSpec, config: Path | None, tell: Tell) -> None:
        """Only the file goes on."""

    def save(self, path: Path, sections: Callable[[], dict[str, Any]]) -> None:
        write_state(path, {**self.cluster.dump(), **sections()})

    def clear(self) -> None:
        """No other lab follows."""

    def leave(self) -> None:
        """Nothing to do: the cluster is an object of this process."""

    close = leave


class EmbeddedProvider(Provider):
    def open(self, request: Request) -> EmbeddedVenue:
        return EmbeddedVenue(EmbeddedCluster())

    def attach(self, place: Place, state: Mapping[str, Any], read_only: bool) -> EmbeddedVenue:
        """A read-only cluster loads only what is asked for, which is quick however large it is."""
        try:
            return EmbeddedVenue(EmbeddedCluster.restore(state, read_only=read_only))
        except InputError as error:  # the file is at fault, not the user
            raise ValueError(str(error)) from error

    def take_down(self, place: Place) -> None:
        """Nothing but the file exists."""


EXAMINED_CYCLES = 100
"""The number of latest cycles whose evictions are examined."""


def explain_endless_moves(scheduler: Decider) -> str:
    """Explain that consolidation moves pods for work that would fit without evictions but that allocate does not try, because of its queue
    depth. Empty if that is not the reason. KAI's search does not consider an empty set of victims, so it evicts without need
    (docs/conformance.md, "Faults of KAI")."""
    from kailab.engine.cycle import run_cycle
    from kailab.scheduler.loop import Scheduler

    if not isinstance(scheduler, Scheduler):
        return ""
    depth = scheduler.config.queue_depth.get("allocate", -1)
    latest = [record.decisions for record in scheduler.history][-EXAMINED_CYCLES:]
    actions = {eviction.action for decisions in latest for eviction in decisions.evictions}
    if depth < 0 or actions != {"consolidation"}:
        return ""
    scheduler.mirror.update()
    # Try every job on free resources alone.
    unbounded = structs.replace(scheduler.config, actions=("allocate",), queue_depth={})
    fitting = dict.fromkeys(
        bind.podgroup for bind in run_cycle(scheduler.mirror.working, unbounded, latest[-1].now).binds
    )
    if not fitting:
        return ""
    groups = count(len(fitting), "PodGroup")
    return (
        f"Consolidation evicts running pods for work that would fit without: {groups} would start at once, but allocate tries "
        f"only {count(depth, 'job')} of each queue in a cycle (queueDepthPerAction), and other jobs come first. KAI's search for victims does "
        "the same. A larger depth for allocate ends it."
    )
