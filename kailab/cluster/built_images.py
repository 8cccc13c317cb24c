"""Images that were built on this machine for kind nodes and virtual control planes: archives in the cache, each with a
record.

``<cache>/node-images/v1.35.4-0123456789ab/`` and ``<cache>/vcluster-images/...`` contain ``image.tar.gz`` and
``image.json``. The record is written last: a folder without one is left over from a build that was interrupted.
``python -m tools.images``, which stands beside this package in kailab's source, builds images.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from kailab.components import ComponentCache
from kailab.components.cache import exclusive_folder, sha256_of
from kailab.errors import InputError, StateError, os_errors_as
from kailab.model import decoding
from kailab.model.private_files import replacing

ARCHIVE = "image.tar.gz"
RECORD = "image.json"

NODE_RECIPE = 1
"""Raise it whenever the same inputs build another node image."""

VCLUSTER_RECIPE = 1
"""Raise it whenever the same programs build another image of a virtual control plane."""

NODE_COMMAND = "python -m tools.images kind build"
VCLUSTER_COMMAND = "python -m tools.images vcluster build"


class BuiltImage(msgspec.Struct, frozen=True, kw_only=True):
    """An image that was built here. ``name``: with its tag; ``layer``: the sha256 of its only layer, unpacked; ``sha256``, ``megabytes``:
    of the archive; ``created``: UTC; ``checksums``: of the programs in it, and of kind's files; ``recipe``: of the kailab that built it."""

    name: str
    kubernetes: str
    layer: str
    sha256: str
    megabytes: int
    created: str
    checksums: Mapping[str, str]
    recipe: int


class NodeImage(BuiltImage, frozen=True, kw_only=True):
    """The image of kind nodes. By its ``layer`` an image in a Docker engine is known to be this one. ``packages``: Debian's, with versions;
    ``images``: those in it, by the names that kubeadm asks for."""

    kind: str
    suite: str
    mirror: str
    packages: Mapping[str, str]
    images: tuple[str, ...]
    recipe: int = NODE_RECIPE


class VclusterImage(BuiltImage, frozen=True, kw_only=True):
    """The image of virtual control planes. ``versions``: of the programs in it."""

    vcluster: str
    versions: Mapping[str, str]
    recipe: int = VCLUSTER_RECIPE


Image = TypeVar("Image", bound=BuiltImage)


class ImageStore(Generic[Image]):
    """Images of one sort. ``root``: None for the folder of that name in the user's cache. ``noun``: what messages call
    an image; ``command``: builds one; ``recipe``: the current one."""

    def __init__(
        self, record: type[Image], root: Path | None, folder: str, noun: str, command: str, recipe: int
    ) -> None:
        self.root = root or ComponentCache().root.parent / folder
        self.noun, self.command = noun, command
        self._record, self._recipe = record, recipe

    def folder(self, name: str) -> Path:
        return self.root / name.rpartition(":")[2]

    def archive(self, image: Image) -> Path:
        return self.folder(image.name) / ARCHIVE

    def images(self) -> list[Image]:
        """Newest first. An image whose record is damaged counts as not built."""
        records = (self._read(path) for path in self.root.glob(f"*/{RECORD}"))
        images = (record for record in records if record is not None)
        return sorted(images, key=lambda image: (image.created, image.name), reverse=True)

    def find(self, name: str) -> Image | None:
        """``name``: with or without the repository."""
        return next((image for image in self.images() if name in (image.name, image.name.rpartition(":")[2])), None)

    def get(self, name: str) -> Image:
        """As ``find``. Raises InputError if there is none."""
        image = self.find(name)
        if image is None:
            names = ", ".join(image.name for image in self.images()) or "none"
            raise InputError(f"no {self.noun} {name!r} was built here; there are: {names}")
        return image

    def newest(self, kubernetes: str) -> Image | None:
        """The newest image of a Kubernetes release that was built by the current recipe."""
        wanted = (kubernetes, self._recipe)
        return next((image for image in self.images() if (image.kubernetes, image.recipe) == wanted), None)

    def checked(self, image: Image) -> Path:
        """The archive, after its checksum was verified. Raises StateError."""
        path, cure = self.archive(image), f"`{self.command} --again` builds it anew"
        try:
            checksum = sha256_of(path)
        except OSError as error:
            raise StateError(f"{path}: can't be read: {error.strerror or error}; {cure}") from error
        if checksum != image.sha256:
            raise StateError(
                f"{path}: its sha256 is {checksum}, but {image.sha256} was built; it is not loaded; {cure}"
            )
        return path

    def build(self, name: str, build: Callable[[Path], Image], *, again: bool, tell: Callable[[str], None]) -> Image:
        """The image of this name: the one that is here, or (if there is none, or ``again``) a new one. ``build`` writes
        the archive into the folder that it is given, and returns the record. Raises StateError, and what ``build``
        raises."""
        folder = self.folder(name)
        with exclusive_folder(folder, name, tell):
            present = self.find(name)
            if present is not None and not again:
                self.checked(present)
                tell(f"{present.name} is here already, built {present.created[:10]}; --again builds it anew")
                return present
            image = build(folder)
            self.put(image)
        return image

    def put(self, image: Image) -> None:
        """Write the record of an image whose archive is in its folder. Raises StateError."""
        path = self.folder(image.name) / RECORD
        with os_errors_as(StateError, f"{path}: can't be written"), replacing(path) as partial:
            partial.write_bytes(msgspec.json.format(msgspec.json.encode(image)) + b"\n")

    def remove(self, image: Image) -> None:
        """Raises StateError."""
        folder = self.folder(image.name)
        with os_errors_as(StateError, f"{folder}: can't be removed"):
            # The record first: without it the rest counts as not built.
            (folder / RECORD).unlink(missing_ok=True)
            shutil.rmtree(folder)

    def _read(self, path: Path) -> Image | None:
        try:
            return decoding.decode_json(path.read_bytes(), self._record)
        except (OSError, msgspec.MsgspecError):
            return None


class NodeImageStore(ImageStore[NodeImage]):
    """Images of kind nodes. ``root``: None for the user's own."""

    def __init__(self, root: Path | None = None) -> None:
        super().__init__(NodeImage, root, "node-images", "node image", NODE_COMMAND, NODE_RECIPE)


class VclusterImageStore(ImageStore[VclusterImage]):
    """Images of virtual control planes, in the user's cache."""

    def __init__(self) -> None:
        noun = "image of a virtual control plane"
        super().__init__(VclusterImage, None, "vcluster-images", noun, VCLUSTER_COMMAND, VCLUSTER_RECIPE)
