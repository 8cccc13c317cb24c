"""What a control plane is, and that nothing of it is left."""

from __future__ import annotations

import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from kailab.cluster.controlplane import ControlPlane, running, take_down
from kailab.cluster.kubernetes import KubernetesCluster
from kailab.components import ComponentSet
from kailab.errors import ConnectError, Forbidden, NotFound, StateError

pytestmark = pytest.mark.slow
Connect = Callable[[Path], KubernetesCluster]
Makes = Callable[[str], dict[str, Any]]
Finds = Callable[[Path], list[psutil.Process]]
Waits = Callable[[Callable[[], bool]], None]
PROGRAMS = ["etcd", "kube-apiserver", "kube-controller-manager", "kwok"]


def test_it_is_whole_when_up_returns(control_plane: ControlPlane, connect: Connect) -> None:
    assert [one.name for one in control_plane.processes() if one.running] == PROGRAMS
    control_plane.check()
    cluster = connect(control_plane.kubeconfig)
    assert cluster.get("ServiceAccount", "default", "default")
    assert cluster.list("DeviceClass") == []
    assert control_plane.kubernetes.startswith("v1.")
    assert control_plane.folder in running()


def test_only_the_loopback_address_is_listened_on(control_plane: ControlPlane) -> None:
    for one in control_plane.processes():
        listens = [
            each.laddr for each in psutil.Process(one.pid).net_connections("tcp") if each.status == psutil.CONN_LISTEN
        ]
        assert one.port in {address.port for address in listens}, one.name
        assert {address.ip for address in listens} == {"127.0.0.1"}, one.name


def test_secrets_are_for_their_owner_only(control_plane: ControlPlane) -> None:
    assert control_plane.kubeconfig.stat().st_mode & 0o777 == 0o600
    assert control_plane.folder.stat().st_mode & 0o777 == 0o700
    keys = [*control_plane.folder.rglob("*.key"), *control_plane.folder.rglob("*.kubeconfig")]
    assert len(keys) > 5
    assert {key.stat().st_mode & 0o077 for key in keys} == {0}


def test_nobody_goes_round_the_api_to_its_store(control_plane: ControlPlane) -> None:
    etcd = next(one for one in control_plane.processes() if one.name == "etcd")
    pki = control_plane.folder / "pki"
    url = f"https://127.0.0.1:{etcd.port}/health"
    nobody = ssl.create_default_context(cafile=str(pki / "etcd-ca.crt"))
    admin = ssl.create_default_context(cafile=str(pki / "etcd-ca.crt"))
    admin.load_cert_chain(pki / "admin.crt", pki / "admin.key")
    for context in (nobody, admin):
        with pytest.raises(OSError, match=r"(?i)certificate|tls|ssl|reset|broken pipe"):
            urllib.request.urlopen(url, context=context, timeout=60).read()
    with pytest.raises(OSError):
        urllib.request.urlopen(f"http://127.0.0.1:{etcd.port}/health", timeout=60).read()


def test_a_stranger_is_refused(control_plane: ControlPlane, connect: Connect, tmp_path: Path) -> None:
    own = ssl.create_default_context(cafile=str(control_plane.folder / "pki" / "ca.crt"))
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{control_plane.server}/api/v1/nodes", context=own, timeout=60)
    assert refused.value.code == 401
    refused.value.close()
    forged = yaml.safe_load(control_plane.kubeconfig.read_text())
    forged["users"][0]["user"] = {"token": "nobody's"}
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(forged))
    with pytest.raises(ConnectError, match="does not accept the credentials"):
        connect(tmp_path / "kubeconfig")


def test_another_user_may_do_what_rbac_allows(control_plane: ControlPlane, connect: Connect, eventually: Waits) -> None:
    admin = connect(control_plane.kubeconfig)
    theirs = control_plane.kubeconfig_for("jane@example.org", ["lookers"])
    assert (
        len({theirs, *(control_plane.kubeconfig_for(name) for name in ("jane@example.org", "jane/example.org"))}) == 3
    )
    assert theirs.stat().st_mode & 0o777 == 0o600
    jane = connect(theirs)
    with pytest.raises(Forbidden, match=r"jane@example\.org"):
        jane.list("Node")
    admin.create(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "look-at-nodes"},
            "rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]}],
        }
    )
    admin.create(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "look-at-nodes"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "look-at-nodes"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "lookers"}],
        }
    )

    def allowed() -> bool:
        try:
            return isinstance(jane.list("Node"), list)
        except Forbidden:
            return False

    eventually(allowed)


