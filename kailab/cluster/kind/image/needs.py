"""What making a node image needs of this machine, looked at before anything is got or made."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil

from kailab.cluster.image_needs import without_go, without_room
from kailab.cluster.kind.image.debian import KEYRING
from kailab.cluster.kind.image.ingredients import SUITE
from kailab.components import Pin

_GB = 10**9
ROOT_BYTES = 4 * _GB
"""Of the root while it is made, with the archives of what goes into it."""
ARCHIVE_BYTES = 2 * _GB
_PROGRAMS = {
    "debootstrap": "debootstrap",
    "gpgv": "gpgv",
    "tar": "tar",
    "unshare": "util-linux",
    "setpriv": "util-linux",
    "mount": "mount",
    "chroot": "coreutils",
}
"""And the Debian packages that have them."""
_MIRROR_SECONDS = 30.0


def lacking(store: Path, mirror: str, missing: tuple[Pin, ...] = ()) -> list[str]:
    """Reasons why no image can be made here; empty: it can. ``missing``: components that have to be got first."""
    return [*_rights(), *_programs(missing), *without_room(store, _room()), *_mirror(mirror)]


def fits_memory() -> bool:
    """Whether the root can be in memory, without taking it from anybody."""
    return psutil.virtual_memory().available >= 2 * ROOT_BYTES


def _room() -> int:
    return ARCHIVE_BYTES + (0 if fits_memory() else ROOT_BYTES)


def _rights() -> Iterator[str]:
    if not sys.platform.startswith("linux"):
        yield f"node images are made on Linux only; this is {sys.platform}"
    elif os.geteuid() != 0:
        yield "it needs root, to mount and to change its root: call it with sudo"
    elif shutil.which("unshare") is not None:
        done = subprocess.run(
            ["unshare", "--mount", "--pid", "--fork", "true"], capture_output=True, text=True, check=False
        )
        if done.returncode:
            yield f"this root may not mount: {' '.join(done.stderr.split()) or 'unshare failed'}"


def _programs(missing: tuple[Pin, ...]) -> Iterator[str]:
    for program, package in _PROGRAMS.items():
        if shutil.which(program) is None:
            yield f"there is no {program} here (apt install {package})"
    if not KEYRING.is_file():
        yield f"{KEYRING} is not here, by which Debian's packages are verified (apt install debian-archive-keyring)"
    yield from without_go(missing)


def _mirror(mirror: str) -> Iterator[str]:
    url = f"{mirror.rstrip('/')}/dists/{SUITE}/InRelease"
    try:
        with urllib.request.urlopen(url, timeout=_MIRROR_SECONDS) as answer:
            answer.read(1)
    except (OSError, urllib.error.URLError, ValueError) as error:
        yield f"the Debian mirror can't be reached: {url}: {error}; --mirror names another one"
