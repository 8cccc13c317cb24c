"""The GPU amounts of pods and nodes for tables and expectations, counted as the scheduler counts them.

They are computed from the objects of one moment, without a mirror. Amounts are milli-GPU.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Protocol

from kailab.cluster.protocol import Cluster, Object
from kailab.engine.snapshot import counting
from kailab.engine.snapshot.gpu_requests import GpuRequest
from kailab.engine.snapshot.records import GPU, ON_NODE
from kailab.errors import InputError
from kailab.model import labels as names
from kailab.model.objects import labels_of, name_of, namespace_of, node_of
from kailab.scheduler.reading.claims import ClaimIndex, claim_record
from kailab.scheduler.reading.nodes import gpu_memory, node_record
from kailab.scheduler.reading.shapes import ShapeCache
from kailab.scheduler.reading.tasks import gpu_groups, task_status

# Errors of reading a malformed object. Tables leave its amount out; the scheduler reports it.
_MISFORMED = (TypeError, ValueError, AttributeError, KeyError, InputError)
_CLAIM_KINDS = ("ResourceClaim", "ResourceClaimTemplate", "ResourceSlice")


class CountedPod(Protocol):
    """A row of a table of pods: its node and its amount there."""

    @property
    def node(self) -> str: ...

    @property
    def milli_gpus(self) -> int: ...

    @property
    def holds(self) -> bool: ...


class GpuAccounts:
    """``pods`` and ``nodes``: all of the cluster. Claims are read from ``cluster`` on demand."""

    def __init__(self, cluster: Cluster, pods: Sequence[Object], nodes: Mapping[str, Object]) -> None:
        self._cluster = cluster
        self._pods = pods
        self._nodes = nodes
        self._shapes = ShapeCache()
        self._requests: dict[int, GpuRequest | None] = {}  # by id of a pod; ``_pods`` keeps them alive

    def holds(self, pod: Object) -> bool:
        """Whether a pod uses capacity of its node: from its binding until it ends."""
        if not node_of(pod) or self._request(pod) is None or not ON_NODE[task_status(pod, 0.0)]:
            return False
        return namespace_of(pod) != names.RESERVATION_NAMESPACE or self._is_lone(pod)

    def gpus(self, pod: Object) -> int:
        """The milli-GPU that a pod holds, or requests while it is pending. A reservation pod counts only if no pod shares its GPU."""
        if namespace_of(pod) == names.RESERVATION_NAMESPACE and not self._is_lone(pod):
            return 0
        request = self._request(pod)
        if request is None:
            return 0
        if not request.by_memory:
            return request.fixed_gpus()
        node = node_of(pod)
        # GPU memory is a part of the node's device; before the binding, of the smallest device.
        if not node:
            return request.wanted_gpus(self._smallest_device)
        return request.held_gpus(self._devices.get(node, self._smallest_device))

    @cached_property
    def used(self) -> dict[str, int]:
        """Node -> milli-GPU in use. A device that pods share through one claim counts once."""
        return self._summed((pod, node_of(pod), self.gpus(pod)) for pod in self._pods if self.holds(pod))

    def used_by(self, rows: Sequence[CountedPod]) -> dict[str, int]:
        """As ``used``, from rows of these pods in the same order."""
        if self.know_claims:
            return self._summed((pod, row.node, row.milli_gpus) for pod, row in zip(self._pods, rows) if row.holds)
        used = dict.fromkeys(self._nodes, 0)
        for row in rows:
            if row.holds and row.node in used:
                used[row.node] += row.milli_gpus
        return used

    def _summed(self, held: Iterable[tuple[Object, str, int]]) -> dict[str, int]:
        used = dict.fromkeys(self._nodes, 0)
        places = list(held)
        for (_, node, _), amount in zip(places, self.added(places), strict=True):
            if node in used:
                used[node] += amount
        return used

    @property
    def know_claims(self) -> bool:
        return bool(self._claim_gpus)

    def added(self, held: Iterable[tuple[Object, str, int]]) -> Iterator[int]:
        """What each pod adds to the amount in use on its node. ``held``: pod, node, and the pod's own amount. Only the first pod of a
        shared claim counts the claim's devices."""
        counted: set[tuple[str, str]] = set()
        for pod, node, amount in held:
            if amount > 0 and pod["spec"].get("resourceClaims"):
                for claim in self._claims.of_pod(pod)[1]:
                    if (node, claim) in counted:
                        amount -= self._claim_gpus.get(claim, 0)
                    counted.add((node, claim))
            yield max(0, amount)

    def sliced(self, node: str) -> int:
        """The number of GPUs in a node's resource slices."""
        return self._claims.gpus_on(node)

    def offered(self, node: Object) -> int:
        """The milli-GPU of a node; 0 if it can't be read."""
        try:
            return node_record(node, self._claims.gpus_on(name_of(node))).offered_gpus
        except _MISFORMED:
            return 0

    def _request(self, pod: Object) -> GpuRequest | None:
        """None for a pod that can't be read."""
        if id(pod) not in self._requests:
            try:
                self._requests[id(pod)] = self._read(pod)
            except _MISFORMED:
                self._requests[id(pod)] = None
        return self._requests[id(pod)]

    def _read(self, pod: Object) -> GpuRequest:
        request = self._shapes.of(pod).gpu
        if pod["spec"].get("resourceClaims") and (dra := self._claims.of_pod(pod)[0]):
            return request.with_claims(dra)
        return request

    @cached_property
    def _devices(self) -> dict[str, int]:
        return {name: counting.device_memory(gpu_memory(labels_of(node))) for name, node in self._nodes.items()}

    @cached_property
    def _smallest_device(self) -> int:
        return counting.smallest_device(list(self._devices.values()))

    @cached_property
    def _claims(self) -> ClaimIndex:
        claims = ClaimIndex()
        for kind in _CLAIM_KINDS:
            for obj in self._cluster.list(kind):
                claims.process_object(kind, obj, False)
        return claims

    @cached_property
    def _claim_gpus(self) -> dict[str, int]:
        """``namespace/name`` of a claim -> milli-GPU."""
        records = (claim_record(claim) for claim in self._cluster.list("ResourceClaim"))
        return {record.name: record.gpus * GPU for record in records}

    @cached_property
    def _shared(self) -> set[str]:
        """GPU groups that pods share now."""
        return {
            group
            for pod in self._pods
            if namespace_of(pod) != names.RESERVATION_NAMESPACE
            and (groups := gpu_groups(labels_of(pod)))
            and self.holds(pod)
            for group in groups
        }

    def _is_lone(self, reservation: Object) -> bool:
        return not self._shared.intersection(gpu_groups(labels_of(reservation)))
