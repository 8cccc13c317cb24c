"""Writes decisions to the cluster.

``execution`` binds and evicts, with ``bind_backoff`` for pods whose binding failed. Before a bind it runs each ``Preparation``:
``claim_allocation`` allocates ResourceClaims, ``reservation_pods`` reserves shared GPUs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from kailab.cluster.protocol import Object
from kailab.errors import ApiError
from kailab.model.objects import uid_of


class Binding(NamedTuple):
    """A pod that is about to be bound. ``gpu_groups``: the shared GPUs of which it gets a part."""

    pod: Object
    node: str
    gpu_groups: tuple[str, ...] = ()

    @property
    def uid(self) -> str:
        return str(uid_of(self.pod))


class Preparation(Protocol):
    """A controller that also prepares bindings. ``step`` maintains what it has made."""

    def prepare(self, bindings: Sequence[Binding]) -> dict[str, ApiError]:
        """Prepare these bindings. Returns the errors of pods that can't be bound, by UID."""

    def undo(self, pods: Iterable[str]) -> None:
        """Undo the preparation of pods (by UID) that could not be bound."""

    def step(self) -> bool: ...

    def close(self) -> None: ...
