"""A small world for workloads: a cluster, its controllers, and a stand-in that binds every pending pod."""

from __future__ import annotations

from typing import Any

import pytest

from kailab.cluster.embedded import EmbeddedCluster
from kailab.workloads import WorkloadControllers


class World:
    """``settle`` steps controllers, binds what is pending, and lets prompt timers fall due until nothing is left."""

    def __init__(self, nodes: int = 2) -> None:
        self.cluster = EmbeddedCluster()
        self.controllers = WorkloadControllers(self.cluster)
        for index in range(nodes):
            self.node(f"n{index}")

    @staticmethod
    def template(
        app: str = "a", *, restart: str = "Always", annotations: dict[str, str] | None = None, **spec: Any
    ) -> dict:
        return {
            "metadata": {"labels": {"app": app}, "annotations": annotations or {}},
            "spec": {"restartPolicy": restart, "containers": [{"name": "c", "image": "pause"}], **spec},
        }

    def add(self, api_version: str, kind: str, spec: dict, name: str = "a", **metadata: Any) -> dict:
        meta = {"name": name, "namespace": "default", **metadata}
        return self.cluster.create({"apiVersion": api_version, "kind": kind, "metadata": meta, "spec": spec})

    def job(self, name: str = "a", annotations: dict[str, str] | None = None, **spec: Any) -> dict:
        pod = self.template(name, restart=spec.pop("restart", "Never"), annotations=annotations)
        return self.add("batch/v1", "Job", {"template": pod, **spec}, name)

    def replicated(self, kind: str, replicas: int = 3, name: str = "a", **spec: Any) -> dict:
        selector = {"matchLabels": {"app": name}}
        full = {"selector": selector, "template": self.template(name), **spec}
        if kind != "DaemonSet":
            full["replicas"] = replicas
        return self.add("apps/v1", kind, full, name)

    def node(self, name: str, **metadata: Any) -> dict:
        return self.cluster.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, **metadata}})

    def step(self) -> None:
        for _ in range(100):
            if not self.controllers.step():
                return
        raise AssertionError("the controllers never come to rest")

    def settle(self, *, bind: bool = True, until: float | None = None) -> None:
        for _ in range(400):
            self.step()
            pending = [pod for pod in self.cluster.list("Pod") if self._may_be_bound(pod)] if bind else []
            for pod in pending:
                self.cluster.bind(pod["metadata"]["namespace"], pod["metadata"]["name"], "n0")
            due = self.cluster.next_prompt()
            if due is None or (until is not None and due > until):
                self.step()
                if pending:
                    continue
                return
            self.cluster.advance_to(due)
        raise AssertionError("the world never comes to rest")

    @staticmethod
    def _may_be_bound(pod: dict) -> bool:
        spec = pod["spec"]
        return not (spec.get("nodeName") or spec.get("schedulingGates") or "deletionTimestamp" in pod["metadata"])

    def pass_time(self, seconds: float) -> None:
        """Let time pass, the controllers acting at every timer on the way."""
        end = self.cluster.now() + seconds
        self.settle(until=end)
        while (due := self.cluster.next_timer()) is not None and due <= end:
            self.cluster.advance_to(due)
            self.settle(until=end)
        self.cluster.advance_to(end)
        self.settle(until=end)

    def pods(self, **labels: str) -> list[dict]:
        return self.cluster.list("Pod", labels=labels or None)

    def names(self, **labels: str) -> list[str]:
        return [pod["metadata"]["name"] for pod in self.pods(**labels)]

    def get(self, kind: str, name: str = "a") -> dict:
        return self.cluster.get(kind, name)

    def conditions(self, kind: str, name: str = "a") -> dict[str, str]:
        status = self.get(kind, name).get("status") or {}
        return {entry["type"]: entry["status"] for entry in status.get("conditions") or ()}

    def resume(self) -> None:
        """As if saved, and taken up by another command."""
        self.cluster = EmbeddedCluster.restore(self.cluster.dump())
        self.controllers = WorkloadControllers(self.cluster)


@pytest.fixture
def world() -> World:
    return World()
