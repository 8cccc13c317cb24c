"""Venues whose processes are ours: a plane (a control plane, or a kind cluster with the processes beside it), and the schedulers under test
as processes beside it.

A plane with a folder that the user chose goes on until it is taken down, with kailab's scheduler as one of its processes. A plane in a
temporary folder ends with the process that opened it.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence, Set
from functools import cached_property
from pathlib import Path
from typing import Any

from kailab.cluster.controlplane import ControlPlane, take_down
from kailab.cluster.kubernetes import Connection
from kailab.components import ComponentSet, find_components, get_components
from kailab.errors import ConnectError, InputError, StateError
from kailab.evidence.decision_file import SchedulerDecisions, read_decisions
from kailab.fleet.fleet import Fleet
from kailab.lab.spec import LabSpec
from kailab.lab.venues import open_venue
from kailab.lab.venues.contract import Place, Provider, Request, RunningProcess
from kailab.lab.venues.kubernetes import KubernetesVenue, create_nodes, delete_stale_nodes, new_mark
from kailab.lab.venues.reaper import Reaper
from kailab.model.callbacks import Tell
from kailab.model.labels import RESERVATION_NAMESPACE
from kailab.model.objects import Object, name_of
from kailab.operators import Operators, choose_operators
from kailab.operators.processes import find_addons
from kailab.operators.publishing import published_fleet, without_gpus
from kailab.scheduler.settings.config_file import SchedulerSettings
from kailab.undertest.contract import IdleDetector, SchedulerProcesses, SchedulerUnderTest, StartSettings
from kailab.undertest.registry import SCHEDULERS
from kailab.undertest.running import RunningSchedulers
from kailab.undertest.selection import choose_scheduler


class Planes:
    """The planes of a backend: control planes, or those of a subclass with another ``plane`` and ``remove``."""

    plane: Any = ControlPlane

    def check(self) -> None:
        """Called before programs are downloaded or built, which may take long. Raises KailabError if no plane can be started here."""

    def up(self, folder: Path, programs: ComponentSet, tell: Tell) -> Any:
        return self.plane.up(folder, components=programs, tell=tell)

    def attach(self, folder: Path) -> Any:
        """Raises StateError if there is no plane, or it is incomplete."""
        return self.plane.attach(folder)

    def remove(self, folder: Path) -> None:
        """Remove a plane in any state. Raises StateError."""
        take_down(folder)

    def check_nodes(self, plane: Any, names: Set[str]) -> None:
        """Raises InputError for names that nodes of a fleet can't have there."""


class PlaneVenue(KubernetesVenue):
    """``deciding`` None: the plane was opened by another process. ``reaper``: ends the plane with this process; None: the plane goes on."""

    finalizer_seconds = 10.0

    def __init__(
        self,
        planes: Planes,
        place: Place,
        connection: Connection,
        deciding: RunningSchedulers | None = None,
        *,
        detached: bool = False,
        reaper: Reaper | None = None,
    ) -> None:
        super().__init__(place, connection, deciding, detached=detached)
        self._planes = planes
        self._reaper = reaper

    @cached_property
    def plane(self) -> ControlPlane:
        """Raises StateError."""
        return self._planes.attach(Path(self.place.folder))

    @cached_property
    def _operators(self) -> Operators:
        return Operators.of(self.plane)

    def operators(self) -> Operators | None:
        return self._operators if self._operators.names else None

    def furnish(
        self, fleet: Fleet, scheduler: SchedulerUnderTest, settings: SchedulerSettings, *, devices: bool = False
    ) -> None:
        """Raises OperatorFailed too, if one has ended since the last lab, and InputError for nodes that can't exist here."""
        self._operators.check()
        if devices and self._operators.publishes_gpus:
            raise InputError(
                "--dra publishes the GPUs of the nodes for claims, the fake-gpu-operator for the device plugin's resource: leave one out"
            )
        self._planes.check_nodes(self.plane, {name_of(node) for node in fleet.nodes()})
        super().furnish(fleet, scheduler, settings, devices=devices)

    def provide_nodes(self, fleet: Fleet, nodes: Mapping[str, Object]) -> None:
        """Raises OperatorFailed if an operator publishes the GPUs of nodes, and does not do so."""
        if not self._operators.publishes_gpus:
            super().provide_nodes(fleet, nodes)
            return
        published = published_fleet(fleet, nodes)
        publication = self._operators.publication(self.cluster, published)
        deleted, missing = delete_stale_nodes(self.cluster, self.place.mark, published.nodes)
        # Without the mark, because the operator outlasts the lab.
        with self.cluster.unmarked():
            publication.begin(deleted)
        create_nodes(self.cluster, map(without_gpus, missing))
        publication.complete()

    def idle_detector(self, scheduler: SchedulerUnderTest) -> IdleDetector | None:
        beside = self._beside(scheduler)
        return None if beside is None else beside.idle_detector(self.cluster)

    def decided(self, scheduler: SchedulerUnderTest) -> SchedulerDecisions | None:
        beside = self._beside(scheduler)
        if beside is None or beside.decisions is None:
            return None
        try:
            return read_decisions(beside.decisions)
        except StateError:
            return None  # no cycle has run yet

    def answers_at(self, scheduler: SchedulerUnderTest) -> str | None:
        beside = self._beside(scheduler)
        return None if beside is None else beside.url

    def _beside(self, scheduler: SchedulerUnderTest) -> SchedulerProcesses | None:
        """The processes of the scheduler under test; None if it decides in this process."""
        return None if scheduler.always_in_process and not self.detached else scheduler.beside(self.plane)

    def processes(self) -> Sequence[RunningProcess]:
        return self.plane.processes()

    def outlive(self, spec: LabSpec, config: Path | None, tell: Tell) -> None:
        super().outlive(spec, config, tell)
        scheduler = spec.under_test
        if scheduler.always_in_process and (beside := self._beside(scheduler)) is not None:
            settings = SchedulerSettings(engine=spec.config, usage=spec.usage)
            beside.start(self.cluster, StartSettings(settings, config, spec.adopt_default_scheduler), tell)

    def clear(self) -> None:
        super().clear()
        # The next lab must not see reservations and events of this one, nor claims, which outlive the pods that they were made for.
        for kind, namespace in (
            ("Pod", RESERVATION_NAMESPACE),
            ("Event", None),
            ("PersistentVolumeClaim", None),
        ):
            self.cluster.delete_all(kind, namespace)

    def close(self) -> None:
        self.cluster.close()
        try:
            self.plane.down()
        finally:
            if self._reaper is not None:
                self._reaper.close()


