"""A fleet, its Kubernetes objects, and the content of its file.

``definition`` gives the content of a fleet file; reading it again gives an equal fleet.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from kailab.model import labels, quantities
from kailab.model.multimap import multimap
from kailab.model.objects import Object as Object
from kailab.model.objects import name_of
from kailab.model.times import format_time
from kailab.model.wording import count

FAKE = {"key": labels.FAKE_NODE_TAINT, "value": "fake", "effect": "NoSchedule"}
MIG_STRATEGY = "nvidia.com/mig.strategy"
_PLACEHOLDER = re.compile(r"\{(pool|index)(?::0(\d))?\}")
_CONDITIONS = [
    {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "fake node"},
    {"type": "MemoryPressure", "status": "False", "reason": "KubeletHasSufficientMemory"},
    {"type": "DiskPressure", "status": "False", "reason": "KubeletHasNoDiskPressure"},
    {"type": "PIDPressure", "status": "False", "reason": "KubeletHasSufficientPID"},
]


KEY = "key"


def _keyed(key: str, default: Any) -> Any:
    """A field with the same value under this key of a fleet file."""
    if isinstance(default, dict):
        return field(default_factory=dict, metadata={KEY: key})
    return field(default=default, metadata={KEY: key})


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """One level of a pool's layout: each ``nodes`` consecutive nodes share a value of the label."""

    label: str
    nodes: int
    name: str
    start: int = 0

    def value(self, position: int) -> str:
        return fill_template(self.name, "", self.start + position // self.nodes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Equal nodes. ``gpus``: physical devices of a node; ``mig``: the instances they are split into (profile -> count
    per node), empty: not split. ``gpu_memory_mib`` 0: unspecified. ``cpu`` and ``memory``: quantities as written.
    ``taints`` None: unspecified; then nodes beside real ones get ``FAKE``. ``unschedulable``: the nodes are cordoned."""

    name: str
    count: int
    cpu: str
    memory: str
    pods: int = _keyed("pods", 110)
    gpus: int = _keyed("gpus", 0)
    gpu_model: str = _keyed("gpuModel", "")
    gpu_vendor: str = _keyed("gpuVendor", "nvidia")
    gpu_memory_mib: int = _keyed("gpuMemory", 0)
    mig_strategy: str = ""
    mig: Mapping[str, int] = field(default_factory=dict)
    resources: Mapping[str, str] = _keyed("resources", {})
    name_template: str = _keyed("nameTemplate", "{pool}-{index}")
    start_index: int = _keyed("startIndex", 0)
    node_labels: Mapping[str, str] = _keyed("labels", {})
    annotations: Mapping[str, str] = _keyed("annotations", {})
    taints: tuple[Mapping[str, str], ...] | None = None
    unschedulable: bool = _keyed("unschedulable", False)
    layout: tuple[Level, ...] = ()

    @property
    def _amd(self) -> bool:
        return self.gpu_vendor == "amd"

    def node_name(self, position: int) -> str:
        return fill_template(self.name_template, self.name, self.start_index + position)

    @property
    def whole_gpus(self) -> int:
        """Devices of a node that are available whole: 0 if they are split."""
        return 0 if self.mig else self.gpus

    def nodes(self, *, beside_real: bool = False) -> Iterator[Object]:
        """v1 Node objects, ready. Nodes share equal parts: treat them as read-only. ``beside_real``: for a cluster with
        real nodes, whose pods must not run here unasked."""
        allocatable = self._allocatable()
        status = {
            "capacity": allocatable,
            "allocatable": allocatable,
            "conditions": _CONDITIONS,
            "nodeInfo": {"architecture": "amd64", "operatingSystem": "linux", "kubeletVersion": "fake"},
        }
        taints = self.taints if self.taints is not None else (FAKE,) if beside_real else ()
        spec: Object = {"taints": [dict(taint) for taint in taints]} if taints else {}
        if self.unschedulable:
            spec["unschedulable"] = True
        annotations = {labels.FAKE_NODE_TAINT: "fake", **self.annotations}
        common = self._labels()
        for position in range(self.count):
            name = self.node_name(position)
            own = {level.label: level.value(position) for level in self.layout}
            metadata = {
                "name": name,
                "labels": {**common, labels.HOSTNAME: name, **own, **self.node_labels},
                "annotations": annotations,
            }
            yield {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec, "status": status}

    def _allocatable(self) -> dict[str, str]:
        amounts = {"cpu": self.cpu, "memory": self.memory, "pods": str(self.pods)}
        if self.mig_strategy == "single":
            amounts[labels.GPU_RESOURCE] = str(sum(self.mig.values()))
        elif self.mig:
            amounts |= {f"{labels.MIG_PREFIX}{profile}": str(count) for profile, count in self.mig.items()}
        elif self.gpus:
            amounts[labels.AMD_GPU_RESOURCE if self._amd else labels.GPU_RESOURCE] = str(self.gpus)
        return amounts | dict(self.resources)

    def _labels(self) -> dict[str, str]:
        result = {"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"}
        if not self.gpus:
            return result
        if self._amd:
            return {**result, **({labels.AMD_GPU_PRODUCT: self.gpu_model} if self.gpu_model else {})}
        result[labels.GPU_PRESENT] = "true"
        result[labels.GPU_COUNT] = str(self.gpus)
        if self.gpu_model:
            result[labels.GPU_PRODUCT] = self.gpu_model
        if self.gpu_memory_mib:
            result[labels.GPU_NODE_MEMORY] = str(self.gpu_memory_mib)
        if self.mig:
            result[MIG_STRATEGY] = self.mig_strategy
            result["node-role.kubernetes.io/mig-enabled"] = "true"
        return result


@dataclass(frozen=True, slots=True)
class ModelSummary:
    """``gpus``: devices available whole; ``mig``: instances by profile, over all nodes of the model."""

    model: str
    nodes: int
    gpus: int
    mig: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class FleetSummary:
    """The totals of a fleet. ``gpus``: devices available whole. ``models``: by name; CPU-only nodes have none."""

    name: str
    nodes: int
    gpus: int
    cpu_millis: int
    memory_bytes: int
    cpu_only_nodes: int
    models: tuple[ModelSummary, ...]

    def __str__(self) -> str:
        parts = []
        for model in self.models:
            text = f"{model.gpus} {model.model}" if model.gpus else model.model
            if model.mig:
                text += f" in {', '.join(f'{number} {profile}' for profile, number in model.mig.items())}"
            parts.append(f"{text} on {count(model.nodes, 'node')}")
        if self.cpu_only_nodes:
            parts.append(f"{count(self.cpu_only_nodes, 'node')} without GPU")
        text = f"{count(self.gpus, 'GPU')} on {count(self.nodes, 'node')}"
        return f"{text} ({'; '.join(parts)})" if len(parts) > 1 else text


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """A described set of nodes. ``topologies`` and ``priority_classes``: Kubernetes objects that belong to it. ``start_time``: where the clock of
    an embedded lab starts, in seconds since the epoch; None: at a fixed time. ``notices``: what of a cluster's nodes the fleet does not have."""

    name: str
    description: str = ""
    pools: tuple[Pool, ...] = ()
    topologies: tuple[Object, ...] = ()
    priority_classes: tuple[Object, ...] = ()
    start_time: float | None = None
    file: str = ""
    notices: tuple[str, ...] = field(default=(), compare=False)

    def nodes(self, *, beside_real: bool = False) -> list[Object]:
        """v1 Node objects, pool by pool in the order of the file. ``beside_real``: see ``Pool.nodes``."""
        return [node for pool in self.pools for node in pool.nodes(beside_real=beside_real)]

    def objects(self) -> list[Object]:
        """All objects of the fleet for a cluster of its own: topologies, priority classes, nodes."""
        return [*self.topologies, *self.priority_classes, *self.nodes()]

    @property
    def largest_node(self) -> int:
        """The most whole devices of any node."""
        return max((pool.whole_gpus for pool in self.pools), default=0)

    def summary(self) -> FleetSummary:
        """The totals, by GPU model."""
        models = multimap((pool.gpu_model or "GPU", pool) for pool in self.pools if pool.gpus)
        return FleetSummary(
            name=self.name,
            nodes=sum(pool.count for pool in self.pools),
            gpus=sum(pool.count * pool.whole_gpus for pool in self.pools),
            cpu_millis=sum(pool.count * quantities.cpu_millis(pool.cpu) for pool in self.pools),
            memory_bytes=sum(pool.count * quantities.mem_bytes(pool.memory) for pool in self.pools),
            cpu_only_nodes=sum(pool.count for pool in self.pools if not pool.gpus),
            models=tuple(_model(name, pools) for name, pools in sorted(models.items())),
        )


