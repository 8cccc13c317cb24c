"""Writes as values, so that a cluster can carry out many at once.

A *chain* has writes that depend on each other: they are carried out in order, up to the first refused one. Chains do
not depend on each other: a cluster across a network carries them out side by side.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from kailab.errors import ApiError
from kailab.model.objects import Object

Subresource: TypeAlias = Literal["", "status"]
"""The target of a patch: everything except the status, or the status alone."""


class CreateWrite(NamedTuple):
    """As ``Cluster.create``."""

    object: Object


class UpdateWrite(NamedTuple):
    """As ``Cluster.update``."""

    object: Object


class PatchWrite(NamedTuple):
    """As ``Cluster.patch``."""

    kind: str
    name: str
    namespace: str | None
    patch: Mapping[str, Any]
    subresource: Subresource = ""


class DeleteWrite(NamedTuple):
    """As ``Cluster.delete``."""

    kind: str
    name: str
    namespace: str | None = None
    grace_seconds: float | None = None


class BindWrite(NamedTuple):
    """As ``Cluster.bind``."""

    namespace: str
    pod: str
    node: str
    annotations: Mapping[str, str] | None = None
    uid: str = ""


class EvictWrite(NamedTuple):
    """As ``Cluster.evict``."""

    namespace: str
    pod: str
    reason: str
    message: str
    grace_seconds: float | None = None
    uid: str = ""


Write: TypeAlias = CreateWrite | UpdateWrite | PatchWrite | DeleteWrite | BindWrite | EvictWrite
Chain: TypeAlias = Sequence[Write]

VERBS: Mapping[type[Write], str] = {
    CreateWrite: "create",
    UpdateWrite: "update",
    PatchWrite: "patch",
    DeleteWrite: "delete",
    BindWrite: "bind",
    EvictWrite: "evict",
}
"""Write -> its verb in metrics."""


class WriteOutcome(NamedTuple):
    """The outcome of a chain. ``objects``: the result of each write, None for writes without one; ``error``: why the
    chain ended early."""

    objects: list[Object | None]
    error: ApiError | None


class SingleWrites(ABC):
    """The single writes of ``Cluster``, for a cluster that implements them all by ``write_all``."""

    @abstractmethod
    def write_all(self, chains: Sequence[Chain]) -> list[WriteOutcome]:
        """See ``Cluster``."""

    def create(self, obj: Object) -> Object:
        return self._giving(CreateWrite(obj))

    def update(self, obj: Object) -> Object:
        return self._giving(UpdateWrite(obj))

    def patch(
        self, kind: str, name: str, namespace: str | None, patch: Mapping[str, Any], subresource: Subresource = ""
    ) -> Object:
        return self._giving(PatchWrite(kind, name, namespace, patch, subresource))

    def delete(self, kind: str, name: str, namespace: str | None = None, grace_seconds: float | None = None) -> None:
        self._one(DeleteWrite(kind, name, namespace, grace_seconds))

    def bind(
        self, namespace: str, pod: str, node: str, annotations: Mapping[str, str] | None = None, uid: str = ""
    ) -> None:
        self._one(BindWrite(namespace, pod, node, annotations, uid))

    def evict(
        self, namespace: str, pod: str, reason: str, message: str, grace_seconds: float | None = None, uid: str = ""
    ) -> None:
        self._one(EvictWrite(namespace, pod, reason, message, grace_seconds, uid))

    def _giving(self, write: CreateWrite | UpdateWrite | PatchWrite) -> Object:
        given = self._one(write)
        assert given is not None
        return given

    def _one(self, write: Write) -> Object | None:
        outcome = self.write_all([[write]])[0]
        if outcome.error is not None:
            raise outcome.error
        return outcome.objects[0]
