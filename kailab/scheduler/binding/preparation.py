"""What has to be in place on a real cluster before a pod is bound, and is taken back where it is not bound after all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from kailab.cluster.protocol import Object
from kailab.errors import ApiError


class Binding(NamedTuple):
    """A pod that is about to be bound. ``gpu_groups``: the shared GPUs it gets a part of."""

    pod: Object
    node: str
    gpu_groups: tuple[str, ...] = ()

    @property
    def uid(self) -> str:
        return str(self.pod["metadata"]["uid"])

    @property
    def name(self) -> str:
        metadata = self.pod["metadata"]
        return f"{metadata['namespace']}/{metadata['name']}"


class Preparation(Protocol):
    """Also a controller: ``step`` keeps in order what it has put in place."""

    def prepare(self, bindings: Sequence[Binding]) -> dict[str, ApiError]:
        """By UID, the pods that can't be bound, and why."""

    def undo(self, pods: Iterable[str]) -> None:
        """These (by UID) were prepared and could not be bound."""

    def step(self) -> bool: ...

    def close(self) -> None: ...
