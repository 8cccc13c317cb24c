"""Acquisition of programs that are not here yet: copied from a folder, downloaded, or built."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from kailab.components.cache import ComponentCache
from kailab.components.errors import BuildFailed, DamagedComponent, DownloadFailed, MissingComponents, Unreachable
from kailab.components.lookup import ComponentSet, cached_components, chosen_folder, find_components
from kailab.components.manifests import ComponentManifests
from kailab.components.pins import MANIFESTS, DownloadSources, Pin, addon_pins, kubernetes_version, pins, this_machine
from kailab.components.recipes import RECIPES, usual_megabytes, usual_seconds
from kailab.components.versions import check_version
from kailab.errors import StateError, os_errors_as
from kailab.model.callbacks import Progress, Tell

_TELL_SECONDS = 15.0


class AcquisitionMethod(StrEnum):
    """Where to get programs from."""

    any = "any"
    download = "download"
    build = "build"


def get_components(
    kubernetes: str | None = None,
    folder: Path | None = None,
    *,
    way: AcquisitionMethod = AcquisitionMethod.any,
    adopt: Path | None = None,
    again: bool = False,
    use_folder: bool = True,
    cache: ComponentCache | None = None,
    sources: DownloadSources | None = None,
    tell: Tell = lambda text: None,
    progress: Progress | None = None,
) -> ComponentSet:
    """The set, after missing programs were put into the cache as ``way`` says; with ``AcquisitionMethod.any`` they are
    downloaded, and built if that fails.

    ``folder``: as in ``find_components``; nothing is acquired for a folder. ``use_folder`` False: ignore folders.
    ``adopt``: copy programs of the right version from this folder, and do nothing else. ``again``: acquire present
    programs anew. ``tell``: gets a line for each step. ``progress``: gets a step, what is done and the total (bytes of
    a download, seconds of a build); None: lines for ``tell``.

    Raises MissingComponents with the reason for each program that can't be acquired, WrongChecksum, WrongComponent,
    StateError.
    """
    if use_folder and adopt is None and (folder or chosen_folder()):
        return find_components(kubernetes, folder)
    wanted, cache = pins(kubernetes), cache or ComponentCache()
    work = _Acquisition(way, adopt, cache, sources or DownloadSources.chosen(), tell, progress or _lines(tell))
    failed: dict[Pin, str] = {}
    for number, pin in enumerate(wanted, 1):
        # Checked under the lock: another process may have acquired it while this one waited.
        with cache.locked(pin, tell):
            if not again and _is_here(cache, pin, tell):
                continue
            try:
                work.get(pin, f"{number} of {len(wanted)}")
            # The loop goes on: all missing programs are reported at once, and the others are in the cache next time.
            except (DownloadFailed, BuildFailed) as error:
                failed[pin] = str(error)
    if failed:
        reasons = "\n".join(failed.values())
        raise MissingComponents(f"{reasons}\n{_advice(kubernetes_version(kubernetes))}", tuple(failed))
    return cached_components(kubernetes_version(kubernetes), cache)


def get_program(
    pin: Pin,
    *,
    way: AcquisitionMethod = AcquisitionMethod.any,
    again: bool = False,
    cache: ComponentCache | None = None,
    sources: DownloadSources | None = None,
    tell: Tell = lambda text: None,
    progress: Progress | None = None,
) -> Path:
    """One program, acquired if it is not in the cache. See ``get_components``."""
    cache = cache or ComponentCache()
    work = _Acquisition(way, None, cache, sources or DownloadSources.chosen(), tell, progress or _lines(tell))
    with cache.locked(pin, tell):
        if again or not _is_here(cache, pin, tell):
            try:
                work.get(pin, "1 of 1")
            except (DownloadFailed, BuildFailed) as error:
                raise MissingComponents(str(error), (pin,)) from error
    return cache.path(pin)


@dataclass
class _Acquisition:
    """One run. ``unreachable``: hosts that did not answer in it."""

    way: AcquisitionMethod
    adopt: Path | None
    cache: ComponentCache
    sources: DownloadSources
    tell: Tell
    progress: Progress
    unreachable: dict[str, Unreachable] = field(default_factory=dict)

    def get(self, pin: Pin, which: str) -> None:
        """Raises DownloadFailed or BuildFailed."""
        # Under the lock, so these files are of processes that were killed.
        self.cache.clear_remains(pin)
        if self.adopt is not None:
            self._copy(pin, self.adopt)
            return
        problem: DownloadFailed | None = None
        if self.way is not AcquisitionMethod.build:
            try:
                self._download(pin, which)
                return
            except DownloadFailed as error:
                problem = error
        if self.way is AcquisitionMethod.download:
            raise DownloadFailed(f"{pin}: {problem}")
        self._build(pin, which, problem)

    def _copy(self, pin: Pin, folder: Path) -> None:
        theirs = folder.expanduser().absolute() / pin.name
        if not theirs.is_file():
            raise DownloadFailed(f"{pin}: {theirs}: no such file")
        # Before it is copied: a program of another version never gets into the cache.
        check_version(pin, theirs)
        copied = self.cache.folder(pin) / f".{pin.name}.{os.getpid()}.copied"
        try:
            with os_errors_as(StateError, f"{theirs}: can't be copied to {copied}"):
                shutil.copyfile(theirs, copied)
                path = self.cache.put(pin, copied, "adopted", str(theirs))
        finally:
            copied.unlink(missing_ok=True)
        self.tell(f"{pin}: copied from {theirs} to {path}")

    def _download(self, pin: Pin, which: str) -> None:
        from kailab.components.download import fetch

        published = self.sources.published(pin, this_machine())
        if published is None:
            raise DownloadFailed(f"{pin}: nobody publishes it for {this_machine()}")
        base = published.checksums.split("/", 3)[2]
        # Remembered for the run: several programs come from one host.
        if base in self.unreachable:
            raise self.unreachable[base]
        self.tell(f"{pin} ({which}): downloading from {published.url}")
        try:
            arrived = fetch(published, self.cache.folder(pin), self.progress)
        except Unreachable as error:
            self.unreachable[base] = error
            raise
        self._take(pin, arrived, "downloaded", published.url)

    def _build(self, pin: Pin, which: str, problem: DownloadFailed | None) -> None:
        from kailab.components.build import build, find_go

        before = f"{pin}: {problem}; " if problem else f"{pin}: "
        go = find_go()
        if go is None:
            raise BuildFailed(f"{before}it can't be built: there is no Go here (`go` in PATH)")
        if problem is not None:
            self.tell(f"{pin}: {problem}; it is built instead")
        usual = format_seconds(usual_seconds(pin))
        size = f"; the program has about {usual_megabytes(pin)} MB" if usual_megabytes(pin) else ""
        self.tell(f"{pin} ({which}): building with {go}; without earlier builds that takes about {usual}{size}")
        began = time.monotonic()
        made = self.cache.folder(pin) / f".{pin.name}.{os.getpid()}.built"
        made.mkdir(exist_ok=True)
        try:
            path = build(pin, go, made, self.progress)
            source = "its repository" if RECIPES[pin.project].commit else "the Go module proxy"
            self._take(pin, path, "built", f"{source}, with {go}")
        except BuildFailed as error:
            raise BuildFailed(f"{before}{error}" if problem else str(error)) from error
        finally:
            shutil.rmtree(made, ignore_errors=True)
        self.tell(f"{pin}: built in {format_seconds(int(time.monotonic() - began))}")

    def _take(self, pin: Pin, file: Path, how: str, source: str) -> None:
        # Before ``check_version`` runs it.
        file.chmod(0o755)
        try:
            check_version(pin, file)
            self.cache.put(pin, file, how, source)
        finally:
            file.unlink(missing_ok=True)


def _is_here(cache: ComponentCache, pin: Pin, tell: Tell) -> bool:
    try:
        # This command verifies checksums whatever it costs to read the files.
        return cache.checked(pin, anew=True) is not None
    except DamagedComponent as error:
        tell(f"{error.args[0].partition(';')[0]}; acquiring it again")
        return False


def _advice(version: str) -> str:
    return (
        f"get them with internet access, or with Go in PATH, or from a folder that has them: "
        f"`kailab components get --kubernetes {version} --from FOLDER`"
    )


def _lines(tell: Tell) -> Progress:
    """Progress as lines, every few seconds."""
    last = [time.monotonic(), 0.0]

    def progress(step: str, done: int, total: int) -> None:
        now = time.monotonic()
        if now - last[0] < _TELL_SECONDS:
            return
        last[0] = now
        if step.startswith("building"):
            tell(f"{step}: {format_seconds(done)} so far, of about {format_seconds(total)}")
        else:
            tell(f"{step}: {done / 1e6:.0f} of {total / 1e6:.0f} MB" if total else f"{step}: {done / 1e6:.0f} MB")

    return progress


def format_seconds(seconds: int) -> str:
    """For people: seconds, or minutes."""
    return f"{seconds} s" if seconds < 120 else f"{seconds / 60:.0f} min"


@dataclass(frozen=True)
class Addon:
    """``version``: of its module, with its ``v``. ``programs``: by name, each in the cache. ``manifests``: the YAML
    that a cluster needs for them."""

    name: str
    version: str
    programs: Mapping[str, Path]
    manifests: ComponentManifests


def find_addon(name: str, cache: ComponentCache | None = None) -> Addon:
    """An add-on in the cache; nothing is built. Raises MissingComponents with the command that acquires it,
    DamagedComponent, InputError."""
    cache, wanted = cache or ComponentCache(), addon_pins(name)
    paths = {pin: cache.checked(pin) for pin in wanted}
    missing = tuple(pin for pin, path in paths.items() if path is None)
    if missing:
        names = ", ".join(map(str, missing))
        raise MissingComponents(f"programs of {name} are not here: {names}. {how_to_get_addon(name, missing)}", missing)
    found_paths = {pin.name: path for pin, path in paths.items() if path is not None}
    manifests = ComponentManifests(found_paths.pop(MANIFESTS))
    return Addon(name, wanted[0].version, found_paths, manifests)


def get_addon(
    name: str,
    *,
    way: AcquisitionMethod = AcquisitionMethod.any,
    again: bool = False,
    cache: ComponentCache | None = None,
    tell: Tell = lambda text: None,
    progress: Progress | None = None,
) -> Addon:
    """An add-on, acquired if it is not in the cache. See ``get_components``."""
    for pin in addon_pins(name):
        get_program(pin, way=way, again=again, cache=cache, tell=tell, progress=progress)
    return find_addon(name, cache)


def how_to_get_addon(name: str, missing: tuple[Pin, ...]) -> str:
    """The command, with the time and space it needs."""
    seconds = format_seconds(sum(map(usual_seconds, missing)))
    return (
        f"`kailab components get --with {name}` builds them with Go, in about {seconds} without earlier builds; they have "
        f"about {sum(map(usual_megabytes, missing))} MB, and Go's caches grow by some GB"
    )
