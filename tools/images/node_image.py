"""Builds a node image: reports what is missing, acquires the programs, runs the build in a process of its own, records the result."""

from __future__ import annotations

import datetime
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from kailab.cluster.built_images import ARCHIVE, NodeImage, NodeImageStore
from kailab.components import KIND, ComponentCache, Pin, get_components, get_program
from kailab.components.cache import sha256_of
from kailab.components.pins import kubernetes_version, node_pins, this_machine
from kailab.components.process_group import process_group
from kailab.errors import StateError
from tools.images.build_inputs import MIRROR, BuildInputs, gather_inputs
from tools.images.node_build import RESULT, NodeBuildResult, NodeBuildTask
from tools.images.requirements import CannotBuild, fits_memory, missing_components, node_image_reasons, report_missing

_LOG = "build.log"
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
    """Programs that have to be acquired before an image can be built. Raises CannotBuild, InputError; nothing is acquired or built."""
    store, cache = store or NodeImageStore(), cache or ComponentCache()
    version = kubernetes_version(kubernetes)
    missing = missing_components(node_pins(version), version, components, cache)
    if reasons := node_image_reasons(store.root, mirror, missing):
        raise CannotBuild(reasons, store.noun)
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
    """The image of a Kubernetes release (None: the default), as an archive in the store; built unless the same is there
    already.

    ``components``: a folder with the programs of a control plane; ``again``: build anew in any case. Raises CannotBuild
    before anything is acquired or built; MissingComponents, StateError, InputError.
    """
    store, cache = store or NodeImageStore(), cache or ComponentCache()
    report_missing(check(kubernetes, components, mirror=mirror, store=store, cache=cache), tell)
    control_plane = get_components(kubernetes, components, cache=cache, tell=tell)
    for pin in node_pins(control_plane.kubernetes):
        get_program(pin, cache=cache, tell=tell)
    wanted = gather_inputs(control_plane, mirror, cache)
    downloads = store.root / "downloads"

    def build_in(folder: Path) -> NodeImage:
        return _record(wanted, _run(wanted, folder, downloads, tell), folder / ARCHIVE)

    return store.build(wanted.name, build_in, again=again, tell=tell)


def _run(wanted: BuildInputs, folder: Path, downloads: Path, tell: Tell) -> NodeBuildResult:
    """Raises StateError with the last lines of the build's log."""
    arriving = folder / f".{ARCHIVE}"
    work = folder / ".work"
    # Left over from a build that was killed.
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    task = NodeBuildTask(wanted, str(work), fits_memory(), str(arriving), str(downloads), this_machine().architecture)
    command = [
        # When this process ends, however it does, the build ends with its processes and mounts.
        "setpriv", "--pdeathsig", "KILL",
        "unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--",
        sys.executable, "-m", "tools.images.node_build", msgspec.json.encode(task).decode(),
    ]  # fmt: skip
    log = folder / _LOG
    environment = {**os.environ, "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
    try:
        with (
            log.open("wb") as errors,
            process_group(command, env=environment, stdout=subprocess.PIPE, stderr=errors) as child,
        ):
            result = _follow(child, tell)
            code = child.wait()
        if code or result is None:
            raise StateError(f"the node image could not be built; see {log}:\n{_end_of(log)}")
        os.replace(arriving, folder / ARCHIVE)
    finally:
        arriving.unlink(missing_ok=True)
        shutil.rmtree(work, ignore_errors=True)
    return result


def _follow(child: subprocess.Popen[bytes], tell: Tell) -> NodeBuildResult | None:
    result = None
    assert child.stdout is not None
    for line in child.stdout:
        text = line.decode("utf-8", "replace").rstrip("\n")
        if text.startswith(RESULT):
            result = msgspec.json.decode(text.removeprefix(RESULT), type=NodeBuildResult)
        else:
            tell(text)
    return result


def _record(wanted: BuildInputs, result: NodeBuildResult, archive: Path) -> NodeImage:
    return NodeImage(
        name=wanted.name,
        kubernetes=wanted.kubernetes,
        kind=KIND.version,
        layer=result.layer,
        sha256=sha256_of(archive),
        megabytes=archive.stat().st_size // 1_000_000,
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        suite=wanted.suite,
        mirror=wanted.mirror,
        packages=result.packages,
        checksums=wanted.checksums,
        images=result.images,
    )


def _end_of(log: Path) -> str:
    lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return "\n".join(f"  {line[:300]}" for line in lines[-_LAST_LINES:]) or "  (it is empty)"
