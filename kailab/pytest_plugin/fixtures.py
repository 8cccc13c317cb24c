"""The fixtures: each test gets new labs, which are closed and written up after it; and the clusters (venues) of a session on real backends. One venue is enough for most
sessions, because labs come one after the other; a test with two labs at once gets a second.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import pytest

from kailab.pytest_plugin.evidence import RunEvidence, in_allure
from kailab.pytest_plugin.settings import PluginSettings

if TYPE_CHECKING:
    from kailab.errors import KailabError
    from kailab.evidence.recorder import Recorder
    from kailab.lab import Lab
    from kailab.lab.venues import Venue
    from kailab.scheduler.observers import Observer


class VenuePool:
    """Of one session (with pytest-xdist: of one worker)."""

    def __init__(self, settings: PluginSettings) -> None:
        self._settings = settings
        self._free: list[Venue] = []
        self._taken: list[Venue] = []
        self._failed: KailabError | None = None

    def take(self, scheduler: str) -> Venue:
        """A venue that no lab lives in. Raises KailabError, at once if that failed before."""
        from kailab.errors import KailabError

        if self._failed is not None:
            raise self._failed
        if self._free:
            venue = self._free.pop()
        else:
            try:
                venue = self._opened(scheduler)
            except KailabError as error:
                self._failed = error
                raise
        self._taken.append(venue)
        return venue

    def _opened(self, scheduler: str) -> Venue:
        from kailab.cluster.backends import BACKENDS
        from kailab.errors import InputError
        from kailab.lab.venues import open_venue

        _end_by_sigterm_too()
        settings = self._settings
        if self._taken and not BACKENDS[settings.backend].own:
            raise InputError(f"the cluster of the backend {settings.backend} has room for one lab at a time")
        return open_venue(
            settings.backend,
            kubeconfig=settings.kubeconfig,
            context=settings.context,
            components=settings.components,
            kubernetes=settings.kubernetes,
            operators=settings.operators,
            kai=settings.kai_bin,
            kai_crds=settings.kai_crds,
            kai_chart=settings.kai_chart,
            scheduler=scheduler,
        )

    def give_back(self, venue: Venue) -> None:
        """Its lab has moved out."""
        self._taken.remove(venue)
        self._free.append(venue)

    def drop(self, venue: Venue) -> None:
        """It was not left as it should be: no other lab is to live there."""
        from kailab.errors import KailabError

        if venue in self._taken:
            self._taken.remove(venue)
            with suppress(KailabError):
                venue.close()

    def close(self) -> None:
        """End all."""
        venues, self._free, self._taken = [*self._free, *self._taken], [], []
        for venue in venues:
            venue.close()


def _end_by_sigterm_too() -> None:
    """Let SIGTERM end the session as Ctrl-C does: what the labs brought into a cluster is taken out. Whoever has a handler keeps
    it."""
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _interrupted)


def _interrupted(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt("SIGTERM")


SETTINGS = pytest.StashKey[PluginSettings]()
EVIDENCE = pytest.StashKey[RunEvidence]()
LABS = pytest.StashKey["LabFactory"]()
VENUES = pytest.StashKey["VenuePool"]()


class LabFactory:
    """Opens the labs of one test: ``lab_factory(fleet=..., scheduler=..., config=..., name=...)``."""

    def __init__(
        self, request: pytest.FixtureRequest, settings: PluginSettings | None = None, venues: VenuePool | None = None
    ) -> None:
        """``settings``, ``venues``: the session's, if none are given."""
        self._item: pytest.Item = request.node
        self._settings = settings or request.config.stash[SETTINGS]
        self._venues = venues or request.config.stash[VENUES]
        self._evidence = request.config.stash[EVIDENCE]
        self._opened: list[Lab] = []
        self._taken: list[Venue] = []
        self.recorders: list[Recorder] = []

    def __call__(
        self,
        fleet: Any = None,
        scheduler: str | None = None,
        config: Any = None,
        name: str | None = None,
    ) -> Lab:
        """A new lab. What is not said comes from the test's markers, then from the command line and ini file."""
        from kailab.evidence.recorder import Recorder

        chosen = scheduler is not None
        scheduler = scheduler or self._marked("kailab_scheduler", self._settings.scheduler)
        self._skip_what_cannot_run(scheduler)
        if config is None:
            config = self._marked_config(scheduler, chosen)
        number = len(self._opened) + 1
        self._skip_without_operators()
        venue = self._venue(scheduler)
        self._skip_without_their_kinds(venue)
        called = name or ("lab" if number == 1 else f"lab-{number}")
        for_allure = in_allure(self._item.config)
        recorder = Recorder(called, source=self._evidence.sources.here) if self._evidence.on or for_allure else None
        own: list[Observer] = [] if recorder is None else [recorder]
        if recorder is not None and for_allure:
            from kailab.pytest_plugin.allure_results import AllureSteps

            own.append(AllureSteps(recorder))
        told = self._item.ihook.pytest_kailab_observers(item=self._item, lab=called)
        lab = self._open(
            fleet=fleet or self._marked("kailab_fleet", self._settings.fleet),
            backend=self._settings.backend,
            scheduler=scheduler,
            config=config,
            observers=[*own, *(one for several in told for one in several)],
            venue=venue,
            devices=self._wants_devices,
        )
        lab.base = self._item.path.parent
        self._opened.append(lab)
        if recorder is not None:
            self.recorders.append(recorder)
        return lab

    def _venue(self, scheduler: str) -> Venue | None:
        """Where the lab is to live, if its backend is a real one. Skips, or fails where that was asked for, if there can be
        none."""
        from kailab.cluster.backends import BACKENDS
        from kailab.errors import KailabError

        if "venue" not in BACKENDS[self._settings.backend].options:
            return None

        try:
            venue = self._venues.take(scheduler)
        except KailabError as error:
            text = f"backend {self._settings.backend} with {scheduler} can't run here: {error}"
            if self._settings.required:
                pytest.fail(text, pytrace=False)
            pytest.skip(text)
        self._taken.append(venue)
        return venue

    def _open(self, **how: Any) -> Lab:
        from kailab.lab import Lab
        from kailab.undertest.contract import Unsupported

        try:
            return Lab.open(**how)
        except Unsupported as error:
            pytest.skip(str(error))

    def close(self) -> None:
        """Close all labs."""
        try:
            for lab in self._opened:
                lab.close()
        except BaseException:
            for venue in self._taken:
                self._venues.drop(venue)
            raise
        else:
            for venue in self._taken:
                self._venues.give_back(venue)

    @property
    def _wants_devices(self) -> bool:
        return self._item.get_closest_marker("kailab_devices") is not None

    def _marked(self, marker: str, default: str) -> str:
        found = self._item.get_closest_marker(marker)
        if found is None:
            return default
        if not found.args:
            raise pytest.UsageError(f"{self._item.nodeid}: marker {marker} needs a name")
        return str(found.args[0])

    def _marked_config(self, scheduler: str, chosen: bool) -> Any:
        """``chosen``: the test itself named the scheduler of this lab, as ``baseline_lab`` does; then the marker is for its
        others."""
        marker = self._item.get_closest_marker("kailab_config")
        if marker is None:
            return None
        from kailab.undertest.registry import SCHEDULERS
        from kailab.undertest.selection import read_name

        if "config" not in SCHEDULERS[read_name(scheduler).kind].options:
            if chosen:
                return None
            pytest.skip(f"not with {scheduler}: it takes no scheduler configuration, and this test needs one")
        from msgspec.structs import replace

        from kailab.scheduler import settings_of

        if len(marker.args) > 1:
            raise pytest.UsageError(f"{self._item.nodeid}: marker kailab_config takes one file or mapping")
        settings = settings_of(marker.args[0] if marker.args else None, self._item.path.parent)
        return replace(settings, engine=replace(settings.engine, **marker.kwargs))

    def _skip_what_cannot_run(self, scheduler: str) -> None:
        from kailab.undertest.selection import find_conflicts, read_name

        backend = self._settings.backend
        for clash in find_conflicts(backend, scheduler, {"devices": self._wants_devices}):
            pytest.skip(f"scheduler {scheduler} can't run on backend {backend}: {clash.why}")
        only = self._item.get_closest_marker("kailab_only")
        if only is not None and read_name(scheduler).kind != "kailab":
            if not only.args:
                raise pytest.UsageError(f"{self._item.nodeid}: marker kailab_only needs a reason")
            pytest.skip(f"not with {scheduler}: {only.args[0]}")
        marker = self._item.get_closest_marker("kailab_backend")
        if marker is not None and backend not in marker.args:
            pytest.skip(f"this test runs on {', '.join(marker.args)} only, not on {backend}")

    def _operators(self) -> tuple[str, ...]:
        """Those that the work of this test needs, where kailab's own controllers do not stand in for them."""
        marker = self._item.get_closest_marker("kailab_operator")
        if marker is None:
            return ()
        from kailab.errors import InputError
        from kailab.operators.registry import choose_operators

        try:
            return choose_operators(",".join(marker.args))
        except InputError as error:
            raise pytest.UsageError(f"{self._item.nodeid}: marker kailab_operator: {error}") from None

    def _skip_without_operators(self) -> None:
        needed = self._operators()
        if not needed:
            return
        from kailab.cluster.backends import BACKENDS
        from kailab.operators.registry import choose_operators

        if "operators" not in BACKENDS[self._settings.backend].options:
            return
        given = choose_operators(self._settings.operators) if self._settings.operators else ()
        if missing := [name for name in needed if name not in given]:
            pytest.skip(f"nothing makes the pods of this test's work: it needs --kailab-with {','.join(missing)}")

    def _skip_without_their_kinds(self, venue: Venue | None) -> None:
        """In a cluster of somebody else's the operators are theirs."""
        from kailab.errors import NotFound
        from kailab.operators.registry import OPERATORS

        if venue is None:
            return
        for name in self._operators():
            for kind in OPERATORS[name].kinds:
                try:
                    venue.cluster.list(kind)
                except NotFound:
                    pytest.skip(f"the cluster has no kind {kind}: this test's work needs {OPERATORS[name].title} there")


