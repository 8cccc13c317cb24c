"""Two schedulers in one lab: whose pods are whose, what is said of it, and where there is none."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from kailab.cluster.controlplane import ControlPlane
from kailab.cluster.kubernetes import KubernetesCluster
from kailab.cluster.polling import wait_until
from kailab.cluster.protocol import Object
from kailab.components import ComponentSet
from kailab.errors import InputError
from kailab.lab import Lab, expect
from kailab.scheduler.settings.config_file import settings_of
from kailab.undertest.contract import SchedulerFailed
from kailab.undertest.running import RunningSchedulers
from kailab.undertest.selection import choose_scheduler

BOTH = "kailab+kube-scheduler"
KAI_AND_DEFAULT = "kai+kube-scheduler"
MANIFESTS = Path(__file__).parents[2] / "exercises" / "twoschedulers" / "manifests"


def test_pods_of_both_schedulers_are_placed_without_warnings() -> None:
    pod = _plain("plain")
    with Lab.open(scheduler="kailab") as lab:
        assert any("scheduler" in one for one in lab.apply(pod).warnings)
        expect(lab.pod("plain")).pending(pods=1)
    with Lab.open(scheduler=BOTH) as lab:
        assert lab.apply(pod, MANIFESTS / "queues.yaml", MANIFESTS / "owner.yaml").warnings == []
        expect(lab.pod("plain")).running(pods=1)
        expect(lab.deployment("owner")).running(pods=16)


def test_it_is_the_same_each_time() -> None:
    placed = []
    for _ in range(2):
        with Lab.open(scheduler=BOTH) as lab:
            lab.apply(MANIFESTS / "queues.yaml", MANIFESTS / "borrower.yaml")
            lab.settle()
            lab.apply(MANIFESTS / "lurker.yaml", MANIFESTS / "owner.yaml")
            lab.settle()
            placed.append({one["metadata"]["name"]: one["spec"].get("nodeName") for one in lab.cluster.list("Pod")})
    assert placed[0] == placed[1]


@pytest.mark.parametrize(
    ("scheduler", "backend", "told"),
    [
        (BOTH, "kubeconfig", "kailab does not start the default scheduler"),
        (KAI_AND_DEFAULT, "kubeconfig", "kailab does not start the default scheduler"),
        (KAI_AND_DEFAULT, "embedded", "needs a real API server"),
    ],
)
def test_where_one_of_them_can_not_be_started_both_are_refused(scheduler: str, backend: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        Lab.open(scheduler=scheduler, backend=backend)


def test_default_pods_are_not_taken_by_both() -> None:
    with pytest.raises(InputError, match="does not take it"):
        Lab.open(scheduler=BOTH, adopt_default_scheduler=True)


def test_a_release_comes_last() -> None:
    with pytest.raises(InputError, match=r"the release comes last, as in kai\+kube-scheduler@v0.16.8"):
        choose_scheduler("kai@v0.16.8+kube-scheduler")
    assert choose_scheduler("kai+kube-scheduler@v0.16.8").option("kai_release") == "v0.16.8"


# --- with the real kube-scheduler ------------------------------------------------------------------------------------


def _plain(name: str) -> Object:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}}}
    pod["spec"] = {"containers": [{"name": "work", "image": "busybox:1.36"}], "tolerations": [{"operator": "Exists"}]}
    return pod


@pytest.mark.slow
@pytest.mark.usefixtures("components")
def test_on_a_control_plane_the_real_one_is_beside_kailab() -> None:
    with Lab.open(scheduler=BOTH, backend="controlplane") as lab:
        assert lab.apply(_plain("plain"), MANIFESTS / "queues.yaml", MANIFESTS / "owner.yaml").warnings == []
        expect(lab.pod("plain")).running(pods=1)
        expect(lab.deployment("owner")).running(pods=16)
        assert "kube-scheduler" in {one.name for one in lab.venue.processes() if one.running}
        told = lab.venue.versions(lab.under_test)["scheduler"]
        assert re.fullmatch(r"kailab \S+ and kube-scheduler v1\.\S+", told)


@pytest.mark.slow
@pytest.mark.usefixtures("components")
def test_a_real_kai_is_beside_kube_scheduler(kai_folder: Path) -> None:
    with Lab.open(scheduler=f"{KAI_AND_DEFAULT}={kai_folder}", backend="controlplane") as lab:
        assert lab.apply(_plain("plain"), MANIFESTS / "queues.yaml", MANIFESTS / "owner.yaml").warnings == []
        expect(lab.pod("plain")).running(pods=1)
        expect(lab.deployment("owner")).running(pods=16)
        assert re.fullmatch(r"kai \S+.* and kube-scheduler v1\.\S+", lab.venue.versions(lab.under_test)["scheduler"])


@pytest.mark.slow
def test_the_same_kube_scheduler_serves_the_labs_that_want_it(
    plane: ControlPlane, cluster: KubernetesCluster, components: ComponentSet
) -> None:
    processes, settings = RunningSchedulers(plane, components), settings_of(None)

    def pid() -> int:
        return next(one.pid for one in plane.processes() if one.name == "kube-scheduler" and one.running)

    processes.ensure(cluster, choose_scheduler(BOTH), settings)
    first = pid()
    processes.ensure(cluster, choose_scheduler("kube-scheduler"), settings)
    processes.ensure(cluster, choose_scheduler(BOTH), settings)
    assert pid() == first

    plane.kill("kube-scheduler", signal.SIGKILL)
    assert wait_until(lambda: not any(one.name == "kube-scheduler" and one.running for one in plane.processes()), 60)
    with pytest.raises(SchedulerFailed, match="kube-scheduler does not run"):
        processes.ensure(cluster, choose_scheduler(BOTH), settings)
    processes.end()
