"""Venues whose processes are ours: a plane (a control plane, or a kind cluster with what runs beside it), and the schedulers under
test as processes beside it.

A plane that a user opened by name goes on until it is taken down, with kailab's scheduler as one of its processes; one without
a folder of its own ends with the process that opened it.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from kailab.cluster.kubernetes import Connection
from kailab.errors import ConnectError, InputError, StateError
from kailab.evidence.decision_file import SchedulerDecisions, read_decisions
from kailab.lab.spec import LabSpec
from kailab.lab.venues.contract import Place, Request, RunningProcess, Tell
from kailab.lab.venues.kubernetes import KubernetesVenue, new_mark
from kailab.lab.venues.opening import open_venue
from kailab.lab.venues.reaper import Reaper
from kailab.operators import Operators, choose_operators
from kailab.operators.processes import find_addons
from kailab.scheduler import SchedulerSettings
from kailab.undertest.contract import IdleDetector, SchedulerProcesses, SchedulerUnderTest, StartSettings
from kailab.undertest.registry import SCHEDULERS
from kailab.undertest.running import RunningSchedulers
from kailab.undertest.selection import choose_scheduler

if TYPE_CHECKING:
    from kailab.cluster.controlplane import ControlPlane
    from kailab.components import ComponentSet
    from kailab.fleet import Fleet


class Planes(Protocol):
    """The planes of a backend."""

    def check(self) -> None:
        """Before programs are got, which may take long. Raises KailabError where none can be brought up here."""

    def up(self, folder: Path, programs: ComponentSet, tell: Tell) -> ControlPlane: ...

    def attach(self, folder: Path) -> ControlPlane:
        """Raises StateError: there is none, or it is not whole."""

    def remove(self, folder: Path) -> None:
        """In whatever state it is. Raises StateError."""

    def check_nodes(self, plane: ControlPlane, names: Collection[str]) -> None:
        """Raises InputError where a fleet's nodes may not have these names in it."""


class PlaneVenue(KubernetesVenue):
    """``deciding`` None: the plane was opened by another process. ``reaper``: what sees to it that the plane ends with this
    process; None: it goes on."""

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
        """Raises OperatorFailed, too, where one has ended since the last lab; InputError for nodes that can't live here."""
        self._operators.check()
        self._planes.check_nodes(self.plane, {node["metadata"]["name"] for node in fleet.nodes()})
        super().furnish(fleet, scheduler, settings, devices=devices)

    def rest(self, scheduler: SchedulerUnderTest) -> IdleDetector | None:
        beside = self._beside(scheduler)
        return None if beside is None else beside.rest(self.cluster)

    def decided(self, scheduler: SchedulerUnderTest) -> SchedulerDecisions | None:
        beside = self._beside(scheduler)
        if beside is None or beside.decisions is None:
            return None
        try:
            return read_decisions(beside.decisions)
        except StateError:
            return None  # it has not been through a cycle yet

    def answers_at(self, scheduler: SchedulerUnderTest) -> str | None:
        beside = self._beside(scheduler)
        return None if beside is None else beside.url

    def _beside(self, scheduler: SchedulerUnderTest) -> SchedulerProcesses | None:
        """It, where it is no part of this process."""
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
        # Reservations and events of the lab before would be news to the next one.
        for kind, namespace in (("Pod", "kai-resource-reservation"), ("Event", None)):
            self.cluster.delete_all(kind, namespace)

    def close(self) -> None:
        self.cluster.close()
        try:
            self.plane.down()
        finally:
            if self._reaper is not None:
                self._reaper.close()


class PlaneProvider:
    """The code of a backend that brings up planes. ``backend``: its name."""

    def __init__(self, backend: str, planes: Planes) -> None:
        self._backend = backend
        self._planes = planes

    def lacking(self) -> str | None:
        return None

    def completed(self, options: Mapping[str, Any]) -> dict[str, Any]:
        return dict(options)

    def open(self, request: Request) -> PlaneVenue:
        """Understands ``components`` (the folder of its programs), ``kubernetes`` (their version), ``operators`` (names of those that run
        beside it), and what says which scheduler under test one means; that of the one that is to decide is looked at now."""
        options = request.options
        # None of these is built on the way: what is missing is said before anything else is got.
        find_addons(_operators(options))
        request.scheduler.check_options()
        for name, kind in SCHEDULERS.items():
            # One that may come to decide later is looked at now, too: a wrong folder is told before minutes are spent.
            if name != request.scheduler.kind and any(options.get(own.option) for own in kind.own):
                choose_scheduler(name, options).check_options()
        self._planes.check()
        programs = _programs(options.get("components"), options.get("kubernetes"), request.get, request.tell)
        if request.folder is not None:
            request.record(Place(backend=self._backend, folder=str(request.folder)))
            return self._opened(request.folder, programs, options, request.tell)
        folder = Path(tempfile.mkdtemp(prefix="kailab-"))
        # Before the plane: whatever of it is up when this process is killed is taken down.
        reaper = Reaper(folder, self._backend)
        try:
            return self._opened(folder, programs, options, request.tell, reaper)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            reaper.close()
            raise

    def _opened(
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
            # The one at hand, instead of one attached anew.
            venue.plane = plane
            # Without the mark: they and their kinds outlast the lab, and serve the next one.
            with venue.cluster.unmarked():
                Operators(plane, _operators(given)).start(venue.cluster, tell)
        except BaseException:
            plane.down()
            raise
        return venue

    def attach(self, place: Place, state: Mapping[str, Any], read_only: bool) -> PlaneVenue:
        """A ConnectError tells what has become of the processes."""
        try:
            return PlaneVenue(
                self._planes, place, Connection.from_kubeconfig(place.kubeconfig, place.context), detached=True
            )
        except ConnectError as error:
            raise ConnectError(f"{error}{self._what_happened(Path(place.folder))}") from None

    def _what_happened(self, folder: Path) -> str:
        try:
            dead = [one for one in self._planes.attach(folder).processes() if not one.running]
        except StateError as error:
            return f"\n{error}"
        return "".join(f"\n{one.name} does not run: {one.why}" for one in dead)

    def take_down(self, place: Place) -> None:
        folder = Path(place.folder)
        if not folder.exists():
            return
        try:
            plane = self._planes.attach(folder)
        except StateError:
            # What is not whole can't be attached to, but its processes and files have to go all the same.
            self._planes.remove(folder)
        else:
            plane.down()


def _operators(options: Mapping[str, Any]) -> tuple[str, ...]:
    said = options.get("operators")
    return () if said is None else choose_operators(said)


def _programs(folder: Path | None, kubernetes: str | None, get: bool, tell: Tell) -> ComponentSet:
    from kailab.components import find_components, get_components

    return get_components(kubernetes, folder, tell=tell) if get else find_components(kubernetes, folder)


def open_plane(backend: str, **how: Any) -> PlaneVenue:
    """See ``open_venue``. Raises InputError for a backend whose processes are not ours."""
    venue = open_venue(backend, **how)
    if not isinstance(venue, PlaneVenue):
        venue.close()
        raise InputError(f"the backend {backend} has no processes of ours")
    return venue
