"""The fake-gpu-operator decides which GPUs the nodes of a fleet have: its topology is made from the fleet, and kailab's nodes come without GPUs.

The operator reads the topology when it starts. For each node with a label that names a pool of the topology it makes a ConfigMap with
the node's GPUs, and from that one the capacity of a node of KWOK. Source: the code and the chart of the operator, v0.2.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import yaml

from kailab.cluster.protocol import Cluster
from kailab.errors import NotFound
from kailab.fleet.fleet import Fleet
from kailab.model import labels
from kailab.model.objects import Object, labels_of, metadata_of, name_of, status_of

POOL_LABEL = "run.ai/simulated-gpu-node-pool"
TOPOLOGY = "topology"
_FILE = "topology.yml"
_PREFIX = "nvidia.com/"
_AMOUNTS = ("capacity", "allocatable")


class PublishedFleet(NamedTuple):
    """``topology``: the text of the operator's file. ``nodes``: by name, as they are once the operator has published their GPUs."""

    topology: str
    nodes: Mapping[str, Object]


def published_fleet(fleet: Fleet, nodes: Mapping[str, Object]) -> PublishedFleet:
    """A fleet as the operator publishes it. ``nodes``: its nodes by name. Nodes without GPUs of NVIDIA stay as they are."""
    pools: dict[str, Any] = {}
    published = dict(nodes)
    for pool in fleet.pools:
        made = list(pool.nodes())
        if not made:
            continue
        # The nodes of a pool are equal but for their names.
        allocatable = status_of(made[0])["allocatable"]
        amounts = {key: amount for key, amount in allocatable.items() if key.startswith(_PREFIX)}
        if not amounts:
            continue
        gpus = amounts.pop(labels.GPU_RESOURCE, "0")
        pools[pool.name] = {
            "gpuCount": int(gpus),
            "gpuProduct": pool.gpu_model,
            "gpuMemory": pool.gpu_memory_mib,
            "otherDevices": [{"name": key, "count": int(amount)} for key, amount in sorted(amounts.items())],
        }
        for name in map(name_of, made):
            published[name] = _in_pool(nodes[name], pool.name, gpus)
    topology = {"nodePoolLabelKey": POOL_LABEL, "migStrategy": "mixed", "nodePools": pools}
    return PublishedFleet(yaml.safe_dump(topology, sort_keys=False), published)


def _in_pool(node: Object, pool: str, gpus: str) -> Object:
    # The operator publishes the number of whole GPUs even if it is 0.
    amounts = {part: {**status_of(node)[part], labels.GPU_RESOURCE: gpus} for part in _AMOUNTS}
    metadata = {**metadata_of(node), "labels": {**labels_of(node), POOL_LABEL: pool}}
    return {**node, "metadata": metadata, "status": {**status_of(node), **amounts}}


def without_gpus(node: Object) -> Object:
    """A node as it is before the operator publishes its GPUs."""
    if POOL_LABEL not in labels_of(node):
        return node
    amounts = {
        part: {key: amount for key, amount in status_of(node)[part].items() if not key.startswith(_PREFIX)}
        for part in _AMOUNTS
    }
    return {**node, "status": {**status_of(node), **amounts}}


def unpublished_nodes(cluster: Cluster, nodes: Mapping[str, Object]) -> list[str]:
    """The names of these nodes that do not have the GPUs of the topology yet."""
    there = {name_of(node): node for node in cluster.list("Node")}
    return sorted(name for name, node in nodes.items() if name not in there or _gpus_of(there[name]) != _gpus_of(node))


def _gpus_of(node: Object) -> dict[str, str]:
    return {key: str(amount) for key, amount in status_of(node)["allocatable"].items() if key.startswith(_PREFIX)}


class OperatorTopology:
    """The ConfigMaps of the operator in a cluster: its topology, and one for each node that it knows."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._cluster = cluster
        self._namespace = namespace

    def read(self) -> str:
        """The text of the topology; "" if there is none."""
        try:
            return str(self._cluster.get("ConfigMap", TOPOLOGY, self._namespace)["data"][_FILE])
        except NotFound:
            return ""

    def write(self, text: str) -> None:
        """Replace the topology, and forget all nodes. The operator must not run: it would keep what it has read of both."""
        for obj in self._cluster.list("ConfigMap", self._namespace, labels={"node-topology": "true"}):
            self._cluster.delete("ConfigMap", name_of(obj), self._namespace)
        metadata = {"name": TOPOLOGY, "namespace": self._namespace}
        self._cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {_FILE: text}})
