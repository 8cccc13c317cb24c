"""Programs that stand in for those of the fake-gpu-operator, where they are not got: they publish the GPUs of nodes in the same way.

``status-updater`` makes a ConfigMap for each node of a pool, ``kwok-gpu-device-plugin`` the capacity of the node from it. Neither publishes
GPUs of a pool that is named ``refused``. Run by the Python that runs the tests; ``program`` gives the text with that in its first line.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import yaml

from kailab.cluster.kubernetes import Connection, KubernetesCluster
from kailab.errors import AlreadyExists
from kailab.model.objects import labels_of, name_of


def program() -> bytes:
    return f"#!{sys.executable}\n".encode() + Path(__file__).read_bytes()


def publish_nodes(cluster: KubernetesCluster, namespace: str, topology: dict[str, Any]) -> None:
    for node in cluster.list("Node"):
        pool = labels_of(node).get(topology["nodePoolLabelKey"])
        if pool in topology["nodePools"] and pool != "refused":
            metadata = {
                "name": f"topology-{name_of(node)}",
                "namespace": namespace,
                "labels": {"node-topology": "true", "node-name": name_of(node)},
            }
            own = {"topology.yml": yaml.safe_dump(topology["nodePools"][pool])}
            try:
                cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": own})
            except AlreadyExists:
                continue


def publish_capacities(cluster: KubernetesCluster, namespace: str, seen: set[str]) -> None:
    nodes = {name_of(node) for node in cluster.list("Node")}
    for obj in cluster.list("ConfigMap", namespace, labels={"node-topology": "true"}):
        name = labels_of(obj)["node-name"]
        if name in nodes and name not in seen:
            seen.add(name)
            pool = yaml.safe_load(obj["data"]["topology.yml"])
            amounts = {one["name"]: str(one["count"]) for one in pool["otherDevices"]}
            amounts["nvidia.com/gpu"] = str(pool["gpuCount"])
            cluster.patch(
                "Node", name, None, {"status": {"capacity": amounts, "allocatable": amounts}}, subresource="status"
            )


def run(name: str) -> None:
    cluster = KubernetesCluster(Connection.from_kubeconfig(Path(os.environ["KUBECONFIG"])), "controlplane")
    namespace = os.environ["TOPOLOGY_CM_NAMESPACE"]
    read = cluster.get("ConfigMap", os.environ["TOPOLOGY_CM_NAME"], namespace)
    topology, seen = yaml.safe_load(read["data"]["topology.yml"]), set[str]()
    print(f"{name} was Started", flush=True)
    while True:
        if name == "status-updater":
            publish_nodes(cluster, namespace, topology)
        else:
            publish_capacities(cluster, namespace, seen)
        time.sleep(0.1)


if __name__ == "__main__":
    run(Path(sys.argv[0]).name)
