"""Venues on a Kubernetes API server, whoever started it: one lab after the other moves in and out.

What a lab creates carries its mark. In a cluster of somebody else's only that is taken out.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kailab.cluster.backends import BACKENDS
from kailab.cluster.install import furnishings, install, uninstall
from kailab.cluster.kubernetes import Connection, KubernetesCluster
from kailab.fleet import Fleet
from kailab.lab.live_settling import DEADLINE_SECONDS, LiveSettling
from kailab.lab.parts import Parts, parts_over
from kailab.lab.spec import LabSpec
from kailab.lab.venues import nodes
from kailab.lab.venues.clearing import MARK, clear
from kailab.lab.venues.contract import Place, RunningProcess, Tell
from kailab.operators import Operators
from kailab.scheduler import SchedulerSettings
from kailab.scheduler.observers import Observer
from kailab.undertest.contract import PROCESS_QUIET_SECONDS, IdleDetector, SchedulerUnderTest
from kailab.undertest.running import RunningSchedulers

if TYPE_CHECKING:
    from kailab.evidence.decision_file import SchedulerDecisions

_WATCHED = (
    "Namespace", "PriorityClass", "Node", "Queue", "Topology", "PodGroup", "Pod", "Job", "CronJob", "Deployment",
    "ReplicaSet", "StatefulSet", "DaemonSet", "ConfigMap",
)  # fmt: skip


def new_mark() -> str:
    """Unlike that of any other lab."""
    return uuid.uuid4().hex[:12]


class KubernetesVenue:
    """``deciding`` None: whoever decides is there already. ``detached``: kailab's scheduler decides in a process of its own, not in
    the one that holds the lab."""

    exclusive = False

    def __init__(
        self, place: Place, connection: Connection, deciding: RunningSchedulers | None = None, *, detached: bool = False
    ) -> None:
        self.place = place
        self.backend = place.backend
        self.detached = detached
        self.installed = False
        self.patience = DEADLINE_SECONDS  # of one settling; who looks for what never comes to rest has less
        self.cluster = KubernetesCluster(connection, place.backend, marks={MARK: place.mark})
        self._deciding = deciding

    @property
    def kubernetes(self) -> str:
        return self.cluster.version

    @property
    def kubeconfig(self) -> Path:
        return Path(self.place.kubeconfig)

    # --- a lab moves in ----------------------------------------------------------------------------------------------

    def furnish(
        self, fleet: Fleet, scheduler: SchedulerUnderTest, settings: SchedulerSettings, *, devices: bool = False
    ) -> None:
        """Raises ConnectError where the nodes do not become ready."""
        cluster = self.cluster
        if self._deciding is not None:
            # Without the mark: definitions and what belongs to them outlast the lab, and serve the next one.
            with cluster.unmarked():
                self._deciding.prepare(cluster, scheduler)
        if not self.installed:
            # A closed watch leaves its informer behind: what follows is looked up here, not asked for object by object.
            cluster.watch(("CustomResourceDefinition",)).close()
            with cluster.unmarked():
                install(cluster)
            cluster.watch(_WATCHED).close()
            self.installed = True
        if self._deciding is not None:
            with cluster.unmarked():
                self._deciding.ensure(cluster, scheduler, settings)
        wanted = furnishings(fleet, devices, beside_real=BACKENDS[self.backend].real_nodes)
        fakes = {obj["metadata"]["name"]: obj for obj in wanted if obj["kind"] == "Node"}
        nodes.provide(cluster, self.place.mark, fakes)
        for obj in wanted:
            if obj["kind"] != "Node":
                cluster.apply(obj)
        # Last: the nodes become ready while the rest is written.
        nodes.await_ready(cluster, fakes)

    def versions(self, scheduler: SchedulerUnderTest) -> dict[str, str]:
        """The API server's, and as far as they are ours those of etcd, KWOK and a scheduler under test that is not kailab's."""
        found = {"kubernetes": self.cluster.version, "scheduler": scheduler.version(live=True)}
        return found if self._deciding is None else {**found, **self._deciding.versions(scheduler)}

    # --- it is at work -----------------------------------------------------------------------------------------------

    def run(self, spec: LabSpec, observer: Observer, changing: Callable[[], list[str]]) -> tuple[Parts, LiveSettling]:
        scheduler = spec.under_test
        parts = parts_over(self.cluster, spec, observer, live=True, external=self.detached)
        rest = self.rest(scheduler)
        quiet = PROCESS_QUIET_SECONDS if self.detached or rest else scheduler.quiet_seconds
        operators = self.operators()
        if operators is not None:
            quiet = max(quiet, PROCESS_QUIET_SECONDS)
        pace = LiveSettling(
            self.cluster, parts.controllers, parts.scheduler,
            considers=scheduler.answers, rest=rest, quiet=quiet, owed=scheduler.give_up_seconds,
            deadline=self.patience, retry_at=parts.retry_at, operators=operators, writes=scheduler.writes,
        )  # fmt: skip
        return parts, pace

    def operators(self) -> Operators | None:
        """Those whose processes are ours; None: there are none."""
        return None

    def rest(self, scheduler: SchedulerUnderTest) -> IdleDetector | None:
        """What tells whether the scheduler under test is done; None if nothing does."""

    def decided(self, scheduler: SchedulerUnderTest) -> SchedulerDecisions | None:
        """None: nothing is known of who decides."""

    def answers_at(self, scheduler: SchedulerUnderTest) -> str | None:
        """None: nothing is known of who decides."""

    def processes(self) -> Sequence[RunningProcess]:
        return ()

    def dry_run(self) -> None:
        self.cluster.dry_run()

    def outlive(self, spec: LabSpec, config: Path | None, tell: Tell) -> None:
        self.detached = True

    def save(self, path: Path, sections: Callable[[], dict[str, Any]]) -> None:
        """All there is of the lab is in its cluster."""

    # --- it moves out ------------------------------------------------------------------------------------------------

    def clear(self) -> None:
        # Kinds of operators, of which there may be many: only those that this lab wrote are looked through.
        others = [kind for kind in self.cluster.created if kind not in _WATCHED]
        operators = self.operators()
        # Operators make such objects of each other's: a RayJob its RayCluster.
        made = () if operators is None else operators.kinds
        kinds = dict.fromkeys((*_WATCHED, *others, *made))
        clear(self.cluster, self.place.mark, kinds=kinds, keep=("Node",), makers=made)

    def vacate(self) -> None:
        """Take all of the lab out of somebody else's cluster; the kinds it installed, too, if nobody else uses them."""
        clear(self.cluster, self.place.mark)
        self._end_schedulers()
        # Of anybody's: deleting a definition deletes all objects of its kind.
        if not self.cluster.list("Queue") and not self.cluster.list("PodGroup"):
            uninstall(self.cluster)

    def _end_schedulers(self) -> None:
        """Those that were started, or installed, for labs here."""
        if self._deciding is not None:
            self._deciding.end()

    def leave(self) -> None:
        self.cluster.close()

    def close(self) -> None:
        try:
            if self.installed:
                self.vacate()
            else:
                self._end_schedulers()
        finally:
            self.cluster.close()
