"""Why pods go under a KAI before v0.8.1, by the Events of their PodGroups."""

from __future__ import annotations

from pathlib import Path

import pytest

from kailab.cluster.embedded import EmbeddedCluster
from kailab.cluster.protocol import Object
from kailab.undertest.contract import EvictionCondition
from kailab.undertest.kai.messages import EvictionEvents
from kailab.undertest.selection import choose_scheduler

GONE = "2026-01-01T00:10:00Z"


def evict(cluster: EmbeddedCluster, group: str, message: str, when: str = "2026-01-01T00:09:30Z") -> None:
    cluster.create(
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{group}.{len(cluster.list('Event'))}", "namespace": "default"},
            "involvedObject": {"kind": "PodGroup", "namespace": "default", "name": group},
            "reason": "Evict",
            "message": message,
            "lastTimestamp": when,
        }
    )


def leaving(name: str, group: str) -> Object:
    """Deleted at 00:09:30, with 30 s to end."""
    return {
        "metadata": {
            "name": name,
            "uid": name,
            "namespace": "default",
            "deletionTimestamp": GONE,
            "deletionGracePeriodSeconds": 30,
            "annotations": {"pod-group-name": group},
        }
    }


def why(pod: str, what: str = "by workload default/pg-owner.\nteam-a uses <GPU: 32>") -> str:
    return f"Pod default/{pod} was preempted {what}"


@pytest.fixture
def cluster() -> EmbeddedCluster:
    return EmbeddedCluster()


def test_the_event_that_names_the_pod_tells_why(cluster: EmbeddedCluster) -> None:
    evict(cluster, "pg-a", why("a-0"))
    evict(cluster, "pg-a", why("a-1", "by higher priority workload default/pg-high"))
    found = EvictionEvents(cluster)([leaving("a-0", "pg-a"), leaving("a-1", "pg-a"), leaving("a-2", "pg-a")])
    assert sorted(found) == ["a-0", "a-1"]
    kai = choose_scheduler("kai")
    assert kai.eviction(found["a-0"].message) == EvictionCondition("reclaim", "default/pg-owner")
    assert kai.eviction(found["a-1"].message) == EvictionCondition("preempt", "default/pg-high")


def test_a_pod_that_does_not_go_was_not_evicted(cluster: EmbeddedCluster) -> None:
    evict(cluster, "pg-a", why("a-0"))
    stays = leaving("a-0", "pg-a")
    del stays["metadata"]["deletionTimestamp"]
    assert EvictionEvents(cluster)([stays]) == {}


def test_one_event_may_stand_for_several_pods_of_a_gang(cluster: EmbeddedCluster) -> None:
    """From the eleventh on they are one, with the last message; a stale gang's names no pod at all."""
    evict(cluster, "pg-gang", "(combined from similar events): " + why("gang-11"))
    evict(cluster, "pg-stale", "Workload doesn't have the minimum required number of pods")
    found = EvictionEvents(cluster)([leaving("gang-10", "pg-gang"), leaving("stale-0", "pg-stale")])
    assert {name: choose_scheduler("kai").eviction(stop.message) for name, stop in found.items()} == {
        "gang-10": EvictionCondition("reclaim", "default/pg-owner"),
        "stale-0": EvictionCondition("stalegangeviction", ""),
    }


def test_a_pod_that_a_user_deletes_later_was_not_evicted(cluster: EmbeddedCluster) -> None:
    """The gang came back after its eviction, and was deleted by its owner."""
    evict(cluster, "pg-gang", "(combined from similar events): " + why("gang-11"), "2026-01-01T00:01:00Z")
    assert EvictionEvents(cluster)([leaving("gang-30", "pg-gang")]) == {}


def test_a_kai_elsewhere_is_asked_for_its_conditions_alone(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KAILAB_KAI_BIN", str(tmp_path / "none"))
    assert choose_scheduler("kai").stopped(cluster) is None
