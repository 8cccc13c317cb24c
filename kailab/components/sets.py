"""A set of programs that is here: where each one is."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from kailab.components.pins import PROGRAMS, Pin, kubernetes_version, pins
from kailab.errors import KailabError

if TYPE_CHECKING:
    from collections.abc import Mapping

FOLDER = "KAILAB_COMPONENTS"
"""The environment variable that names a folder with the programs in it."""


class MissingComponents(KailabError):
    """Programs of a control plane are not here. The text says which, and how to get them. ``pins``: which."""

    def __init__(self, message: str, missing: tuple[Pin, ...]) -> None:
        self.pins = missing
        super().__init__(message)


@dataclass(frozen=True)
class ComponentSet:
    """``kubernetes``: the version, with its ``v``; ``paths``: by the names of ``PROGRAMS``."""

    kubernetes: str
    paths: Mapping[str, Path]

    def path(self, name: str) -> Path:
        """Of etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kwok or kubectl."""
        return self.paths[name]


def find_components(kubernetes: str | None = None, folder: Path | None = None) -> ComponentSet:
    """The set in ``folder`` (None: as the environment says), else in the cache. Raises MissingComponents."""
    version = kubernetes_version(kubernetes)
    chosen = folder or (Path(os.environ[FOLDER]) if os.environ.get(FOLDER) else None)
    if chosen is not None:
        paths = {name: chosen.expanduser().absolute() / name for name in PROGRAMS}
        missing = tuple(pin for pin in pins(version) if not os.access(paths[pin.name], os.X_OK))
        if missing:
            raise MissingComponents(f"{chosen}: not in this folder: {', '.join(pin.name for pin in missing)}", missing)
        return ComponentSet(version, MappingProxyType(paths))
    raise MissingComponents("no components", pins(version))
