"""Labs in virtual clusters that run: on a kind cluster with the image that was made here, or in a host that ``KUBECONFIG`` names."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kailab.cluster.built_images import VclusterImageStore
from kailab.cluster.controlplane.supervision import processes_of
from kailab.cluster.kind import KindPlane, kind_reason
from kailab.cluster.kind.options import choose_options
from kailab.cluster.vcluster import find_tools, tools_reason
from kailab.components import ComponentSet
from kailab.errors import InputError
from kailab.lab import Lab, expect
from kailab.lab.venues import open_venue
from tests.planes import connected, image_reason, taken_down

pytestmark = pytest.mark.slow

REQUIRED = "KAILAB_REQUIRE_VCLUSTER"
TRAIN = """\
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: team}
spec: {resources: {gpu: {quota: 8, limit: 8}, cpu: {quota: -1, limit: -1}, memory: {quota: -1, limit: -1}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: train, labels: {kai.scheduler/queue: team}}
spec:
  parallelism: 3
  completions: 3
  template:
    metadata: {labels: {app: train, kai.scheduler/queue: team}}
    spec:
      restartPolicy: Never
      schedulerName: kai-scheduler
      containers: [{name: main, image: none, resources: {limits: {nvidia.com/gpu: 4}}}]
"""


def _lacking() -> str | None:
    """Why no virtual cluster can run here."""
    if reason := tools_reason() or kind_reason():
        return reason
    if find_tools().chart is None:
        return "the chart is not here: `kailab components get --vcluster` gets it"
    if VclusterImageStore().newest("v1.35.4") is None:
        return "there is no image of a virtual control plane here: `python -m tools.images vcluster build` builds one"
    return image_reason(choose_options().image)


@pytest.fixture(scope="module")
def host(components: ComponentSet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of one whose nodes have vCluster's images, or can be given the one that was made here."""
    if os.environ.get(REQUIRED) == "1":
        yield Path(os.environ["KUBECONFIG"])
        return
    if reason := _lacking():
        pytest.skip(f"no virtual cluster can run here: {reason}")
    with taken_down(KindPlane.up(tmp_path_factory.mktemp("host") / "plane", components=components)) as made:
        yield made.kubeconfig


@pytest.fixture
def train(tmp_path: Path) -> Path:
    path = tmp_path / "train.yaml"
    path.write_text(TRAIN)
    return path


def left(host: Path) -> list[str]:
    """What there is of virtual clusters in the host."""
    with connected(host, "host") as cluster:
        kinds = ("Namespace", "ClusterRole", "ClusterRoleBinding")
        names = [obj["metadata"]["name"] for kind in kinds for obj in cluster.list(kind)]
    return [name for name in names if "kailab-" in name]


def test_two_labs_side_by_side_see_nothing_of_each_other(host: Path, train: Path, tmp_path: Path) -> None:
    before = left(host)
    first, second = (open_venue("vcluster", kubeconfig=host, folder=tmp_path / name) for name in ("one", "two"))
    try:
        with Lab.open(backend="vcluster", venue=first) as one, Lab.open(backend="vcluster", venue=second) as two:
            one.apply(train)
            expect(one.queue("team")).running(gpus=8).pending(pods=1)
            assert two.get("Pod") == []
            assert not any(queue["metadata"]["name"] == "team" for queue in two.get("Queue"))
        with connected(host, "host") as cluster:
            assert not any(pod["metadata"]["name"].startswith("train") for pod in cluster.list("Pod"))
            assert not any(node["metadata"]["name"].startswith("a100") for node in cluster.list("Node"))
            definitions = cluster.list("CustomResourceDefinition")
            assert not any(one["metadata"]["name"].endswith(".run.ai") for one in definitions)
    finally:
        for venue in (first, second):
            venue.close()
    assert left(host) == before
    for name in ("one", "two"):
        assert not (tmp_path / name).exists()
        assert processes_of(tmp_path / name) == []


def test_nodes_that_the_host_has_by_the_same_names_are_refused(host: Path, tmp_path: Path) -> None:
    before = left(host)
    fake = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a100-0"}}
    venue = open_venue("vcluster", kubeconfig=host, folder=tmp_path / "one")
    with connected(host, "host") as cluster:
        cluster.create(fake)
        try:
            with pytest.raises(InputError, match="the host has nodes with the same names as the fleet: a100-0;"):
                Lab.open(backend="vcluster", venue=venue)
        finally:
            cluster.delete("Node", "a100-0")
            venue.close()
    assert left(host) == before


def test_a_lab_from_the_command_line(host: Path, train: Path, tmp_path: Path) -> None:
    before = left(host)

    def kailab(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "kailab", *arguments, "--state", str(tmp_path / "lab.state")],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    kailab("up", "--backend", "vcluster", "--kubeconfig", str(host))
    try:
        kailab("apply", "-f", str(train))
        kailab("run")
        pods = kailab("get", "pods")
        assert pods.count("Running") == 2
        assert pods.count("Pending") == 1
    finally:
        kailab("down")
    assert left(host) == before
