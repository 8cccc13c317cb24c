"""What Kueue says, read: why work waits, who was evicted for whom, and when it is done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from kailab.cluster.protocol import Cluster, Object
from kailab.lab import Lab
from kailab.lab.intake import apply_all
from kailab.model.manifests import Manifest
from kailab.undertest.contract import SchedulerUnderTest, Stop, Told
from kailab.undertest.kueue import reading, rest
from kailab.undertest.naming import chosen
from tests.undertest.test_kueue_words import job


@pytest.fixture
def kueue() -> SchedulerUnderTest:
    return chosen("kueue")


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
    assert kueue.eviction(message) == Told(action, "", "team-b")
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
        assert stopped([pod]) == {"a": Stop("Preempted to accommodate a workload")}
        pod["metadata"]["ownerReferences"][0]["uid"] = "2"
        assert stopped([pod]) == {}
        # Of a pod that it manages for itself it says so there.
        pod["status"] = {"conditions": [told("TerminationTarget", message="because")]}
        assert stopped([pod]) == {"a": Stop("because")}


class Quiet:
    """A plane without processes."""

    def processes(self) -> list[Any]:
        return []


def test_it_is_at_rest_when_all_work_is_decided_on_and_carried_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest, "CHECK_SECONDS", 0.0)
    monkeypatch.setattr(rest, "SETTLED_SECONDS", 0.0)
    with Lab.open() as lab:
        made = job("a")
        made["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "team-a"
        made["spec"]["suspend"] = True
        uid = lab.cluster.create(made)["metadata"]["uid"]
        found = rest.KueueRest(Quiet(), lab.cluster, ())  # type: ignore[arg-type]
        assert not found.at_rest()  # it has no Workload yet
        lab.cluster.create(workload("a", uid))
        assert not found.at_rest()  # nobody has looked at it

        def say(*conditions: Object) -> None:
            status = {"status": {"conditions": list(conditions)}}
            lab.cluster.patch("Workload.kueue.x-k8s.io", "job-a", "default", status, "status")

        say(told("QuotaReserved", "False", "insufficient unused quota. Pending the preemption of 2 workload(s)"))
        assert not found.at_rest()  # room is being made
        say(told("QuotaReserved", "False", "insufficient unused quota"))
        assert found.at_rest()
        say(told("QuotaReserved", "False", "ClusterQueue team-a is inactive"))
        assert not found.at_rest()  # Kueue may not have read all queues yet
        monkeypatch.setattr(rest, "NOT_READY_SECONDS", 0.0)
        assert found.at_rest()
        say(told("QuotaReserved"), told("Admitted"))
        assert not found.at_rest()  # it is held yet
        lab.cluster.patch("Job", "a", "default", {"spec": {"suspend": False}})
        assert found.at_rest()
        say(told("QuotaReserved", "False", "preempted"), told("Evicted"))
        assert not found.at_rest()  # it still goes on


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
def test_the_reason_of_what_waits_is_kueues(kueue: SchedulerUnderTest, message: str, code: str) -> None:
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

        monkeypatch.setattr(reading.time, "sleep", look)
        kueue.await_read(cluster)
        assert len(looks) == len(news), before


def test_queues_that_are_never_read_do_not_hold_up_work_for_ever(
    kueue: SchedulerUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Lab.open() as lab:
        lab.cluster.create(read("ClusterQueue", "team-a"))
        monkeypatch.setattr(reading, "PATIENCE_SECONDS", 0.2)
        kueue.await_read(lab.cluster)


@dataclass(frozen=True)
class ReadsQueues(type(chosen("kailab"))):  # type: ignore[misc]
    """kailab, as one that has to read Queues first; it notes what is there by then."""

    reads_first: ClassVar[tuple[str, ...]] = ("Queue",)
    seen: ClassVar[list[tuple[int, int]]] = []

    def await_read(self, there: Cluster) -> None:
        self.seen.append((len(list(there.list("Queue"))), len(list(there.list("Pod")))))


def manifest(kind: str, name: str, **spec: Any) -> Manifest:
    version = "scheduling.run.ai/v2" if kind == "Queue" else "v1"
    return Manifest({"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}, kind)


def test_it_is_asked_between_the_queues_and_the_work() -> None:
    kailab = chosen("kailab")
    scheduler = ReadsQueues(kailab.kind, kailab.name, kailab.options)
    with Lab.open() as lab:
        there = len(list(lab.cluster.list("Queue")))
        pod = manifest("Pod", "p", containers=[{"name": "main", "image": "busybox"}])
        apply_all(lab.cluster, [manifest("Queue", "team-x"), manifest("Queue", "team-y"), pod], scheduler)
        assert scheduler.seen == [(there + 2, 0)]
        apply_all(lab.cluster, [manifest("Queue", "team-z")], scheduler)
        assert scheduler.seen[1:] == [(there + 3, 1)]
