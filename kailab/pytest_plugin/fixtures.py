"""The fixtures, and the clusters (venues) of a session on real backends. Each test gets new labs, which are closed after it. One venue is enough for
most sessions, because labs use it one after the other; a test with two labs at once gets a second venue.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal

import pytest

from kailab.cluster.backends import BACKENDS
from kailab.errors import InputError, KailabError, NotFound
from kailab.pytest_plugin.evidence import RunEvidence, in_allure
from kailab.pytest_plugin.settings import PluginSettings
from kailab.undertest.registry import SCHEDULERS
from kailab.undertest.selection import find_conflicts, read_name

if TYPE_CHECKING:
    from kailab.evidence.recorder import Recorder
    from kailab.lab import Lab
    from kailab.lab.venues import Venue
    from kailab.scheduler.observers import Observer


class VenuePool:
    """The venues of one pytest session. With pytest-xdist each worker has its own pool."""

    def __init__(self, settings: PluginSettings) -> None:
        self._settings = settings
        self._free: list[Venue] = []
        self._used: list[Venue] = []
        self._failed: KailabError | None = None

    def acquire(self, scheduler: str) -> Venue:
        """Return a venue without a lab. Raises KailabError. After a first failure every call raises the same error at once."""
        if self._failed is not None:
            raise self._failed
        if self._free:
            venue = self._free.pop()
        else:
            try:
                venue = self._open(scheduler)
            except KailabError as error:
                self._failed = error
                raise
        self._used.append(venue)
        return venue

    def _open(self, scheduler: str) -> Venue:
        from kailab.lab.venues import open_venue

        _interrupt_by_sigterm()
        settings = self._settings
        if self._used and not BACKENDS[settings.backend].own:
            raise InputError(f"the cluster of the backend {settings.backend} can have only one lab at a time")
        return open_venue(settings.backend, scheduler=scheduler, **settings.options)

    def give_back(self, venue: Venue) -> None:
        """Return a venue after its lab was closed."""
        self._used.remove(venue)
        self._free.append(venue)

    def drop(self, venue: Venue) -> None:
        """Close a venue that no other lab may use, because closing its lab failed."""
        if venue in self._used:
            self._used.remove(venue)
            with suppress(KailabError):
                venue.close()

    def close(self) -> None:
        venues, self._free, self._used = [*self._free, *self._used], [], []
        for venue in venues:
            venue.close()


def _interrupt_by_sigterm() -> None:
    """Let SIGTERM end the session as Ctrl-C does, so that objects of labs are removed from clusters. An existing handler is kept."""
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
        """``request``: the test, class, module or session that uses the labs. ``settings``, ``venues``: default to those of the session."""
        self._item: pytest.Item = request.node
        self._is_test = request.scope == "function"
        self._settings = settings or request.config.stash[SETTINGS]
        self._venues = venues or request.config.stash[VENUES]
        self._evidence = request.config.stash[EVIDENCE]
        self._opened: list[Lab] = []
        self._used: list[Venue] = []
        self.recorders: list[Recorder] = []

    def __call__(
        self,
        fleet: Any = None,
        scheduler: str | None = None,
        config: Any = None,
        name: str | None = None,
    ) -> Lab:
        """Open a new lab. Defaults come from the test's markers, then from the command line and the ini file."""
        from kailab.evidence.recorder import Recorder
        from kailab.pytest_plugin.apply_warnings import WarningReporter, warn_of_configuration

        chosen = scheduler is not None
        scheduler = scheduler or self._marked("kailab_scheduler", self._settings.scheduler)
        self._skip_if_unsupported(scheduler)
        if config is None:
            config = self._marked_config(scheduler, chosen)
        number = len(self._opened) + 1
        self._skip_without_operators()
        venue = self._venue(scheduler)
        self._skip_without_operator_kinds(venue)
        lab_name = name or ("lab" if number == 1 else f"lab-{number}")
        for_allure = in_allure(self._item.config)
        # Evidence describes one test, so labs that several tests share have none.
        recorded = self._is_test and (self._evidence.on or for_allure)
        recorder = Recorder(lab_name, source=self._evidence.sources.here) if recorded else None
        observers: list[Observer] = [] if recorder is None else [recorder]
        observers.append(WarningReporter(self._evidence.sources.here))
        warn_of_configuration(_notices(scheduler, config), self._item)
        if recorder is not None and for_allure:
            from kailab.pytest_plugin.allure_results import AllureSteps

            observers.append(AllureSteps(recorder))
        others = self._item.ihook.pytest_kailab_observers(item=self._item, lab=lab_name) if self._is_test else ()
        lab = self._open(
            fleet=self._fleet(fleet),
            backend=self._settings.backend,
            scheduler=scheduler,
            config=config,
            observers=[*observers, *(observer for result in others for observer in result)],
            venue=venue,
            devices=self._wants_devices,
        )
        lab.base = self._folder
        lab.arrivals_apart = True
        self._opened.append(lab)
        if recorder is not None:
            self.recorders.append(recorder)
        return lab

    @property
    def _folder(self) -> Path:
        """The folder of the test, or of the class, module, package or session that shares the labs."""
        path = getattr(self._item, "path", None) or self._item.config.rootpath
        return path if path.is_dir() else path.parent

    def _venue(self, scheduler: str) -> Venue | None:
        """Return the lab's venue; None for the embedded backend. If no venue can be opened, the test is skipped; with --kailab-required it fails."""
        if "venue" not in BACKENDS[self._settings.backend].options:
            return None
        try:
            venue = self._venues.acquire(scheduler)
        except KailabError as error:
            text = f"backend {self._settings.backend} with {scheduler} can't run here: {error}"
            if self._settings.required:
                pytest.fail(text, pytrace=False)
            pytest.skip(text)
        self._used.append(venue)
        return venue

    def _open(self, **options: Any) -> Lab:
        from kailab.lab import Lab
        from kailab.undertest.contract import Unsupported

        try:
            return Lab.open(**options)
        except Unsupported as error:
            pytest.skip(str(error))

    def close(self) -> None:
        try:
            for lab in self._opened:
                lab.close()
        except BaseException:
            for venue in self._used:
                self._venues.drop(venue)
            raise
        else:
            for venue in self._used:
                self._venues.give_back(venue)

    @property
    def _wants_devices(self) -> bool:
        return self._item.get_closest_marker("kailab_devices") is not None

    def _marked(self, marker: str, default: str) -> str:
        mark = self._item.get_closest_marker(marker)
        if mark is None:
            return default
        if not mark.args:
            raise pytest.UsageError(f"{self._item.nodeid}: marker {marker} needs a name")
        return str(mark.args[0])

    def _fleet(self, given: Any) -> Any:
        """The fleet of a lab. A file that the test names is beside the test, as manifests are, or else in the working directory."""
        from kailab.fleet.library import is_fleet_path

        fleet = given or self._marked("kailab_fleet", "")
        if not fleet:
            return self._settings.fleet
        if isinstance(fleet, str | Path) and is_fleet_path(fleet):
            beside = self._folder / fleet
            return beside if beside.exists() or not Path(fleet).exists() else fleet
        return fleet

    def _marked_config(self, scheduler: str, chosen: bool) -> Any:
        """The configuration of the test's marker; None without one. ``chosen``: the call named this lab's scheduler, as ``baseline_lab``
        does. If that scheduler takes no configuration, the marker is for the test's other labs and the test is not skipped."""
        marker = self._item.get_closest_marker("kailab_config")
        if marker is None:
            return None
        if "config" not in SCHEDULERS[read_name(scheduler).kind].options:
            if chosen:
                return None
            pytest.skip(f"not with {scheduler}: it takes no scheduler configuration, and this test needs one")
        from msgspec.structs import replace

        from kailab.scheduler.settings.config_file import settings_of

        if len(marker.args) > 1:
            raise pytest.UsageError(f"{self._item.nodeid}: marker kailab_config takes one file or mapping")
        settings = settings_of(marker.args[0] if marker.args else None, self._folder)
        return replace(settings, engine=replace(settings.engine, **marker.kwargs))

    def _skip_if_unsupported(self, scheduler: str) -> None:
        backend = self._settings.backend
        for clash in find_conflicts(backend, scheduler, {"devices": self._wants_devices}):
            pytest.skip(f"scheduler {scheduler} can't run on backend {backend}: {clash.why}")
        only = self._item.get_closest_marker("kailab_only")
        if only is not None and read_name(scheduler).kind != "kailab":
            if not only.args:
                raise pytest.UsageError(f"{self._item.nodeid}: marker kailab_only needs a reason")
            pytest.skip(f"not with {scheduler}: {only.args[0]}")
        marker = self._item.get_closest_marker("kailab_backend")
        if marker is None:
            return
        for name in marker.args:
            # A misspelt name would skip the test on every backend.
            try:
                BACKENDS.check(name)
            except InputError as error:
                raise pytest.UsageError(f"{self._item.nodeid}: marker kailab_backend: {error}") from None
        if backend not in marker.args:
            pytest.skip(f"this test runs on {', '.join(marker.args)} only, not on {backend}")

    def _operators(self) -> tuple[str, ...]:
        """The operators that the work of this test needs on a real API server."""
        marker = self._item.get_closest_marker("kailab_operator")
        if marker is None:
            return ()
        from kailab.operators.registry import choose_operators

        try:
            return choose_operators(",".join(marker.args))
        except InputError as error:
            raise pytest.UsageError(f"{self._item.nodeid}: marker kailab_operator: {error}") from None

    def _skip_without_operators(self) -> None:
        needed = self._operators()
        if not needed or "operators" not in BACKENDS[self._settings.backend].options:
            return
        from kailab.operators.registry import choose_operators

        chosen = self._settings.options["operators"]
        given = choose_operators(chosen) if chosen else ()
        if missing := [name for name in needed if name not in given]:
            pytest.skip(f"no operator creates the pods of this test's work; it needs --kailab-with {','.join(missing)}")

    def _skip_without_operator_kinds(self, venue: Venue | None) -> None:
        """Skip if a user's cluster does not have the kinds of an operator, which kailab does not install there."""
        from kailab.operators.registry import OPERATORS

        if venue is None:
            return
        for name in self._operators():
            for kind in OPERATORS[name].kinds:
                try:
                    venue.cluster.list(kind)
                except NotFound:
                    pytest.skip(f"the cluster has no kind {kind}: this test's work needs {OPERATORS[name].title} there")