def fill_template(template: str, pool: str, index: int) -> str:
    """A name from its template: ``{pool}``, ``{index}``, or ``{index:03}`` padded with zeros."""
    return _PLACEHOLDER.sub(
        lambda match: pool if match[1] == "pool" else str(index).zfill(int(match[2] or 0)), template
    )


def _model(name: str, pools: list[Pool]) -> ModelSummary:
    mig: dict[str, int] = {}
    for pool in pools:
        for profile, number in pool.mig.items():
            mig[profile] = mig.get(profile, 0) + number * pool.count
    return ModelSummary(
        model=name,
        nodes=sum(pool.count for pool in pools),
        gpus=sum(pool.count * pool.whole_gpus for pool in pools),
        mig=mig,
    )


def fleet_definition(fleet: Fleet) -> dict[str, Any]:
    """The content of a fleet file as plain values, without defaults and comments."""
    content: dict[str, Any] = {"apiVersion": "kailab.dev/v1", "kind": "Fleet", "name": fleet.name}
    if fleet.description:
        content["description"] = fleet.description
    if fleet.start_time is not None:
        content["startTime"] = format_time(fleet.start_time)
    content["pools"] = [_pool(pool) for pool in fleet.pools]
    if fleet.topologies:
        content["topologies"] = [
            {
                "name": name_of(topology),
                "levels": [level["nodeLabel"] for level in topology["spec"]["levels"]],
            }
            for topology in fleet.topologies
        ]
    if fleet.priority_classes:
        content["priorityClasses"] = [_priority_class(obj) for obj in fleet.priority_classes]
    return content


def _pool(pool: Pool) -> dict[str, Any]:
    usual = Pool(name="", count=0, cpu="", memory="")
    content: dict[str, Any] = {"name": pool.name, "count": pool.count, "cpu": pool.cpu, "memory": pool.memory}
    for each in fields(Pool):
        value = getattr(pool, each.name)
        if KEY in each.metadata and value != getattr(usual, each.name):
            content[each.metadata[KEY]] = dict(value) if isinstance(value, Mapping) else value
    if pool.mig:
        content["mig"] = {"strategy": pool.mig_strategy, "profiles": dict(pool.mig)}
    if pool.taints is not None:
        content["taints"] = [dict(taint) for taint in pool.taints]
    if pool.layout:
        content["layout"] = [
            {"label": level.label, "nodes": level.nodes, "name": level.name, "start": level.start}
            for level in pool.layout
        ]
    return content


def _priority_class(obj: Object) -> dict[str, Any]:
    fields_left = {key: value for key, value in obj.items() if key not in ("apiVersion", "kind", "metadata")}
    return {"name": name_of(obj), **fields_left}
