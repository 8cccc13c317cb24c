"""Builds the image of a virtual control plane from the pinned programs.

It serves both containers of the chart: the first copies Kubernetes' programs out of ``/kubernetes``, the second starts
them. Source of the paths in it: the chart's templates, Dockerfile.release and pkg/constants of the pinned version.
"""

from __future__ import annotations

import datetime
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import msgspec

from kailab.cluster.built_images import ARCHIVE, VCLUSTER_RECIPE, VclusterImage, VclusterImageStore
from kailab.components import HELM, VCLUSTER, ComponentCache, Pin, get_components, get_program
from kailab.components.cache import sha256_of
from kailab.components.pins import IMAGE_OF_VCLUSTER, SYNCER, kubernetes_version, this_machine
from kailab.errors import StateError
from tools.images.layers import write_image
from tools.images.requirements import CannotBuild, missing_components, report_missing, without_go, without_room

REPOSITORY = "kailab/vcluster"
BYTES = 2 * 10**9
"""Needed on the disk of the cache, for the programs laid out and the archive."""

_PLACES = {
    SYNCER.name: "vcluster",
    "helm": "usr/local/bin/helm",
    "kine": "usr/local/bin/kine",
    "cp": "bin/cp",
    "kube-apiserver": "kubernetes/kube-apiserver",
    "kube-controller-manager": "kubernetes/kube-controller-manager",
    "kube-scheduler": "kubernetes/kube-scheduler",
}
_OF_KUBERNETES = tuple(name for name, place in _PLACES.items() if place.startswith("kubernetes/"))
_PINS = (*IMAGE_OF_VCLUSTER, HELM)
_DIGITS = 12

Tell = Callable[[str], None]


def check(
    kubernetes: str | None = None,
    components: Path | None = None,
    *,
    store: VclusterImageStore | None = None,
    cache: ComponentCache | None = None,
) -> tuple[Pin, ...]:
    """Programs that have to be acquired before an image can be built. Raises CannotBuild, InputError; nothing is acquired or built."""
    store, cache = store or VclusterImageStore(), cache or ComponentCache()
    version = kubernetes_version(kubernetes)
    missing = missing_components(_PINS, version, components, cache)
    if reasons := [*_lacking(store.root), *without_go(missing)]:
        raise CannotBuild(reasons, store.noun)
    return missing


def build(
    kubernetes: str | None = None,
    components: Path | None = None,
    *,
    again: bool = False,
    store: VclusterImageStore | None = None,
    cache: ComponentCache | None = None,
    tell: Tell = lambda text: None,
) -> VclusterImage:
    """The image of a Kubernetes release (None: the default), as an archive in the store; built unless the same is there
    already.

    ``components``: a folder with the programs of a control plane; ``again``: build anew in any case. Raises CannotBuild
    before anything is acquired or built; MissingComponents, StateError, InputError.
    """
    store, cache = store or VclusterImageStore(), cache or ComponentCache()
    report_missing(check(kubernetes, components, store=store, cache=cache), tell)
    control_plane = get_components(kubernetes, components, cache=cache, tell=tell)
    programs = {name: control_plane.path(name) for name in _OF_KUBERNETES}
    programs |= {pin.name: get_program(pin, cache=cache, tell=tell) for pin in _PINS}
    versions = dict.fromkeys(_OF_KUBERNETES, control_plane.kubernetes) | {pin.name: pin.version for pin in _PINS}
    checksums = {name: sha256_of(path) for name, path in programs.items()}
    contents = msgspec.json.encode([VCLUSTER_RECIPE, VCLUSTER.version, sorted(checksums.items())])
    tag = f"{VCLUSTER.version}-{control_plane.kubernetes}-{hashlib.sha256(contents).hexdigest()[:_DIGITS]}"
    name = f"{REPOSITORY}:{tag}"

    def build_in(folder: Path) -> VclusterImage:
        tell(f"packing {name}")
        layer = _pack(folder, name, programs)
        return VclusterImage(
            name=name,
            kubernetes=control_plane.kubernetes,
            vcluster=VCLUSTER.version,
            layer=layer,
            sha256=sha256_of(folder / ARCHIVE),
            megabytes=(folder / ARCHIVE).stat().st_size // 1_000_000,
            created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            versions=versions,
            checksums=checksums,
        )

    return store.build(name, build_in, again=again, tell=tell)


def _pack(folder: Path, name: str, programs: Mapping[str, Path]) -> str:
    """The digest of the layer. Raises StateError."""
    arriving = folder / f".{ARCHIVE}"
    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix=".root") as temporary:
            root = Path(temporary)
            root.chmod(0o755)
            for program, path in programs.items():
                _put(path, root / _PLACES[program])
            (root / "tmp").mkdir()
            (root / "tmp").chmod(0o1777)
            # roots_own: this process need not be root.
            layer = write_image(
                arriving, name, root, this_machine().architecture, entrypoint=("/vcluster", "start"), roots_own=True
            )
        os.replace(arriving, folder / ARCHIVE)
    except (OSError, subprocess.CalledProcessError) as error:
        raise StateError(f"{folder}: the image could not be built: {error}") from error
    finally:
        arriving.unlink(missing_ok=True)
    return layer


def _put(program: Path, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(program, place)
    place.chmod(0o755)


def _lacking(store: Path) -> Iterator[str]:
    if (machine := this_machine()).system != "linux":
        yield f"its programs run on Linux only and are built for this machine, which is {machine}"
    if shutil.which("tar") is None:
        yield "there is no tar here"
    yield from without_room(store, BYTES)
