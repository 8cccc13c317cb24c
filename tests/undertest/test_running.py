"""Schedulers under test as real processes beside a real control plane."""

import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kailab.cluster.controlplane import ControlPlane
from kailab.cluster.kubernetes import KubernetesCluster
from kailab.engine.config import EngineConfig
from kailab.fleet.reading import load_fleet
from kailab.scheduler.settings.config_file import SchedulerSettings
from kailab.undertest.contract import SchedulerFailed, SchedulerProcesses, StartSettings, Unsupported
from kailab.undertest.kai.folder import find_kai
from kailab.undertest.kai.processes import PROCESS_NAMES
from kailab.undertest.selection import choose_scheduler

pytestmark = pytest.mark.slow

Waits = Callable[[Callable[[], bool]], None]
MANIFESTS = Path(__file__).parents[2] / "exercises" / "quota" / "manifests"


def running(plane: ControlPlane) -> set[str]:
    return {process.name for process in plane.processes() if process.running}


@pytest.fixture
def nodes(cluster: KubernetesCluster) -> Iterator[None]:
    names = []
    for node in (obj for obj in load_fleet("lesson").objects() if obj["kind"] == "Node"):
        cluster.create(node)
        names.append(node["metadata"]["name"])
    yield
    for name in names:
        cluster.delete("Node", name)


def pod(name: str, scheduler: str, queue: str = "") -> dict:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"kai.scheduler/queue": queue} if queue else {}},
        "spec": {
            "schedulerName": scheduler,
            "terminationGracePeriodSeconds": 0,
            "tolerations": [{"key": "kwok.x-k8s.io/node", "operator": "Exists"}],
            "containers": [{"name": "work", "image": "busybox", "resources": {"limits": {"nvidia.com/gpu": "1"}}}],
        },
    }


def placed(cluster: KubernetesCluster, name: str) -> bool:
    return bool(cluster.get("Pod", name, "default")["spec"].get("nodeName"))


def started(beside: SchedulerProcesses, cluster: KubernetesCluster, **config: Any) -> None:
    beside.start(cluster, StartSettings(SchedulerSettings(engine=EngineConfig(**config))))


def test_kube_scheduler_places_pods_and_is_missed(
    plane: ControlPlane, cluster: KubernetesCluster, nodes: None, eventually: Waits
) -> None:
    kube = choose_scheduler("kube-scheduler").beside(plane)
    assert kube is not None
    started(kube, cluster)
    try:
        kube.check()
        cluster.create(pod("one", "default-scheduler"))
        eventually(lambda: placed(cluster, "one"))
        cluster.delete("Pod", "one", "default", 0)

        plane.kill("kube-scheduler", signal.SIGKILL)
        eventually(lambda: "kube-scheduler" not in running(plane))
        with pytest.raises(SchedulerFailed, match="kube-scheduler does not run: it was killed by SIGKILL"):
            kube.check()
    finally:
        kube.stop()
    assert {"etcd", "kube-apiserver", "kwok"} <= running(plane)


@pytest.fixture
def kai(plane: ControlPlane, kai_folder: Path) -> Iterator[SchedulerProcesses]:
    beside = choose_scheduler("kai", {"kai": kai_folder}).beside(plane)
    assert beside is not None
    yield beside
    beside.stop()
    assert not running(plane) & set(PROCESS_NAMES)


def test_kai_decides(
    plane: ControlPlane, cluster: KubernetesCluster, kai: SchedulerProcesses, nodes: None, eventually: Waits
) -> None:
    started(kai, cluster)
    kai.check()
    assert running(plane) >= set(PROCESS_NAMES[:4])
    for obj in _queues():
        cluster.apply(obj)
    cluster.create(pod("own", "kai-scheduler", "team-a"))
    cluster.create(pod("lost", "kai-scheduler", "team-nobody"))
    eventually(lambda: placed(cluster, "own"))
    # A later pod that is placed shows that "lost" was passed over. What KAI says of a missing queue differs by release.
    cluster.create(pod("later", "kai-scheduler", "team-a"))
    eventually(lambda: placed(cluster, "later"))
    assert not placed(cluster, "lost")
    for name in ("own", "lost", "later"):
        cluster.delete("Pod", name, "default", 0)


