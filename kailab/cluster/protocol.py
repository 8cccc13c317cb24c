"""The protocol that every cluster implements. Schedulers, controllers and labs know nothing else of a cluster.

Objects are plain dicts in Kubernetes' JSON form. Two rules keep this fast and safe:

* An object given to a cluster belongs to the cluster; the caller does not change it afterwards.
* An object returned by a cluster (``get``, ``list``, watch events) is read-only and may be shared. To change it, ``patch`` it or ``update`` a
  copy.

``kind`` arguments are *kind keys*: the bare kind ("Pod", "Queue") for every kind in ``kailab.model.kinds``, and
``Kind.group`` for kinds whose bare name is taken ("Service.serving.knative.dev") or that kailab does not know. Times
are seconds since the epoch (float); in the embedded cluster they are virtual.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

from kailab.cluster.writes import (
    BindWrite,
    Chain,
    CreateWrite,
    DeleteWrite,
    EvictWrite,
    PatchWrite,
    Subresource,
    UpdateWrite,
    Write,
    WriteOutcome,
)
from kailab.errors import ApiError, NotFound
from kailab.model.objects import Object as Object

Outcomes: TypeAlias = list[WriteOutcome]
EventType: TypeAlias = Literal["ADDED", "MODIFIED", "DELETED"]
EventSeverity: TypeAlias = Literal["Normal", "Warning"]
"""The ``type`` of a Kubernetes Event."""


class WatchEvent(NamedTuple):
    """One change. ``object`` is the state after it (before it, for DELETED)."""

    type: EventType
    kind: str
    object: Object


class Watch(Protocol):
    """A stream of changes. It begins with an ADDED event for each object that exists."""

    def poll(self) -> list[WatchEvent]:
        """The changes since the last call, in order; an empty list when there are none. Never blocks."""

    def close(self) -> None: ...


@runtime_checkable
class Cluster(Protocol):
    """A place that holds Kubernetes objects. Errors are ``kailab.errors.ApiError`` and its children."""

    @property
    def name(self) -> str:
        """Backend name: ``embedded``, ``controlplane``, ``kind``, ``vcluster``, ``kubeconfig``."""

    def now(self) -> float: ...

    def get(self, kind: str, name: str, namespace: str | None = None) -> Object:
        """Raises NotFound."""

    def list(
        self, kind: str, namespace: str | None = None, labels: Mapping[str, str] | str | None = None
    ) -> list[Object]:
        """Sorted by (namespace, name). ``labels``: a mapping, or a selector string as kubectl's ``-l`` takes it."""

    def watch(self, kinds: Iterable[str] | None = None) -> Watch:
        """``None``: every kind."""

    def create(self, obj: Object) -> Object:
        """Create an object; ``metadata.generateName`` works. Raises AlreadyExists, Invalid, NotFound (namespace)."""

    def update(self, obj: Object) -> Object:
        """Replaces. Raises Conflict if the object carries a resourceVersion that is not the stored one."""

    def apply(self, obj: Object) -> tuple[Object, Literal["created", "configured", "unchanged"]]:
        """Create, or merge as ``kubectl apply`` does (fields absent from ``obj`` but once applied are removed)."""

    def patch(
        self, kind: str, name: str, namespace: str | None, patch: Mapping[str, Any], subresource: Subresource = ""
    ) -> Object:
        """JSON merge patch (RFC 7386). A ``metadata.resourceVersion`` in it is a precondition, and so is a ``metadata.uid``: raises NotFound if
        the object of this name has another uid."""

    def delete(self, kind: str, name: str, namespace: str | None = None, grace_seconds: float | None = None) -> None:
        """Graceful for pods; dependents are deleted with their owner. Raises NotFound."""

    def bind(
        self, namespace: str, pod: str, node: str, annotations: Mapping[str, str] | None = None, uid: str = ""
    ) -> None:
        """Bind a pod, as a write to ``pods/binding`` does. ``uid``: of the pod that was decided about; another pod with
        the same name is not bound. Raises Conflict if the pod is bound already, NotFound if it does not exist."""

    def evict(
        self, namespace: str, pod: str, reason: str, message: str, grace_seconds: float | None = None, uid: str = ""
    ) -> None:
        """Set a DisruptionTarget condition (reason, message), then delete gracefully. ``grace_seconds``: the time
        the pod gets, None for its own terminationGracePeriodSeconds. ``uid``: see ``bind``. Raises NotFound."""

    def write_all(self, chains: Sequence[Chain]) -> Outcomes:
        """Carry out chains of writes. Each chain runs in order and stops at its first refused write. Chains run in
        parallel where that is faster. Returns an outcome for each chain; raises nothing.
        """

    def event(
        self, involved: Object, type: EventSeverity, reason: str, message: str, component: str = "kai-scheduler"
    ) -> None:
        """Record a Kubernetes Event about an object; repeats of the same event are counted."""


