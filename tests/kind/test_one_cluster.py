"""One kind cluster: what is in it, and the processes beside it."""

import os
import signal
import stat

import pytest

from kailab.cluster.controlplane import ControlPlaneFailed
from kailab.cluster.kind import KindPlane, nodes
from kailab.cluster.kubernetes import KubernetesCluster
from kailab.cluster.polling import wait_until
from kailab.components import ComponentSet
from kailab.errors import NotFound, StateError
from kailab.fleet.reading import load_fleet

pytestmark = pytest.mark.slow

SECONDS = 300.0
TOLERATION = {"key": "kwok.x-k8s.io/node", "operator": "Exists", "effect": "NoSchedule"}


@pytest.fixture
def fleet(cluster: KubernetesCluster) -> list[str]:
    names = []
    for obj in load_fleet("lesson").objects():
        cluster.apply(obj)
        names.append(obj["metadata"]["name"])
    assert wait_until(lambda: all(_ready(cluster.get("Node", name)) for name in names), SECONDS)
    return names


def _ready(obj: dict) -> bool:
    return any(one["type"] == "Ready" and one["status"] == "True" for one in obj["status"].get("conditions", ()))


def _pod(name: str, **spec: object) -> dict:
    container = {"name": "main", "image": "none", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [container], "tolerations": [TOLERATION], "terminationGracePeriodSeconds": 1, **spec},
    }


def test_pods_on_fake_nodes_run(cluster: KubernetesCluster, fleet: list[str]) -> None:
    cluster.create(_pod("bound", schedulerName="nobody", nodeName=fleet[0]))
    assert wait_until(lambda: _ready(cluster.get("Pod", "bound", "default")), SECONDS)
    cluster.delete("Pod", "bound", "default")

    def gone() -> bool:
        try:
            cluster.get("Pod", "bound", "default")
        except NotFound:
            return True
        return False

    assert wait_until(gone, SECONDS)


def test_the_real_node_is_the_kubelets_and_kept_free(
    plane: KindPlane, cluster: KubernetesCluster, fleet: list[str]
) -> None:
    (real,) = nodes.real_nodes(cluster)
    assert [real["metadata"]["name"]] == plane.containers()
    assert real["status"]["nodeInfo"]["kubeletVersion"].startswith("v1.")
    assert {"key": nodes.CONTROL_PLANE, "effect": "NoSchedule"} in real["spec"]["taints"]
    # No pod of the cluster's own DaemonSets on a fake node, and the real one keeps its own.
    placed = {pod["spec"].get("nodeName") for pod in cluster.list("Pod", "kube-system")} - {None}
    assert placed == {real["metadata"]["name"]}
    assert wait_until(
        lambda: all(
            one["status"]["desiredNumberScheduled"] == 1 == one["status"].get("numberReady", 0)
            for one in cluster.list("DaemonSet", "kube-system")
        ),
        SECONDS,
    )


def test_the_nodes_own_kube_scheduler_decides(plane: KindPlane, cluster: KubernetesCluster, fleet: list[str]) -> None:
    plane.start_kube_scheduler()
    cluster.create(_pod("asks"))
    assert wait_until(lambda: cluster.get("Pod", "asks", "default")["spec"].get("nodeName") in fleet, SECONDS)
    cluster.delete("Pod", "asks", "default")


def test_its_controllers_may_ask_often_and_have_no_lease_to_lose(cluster: KubernetesCluster) -> None:
    for component in ("kube-controller-manager", "kube-scheduler"):
        (pod,) = cluster.list("Pod", "kube-system", {"component": component})
        assert {"--kube-api-qps=1000", "--leader-elect=false"} <= set(pod["spec"]["containers"][0]["command"])


def test_the_kubeconfig_is_for_its_owner_only(plane: KindPlane) -> None:
    assert stat.S_IMODE(plane.kubeconfig.stat().st_mode) == 0o600
    assert stat.S_IMODE(plane.folder.stat().st_mode) == 0o700


@pytest.mark.parametrize("left", [None, ""])
def test_a_lost_kubeconfig_is_written_again(plane: KindPlane, left: str | None) -> None:
    before = plane.kubeconfig.read_text()
    plane.kubeconfig.unlink()
    if left is not None:
        plane.kubeconfig.write_text(left)
    again = KindPlane.attach(plane.folder)
    assert again.kubeconfig.read_text() == before
    assert stat.S_IMODE(again.kubeconfig.stat().st_mode) == 0o600


def test_processes_beside_it(plane: KindPlane) -> None:
    plane.spawn("listener", ["/bin/sh", "-c", "echo $SAID; exec sleep 600"], {"SAID": "here"}, port=7)
    known = {one.name: one for one in KindPlane.attach(plane.folder).processes()}
    assert list(known) == ["kwok", "listener"]
    assert known["listener"].running
    assert known["listener"].port == 7
    assert wait_until(lambda: plane.log("listener").read_text() == "here\n", SECONDS)
    with pytest.raises(StateError, match="runs already"):
        plane.spawn("listener", ["/bin/sleep", "600"])
    plane.check()

    plane.kill("listener", signal.SIGTERM)
    assert wait_until(lambda: not plane.processes()[1].running, SECONDS)
    assert "SIGTERM" in plane.processes()[1].why
    with pytest.raises(ControlPlaneFailed, match="listener does not run"):
        plane.check()
    plane.restart("listener")
    plane.check(["listener"])
    pid = plane.processes()[1].pid
    plane.stop("listener")
    assert plane.processes()[1].why == "stopped"
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    plane.check()


def test_kwok_starts_again(plane: KindPlane, cluster: KubernetesCluster, fleet: list[str]) -> None:
    plane.kill("kwok")
    assert wait_until(lambda: not plane.processes()[0].running, SECONDS)
    with pytest.raises(ControlPlaneFailed, match="kwok does not run"):
        plane.check(["kwok"])
    plane.restart("kwok")
    cluster.create(_pod("later", schedulerName="nobody", nodeName=fleet[1]))
    assert wait_until(lambda: _ready(cluster.get("Pod", "later", "default")), SECONDS)
    cluster.delete("Pod", "later", "default")


def test_a_name_that_is_taken_is_refused(plane: KindPlane, components: ComponentSet, tmp_path) -> None:
    with pytest.raises(StateError, match="already"):
        KindPlane.up(tmp_path / "other", plane.name, components=components)
    assert not (tmp_path / "other").exists()
    assert plane.containers()
    with pytest.raises(StateError, match="is here already"):
        KindPlane.up(plane.folder, components=components)
    plane.check()
