"""What building an image needs of this machine, checked before anything is acquired or built."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

from kailab.components import ComponentCache, Pin
from kailab.components.acquisition import format_seconds
from kailab.components.build import find_go
from kailab.components.lookup import chosen_folder
from kailab.components.pins import only_built, pins
from kailab.components.recipes import usual_seconds
from kailab.errors import KailabError
from tools.images.build_inputs import SUITE
from tools.images.debian import KEYRING

_GB = 10**9
ROOT_BYTES = 4 * _GB
"""Of the root filesystem while it is built, with the archives of what goes into it."""
ARCHIVE_BYTES = 2 * _GB
_PACKAGES = {
    "debootstrap": "debootstrap",
    "gpgv": "gpgv",
    "tar": "tar",
    "unshare": "util-linux",
    "setpriv": "util-linux",
    "mount": "mount",
    "chroot": "coreutils",
}
"""Program -> the Debian package that has it."""
_MIRROR_SECONDS = 30.0


class CannotBuild(KailabError):
    """Requirements of a build are not met. ``reasons``: one for each; ``noun``: what was to be built."""

    def __init__(self, reasons: list[str], noun: str) -> None:
        self.reasons, self.noun = reasons, noun
        super().__init__("\n".join((f"no {noun} can be built here:", *(f"  {reason}" for reason in reasons))))

    def __reduce__(self) -> tuple[type[CannotBuild], tuple[list[str], str]]:
        return CannotBuild, (self.reasons, self.noun)


def missing_components(
    wanted: tuple[Pin, ...], kubernetes: str, components: Path | None, cache: ComponentCache
) -> tuple[Pin, ...]:
    """Programs that have to be acquired first: of those ``wanted`` and, unless a folder has them, those of a control plane of this release."""
    needed = wanted if components or chosen_folder() else (*pins(kubernetes), *wanted)
    return tuple(pin for pin in needed if cache.entry(pin) is None)


def report_missing(missing: tuple[Pin, ...], tell: Callable[[str], None]) -> None:
    if missing:
        seconds = format_seconds(sum(map(usual_seconds, missing)))
        tell(
            f"to be acquired first: {', '.join(map(str, missing))}; building them, where needed, takes about {seconds}"
        )


def node_image_reasons(store: Path, mirror: str, missing: tuple[Pin, ...] = ()) -> list[str]:
    """Reasons why no node image can be built here; empty: it can. ``missing``: components that have to be acquired first."""
    return [*_rights(), *_programs(missing), *without_room(store, _room()), *_mirror(mirror)]


def without_go(missing: tuple[Pin, ...]) -> Iterator[str]:
    """A reason if something missing can only be built with Go, and there is no Go."""
    built = [pin for pin in missing if only_built(pin)]
    if built and find_go() is None:
        yield f"there is no Go here, and {', '.join(map(str, built))} can only be built with it"


def without_room(store: Path, wanted: int) -> Iterator[str]:
    """Reasons why ``wanted`` bytes can't be written to the store."""
    folder = next(path for path in (store, *store.parents) if path.is_dir())
    if (free := shutil.disk_usage(folder).free) < wanted:
        yield f"{folder}: {free / _GB:.1f} GB are free; {wanted / _GB:.0f} GB are needed"
    if not os.access(folder, os.W_OK):
        yield f"{folder}: can't be written"


def fits_memory() -> bool:
    """True if the root filesystem fits into free memory and leaves as much free."""
    return psutil.virtual_memory().available >= 2 * ROOT_BYTES


def _room() -> int:
    return ARCHIVE_BYTES + (0 if fits_memory() else ROOT_BYTES)


def _rights() -> Iterator[str]:
    if not sys.platform.startswith("linux"):
        yield f"node images are built on Linux only; this is {sys.platform}"
    elif os.geteuid() != 0:
        yield "it needs root, to mount and to change its root: call it with sudo"
    elif shutil.which("unshare") is not None:
        done = subprocess.run(
            ["unshare", "--mount", "--pid", "--fork", "true"], capture_output=True, text=True, check=False
        )
        if done.returncode:
            yield f"this root may not mount: {' '.join(done.stderr.split()) or 'unshare failed'}"


def _programs(missing: tuple[Pin, ...]) -> Iterator[str]:
    for program, package in _PACKAGES.items():
        if shutil.which(program) is None:
            yield f"there is no {program} here (apt install {package})"
    if not KEYRING.is_file():
        yield f"{KEYRING}, which verifies Debian's packages, is not here (apt install debian-archive-keyring)"
    yield from without_go(missing)


def _mirror(mirror: str) -> Iterator[str]:
    url = f"{mirror.rstrip('/')}/dists/{SUITE}/InRelease"
    try:
        with urllib.request.urlopen(url, timeout=_MIRROR_SECONDS) as answer:
            answer.read(1)
    except (OSError, urllib.error.URLError, ValueError) as error:
        yield f"the Debian mirror can't be reached: {url}: {error}; --mirror names another one"
