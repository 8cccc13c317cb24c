"""A node image made: what is missing told, the programs got, the build run by itself, the result kept."""

from __future__ import annotations

import datetime
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from kailab.cluster.image_needs import missing_components, tell_missing
from kailab.cluster.kept_images import ARCHIVE, CannotBuild
from kailab.cluster.kind.image.ingredients import MIRROR, BuildInputs, gather_inputs
from kailab.cluster.kind.image.inside import MADE, NodeBuildResult, NodeBuildTask
from kailab.cluster.kind.image.needs import fits_memory, lacking
from kailab.cluster.kind.image.store import LOG, NodeImage, NodeImageStore
from kailab.components import KIND, ComponentCache, Pin, get_components, get_program
from kailab.components.cache import sha256_of
from kailab.components.pins import kubernetes_version, node_pins, this_machine
from kailab.components.process_group import process_group
from kailab.errors import StateError

_LAST_LINES = 8

Tell = Callable[[str], None]


def check(
    kubernetes: str | None = None,
    components: Path | None = None,
    *,
    mirror: str = MIRROR,
    store: NodeImageStore | None = None,
    cache: ComponentCache | None = None,
) -> tuple[Pin, ...]:
    """Programs that have to be got before an image can be made. Raises CannotBuild, InputError; nothing is got or made."""
    store, cache = store or NodeImageStore(), cache or ComponentCache()
    version = kubernetes_version(kubernetes)
    missing = missing_components(node_pins(version), version, components, cache)
    if reasons := lacking(store.root, mirror, missing):
        raise CannotBuild(reasons)
    return missing


def build(
    kubernetes: str | None = None,
    components: Path | None = None,
    *,
    mirror: str = MIRROR,
    again: bool = False,
    store: NodeImageStore | None = None,
    cache: ComponentCache | None = None,
    tell: Tell = lambda text: None,
) -> NodeImage:
    """The image of a release (None: the default), as an archive in the store: made, unless the same is there already.

    ``components``: a folder with the programs of a control plane; ``again``: made anew in any case. Raises CannotBuild before
    anything is got or made; MissingComponents, StateError, InputError.
    """
    store, cache = store or NodeImageStore(), cache or ComponentCache()
    tell_missing(check(kubernetes, components, mirror=mirror, store=store, cache=cache), tell)
    found = get_components(kubernetes, components, cache=cache, tell=tell)
    for pin in node_pins(found.kubernetes):
        get_program(pin, cache=cache, tell=tell)
    wanted = gather_inputs(found, mirror, cache)
    downloads = store.root / "downloads"

    def make(folder: Path) -> NodeImage:
        made = _run(wanted, folder, downloads, tell)
        return _record(wanted, made, folder / ARCHIVE)

    return store.made(wanted.name, make, again=again, tell=tell)


def _run(wanted: BuildInputs, folder: Path, downloads: Path, tell: Tell) -> NodeBuildResult:
    """Raises StateError with the last that the build said."""
    arriving = folder / f".{ARCHIVE}"
    work = folder / ".work"
    # Of a build that was killed: what it had in memory went with it.
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    task = NodeBuildTask(wanted, str(work), fits_memory(), str(arriving), str(downloads), this_machine().architecture)
    command = [
        # However this process ends, the build ends, and with it all that it started and mounted.
        "setpriv", "--pdeathsig", "KILL",
        "unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--",
        sys.executable, "-m", "kailab.cluster.kind.image.inside", msgspec.json.encode(task).decode(),
    ]  # fmt: skip
    log = folder / LOG
    environment = {**os.environ, "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
    try:
        with (
            log.open("wb") as errors,
            process_group(command, env=environment, stdout=subprocess.PIPE, stderr=errors) as child,
        ):
            made = _followed(child, tell)
            code = child.wait()
        if code or made is None:
            raise StateError(f"the node image could not be made; see {log}:\n{_end_of(log)}")
        os.replace(arriving, folder / ARCHIVE)
    finally:
        arriving.unlink(missing_ok=True)
        shutil.rmtree(work, ignore_errors=True)
    return made


def _followed(child: subprocess.Popen[bytes], tell: Tell) -> NodeBuildResult | None:
    made = None
    assert child.stdout is not None
    for line in child.stdout:
        text = line.decode("utf-8", "replace").rstrip("\n")
        if text.startswith(MADE):
            made = msgspec.json.decode(text.removeprefix(MADE), type=NodeBuildResult)
        else:
            tell(text)
    return made


def _record(wanted: BuildInputs, made: NodeBuildResult, archive: Path) -> NodeImage:
    return NodeImage(
        name=wanted.name,
        kubernetes=wanted.kubernetes,
        kind=KIND.version,
        layer=made.layer,
        sha256=sha256_of(archive),
        megabytes=archive.stat().st_size // 1_000_000,
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        suite=wanted.suite,
        mirror=wanted.mirror,
        packages=made.packages,
        checksums=wanted.checksums,
        images=made.images,
    )


def _end_of(log: Path) -> str:
    lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return "\n".join(f"  {line[:300]}" for line in lines[-_LAST_LINES:]) or "  (it said nothing)"
