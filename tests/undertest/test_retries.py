"""What a scheduler looks at again by itself keeps a lab from rest, for as long as that may take and no longer."""

from __future__ import annotations

import pytest

from kailab.cluster.embedded import EmbeddedCluster
from kailab.cluster.protocol import Object
from kailab.undertest.programs import RetryTracker


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cluster() -> EmbeddedCluster:
    return EmbeddedCluster()


@pytest.fixture
def next_try(cluster: EmbeddedCluster, clock: Clock) -> RetryTracker:
    """Of pods of the scheduler ``patient``, after 20 s."""
    return RetryTracker(cluster, 20.0, lambda pod: pod["spec"]["schedulerName"] == "patient", clock)


def pod(name: str, scheduler: str = "patient") -> Object:
    spec = {"schedulerName": scheduler, "containers": [{"name": "work", "image": "busybox"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def test_no_retry_is_due_if_nothing_waits(cluster: EmbeddedCluster, next_try: RetryTracker) -> None:
    assert not next_try.owed()
    cluster.create(pod("a", "another"))
    assert not next_try.owed()


def test_a_waiting_pod_is_due_for_its_next_retry(
    cluster: EmbeddedCluster, clock: Clock, next_try: RetryTracker
) -> None:
    cluster.create(pod("a"))
    assert next_try.owed()
    clock.now = 19
    assert next_try.owed()
    clock.now = 20
    assert not next_try.owed()


def test_writes_to_a_waiting_pod_do_not_restart_the_retry_time(
    cluster: EmbeddedCluster, clock: Clock, next_try: RetryTracker
) -> None:
    """Each try that is in vain says so."""
    cluster.create(pod("a"))
    assert next_try.owed()
    clock.now = 19
    told = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}
    cluster.patch("Pod", "a", "default", {"status": {"conditions": [told]}}, "status")
    assert next_try.owed()
    clock.now = 21
    assert not next_try.owed()


@pytest.mark.parametrize("what", ["comes", "is bound", "leaves", "ends"])
def test_whenever_a_pod_moves_it_may_be_tried_again(
    cluster: EmbeddedCluster, clock: Clock, next_try: RetryTracker, what: str
) -> None:
    cluster.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})
    cluster.create(pod("a"))
    cluster.create(pod("other", "another"))
    assert next_try.owed()
    clock.now = 30
    assert not next_try.owed()
    if what == "comes":
        cluster.create(pod("b", "another"))
    elif what == "is bound":
        cluster.bind("default", "other", "n")
    elif what == "leaves":
        cluster.delete("Pod", "other", "default")
    else:
        cluster.patch("Pod", "other", "default", {"status": {"phase": "Succeeded"}}, "status")
    assert next_try.owed()
    clock.now = 50
    assert not next_try.owed()


def test_a_node_that_comes_may_take_it(cluster: EmbeddedCluster, clock: Clock, next_try: RetryTracker) -> None:
    cluster.create(pod("a"))
    assert next_try.owed()
    clock.now = 30
    assert not next_try.owed()
    cluster.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})
    assert next_try.owed()


def test_a_queue_that_is_changed_may_let_it_run(cluster: EmbeddedCluster, clock: Clock, next_try: RetryTracker) -> None:
    def queue(limit: int) -> Object:
        spec = {"resources": {"gpu": {"quota": 1, "limit": limit, "overQuotaWeight": 1}}}
        return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "team"}, "spec": spec}

    cluster.apply(queue(1))
    cluster.create(pod("a"))
    assert next_try.owed()
    clock.now = 30
    assert not next_try.owed()
    cluster.apply(queue(2))
    assert next_try.owed()


def test_bound_and_terminating_pods_need_no_retry(cluster: EmbeddedCluster, next_try: RetryTracker) -> None:
    cluster.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})
    cluster.create(pod("a"))
    cluster.bind("default", "a", "n")
    cluster.create(pod("b"))
    assert next_try.owed()
    cluster.delete("Pod", "b", "default")
    assert not next_try.owed()
