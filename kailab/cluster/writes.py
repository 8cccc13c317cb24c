"""Writes as values, so that many can be handed to a cluster at once.

A *chain* is writes that depend on each other: carried out in order, up to the first that is refused. Chains do not depend
on each other: a cluster across a network carries them out side by side.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from kailab.errors import ApiError

if TYPE_CHECKING:
    from kailab.cluster.protocol import Cluster, Object

Subresource: TypeAlias = Literal["", "status"]
"""What a patch goes to: all of an object but its status, or its status alone."""


class Create(NamedTuple):
    """As ``Cluster.create``."""

    object: Object


class Update(NamedTuple):
    """As ``Cluster.update``."""

    object: Object


class Patch(NamedTuple):
    """As ``Cluster.patch``."""

    kind: str
    name: str
    namespace: str | None
    patch: Mapping[str, Any]
    subresource: Subresource = ""


class Delete(NamedTuple):
    """As ``Cluster.delete``."""

    kind: str
    name: str
    namespace: str | None = None
    grace_seconds: float | None = None


class Bind(NamedTuple):
    """As ``Cluster.bind``."""

    namespace: str
    pod: str
    node: str
    annotations: Mapping[str, str] | None = None


class Evict(NamedTuple):
    """As ``Cluster.evict``."""

    namespace: str
    pod: str
    reason: str
    message: str
    grace_seconds: float | None = None


Write: TypeAlias = Create | Update | Patch | Delete | Bind | Evict
Chain: TypeAlias = Sequence[Write]


class Outcome(NamedTuple):
    """What became of a chain. ``objects``: what its writes gave, None for those that give nothing; ``error``: why it
    ended early."""

    objects: list[Object | None]
    error: ApiError | None


class OneByOne(ABC):
    """The single writes of ``Cluster``, for one that carries out all its writes by ``write_all``."""

    @abstractmethod
    def write_all(self, chains: Sequence[Chain]) -> list[Outcome]:
        """See ``Cluster``."""

    def create(self, obj: Object) -> Object:
        return self._giving(Create(obj))

    def update(self, obj: Object) -> Object:
        return self._giving(Update(obj))

    def patch(
        self, kind: str, name: str, namespace: str | None, patch: Mapping[str, Any], subresource: Subresource = ""
    ) -> Object:
        return self._giving(Patch(kind, name, namespace, patch, subresource))

    def delete(self, kind: str, name: str, namespace: str | None = None, grace_seconds: float | None = None) -> None:
        self._one(Delete(kind, name, namespace, grace_seconds))

    def bind(self, namespace: str, pod: str, node: str, annotations: Mapping[str, str] | None = None) -> None:
        self._one(Bind(namespace, pod, node, annotations))

    def evict(self, namespace: str, pod: str, reason: str, message: str, grace_seconds: float | None = None) -> None:
        self._one(Evict(namespace, pod, reason, message, grace_seconds))

    def _giving(self, write: Create | Update | Patch) -> Object:
        given = self._one(write)
        assert given is not None
        return given

    def _one(self, write: Write) -> Object | None:
        outcome = self.write_all([[write]])[0]
        if outcome.error is not None:
            raise outcome.error
        return outcome.objects[0]


def carry_out(cluster: Cluster, write: Write) -> Object | None:
    """One write. Raises ApiError."""
    # The fields of each write stand in the order of the method's parameters. Most are patches.
    match write:
        case Patch():
            return cluster.patch(*write)
        case Create(obj):
            return cluster.create(obj)
        case Update(obj):
            return cluster.update(obj)
        case Delete():
            cluster.delete(*write)
        case Bind():
            cluster.bind(*write)
        case Evict():
            cluster.evict(*write)
    return None


def in_turn(cluster: Cluster, chains: Iterable[Chain]) -> list[Outcome]:
    """All chains one after the other: for clusters in the same process."""
    outcomes = []
    for chain in chains:
        objects: list[Object | None] = []
        error = None
        try:
            for write in chain:
                objects.append(carry_out(cluster, write))
        # What the chain has done before stays done, as on a real server.
        except ApiError as refused:
            error = refused
        outcomes.append(Outcome(objects, error))
    return outcomes