@runtime_checkable
class Versioned(Protocol):
    """A cluster that counts its changes."""

    @property
    def version(self) -> int:
        """Grows with each change."""


@runtime_checkable
class VirtualTime(Protocol):
    """A cluster with its own clock (the embedded one)."""

    def call_at(self, when: float, action: Callable[[], None], *, prompt: bool = True, key: str = "") -> None:
        """Run ``action`` at a time. ``prompt``: settling waits for it (a pod becoming ready). Others (the end of a
        job's run time or of a protection) run only when somebody advances the clock.
        """

    def advance(self, seconds: float) -> None:
        """Let time pass. Due actions run in order of time, and equal times in the order of their ``call_at``."""


@runtime_checkable
class LiveUpdates(Protocol):
    """A cluster that changes by itself."""

    def wait(self, seconds: float) -> bool:
        """Sleep until a watch has events, at most ``seconds``. True if there are some."""


@runtime_checkable
class AssumeCache(Protocol):
    """A cluster that can show annotations to its readers before it writes them, because writes are expensive."""

    def assume(self, namespace: str, pod: str, uid: str, annotations: Mapping[str, str]) -> Object | None:
        """Give a pod that is not bound yet annotations without writing them. All readers of this cluster see them; the
        server gets them with the binding. The caller must write them if the pod is not bound after all. None: no such
        pod.
        """

    def forget_assumed(self) -> None:
        """Drop assumed annotations: pods look as on the server again."""


class SubmittedWrites(Protocol):
    """Submitted chains of writes."""

    def collect(self) -> list[tuple[int, WriteOutcome]]:
        """The chains answered since the last call: (index of the chain, outcome)."""


@runtime_checkable
class AsyncWrites(Protocol):
    """A cluster whose writes take a while."""

    @property
    def under_way(self) -> int:
        """Chains that were submitted and are not answered yet."""

    def hand_over(self, chains: Sequence[Chain]) -> SubmittedWrites:
        """As ``write_all``, without waiting. A pod to be bound counts as bound from now on for all readers of this
        cluster; a refused binding is rolled back. An answer ends ``LiveUpdates.wait``.
        """


def find_object(cluster: Cluster, kind: str, name: str, namespace: str | None = None) -> Object | None:
    """As ``Cluster.get``; None for an object that does not exist."""
    try:
        return cluster.get(kind, name, namespace)
    except NotFound:
        return None


def object_exists(cluster: Cluster, kind: str, name: str, namespace: str | None = None) -> bool:
    """``kind``: its kind key; ``namespace``: None for a cluster-wide kind."""
    return find_object(cluster, kind, name, namespace) is not None


def perform_write(cluster: Cluster, write: Write) -> Object | None:
    """Carry out one write. Raises ApiError."""
    # The fields of each write have the order of the method's parameters. Most writes are patches, so they come first.
    match write:
        case PatchWrite():
            return cluster.patch(*write)
        case CreateWrite(obj):
            return cluster.create(obj)
        case UpdateWrite(obj):
            return cluster.update(obj)
        case DeleteWrite():
            cluster.delete(*write)
        case BindWrite():
            cluster.bind(*write)
        case EvictWrite():
            cluster.evict(*write)
    return None


def write_sequentially(cluster: Cluster, chains: Iterable[Chain]) -> list[WriteOutcome]:
    """Carry out all chains one after the other, for clusters in the same process."""
    outcomes = []
    for chain in chains:
        objects: list[Object | None] = []
        error = None
        try:
            for write in chain:
                objects.append(perform_write(cluster, write))
        # Earlier writes of the chain stay done, as on a real server.
        except ApiError as refused:
            error = refused
        outcomes.append(WriteOutcome(objects, error))
    return outcomes
