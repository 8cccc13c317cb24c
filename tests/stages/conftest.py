"""Two places where pods live, and what is told of a pod there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import pytest
from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

from kailab.cluster.controlplane import ControlPlane
from kailab.cluster.embedded import EmbeddedCluster
from kailab.cluster.kubernetes import Connection, KubernetesCluster
from kailab.cluster.protocol import Cluster
from kailab.cluster.stages import stages_yaml
from kailab.components import ComponentSet
from kailab.errors import NotFound
from kailab.model.objects import involved_of
from kailab.model.times import parse_time

NODE = "fake"
PATIENCE_SECONDS = 300
Pod: TypeAlias = dict[str, Any]
Facts: TypeAlias = tuple[str, str, int | None, str, int]


@dataclass
class Place:
    """A cluster with a fake node, and a way to let time pass in it."""

    cluster: Cluster

    def start(self, name: str, annotations: dict[str, str] | None = None, node: str = NODE, **more: Any) -> None:
        """Create a pod and bind it. ``more``: fields of its spec; ``finalizers``."""
        metadata: Pod = {"name": name, "namespace": "default", "annotations": annotations or {}}
        if finalizers := more.pop("finalizers", None):
            metadata["finalizers"] = finalizers
        spec = {"containers": [{"name": "main", "image": "pause"}], "tolerations": [{"operator": "Exists"}], **more}
        self.cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        self.cluster.bind("default", name, node)

    def pod(self, name: str) -> Pod | None:
        try:
            return self.cluster.get("Pod", name, "default")
        except NotFound:
            return None

    def until(self, name: str, reached: Callable[[Pod | None], bool]) -> Pod | None:
        """The pod (None: gone) as soon as it is as wanted."""
        return self._until(lambda: self.pod(name), reached)

    def gone(self, name: str) -> None:
        self.until(name, lambda pod: pod is None)

    def node(self, name: str, reached: Callable[[Pod], bool]) -> Pod:
        return self._until(lambda: self.cluster.get("Node", name), reached)

    def said(self, name: str) -> list[tuple[str, str, str]]:
        """(type, reason, message) of the events about a pod, once there is one."""

        def events() -> list[tuple[str, str, str]]:
            return [
                (event["type"], event["reason"], event["message"])
                for event in self.cluster.list("Event", "default")
                if involved_of(event).get("name") == name and event["reason"].startswith("Checkpoint")
            ]

        return self._until(events, bool)

    def told(self, pod: Pod | None) -> Any:
        return told(pod)

    def facts(self, pod: Pod) -> Facts:
        return facts(pod)

    def spans(self, pod: Pod) -> list[float]:
        return spans(pod)

    def _until(self, look: Callable[[], Any], reached: Callable[[Any], bool]) -> Any:
        if isinstance(self.cluster, EmbeddedCluster):
            while not reached(found := look()):
                timer = self.cluster.next_timer()
                assert timer is not None, f"nothing more will happen here; it is {found}"
                self.cluster.advance_to(timer)
            return found
        return Retrying(
            retry=retry_if_result(lambda found: not reached(found)),
            wait=wait_fixed(0.1),
            stop=stop_after_delay(PATIENCE_SECONDS),
            retry_error_callback=lambda state: _fail(state.outcome),
        )(look)


def _fail(outcome: Any) -> None:
    raise AssertionError(f"it did not come to that in {PATIENCE_SECONDS} s: {outcome.result()}")


def told(pod: Pod | None) -> Any:
    """All that a fake kubelet has written of a pod, but for times and addresses."""
    if pod is None:
        return "gone"
    status, metadata = pod["status"], pod["metadata"]
    return {
        "phase": status["phase"],
        "conditions": {
            each["type"]: (each["status"], each.get("reason", ""), each.get("message", ""))
            for each in status.get("conditions") or ()
        },
        "containers": [_container(each) for each in status.get("containerStatuses") or ()],
        "inits": [_container(each) for each in status.get("initContainerStatuses") or ()],
        "started": "startTime" in status,
        "addresses": [bool(status.get(key)) for key in ("hostIP", "hostIPs", "podIP", "podIPs")],
        "on the host": status.get("hostIP") == status.get("podIP"),
        "grace": metadata.get("deletionGracePeriodSeconds"),
        "held by": metadata.get("finalizers"),
    }


def _container(status: Pod) -> Pod:
    return {
        **{key: status.get(key) for key in ("name", "image", "ready", "started", "restartCount")},
        **{field: _state(status.get(field) or {}) for field in ("state", "lastState")},
    }


def _state(state: Pod) -> Pod:
    kept = ("exitCode", "reason", "message")
    return {name: {key: entry[key] for key in kept if key in entry} for name, entry in state.items()}


def spans(pod: Pod) -> list[float]:
    """Seconds on record, between: scheduled and started, each container's start and end, its last end and next start."""
    status = pod["status"]
    since = {each["type"]: parse_time(each["lastTransitionTime"]) for each in status["conditions"]}
    found = [parse_time(status["startTime"]) - since["PodScheduled"]] if "startTime" in status else []
    for container in status.get("containerStatuses") or ():
        states = [container.get("state") or {}, container.get("lastState") or {}]
        ends = [state["terminated"] for state in states if "terminated" in state]
        found += [parse_time(end["finishedAt"]) - parse_time(end["startedAt"]) for end in ends]
        if "running" in states[0] and ends:
            found.append(parse_time(states[0]["running"]["startedAt"]) - parse_time(ends[0]["finishedAt"]))
    return found


def facts(pod: Pod) -> Facts:
    """(phase, state of the first container, exit code and reason of its end now or last, restarts)."""
    of = (pod["status"].get("containerStatuses") or [{}])[0]
    (state,) = of["state"]
    end = of["state"].get("terminated") or (of.get("lastState") or {}).get("terminated") or {}
    return pod["status"]["phase"], state, end.get("exitCode"), end.get("reason", ""), of["restartCount"]


def node(name: str = NODE) -> dict:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "annotations": {"kwok.x-k8s.io/node": "fake"}},
    }


@pytest.fixture
def embedded() -> Place:
    cluster = EmbeddedCluster()
    cluster.create(node())
    return Place(cluster)


@pytest.fixture(scope="session")
def plane(components: ComponentSet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A real control plane whose KWOK plays our stages."""
    folder = tmp_path_factory.mktemp("stages")
    (folder / "stages.yaml").write_text(stages_yaml())
    made = ControlPlane.up(folder / "plane", components, stages=folder / "stages.yaml")
    yield made
    made.down()


@pytest.fixture(scope="session")
def real(plane: ControlPlane) -> Iterator[Place]:
    cluster = KubernetesCluster(Connection.from_kubeconfig(plane.kubeconfig), "controlplane")
    cluster.create(node())
    yield Place(cluster)
    cluster.close()