def test_kai_is_started_once(plane: ControlPlane, cluster: KubernetesCluster, kai: SchedulerProcesses) -> None:
    started(kai, cluster)
    with pytest.raises(SchedulerFailed, match="runs in this lab already"):
        started(kai, cluster)


@pytest.mark.parametrize("name", PROCESS_NAMES)
def test_each_process_of_kai_is_missed(
    plane: ControlPlane, cluster: KubernetesCluster, kai: SchedulerProcesses, name: str, eventually: Waits
) -> None:
    started(kai, cluster)
    if name not in running(plane):
        pytest.skip(f"{name} is left out here: its port is taken")
    plane.kill(name, signal.SIGKILL)
    eventually(lambda: name not in running(plane))
    with pytest.raises(SchedulerFailed, match=f"{name} does not run: it was killed by SIGKILL"):
        kai.check()


def test_rest_is_two_cycles_without_a_change(
    plane: ControlPlane, cluster: KubernetesCluster, kai: SchedulerProcesses, eventually: Waits
) -> None:
    started(kai, cluster)
    rest = kai.idle_detector(cluster)
    assert not rest.is_idle()
    eventually(rest.is_idle)
    rest.changed()
    assert not rest.is_idle()
    eventually(rest.is_idle)


def test_work_under_way_is_not_idle(
    plane: ControlPlane, cluster: KubernetesCluster, kai: SchedulerProcesses, eventually: Waits
) -> None:
    """A pod that no PodGroup was made for: the podgrouper is dead, which is told as soon as it is looked for."""
    started(kai, cluster)
    rest = kai.idle_detector(cluster)
    eventually(rest.is_idle)
    plane.stop("kai-podgrouper")
    cluster.create(pod("ungrouped", "kai-scheduler", "team-a"))
    with pytest.raises(SchedulerFailed, match="kai-podgrouper does not run"):
        eventually(rest.is_idle)
    cluster.delete("Pod", "ungrouped", "default", 0)


def test_settings_reach_kai(plane: ControlPlane, cluster: KubernetesCluster, kai: SchedulerProcesses) -> None:
    started(kai, cluster, gpu_placement="spread", staleness_grace=5.0)
    argv = (plane.folder / "processes" / "kai-scheduler.json").read_text()
    assert "--default-staleness-grace-period=5s" in argv
    assert "gpu: spread" in (plane.folder / "kai-scheduler.yaml").read_text()


def test_settings_that_kai_has_not(plane: ControlPlane, cluster: KubernetesCluster, kai: SchedulerProcesses) -> None:
    with pytest.raises(Unsupported, match="agedAfter"):
        started(kai, cluster, aged_after=60.0)


def test_last_words_of_a_kai_that_does_not_start(cluster: KubernetesCluster, kai: SchedulerProcesses) -> None:
    with pytest.raises(SchedulerFailed, match=r"(?s)kai-scheduler does not run.*no-such-action"):
        started(kai, cluster, actions=("no-such-action",))


def test_a_program_that_only_ends(
    plane: ControlPlane, cluster: KubernetesCluster, kai_folder: Path, tmp_path: Path
) -> None:
    """A folder may look right and be wrong: the program's own words are told, and the others are ended."""
    for one in find_kai(kai_folder).binaries.values():
        (tmp_path / one.name).symlink_to(one)
    (tmp_path / "binder").unlink()
    (tmp_path / "binder").write_text("#!/bin/sh\necho this is no binder >&2\nexit 3\n")
    (tmp_path / "binder").chmod(0o755)
    shutil.copytree(kai_folder / "crds", tmp_path / "crds")
    with pytest.raises(SchedulerFailed, match=r"(?s)kai-binder does not run.*this is no binder"):
        started(choose_scheduler("kai", {"kai": tmp_path}).beside(plane), cluster)


def _queues() -> list[dict]:
    import yaml

    return list(yaml.safe_load_all((MANIFESTS / "queues.yaml").read_text()))
