"""Kueue's wiring on a real API server: its kinds take what is said in its words, and its webhooks are called where it listens.

The program here is a stand-in, which admits whatever it is asked about and notes what that was; what the real one decides is in
test_kueue.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kailab.cluster.controlplane import ControlPlane
from kailab.cluster.install import CRD, install
from kailab.cluster.kubernetes import KubernetesCluster
from kailab.cluster.protocol import Object
from kailab.components import ADDONS, Cache, ComponentSet, DamagedComponent, MissingComponents
from kailab.scheduler import settings_of
from kailab.undertest.contract import SchedulerFailed, Start
from kailab.undertest.kueue.processes import KueueBeside
from kailab.undertest.naming import chosen
from tests import webhookserver
from tests.planes import connected, taken_down
from tests.undertest.test_kueue_words import ORG, job, queue

pytestmark = pytest.mark.slow

PROGRAM, MANIFESTS = ADDONS["kueue"]
CONFIGURATION = "MutatingWebhookConfiguration.admissionregistration.k8s.io"


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cache:
    """A cache with Kueue's manifests as they are, and a stand-in for its program."""
    try:
        manifests = Cache().checked(MANIFESTS)
    except DamagedComponent as error:
        pytest.skip(str(error))
    if manifests is None:
        pytest.skip("Kueue's manifests are not here: `kailab components get --with kueue`")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    cache = Cache()
    for pin, content in ((MANIFESTS, manifests.read_bytes()), (PROGRAM, webhookserver.program())):
        (tmp_path / pin.name).write_bytes(content)
        cache.put(pin, tmp_path / pin.name, "adopted", "a test")
    return cache


@pytest.fixture(scope="module")
def own_plane(components: ComponentSet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Of these tests alone: definitions and webhooks hold for all that is in a plane."""
    with taken_down(ControlPlane.up(tmp_path_factory.mktemp("kueue") / "plane", components)) as made:
        yield made


@pytest.fixture
def own_cluster(own_plane: ControlPlane) -> Iterator[KubernetesCluster]:
    with connected(own_plane.kubeconfig) as found:
        yield found


def test_where_it_is_not_here_that_is_said(
    own_plane: ControlPlane, own_cluster: KubernetesCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    with pytest.raises(MissingComponents, match="kailab components get --with kueue"):
        KueueBeside(own_plane).start(own_cluster, Start(settings_of(None)))
    # Nothing was begun.
    assert "kueue" not in {process.name for process in own_plane.processes()}
    assert not [one for one in own_cluster.list(CONFIGURATION) if one["metadata"]["name"].startswith("kueue-")]


def test_one_that_ends_leaves_no_webhook_behind(
    programs: Cache, own_plane: ControlPlane, own_cluster: KubernetesCluster, tmp_path: Path
) -> None:
    (tmp_path / "ends").write_text("#!/bin/sh\necho 'Unable to validate the configuration'\nexit 3\n")
    programs.put(PROGRAM, tmp_path / "ends", "adopted", "a test")
    beside = KueueBeside(own_plane)
    with pytest.raises(SchedulerFailed, match=r"(?s)kueue does not run: .*Unable to validate the configuration"):
        beside.start(own_cluster, Start(settings_of(None)))
    assert not [one for one in own_cluster.list(CONFIGURATION) if one["metadata"]["name"].startswith("kueue-")]
    assert "kueue" not in {process.name for process in own_plane.processes() if process.running}


def test_its_kinds_take_the_words_and_its_webhooks_are_called(
    programs: Cache, own_plane: ControlPlane, own_cluster: KubernetesCluster
) -> None:
    install(own_cluster)
    beside = KueueBeside(own_plane)
    beside.start(own_cluster, Start(settings_of(None)))
    try:
        beside.check()
        assert beside.version() == "kueue v0.19.2"
        assert {"kueue", "kube-scheduler"} <= {process.name for process in own_plane.processes() if process.running}

        bounded = queue("team-c", "org", quota=0, limit=4, overQuotaWeight=0)
        bounded["spec"]["resources"]["cpu"] = {"quota": 500, "limit": 2500, "overQuotaWeight": 0}
        bounded["spec"]["resources"]["memory"] = {"quota": 1000, "limit": 2000, "overQuotaWeight": 0}
        objects = [*ORG, bounded, job("gang", 8, 8), job("elastic", 8, 4)]
        said = [one for several in chosen("kueue").translate(objects, own_cluster) for one in several]
        for one in said:
            own_cluster.apply(one)
        # Each kind of Kueue's was taken by its definition, nothing of it cut off.
        for one in (one for one in said if one["apiVersion"].startswith("kueue.x-k8s.io/")):
            found = own_cluster.get(
                f"{one['kind']}.kueue.x-k8s.io", one["metadata"]["name"], one["metadata"].get("namespace")
            )
            assert holds(found.get("spec", {}), one.get("spec", {})), one
        # It converts those kinds that it can; the API server asks for each in every version.
        strategies = {
            name: own_cluster.get(CRD, f"{name}.kueue.x-k8s.io")["spec"].get("conversion", {}).get("strategy", "None")
            for name in ("clusterqueues", "cohorts", "localqueues", "workloads", "resourceflavors", "admissionchecks")
        }
        assert {name for name, strategy in strategies.items() if strategy == "Webhook"} == {
            "clusterqueues", "cohorts", "localqueues", "workloads",
        }  # fmt: skip
        told = own_plane.log("kueue").read_text()
        for path, kind in (
            ("/mutate-batch-v1-job", "Job"),
            ("/validate-kueue-x-k8s-io-v1beta2-clusterqueue", "ClusterQueue"),
            ("/validate-kueue-x-k8s-io-v1beta2-cohort", "Cohort"),
        ):
            assert f"asked {path} {kind} in" in told
        # Those of the cluster itself are left alone.
        pod: Object = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "kube-system"}}
        own_cluster.create({**pod, "spec": {"containers": [{"name": "c", "image": "busybox"}]}})
        assert "in kube-system" not in own_plane.log("kueue").read_text()
    finally:
        beside.stop()
    # Nobody is asked any more.
    assert not [one for one in own_cluster.list(CONFIGURATION) if one["metadata"]["name"].startswith("kueue-")]
    own_cluster.apply({**job("after"), "metadata": {"name": "after", "namespace": "default"}})


def holds(there: object, wanted: object) -> bool:
    """Whether all that was wanted is there; the API server adds defaults."""
    if isinstance(wanted, dict):
        return isinstance(there, dict) and all(
            key in there and holds(there[key], value) for key, value in wanted.items()
        )
    if isinstance(wanted, list):
        return isinstance(there, list) and len(there) == len(wanted) and all(map(holds, there, wanted))
    return str(there) == str(wanted)
