"""Node images that were made here: archives that any Docker engine can load, each with a record of what is in it.

``<cache>/node-images/v1.35.4-0123456789ab/`` has ``image.tar.gz``, ``image.json`` and ``build.log``. The record is written last: a
folder without one is what a build has left that was cut short.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import msgspec

from kailab.cluster.kind.image.ingredients import RECIPE
from kailab.components import Cache
from kailab.components.cache import sha256_of
from kailab.errors import InputError, StateError
from kailab.model import typed

ARCHIVE = "image.tar.gz"
RECORD = "image.json"
LOG = "build.log"


class NodeImage(msgspec.Struct, frozen=True, kw_only=True):
    """``name``: with its tag; ``layer``: the sha256 of its only layer, unpacked, by which an engine's image is known to be this one;
    ``sha256``, ``megabytes``: of the archive; ``created``: UTC; ``packages``: Debian's, with versions; ``checksums``: of the programs
    and of kind's files; ``images``: those in it, by the names that kubeadm asks for."""

    name: str
    kubernetes: str
    kind: str
    layer: str
    sha256: str
    megabytes: int
    created: str
    suite: str
    mirror: str
    packages: Mapping[str, str]
    checksums: Mapping[str, str]
    images: tuple[str, ...]
    recipe: int = RECIPE


class Store:
    """``root``: None for the user's own."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = root or Cache().root.parent / "node-images"

    def folder(self, name: str) -> Path:
        return self.root / name.rpartition(":")[2]

    def archive(self, image: NodeImage) -> Path:
        return self.folder(image.name) / ARCHIVE

    def images(self) -> list[NodeImage]:
        """Newest first. A damaged record counts as none: `build` makes its image anew."""
        found = (_read(path) for path in self.root.glob(f"*/{RECORD}"))
        return sorted((one for one in found if one is not None), key=lambda one: (one.created, one.name), reverse=True)

    def find(self, name: str) -> NodeImage | None:
        """By its name, with or without the repository."""
        return next((one for one in self.images() if name in (one.name, one.name.rpartition(":")[2])), None)

    def get(self, name: str) -> NodeImage:
        """Raises InputError for one that is not here."""
        found = self.find(name)
        if found is None:
            there = ", ".join(one.name for one in self.images()) or "none"
            raise InputError(f"there is no node image {name!r} made here; there are: {there}")
        return found

    def newest(self, kubernetes: str) -> NodeImage | None:
        """Of a release of Kubernetes, made by this kailab's recipe."""
        return next((one for one in self.images() if (one.kubernetes, one.recipe) == (kubernetes, RECIPE)), None)

    def checked(self, image: NodeImage) -> Path:
        """The archive, whose checksum is right. Raises StateError."""
        path = self.archive(image)
        try:
            found = sha256_of(path)
        except OSError as error:
            raise StateError(f"{path}: can't be read: {error.strerror or error}; {_CURE}") from error
        if found != image.sha256:
            raise StateError(f"{path}: its sha256 is {found}, but {image.sha256} was made; it is not loaded; {_CURE}")
        return path

    def put(self, image: NodeImage) -> None:
        """Its archive is in its folder already. Raises StateError."""
        path = self.folder(image.name) / RECORD
        try:
            arriving = path.with_name(f".{RECORD}")
            arriving.write_bytes(msgspec.json.format(msgspec.json.encode(image)) + b"\n")
            os.replace(arriving, path)
        except OSError as error:
            raise StateError(f"{path}: can't be written: {error.strerror or error}") from error

    def remove(self, image: NodeImage) -> None:
        """Raises StateError."""
        folder = self.folder(image.name)
        try:
            # First: what is left of it then counts as none.
            (folder / RECORD).unlink(missing_ok=True)
            shutil.rmtree(folder)
        except OSError as error:
            raise StateError(f"{folder}: can't be removed: {error.strerror or error}") from error


_CURE = "`kailab kind image build --again` makes it anew"


def _read(path: Path) -> NodeImage | None:
    try:
        return typed.decode_json(path.read_bytes(), NodeImage)
    except (OSError, msgspec.MsgspecError):
        return None
