"""Planes, and connections to them, that last as long as a block, however it ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TypeVar

from kailab.cluster.built_images import NODE_COMMAND, NodeImageStore
from kailab.cluster.kind.docker import has_image
from kailab.cluster.kubernetes import Connection, KubernetesCluster


class Plane(Protocol):
    def down(self) -> None: ...


P = TypeVar("P", bound=Plane)


@contextmanager
def taken_down(plane: P) -> Iterator[P]:
    try:
        yield plane
    finally:
        plane.down()


@contextmanager
def connected(kubeconfig: Path, name: str = "controlplane") -> Iterator[KubernetesCluster]:
    cluster = KubernetesCluster(Connection.from_kubeconfig(kubeconfig), name)
    try:
        yield cluster
    finally:
        cluster.close()


def image_reason(image: str) -> str | None:
    """Why an image can't be used without pulling it; None: it can."""
    if has_image(image) or NodeImageStore().find(image) is not None:
        return None
    return f"the Docker engine has no node image {image}; `{NODE_COMMAND}` in kailab's source builds one"