def _notices(scheduler: str, config: Any) -> tuple[str, ...]:
    """Notices of a lab's configuration: ``config``, or the file of the scheduler's entry. Raises InputError."""
    given = read_name(scheduler).options.get("config") if config is None else config
    if given is None:
        return ()
    from kailab.scheduler.settings.config_file import settings_of

    return settings_of(given).notices


def uses_fixture(item: pytest.Item, fixture: str, module: str) -> bool:
    """True if a test uses the fixture that this module defines; a project may define another one of this name."""
    info = getattr(item, "_fixtureinfo", None)
    definitions: Sequence[Any] = () if info is None else info.name2fixturedefs.get(fixture, ())
    # The last definition is the one that the test gets.
    return bool(definitions) and definitions[-1].func.__module__ == module


def asks_for_lab(item: pytest.Item) -> bool:
    """True if a test has labs or uses the fixture for them."""
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


def _factory_of(scope: Literal["class", "module", "package", "session"]) -> Any:
    def shared_lab_factory(request: pytest.FixtureRequest) -> Iterator[LabFactory]:
        labs = LabFactory(request)
        try:
            yield labs
        finally:
            labs.close()

    shared_lab_factory.__doc__ = f"""As ``lab_factory``, for fixtures with the scope {scope}. Tests share these labs, so the labs are in no test's evidence."""
    return pytest.fixture(scope=scope, name=f"{scope}_lab_factory")(shared_lab_factory)


class_lab_factory = _factory_of("class")
module_lab_factory = _factory_of("module")
package_lab_factory = _factory_of("package")
session_lab_factory = _factory_of("session")


@pytest.fixture
def lab(lab_factory: LabFactory) -> Lab:
    """A new lab with the fleet and scheduler of the test. Paths of manifests are relative to the test's folder."""
    return lab_factory(name="lab")


@pytest.fixture
def baseline_lab(lab_factory: LabFactory) -> Lab:
    """A new lab in which kube-scheduler decides, for comparison on the same manifests."""
    return lab_factory(scheduler="kube-scheduler", name="baseline")


@pytest.fixture
def manifests(request: pytest.FixtureRequest) -> Path:
    """The folder of the test's exercise, which has its manifests."""
    return request.path.parent
