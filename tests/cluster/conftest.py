from __future__ import annotations

from typing import Any

import pytest

from kailab.cluster.embedded import EmbeddedCluster


class Build:
    """Makes objects as a user would write them."""

    @staticmethod
    def pod(name: str = "p", namespace: str = "default", spec: dict | None = None, **metadata: Any) -> dict:
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace, **metadata},
            "spec": {"containers": [{"name": "c", "image": "pause"}], **(spec or {})},
        }

    @staticmethod
    def node(name: str = "n", ready: str | None = None, **spec: Any) -> dict:
        node: dict = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": spec}
        if ready is not None:
            node["status"] = {"conditions": [{"type": "Ready", "status": ready}]}
        return node

    @staticmethod
    def config(name: str = "c", namespace: str = "default", data: dict | None = None, **metadata: Any) -> dict:
        meta = {"name": name, "namespace": namespace, **metadata}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data or {}}

    @staticmethod
    def namespace(name: str) -> dict:
        return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}

    @staticmethod
    def owner(obj: dict, controller: bool = True) -> dict:
        meta = obj["metadata"]
        return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "name": meta["name"], "uid": meta["uid"],
                "controller": controller}  # fmt: skip


@pytest.fixture
def build() -> type[Build]:
    return Build


@pytest.fixture
def cluster() -> EmbeddedCluster:
    return EmbeddedCluster()


@pytest.fixture
def running(cluster: EmbeddedCluster, build: type[Build]):
    """A function that creates a pod and brings it to Running on node n."""
    cluster.create(build.node())

    def run(name: str = "p", **kwargs: Any) -> dict:
        cluster.create(build.pod(name, **kwargs))
        cluster.bind("default", name, "n")
        cluster.advance(1)
        return cluster.get("Pod", name, "default")

    return run
