"""What Kueue says, read: why work waits, who was evicted for whom, and when it is done."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from kailab.cluster.controlplane import ControlPlane
from kailab.cluster.install import CRD, install
from kailab.cluster.kubernetes import KubernetesCluster
from kailab.cluster.protocol import Cluster, Object
from kailab.components import ADDONS, ComponentCache, ComponentSet, DamagedComponent, MissingComponents
from kailab.lab import Lab
from kailab.lab.intake import apply_all
from kailab.model.manifests import Manifest
from kailab.scheduler.settings.config_file import settings_of
from kailab.undertest.contract import (
    EvictionCondition,
    EvictionReason,
    SchedulerFailed,
    SchedulerUnderTest,
    StartSettings,
)
from kailab.undertest.kueue import KueueIdleDetector, KueueProcesses
from kailab.undertest.selection import choose_scheduler
from tests import webhookserver
from tests.planes import connected, taken_down
from tests.undertest.test_kueue_translation import ORG, job, queue


@pytest.fixture
def kueue() -> SchedulerUnderTest:
    return choose_scheduler("kueue")


def workload(name: str, uid: str, *conditions: Object) -> Object:
    """One of Kueue's, of a Job or a pod."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid, "controller": True}
    metadata = {"name": f"job-{name}", "namespace": "default", "ownerReferences": [owner]}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": metadata,
        "spec": {},
        "status": {"conditions": list(conditions)},
    }


def told(type: str, status: str = "True", message: str = "", reason: str = "R") -> Object:
    return {"type": type, "status": status, "reason": reason, "message": message}


@pytest.mark.parametrize(
    ("why", "action"),
    [
        ("reclamation within the cohort", "reclaim"),
        ("Fair Sharing within the cohort", "reclaim"),
        ("prioritization in the ClusterQueue", "preempt"),
    ],
)
def test_an_eviction_says_for_whose_queue(kueue: SchedulerUnderTest, why: str, action: str) -> None:
    message = (
        f"Preempted to accommodate a workload (UID: 1, JobUID: 2) due to {why}; "
        "preemptor path: /kailab-fleet/org/team-b/team-b-non-preemptible; preemptee path: /kailab-fleet/org/team-a/team-a"
    )
    assert kueue.eviction(message) == EvictionCondition(action, "", "team-b")
    assert kueue.eviction("Pod was preempted by somebody else") is None


def test_a_pod_that_goes_with_its_job_was_evicted_with_the_workload(kueue: SchedulerUnderTest) -> None:
    with Lab.open() as lab:
        lab.cluster.create(workload("a", "1", told("Evicted", message="Preempted to accommodate a workload")))
        lab.cluster.create(workload("b", "2", told("Evicted", "False")))
        pod: Object = {
            "metadata": {
                "name": "a-0", "namespace": "default", "uid": "a", "ownerReferences": [{"kind": "Job", "uid": "1"}],
            }
        }  # fmt: skip
        stopped = kueue.stopped(lab.cluster)
        assert stopped is not None
        assert stopped([pod]) == {}
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        assert stopped([pod]) == {"a": EvictionReason("Preempted to accommodate a workload")}
        pod["metadata"]["ownerReferences"][0]["uid"] = "2"
        assert stopped([pod]) == {}
        # Of a pod that it manages for itself it says so there.
        pod["status"] = {"conditions": [told("TerminationTarget", message="because")]}
        assert stopped([pod]) == {"a": EvictionReason("because")}


class Quiet:
    """A plane without processes."""

    def processes(self) -> list[Any]:
        return []


