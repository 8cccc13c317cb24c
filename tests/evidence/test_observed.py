"""What is seen of a scheduler that keeps no log: evictions, with what a real KAI says of them on the pod."""

from collections.abc import Sequence

import pytest

from kailab.cluster.embedded import EmbeddedCluster
from kailab.cluster.protocol import Object
from kailab.evidence.entries import PodEvicted
from kailab.evidence.observed_decisions import LATE_SECONDS, DecisionObserver
from kailab.undertest.contract import EvictionCondition, EvictionReason
from kailab.undertest.kai.messages import parse_code, parse_eviction


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (
            "Pod default/a-1 was preempted by workload default/pg-b.v2-1.\nteam-a uses <GPU: 32> with a quota of <GPU: 16>",
            EvictionCondition("reclaim", "default/pg-b.v2-1"),
        ),
        ("Pod default/a-1 was preempted by workload default/pg-b.", EvictionCondition("reclaim", "default/pg-b")),
        ("Pod default/a-1 was preempted by higher priority workload x/pg-b", EvictionCondition("preempt", "x/pg-b")),
        (
            "Pod default/a-1 was preempted and rescheduled due to bin packing (resource consolidation) procedure",
            EvictionCondition("consolidation", ""),
        ),
        (
            "Workload doesn't meet the minimum required number of pods (4), evicting remaining pod: default/ring-0",
            EvictionCondition("stalegangeviction", ""),
        ),
        ("default-scheduler: preempting to accommodate a higher priority pod", None),
        ("", None),
    ],
)
def test_words(message: str, told: EvictionCondition | None) -> None:
    assert parse_eviction(message) == told


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("OverLimit: team-a quota has reached the allowable limit of GPUs. Limit is 12 GPUs", "OverLimit"),
        ("NonPreemptibleOverQuota: Non-preemptible workload is over quota", "NonPreemptibleOverQuota"),
        ("0/5 nodes are available: 5 Insufficient nvidia.com/gpu", ""),
        ("Note: OverLimit", ""),
        ("OverLimit", ""),
        ("", ""),
    ],
)
def test_codes(message: str, told: str) -> None:
    assert parse_code(message) == told


def pod(name: str, group: str) -> dict:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "annotations": {"pod-group-name": group}},
        "spec": {"schedulerName": "other", "containers": [{"name": "work", "image": "busybox"}]},
    }


def podgroup(name: str, queue: str) -> dict:
    return {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"queue": queue, "minMember": 1},
    }


def test_an_eviction_names_action_and_beneficiary() -> None:
    cluster = EmbeddedCluster()
    observer = DecisionObserver(cluster, cluster.now(), parse_eviction)
    cluster.create(podgroup("pg-a", "team-a"))
    cluster.create(podgroup("pg-b", "team-b"))
    cluster.create(pod("a-1", "pg-a"))
    assert observer.entries(1) == []

    cluster.evict("default", "a-1", "Preempted", "Pod default/a-1 was preempted by workload default/pg-b.\nteam-a uses")
    (entry,) = observer.entries(2)
    assert isinstance(entry, PodEvicted)
    assert (entry.action, entry.queue) == ("reclaim", "team-a")
    assert (entry.podgroup, entry.beneficiary) == ("default/pg-a", "default/pg-b")
    assert entry.beneficiary_queue == "team-b"
    assert observer.entries(3) == []


def test_an_eviction_by_others_has_no_beneficiary() -> None:
    cluster = EmbeddedCluster()
    observer = DecisionObserver(cluster, cluster.now(), parse_eviction)
    cluster.create(pod("a-1", "pg-a"))
    cluster.evict("default", "a-1", "PreemptionByScheduler", "preempting to accommodate a higher priority pod")
    (entry,) = observer.entries(1)
    assert (entry.action, entry.beneficiary, entry.beneficiary_queue) == ("schedule", "", "")


@pytest.mark.parametrize("grace", [1, 30])
def test_an_eviction_that_is_told_after_the_pod_is_gone_is_told_all_the_same(grace: int) -> None:
    """A scheduler's Events may come late: the pod leaves, or is gone, and only then is it said why."""
    cluster = EmbeddedCluster()
    said: dict[str, EvictionReason] = {}

    def stopped(pods: Sequence[Object]) -> dict[str, EvictionReason]:
        named = {one["metadata"]["uid"]: one["metadata"]["name"] for one in pods}
        return {uid: said[name] for uid, name in named.items() if name in said}

    observer = DecisionObserver(cluster, cluster.now(), parse_eviction, stopped)
    cluster.create(podgroup("pg-a", "team-a"))
    for name in ("a-1", "a-2"):
        made = pod(name, "pg-a")
        made["spec"]["nodeName"] = "n"
        cluster.create(made)
    observer.entries(1)
    cluster.delete("Pod", "a-1", "default", grace_seconds=grace)
    cluster.delete("Pod", "a-2", "default", grace_seconds=grace)
    assert observer.entries(2) == []
    said["a-1"] = EvictionReason("Pod default/a-1 was preempted by workload default/pg-b.")
    cluster.advance(2)
    (entry,) = observer.entries(3)
    assert isinstance(entry, PodEvicted)
    assert (entry.pod, entry.queue, entry.cycle) == ("default/a-1", "team-a", 3)
    # Nothing twice, and nobody is asked about for ever.
    cluster.advance(LATE_SECONDS + 1)
    said["a-2"] = said["a-1"]
    assert observer.entries(4) == []
