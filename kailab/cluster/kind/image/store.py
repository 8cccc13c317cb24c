"""Node images that were made here: archives that any Docker engine can load, each with a record of what is in it.

``<cache>/node-images/v1.35.4-0123456789ab/`` has ``image.tar.gz``, ``image.json`` and ``build.log``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from kailab.cluster.kept_images import ImageStore
from kailab.cluster.kind.image.ingredients import RECIPE

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


class NodeImageStore(ImageStore[NodeImage]):
    """``root``: None for the user's own."""

    def __init__(self, root: Path | None = None) -> None:
        super().__init__(NodeImage, root, "node-images", "node image", "kailab kind image build", RECIPE)