def test_it_is_at_rest_when_all_work_is_decided_on_and_carried_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kailab.undertest.kueue.CHECK_SECONDS", 0.0)
    monkeypatch.setattr("kailab.undertest.kueue.SETTLED_SECONDS", 0.0)
    with Lab.open() as lab:
        made = job("a")
        made["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "team-a"
        made["spec"]["suspend"] = True
        uid = lab.cluster.create(made)["metadata"]["uid"]
        found = KueueIdleDetector(Quiet(), lab.cluster, ())  # type: ignore[arg-type]
        assert not found.is_idle()  # it has no Workload yet
        lab.cluster.create(workload("a", uid))
        assert not found.is_idle()  # nobody has looked at it

        def say(*conditions: Object) -> None:
            status = {"status": {"conditions": list(conditions)}}
            lab.cluster.patch("Workload.kueue.x-k8s.io", "job-a", "default", status, "status")

        say(told("QuotaReserved", "False", "insufficient unused quota. Pending the preemption of 2 workload(s)"))
        assert not found.is_idle()  # room is being made
        say(told("QuotaReserved", "False", "insufficient unused quota"))
        assert found.is_idle()
        say(told("QuotaReserved", "False", "ClusterQueue team-a is inactive"))
        assert not found.is_idle()  # Kueue may not have read all queues yet
        monkeypatch.setattr("kailab.undertest.kueue.NOT_READY_SECONDS", 0.0)
        assert found.is_idle()
        say(told("QuotaReserved"), told("Admitted"))
        assert not found.is_idle()  # it is held yet
        lab.cluster.patch("Job", "a", "default", {"spec": {"suspend": False}})
        assert found.is_idle()
        say(told("QuotaReserved", "False", "preempted"), told("Evicted"))
        assert not found.is_idle()  # it still goes on


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("insufficient unused quota for nvidia.com/gpu in flavor fleet, 8 more needed", "WaitingForQuota"),
        (
            "insufficient unused quota for nvidia.com/gpu in flavor fleet, 8 more needed. Pending the preemption of 2 workload(s)",
            "WaitingForPreemptedWorkloads",
        ),
        ("insufficient quota for nvidia.com/gpu in flavor fleet, ... > maximum capacity (8)", "ExceedsMaxQuota"),
        ("LocalQueue team-a doesn't exist", "Misconfigured"),
        ("0/5 nodes are available", ""),
    ],
)
def test_waiting_work_has_the_reason_of_kueue(kueue: SchedulerUnderTest, message: str, code: str) -> None:
    assert kueue.code(f"couldn't assign flavors to pod set main: {message}") == code


def read(kind: str, name: str, **status: Any) -> Object:
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {},
        "status": status,
    }


