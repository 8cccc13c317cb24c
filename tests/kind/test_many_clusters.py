"""Clusters that come, go, stand side by side, and are cut short."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest
import yaml

from kailab.cluster.controlplane.supervision import processes_of
from kailab.cluster.kind import KindPlane, nodes, take_down
from kailab.cluster.kind.docker import node_containers
from kailab.cluster.kind.kind_command import KindCommand
from kailab.cluster.kind.options import choose_options, name_for
from kailab.cluster.kubernetes import Connection, KubernetesCluster
from kailab.cluster.polling import wait_until
from kailab.cluster.processes import ask_process
from kailab.components import ComponentSet
from kailab.errors import StateError

pytestmark = pytest.mark.slow

SECONDS = 300.0


def _left_of(folder: Path) -> list[object]:
    return [*node_containers(name_for(folder)), *processes_of(folder), *folder.parent.glob(folder.name)]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A configuration of kind's, on top of the one that this machine may need."""
    needed = choose_options().config
    described = (
        yaml.safe_load(needed.read_text()) if needed else {"kind": "Cluster", "apiVersion": "kind.x-k8s.io/v1alpha4"}
    )
    described["nodes"] = [{"role": "control-plane", "labels": {"lab/room": "north"}}]
    path = tmp_path / "kind.yaml"
    path.write_text(yaml.safe_dump(described))
    return path


def test_side_by_side_and_found_again(
    plane: KindPlane, components: ComponentSet, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    users = tmp_path / "users-kubeconfig"
    users.write_text("apiVersion: v1\nkind: Config\ncurrent-context: mine\n")
    monkeypatch.setenv("KUBECONFIG", str(users))
    monkeypatch.setenv("XDG_CACHE_HOME", os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    before = users.read_bytes()
    folder = tmp_path / "a second one"
    second = KindPlane.up(folder, components=components, config=config)
    try:
        assert second.name != plane.name
        cluster = KubernetesCluster(Connection.from_kubeconfig(second.kubeconfig))
        (node,) = nodes.real_nodes(cluster)
        cluster.close()
        assert node["metadata"]["labels"]["lab/room"] == "north"

        # Somebody removes the folder alone: the cluster and KWOK are still there, and nothing that says so but their name.
        shutil.rmtree(folder)
        found = KindPlane.attach(folder)
        assert found.name == second.name
        found.check()
        assert [one.name for one in found.processes()] == ["kwok"]
        assert len([one for one in processes_of(folder) if ask_process(one, psutil.Process.name) == "kwok"]) == 1
        found.down()
    finally:
        second.down()
    assert _left_of(folder) == []
    with pytest.raises(StateError, match="no kind cluster"):
        KindPlane.attach(folder)
    plane.check()
    assert users.read_bytes() == before
    assert not (tmp_path / "home" / ".kube").exists()
    assert not Path(".pytest-kind").exists()


_UP = """
import sys
import tempfile
from pathlib import Path
from kailab.cluster.kind import KindPlane
from kailab.components import find_components
KindPlane.up(Path(sys.argv[1]), components=find_components())
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_start_cut_short(components: ComponentSet, tmp_path: Path, number: int) -> None:
    folder = tmp_path / "cut"
    starting = subprocess.Popen(
        [sys.executable, "-c", _UP, str(folder)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=dict(os.environ),
        # Where the tests run in the background of a shell, they and their children would not hear it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        assert wait_until(lambda: bool(node_containers(name_for(folder))), SECONDS)
    finally:
        starting.send_signal(number)
        starting.wait(SECONDS)
    if number == signal.SIGKILL:
        with pytest.raises(StateError, match="was interrupted"):
            KindPlane.attach(folder)
        take_down(folder)
    assert _left_of(folder) == []
    assert not list(Path(tempfile.gettempdir()).glob(f"*{name_for(folder)}*"))
    choices = choose_options()
    assert name_for(folder) not in KindCommand(choices.kind, choices.kind).clusters()