def uses_fixture(item: pytest.Item, fixture: str, module: str) -> bool:
    """Whether a test takes the fixture that this module of kailab's defines: a project may have one of its own of that name."""
    found = getattr(item, "_fixtureinfo", None)
    definitions: Sequence[Any] = () if found is None else found.name2fixturedefs.get(fixture, ())
    # The last one is what the test gets.
    return bool(definitions) and definitions[-1].func.__module__ == module


def asks_for_lab(item: pytest.Item) -> bool:
    """Whether a test has labs, or would have if it came to that."""
    return LABS in item.stash or uses_fixture(item, "lab_factory", __name__)


@pytest.fixture
def lab_factory(request: pytest.FixtureRequest) -> Iterator[LabFactory]:
    """Opens labs: ``lab_factory(fleet="racks", scheduler="kailab", config=EngineConfig(...), name="second")``."""
    labs = LabFactory(request)
    request.node.stash[LABS] = labs
    try:
        yield labs
    finally:
        labs.close()


@pytest.fixture
def lab(lab_factory: LabFactory) -> Lab:
    """A fresh lab with the requested fleet and scheduler. Manifest paths are relative to the test's folder."""
    return lab_factory(name="lab")


@pytest.fixture
def baseline_lab(lab_factory: LabFactory) -> Lab:
    """A fresh lab in which kube-scheduler decides, for contrast on the same manifests."""
    return lab_factory(scheduler="kube-scheduler", name="baseline")


@pytest.fixture
def manifests(request: pytest.FixtureRequest) -> Path:
    """The folder of the test's exercise, which has its manifests."""
    path: Path = request.path.parent
    return path