def test_work_waits_until_the_queues_are_read(kueue: SchedulerUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What Kueue says of its queues comes look by look, the last of it in the fourth."""
    with Lab.open() as lab:
        cluster = lab.cluster
        before = [cluster.create(read("Cohort", "org")), cluster.create(read("ClusterQueue", "team-a"))]
        news = [
            ("Cohort", "org", {"fairSharing": {"weightedShare": 0}}),
            ("ClusterQueue", "team-a", {"conditions": [{**told("Active"), "observedGeneration": 0}]}),
            ("ClusterQueue", "team-a", {"conditions": [{**told("Active", "False"), "observedGeneration": 1}]}),
        ]
        looks = []

        def look(seconds: float) -> None:
            looks.append(seconds)
            kind, name, status = news[len(looks) - 1]
            found = cluster.get(f"{kind}.kueue.x-k8s.io", name)
            cluster.update({**found, "metadata": {**found["metadata"], "generation": 1}, "status": status})

        monkeypatch.setattr("kailab.undertest.kueue.time.sleep", look)
        kueue.await_prerequisites(cluster)
        assert len(looks) == len(news), before


def test_queues_that_are_never_read_do_not_hold_up_work_for_ever(
    kueue: SchedulerUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Lab.open() as lab:
        lab.cluster.create(read("ClusterQueue", "team-a"))
        monkeypatch.setattr("kailab.undertest.kueue.PATIENCE_SECONDS", 0.2)
        kueue.await_prerequisites(lab.cluster)


@dataclass(frozen=True)
class ReadsQueues(type(choose_scheduler("kailab"))):  # type: ignore[misc]
    """kailab, as one that has to read Queues first; it notes what is there by then."""

    prerequisite_kinds: ClassVar[tuple[str, ...]] = ("Queue",)
    seen: ClassVar[list[tuple[int, int]]] = []

    def await_prerequisites(self, there: Cluster) -> None:
        self.seen.append((len(list(there.list("Queue"))), len(list(there.list("Pod")))))


def manifest(kind: str, name: str, **spec: Any) -> Manifest:
    version = "scheduling.run.ai/v2" if kind == "Queue" else "v1"
    return Manifest({"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}, kind)


def test_it_is_asked_between_the_queues_and_the_work() -> None:
    kailab = choose_scheduler("kailab")
    scheduler = ReadsQueues(kailab.kind, kailab.name, kailab.options)
    with Lab.open() as lab:
        there = len(list(lab.cluster.list("Queue")))
        pod = manifest("Pod", "p", containers=[{"name": "main", "image": "busybox"}])
        apply_all(lab.cluster, [manifest("Queue", "team-x"), manifest("Queue", "team-y"), pod], scheduler)
        assert scheduler.seen == [(there + 2, 0)]
        apply_all(lab.cluster, [manifest("Queue", "team-z")], scheduler)
        assert scheduler.seen[1:] == [(there + 3, 1)]


# Kueue's wiring on a real API server: its kinds take what is said in its words, and its webhooks are called where it listens.
#
# The program here is a stand-in, which admits whatever it is asked about and notes what that was; what the real one decides is in
# test_kueue.py.

pytestmark = pytest.mark.slow

PROGRAM, MANIFESTS = ADDONS["kueue"]
CONFIGURATION = "MutatingWebhookConfiguration.admissionregistration.k8s.io"


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ComponentCache:
    """A cache with Kueue's manifests as they are, and a stand-in for its program."""
    try:
        manifests = ComponentCache().checked(MANIFESTS)
    except DamagedComponent as error:
        pytest.skip(str(error))
    if manifests is None:
        pytest.skip("Kueue's manifests are not here: `kailab components get --with kueue`")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    cache = ComponentCache()
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


def test_a_missing_add_on_is_reported(
    own_plane: ControlPlane, own_cluster: KubernetesCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    with pytest.raises(MissingComponents, match="kailab components get --with kueue"):
        KueueProcesses(own_plane).start(own_cluster, StartSettings(settings_of(None)))
    # Nothing was begun.
    assert "kueue" not in {process.name for process in own_plane.processes()}
    assert not [one for one in own_cluster.list(CONFIGURATION) if one["metadata"]["name"].startswith("kueue-")]


def test_one_that_ends_leaves_no_webhook_behind(
    programs: ComponentCache, own_plane: ControlPlane, own_cluster: KubernetesCluster, tmp_path: Path
) -> None:
    (tmp_path / "ends").write_text("#!/bin/sh\necho 'Unable to validate the configuration'\nexit 3\n")
    programs.put(PROGRAM, tmp_path / "ends", "adopted", "a test")
    beside = KueueProcesses(own_plane)
    with pytest.raises(SchedulerFailed, match=r"(?s)kueue does not run: .*Unable to validate the configuration"):
        beside.start(own_cluster, StartSettings(settings_of(None)))
    assert not [one for one in own_cluster.list(CONFIGURATION) if one["metadata"]["name"].startswith("kueue-")]
    assert "kueue" not in {process.name for process in own_plane.processes() if process.running}


def test_its_kinds_take_the_words_and_its_webhooks_are_called(
    programs: ComponentCache, own_plane: ControlPlane, own_cluster: KubernetesCluster
) -> None:
    install(own_cluster)
    beside = KueueProcesses(own_plane)
    beside.start(own_cluster, StartSettings(settings_of(None)))
    try:
        beside.check()
        assert beside.version() == "kueue v0.19.2"
        assert {"kueue", "kube-scheduler"} <= {process.name for process in own_plane.processes() if process.running}

        bounded = queue("team-c", "org", quota=0, limit=4, overQuotaWeight=0)
        bounded["spec"]["resources"]["cpu"] = {"quota": 500, "limit": 2500, "overQuotaWeight": 0}
        bounded["spec"]["resources"]["memory"] = {"quota": 1000, "limit": 2000, "overQuotaWeight": 0}
        objects = [*ORG, bounded, job("gang", 8, 8), job("elastic", 8, 4)]
        said = [one for several in choose_scheduler("kueue").translate(objects, own_cluster) for one in several]
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
