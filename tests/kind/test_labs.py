"""Labs on kind clusters: the backend's own, and one that pytest-kind's fixture made."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kailab.cluster.controlplane.supervision import processes_of
from kailab.cluster.kind.docker import node_containers
from kailab.cluster.kind.options import choose_options, name_for
from kailab.components import ComponentSet
from kailab.lab import Lab, expect
from kailab.lab.venues import open_venue

pytestmark = pytest.mark.slow

MANIFESTS = """\
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: team}
spec: {resources: {gpu: {quota: 8, limit: 8}, cpu: {quota: -1, limit: -1}, memory: {quota: -1, limit: -1}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: serve}
spec:
  replicas: 3
  selector: {matchLabels: {app: serve}}
  template:
    metadata: {labels: {app: serve, kai.scheduler/queue: team}}
    spec:
      schedulerName: kai-scheduler
      tolerations: [{key: kwok.x-k8s.io/node, operator: Exists, effect: NoSchedule}]
      containers: [{name: main, image: none, resources: {limits: {nvidia.com/gpu: 4}}}]
"""


@pytest.fixture
def manifests(tmp_path: Path) -> Path:
    path = tmp_path / "serve.yaml"
    path.write_text(MANIFESTS)
    return path


def test_a_lab_of_its_own(components: ComponentSet, manifests: Path, tmp_path: Path) -> None:
    folder = tmp_path / "room"
    venue = open_venue("kind", folder=folder)
    try:
        with Lab.open(backend="kind", venue=venue) as lab:
            lab.apply(manifests)
            expect(lab.queue("team")).running(gpus=8).pending(pods=1, reason="OverLimit")
            # No pod of the lab is on the real node.
            places = {pod["spec"].get("nodeName") for pod in lab.get("Pod")}
            assert places <= {"a100-0", "a100-1", "h100-0", "l40s-0", "l40s-1", None}
    finally:
        venue.close()
    assert node_containers(name_for(folder)) == []
    assert processes_of(folder) == []
    assert not folder.exists()


_TEST = """
from pathlib import Path
from kailab.cluster.kind import with_fake_nodes
from kailab.components import find_components
from kailab.lab import Lab, expect
from kailab.lab.venues import open_venue

def test_mine(kind_cluster):
    kubeconfig = Path(kind_cluster.kubeconfig_path)
    with with_fake_nodes(kubeconfig, find_components()) as kwok:
        assert kwok.running
        with Lab.open(backend="kubeconfig", kubeconfig=kubeconfig) as lab:
            lab.apply("serve.yaml")
            expect(lab.queue("team")).running(gpus=8).pending(pods=1, reason="OverLimit")
        assert "a100-0" not in kind_cluster.kubectl("get", "nodes", "-o", "name")
"""


_WITH_LABS = """
from kailab.lab import expect

def test_first(kailab):
    kailab.apply("serve.yaml")
    expect(kailab.queue("team")).running(gpus=8).pending(pods=1, reason="OverLimit")

def test_next(kailab, kind_cluster):
    assert kailab.get("Deployment") == []
    assert "a100-0" in kind_cluster.kubectl("get", "nodes", "-o", "name")
"""


def test_labs_on_the_fixture_of_pytest_kind(components: ComponentSet, manifests: Path, tmp_path: Path) -> None:
    """Neither kind nor kubectl nor an image is named: what is here is used."""
    name = name_for(tmp_path)
    (tmp_path / "test_mine.py").write_text(_WITH_LABS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", ".", "test_mine.py"]
    command += ["--cluster-name", name, "--kailab-required", "--kailab-evidence", "runs"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env=dict(os.environ))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout
    assert list(tmp_path.glob("runs/*/run.json"))
    assert node_containers(name) == []
    # Nothing was downloaded.
    assert not list(tmp_path.glob(".pytest-kind/*/kind-*"))


def test_the_fixture_of_pytest_kind(components: ComponentSet, manifests: Path, tmp_path: Path) -> None:
    choices = choose_options()
    name = name_for(tmp_path)
    (tmp_path / "test_mine.py").write_text(_TEST)
    command = [
        sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", ".", "test_mine.py",
        "--cluster-name", name, "--kind-bin", str(choices.kind), "--kind-image", choices.image,
        "--kind-kubectl-bin", str(components.path("kubectl")),
    ]  # fmt: skip
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env=dict(os.environ))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout
    assert node_containers(name) == []