def test_a_pod_of_a_fake_node_runs(control_plane: ControlPlane, connect: Connect, eventually: Waits) -> None:
    cluster = connect(control_plane.kubeconfig)
    fake = {"kwok.x-k8s.io/node": "fake"}
    cluster.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "fake-1", "annotations": fake}})
    cluster.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "one", "namespace": "default"},
            "spec": {
                "nodeName": "fake-1",
                "tolerations": [{"operator": "Exists"}],
                "containers": [{"name": "main", "image": "none"}],
            },
        }
    )
    eventually(lambda: cluster.get("Pod", "one", "default").get("status", {}).get("phase") == "Running")
    # node-lifecycle runs: the taint that every new node gets is taken away.
    eventually(lambda: not cluster.get("Node", "fake-1")["spec"].get("taints"))


def test_two_do_not_know_each_other(
    control_plane: ControlPlane,
    components: ComponentSet,
    connect: Connect,
    tmp_path: Path,
    config_map: Makes,
    left_over: Finds,
) -> None:
    other = ControlPlane.up(tmp_path / "other, with a comma", components)
    try:
        assert not {one.port for one in other.processes()} & {one.port for one in control_plane.processes()}
        connect(other.kubeconfig).create(config_map("theirs"))
        with pytest.raises(NotFound):
            connect(control_plane.kubeconfig).get("ConfigMap", "theirs", "default")
    finally:
        other.down()
    assert left_over(other.folder) == []
    control_plane.check()


def test_down_leaves_nothing(
    components: ComponentSet, tmp_path: Path, left_over: Finds, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A user's own settings of etcd are not for this one.
    monkeypatch.setenv("ETCD_LISTEN_METRICS_URLS", "nonsense")
    plane = ControlPlane.up(tmp_path / "plane", components, kube_scheduler=True)
    assert [one.name for one in plane.processes()] == [*PROGRAMS, "kube-scheduler"]
    plane.spawn("parent", ["/bin/sh", "-c", "sleep 1000 & sleep 1000"])
    assert len(left_over(plane.folder)) > 6
    plane.down()
    assert left_over(plane.folder) == []
    assert list(tmp_path.iterdir()) == []
    assert plane.folder not in running()
    plane.down()
    with pytest.raises(StateError, match="no control plane is here"):
        ControlPlane.attach(plane.folder)


STARTS = """
import os, signal, sys
from pathlib import Path
from kailab.cluster.controlplane import ControlPlane
from kailab.components import find_components

def tell(what):
    if sys.argv[2] in what:
        os.kill(os.getpid(), signal.SIGKILL)

ControlPlane.up(Path(sys.argv[1]), find_components(), tell=tell)
os.kill(os.getpid(), signal.SIGKILL)
"""


def start_and_die(folder: Path, at: str) -> None:
    done = subprocess.run([sys.executable, "-c", STARTS, str(folder), at], check=False, capture_output=True, text=True)
    assert done.returncode == -9, done.stderr


def test_it_outlives_a_killed_starter(
    components: ComponentSet, connect: Connect, tmp_path: Path, config_map: Makes, left_over: Finds, eventually: Waits
) -> None:
    start_and_die(tmp_path / "plane", "nothing of the kind")
    plane = ControlPlane.attach(tmp_path / "plane")
    plane.check()
    connect(plane.kubeconfig).create(config_map("later"))
    plane.kill("kwok")
    eventually(lambda: not plane.processes()[3].running)
    assert plane.processes()[3].exit == 137
    plane.down()
    assert left_over(plane.folder) == []


def test_a_start_cut_short_is_cleaned_up(components: ComponentSet, tmp_path: Path, left_over: Finds) -> None:
    folder = tmp_path / "plane"
    start_and_die(folder, "kwok")
    assert left_over(folder)
    with pytest.raises(StateError, match="was interrupted"):
        ControlPlane.attach(folder)
    first = {process.pid for process in left_over(folder)}
    plane = ControlPlane.up(folder, components)
    assert not first & {process.pid for process in left_over(folder)}
    plane.check()
    plane.down()
    start_and_die(folder, "kwok")
    take_down(folder)
    assert left_over(folder) == []
    assert not folder.exists()
