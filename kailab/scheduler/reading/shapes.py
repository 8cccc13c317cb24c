"""Reads pods into engine shapes: everything of a pod that decides where it may run, interned.

A cheap key of the relevant fields looks up the shape, so that thousands of equal pods build it once. Source of the GPU rules: KAI
pod_info.updatePodAdditionalFields.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from kailab.cluster.protocol import Object
from kailab.engine.snapshot.gpu_requests import NO_GPU, GpuFraction, GpuMemory, GpuRequest, MigInstances, WholeGpus
from kailab.engine.snapshot.records import GPU, Shape
from kailab.model import labels as names
from kailab.model.objects import metadata_of
from kailab.model.quantities import decimal, parse_count
from kailab.scheduler.reading import affinity, requests
from kailab.scheduler.reading.numa import container_requests

_encode = msgspec.msgpack.Encoder().encode
_NOTHING: Mapping[str, Any] = {}
_MOST = 2**31 - 1  # devices, or MiB of a device: sums over all pods fit into 64 bits
_NATIVE = ("cpu", "memory")


class ShapeCache:
    """Interned shapes. ``namespaces`` resolves namespace selectors. ``sharing`` False: read pods as kube-scheduler does, which ignores KAI's
    GPU annotations and counts AMD's GPUs as a resource of their own."""

    def __init__(self, namespaces: affinity.Namespaces = lambda selector: (), *, sharing: bool = True) -> None:
        self._namespaces = namespaces
        self._sharing = sharing
        self._devices = names.GPU_RESOURCES if sharing else (names.GPU_RESOURCE,)
        self._by_key: dict[bytes, Shape] = {}
        self._interned: dict[Shape, Shape] = {}

    def __len__(self) -> int:
        return len(self._interned)

    def forget(self) -> None:
        """Build shapes again, after a change of the namespaces that selectors select."""
        # Interned shapes stay, because overlays use their identity as a key.
        self._by_key.clear()

    def intern(self, shape: Shape) -> Shape:
        return self._interned.setdefault(shape, shape)

    def of(self, pod: Object) -> Shape:
        """The shape of a pod, without overlays."""
        metadata, spec = metadata_of(pod), pod["spec"]
        annotations = metadata.get("annotations") or _NOTHING
        pod_affinity = spec.get("affinity")
        # The key needs every field that ``_build`` reads.
        key = _encode(
            (
                [(c.get("resources"), c.get("ports")) for c in spec.get("containers") or ()],
                [
                    (c.get("resources"), c.get("restartPolicy"), c.get("ports"))
                    for c in spec.get("initContainers") or ()
                ],
                spec.get("nodeSelector"),
                spec.get("tolerations"),
                spec.get("overhead"),
                self._gpu_annotations(annotations) if self._sharing and annotations else None,
                # Only terms of pod affinity depend on the pod's own namespace and labels.
                (pod_affinity, metadata.get("namespace"), metadata.get("labels")) if pod_affinity else None,
            )
        )
        shape = self._by_key.get(key)
        if shape is None:
            shape = self._by_key[key] = self.intern(self._build(metadata, spec, annotations))
        return shape

    @staticmethod
    def _gpu_annotations(annotations: Mapping[str, Any]) -> list[tuple[str, Any]] | None:
        relevant = [
            (key, value)
            for key, value in annotations.items()
            if key in names.GPU_SHARING or key.startswith(names.MIG_PREFIX)
        ]
        return sorted(relevant) if relevant else None

    def _build(self, metadata: Mapping[str, Any], spec: Mapping[str, Any], annotations: Mapping[str, Any]) -> Shape:
        totals = requests.pod_amounts(spec)
        mig = {name: count for name, count in totals.items() if name.startswith(names.MIG_PREFIX) and count}
        devices = sum(totals.get(name, 0) for name in self._devices)
        gpu = gpu_request(devices, mig, annotations if self._sharing else _NOTHING)
        others = tuple(
            (name, count)
            for name, count in sorted(totals.items())
            if count and name not in _NATIVE and name not in self._devices and name not in mig and name != "pods"
        )
        pod_affinity = spec.get("affinity") or _NOTHING
        namespace, labels = metadata.get("namespace", ""), metadata.get("labels") or {}
        return Shape(
            cpu=totals.get("cpu", 0),
            memory=totals.get("memory", 0),
            gpu=gpu,
            extended=others,
            selector=affinity.selector(spec.get("nodeSelector")),
            terms=affinity.node_terms(pod_affinity),
            preferred=affinity.preferred_nodes(pod_affinity),
            tolerations=affinity.tolerations(spec.get("tolerations")),
            affinity=affinity.pod_terms(pod_affinity.get("podAffinity"), namespace, labels, self._namespaces),
            anti_affinity=affinity.pod_terms(pod_affinity.get("podAntiAffinity"), namespace, labels, self._namespaces),
            ports=_host_ports(spec),
            guaranteed=requests.is_guaranteed(spec),
            containers=container_requests(spec),
        )


def gpu_request(devices: int, mig: Mapping[str, int], annotations: Mapping[str, Any]) -> GpuRequest:
    """Whole devices, unless an annotation requests a share, GPU memory, or (older style) MIG profiles.

    Invalid annotations and fractions outside 0..1 count as absent.
    """
    legacy = {
        key: count
        for key, value in sorted(annotations.items())
        if key.startswith(names.MIG_PREFIX) and (count := _whole(value))
    }
    if mig or legacy:
        return MigInstances(profiles=tuple(sorted((legacy or mig).items())))
    number = max(1, _whole(annotations.get(names.GPU_FRACTION_DEVICES)) or 1)
    portion = _milli(annotations.get(names.GPU_FRACTION))
    if portion:
        return GpuFraction.of(number, portion)
    memory = _whole(annotations.get(names.GPU_MEMORY))
    if memory:
        return GpuMemory(devices=number, memory_mib=memory)
    return WholeGpus(devices=devices) if devices else NO_GPU


def _whole(value: Any) -> int:
    """A positive integer in text, capped at ``_MOST``; 0 for anything else."""
    return min(parse_count(value), _MOST)


def _milli(value: Any) -> int:
    """A fraction 0 < f <= 1 as milli-GPU; 0 for anything else."""
    exact = decimal(value)
    if exact is None or not 0 < exact <= 1:
        return 0
    # At least 1: 0 would be no request at all.
    return max(1, round(exact * GPU))


def _host_ports(spec: Mapping[str, Any]) -> tuple[tuple[str, str, int], ...]:
    # Init containers release their ports when they end; sidecars keep them. Source: Kubernetes NodePorts.
    sidecars = [c for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always"]
    ports = {
        (port.get("hostIP") or "0.0.0.0", port.get("protocol") or "TCP", int(port["hostPort"]))
        for container in (*(spec.get("containers") or ()), *sidecars)
        for port in container.get("ports") or ()
        if port.get("hostPort")
    }
    return tuple(sorted(ports))
