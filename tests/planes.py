"""Planes, and connections to them, that last as long as a block, however it ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TypeVar

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