class PlaneProvider(Provider):
    """The provider of a backend that starts planes. ``backend``: its name."""

    def __init__(self, backend: str, planes: Planes) -> None:
        self._backend = backend
        self._planes = planes

    def open(self, request: Request) -> PlaneVenue:
        """Understands ``components`` (the folder of the programs), ``kubernetes`` (their version), ``operators`` (names of those that run
        beside the plane), and the options of schedulers under test. The options of the first scheduler are checked at once."""
        options = request.options
        # These are not built here, so report what is missing before anything else is downloaded.
        find_addons(_operators(options, self._backend))
        request.scheduler.check_options()
        for name, kind in SCHEDULERS.items():
            # Options of other schedulers are checked too: a wrong folder is reported before minutes are spent.
            if name != request.scheduler.kind and any(options.get(own.option) for own in kind.own):
                choose_scheduler(name, options).check_options()
        self._planes.check()
        programs = (
            get_components(options.get("kubernetes"), options.get("components"), tell=request.tell)
            if request.get
            else find_components(options.get("kubernetes"), options.get("components"))
        )
        if request.folder is not None:
            request.record(Place(backend=self._backend, folder=str(request.folder)))
            return self._open(request.folder, programs, options, request.tell)
        folder = Path(tempfile.mkdtemp(prefix="kailab-"))
        # The reaper comes first: if this process is killed, it takes down whatever has started.
        reaper = Reaper(folder, self._backend)
        try:
            return self._open(folder, programs, options, request.tell, reaper)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            reaper.close()
            raise

    def _open(
        self, folder: Path, programs: ComponentSet, given: Mapping[str, Any], tell: Tell, reaper: Reaper | None = None
    ) -> PlaneVenue:
        plane = self._planes.up(folder, programs, tell)
        try:
            place = Place(backend=self._backend, folder=str(folder), kubeconfig=str(plane.kubeconfig), mark=new_mark())
            venue = PlaneVenue(
                self._planes,
                place,
                Connection.from_kubeconfig(plane.kubeconfig),
                RunningSchedulers(plane, programs, given),
                reaper=reaper,
            )
            # Use these, so that no plane is attached again, and operators are known that start with a fleet.
            venue.plane, venue._operators = plane, Operators(plane, _operators(given, self._backend))
            # Without the mark, because operators and their kinds outlast the lab and serve the next one.
            with venue.cluster.unmarked():
                venue._operators.start(venue.cluster, tell)
        except BaseException:
            plane.down()
            raise
        return venue

    def attach(self, place: Place, state: Mapping[str, Any], read_only: bool) -> PlaneVenue:
        """The message of a ConnectError includes processes that have ended."""
        try:
            return PlaneVenue(
                self._planes, place, Connection.from_kubeconfig(place.kubeconfig, place.context), detached=True
            )
        except ConnectError as error:
            raise ConnectError(f"{error}{self._what_happened(Path(place.folder))}") from None

    def _what_happened(self, folder: Path) -> str:
        try:
            dead = [process for process in self._planes.attach(folder).processes() if not process.running]
        except StateError as error:
            return f"\n{error}"
        return "".join(f"\n{process.name} does not run: {process.why}" for process in dead)

    def take_down(self, place: Place) -> None:
        folder = Path(place.folder)
        if not folder.exists():
            return
        try:
            plane = self._planes.attach(folder)
        except StateError:
            # An incomplete plane can't be attached to, but its processes and files must be removed.
            self._planes.remove(folder)
        else:
            plane.down()


def _operators(options: Mapping[str, Any], backend: str) -> tuple[str, ...]:
    names = options.get("operators")
    return () if names is None else choose_operators(names, backend)


def open_plane(backend: str, **how: Any) -> PlaneVenue:
    """See ``open_venue``. Raises InputError for a backend without processes of ours."""
    venue = open_venue(backend, **how)
    if not isinstance(venue, PlaneVenue):
        venue.close()
        raise InputError(f"the backend {backend} starts no processes, so it has no plane")
    return venue


class ControlPlaneProvider(PlaneProvider):
    def __init__(self) -> None:
        super().__init__("controlplane", Planes())
