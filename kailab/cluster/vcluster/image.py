"""The image of a virtual control plane, made here of the pinned programs: nothing of it comes from an image registry.

One image for both containers of the chart: the first copies Kubernetes' programs out of ``/kubernetes``, the second starts them. Where things
are in it follows from the chart's templates, and from Dockerfile.release and pkg/constants of the pinned version.
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

from kailab.cluster.image_needs import missing_components, tell_missing, without_go, without_room
from kailab.cluster.kept_images import ARCHIVE, CannotBuild, ImageStore
from kailab.cluster.kind.image.layers import write_image
from kailab.components import HELM, VCLUSTER, ComponentCache, Pin, get_components, get_program
from kailab.components.cache import sha256_of
from kailab.components.pins import IMAGE_OF_VCLUSTER, SYNCER, kubernetes_version, this_machine
from kailab.errors import StateError

RECIPE = 1
"""To be raised whenever the same programs make another image."""

REPOSITORY = "kailab/vcluster"
WHAT = "image of a virtual control plane"
BYTES = 2 * 10**9
"""On the disk of the cache: the programs laid out, and the archive."""

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


class VclusterImage(msgspec.Struct, frozen=True, kw_only=True):
    """``name``: with its tag; ``layer``: the sha256 of its only layer, unpacked; ``sha256``, ``megabytes``: of the archive; ``created``: UTC;
    ``versions``, ``checksums``: of the programs in it."""

    name: str
    kubernetes: str
    vcluster: str
    layer: str
    sha256: str
    megabytes: int
    created: str
    versions: Mapping[str, str]
    checksums: Mapping[str, str]
    recipe: int = RECIPE


class VclusterImageStore(ImageStore[VclusterImage]):
    """``root``: None for the user's own."""

    def __init__(self, root: Path | None = None) -> None:
        super().__init__(VclusterImage, root, "vcluster-images", WHAT, "kailab vcluster image build", RECIPE)


def check(
    kubernetes: str | None = None,
    components: Path | None = None,
    *,
    store: VclusterImageStore | None = None,
    cache: ComponentCache | None = None,
) -> tuple[Pin, ...]:
    """Programs that have to be got before an image can be made. Raises CannotBuild, InputError; nothing is got or made."""
    store, cache = store or VclusterImageStore(), cache or ComponentCache()
    version = kubernetes_version(kubernetes)
    missing = missing_components(_PINS, version, components, cache)
    if reasons := [*_lacking(store.root), *without_go(missing)]:
        raise CannotBuild(reasons, WHAT)
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
    """The image of a release of Kubernetes (None: the default), as an archive in the store: made, unless the same is there already.

    ``components``: a folder with the programs of a control plane; ``again``: made anew in any case. Raises CannotBuild before
    anything is got or made; MissingComponents, StateError, InputError.
    """
    store, cache = store or VclusterImageStore(), cache or ComponentCache()
    tell_missing(check(kubernetes, components, store=store, cache=cache), tell)
    found = get_components(kubernetes, components, cache=cache, tell=tell)
    programs = {name: found.path(name) for name in _OF_KUBERNETES}
    programs |= {pin.name: get_program(pin, cache=cache, tell=tell) for pin in _PINS}
    versions = dict.fromkeys(_OF_KUBERNETES, found.kubernetes) | {pin.name: pin.version for pin in _PINS}
    checksums = {name: sha256_of(path) for name, path in programs.items()}
    told = msgspec.json.encode([RECIPE, VCLUSTER.version, sorted(checksums.items())])
    tag = f"{VCLUSTER.version}-{found.kubernetes}-{hashlib.sha256(told).hexdigest()[:_DIGITS]}"
    name = f"{REPOSITORY}:{tag}"

    def make(folder: Path) -> VclusterImage:
        tell(f"packing {name}")
        layer = _pack(folder, name, programs)
        return VclusterImage(
            name=name,
            kubernetes=found.kubernetes,
            vcluster=VCLUSTER.version,
            layer=layer,
            sha256=sha256_of(folder / ARCHIVE),
            megabytes=(folder / ARCHIVE).stat().st_size // 1_000_000,
            created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            versions=versions,
            checksums=checksums,
        )

    return store.made(name, make, again=again, tell=tell)


def _pack(folder: Path, name: str, programs: Mapping[str, Path]) -> str:
    """The digest of the layer. Raises StateError."""
    arriving = folder / f".{ARCHIVE}"
    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix=".root") as made:
            root = Path(made)
            root.chmod(0o755)
            for program, path in programs.items():
                _put(path, root / _PLACES[program])
            (root / "tmp").mkdir()
            (root / "tmp").chmod(0o1777)
            # roots_own: it needs no root here.
            layer = write_image(
                arriving, name, root, this_machine().architecture, entrypoint=("/vcluster", "start"), roots_own=True
            )
        os.replace(arriving, folder / ARCHIVE)
    except (OSError, subprocess.CalledProcessError) as error:
        raise StateError(f"{folder}: the image could not be made: {error}") from error
    finally:
        arriving.unlink(missing_ok=True)
    return layer


def _put(program: Path, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(program, place)
    place.chmod(0o755)


def _lacking(store: Path) -> Iterator[str]:
    if (machine := this_machine()).system != "linux":
        yield f"its programs run on Linux only, and are made for the machine that they are built on; this is {machine}"
    if shutil.which("tar") is None:
        yield "there is no tar here"
    yield from without_room(store, BYTES)
