"""A mirror that takes over the records of another one for the same objects, and follows the cluster from there."""

from __future__ import annotations

import pytest

from kailab.cluster.embedded import EmbeddedCluster
from kailab.scheduler.mirror import Mirror
from tests.scheduler.test_mirror import mirrored, tasks


@pytest.fixture
def cluster() -> EmbeddedCluster:
    return EmbeddedCluster()


def full(cluster, build) -> None:
    """Pods that are pending, that run, that share a GPU, that arrive before their PodGroup."""
    cluster.create(build.node("n"))
    cluster.create(build.queue("q"))
    cluster.create(build.podgroup("g", "q", 2))
    for name in ("a", "b"):
        cluster.create(build.member(name, "g"))
    cluster.create(build.member("share", "g", 0, annotations={"gpu-fraction": "0.5"}))
    cluster.create(build.member("early", "late"))
    for name in ("b", "share"):
        cluster.bind("default", name, "n", {})
    cluster.advance(5)


@pytest.mark.parametrize(
    "news",
    [
        lambda cluster, build: None,
        lambda cluster, build: cluster.patch("Pod", "a", "default", {"metadata": {"labels": {"app": "x"}}}),
        lambda cluster, build: cluster.bind("default", "a", "n", {}),
        lambda cluster, build: cluster.create(build.podgroup("late", "q", 1)),
        lambda cluster, build: cluster.delete("PodGroup", "g", "default"),
        lambda cluster, build: cluster.delete("Pod", "b", "default"),
        lambda cluster, build: cluster.create(
            {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 120,
             "globalDefault": True}
        ),
        lambda cluster, build: cluster.advance(300),
    ],
)  # fmt: skip
def test_a_mirror_that_starts_from_another_sees_all_objects(cluster, build, news) -> None:
    full(cluster, build)
    before = mirrored(cluster)
    assert set(tasks(before)) == {"a", "b", "share"}
    news(cluster, build)  # which the other one has not heard of yet
    alike = Mirror(cluster)
    alike.update_like(before)
    alone = mirrored(cluster)
    assert alike.working.value() == alone.working.value()
    assert [alike.members(uid) for uid in alone.podgroups] == [alone.members(uid) for uid in alone.podgroups]
    later = Mirror(cluster)
    before.update()
    later.update_like(before)
    assert later.agrees(alone)
    # And it follows the cluster from then on.
    cluster.patch("Pod", "a", "default", {"metadata": {"labels": {"kai.scheduler/priority": "3"}}})
    for mirror in (alike, alone, later):
        mirror.update()
    assert alike.working.value() == later.working.value() == alone.working.value()


def test_a_pod_held_back_elsewhere_is_not_held_back_here(cluster, build) -> None:
    full(cluster, build)
    before = mirrored(cluster)
    before.hold_back(tasks(before)["a"].uid, "refused")
    alike = Mirror(cluster)
    alike.update_like(before)
    assert not tasks(alike)["a"].shape.blocked
    assert alike.agrees(mirrored(cluster))


def test_a_snapshot_has_the_same_records_before_and_after_the_working_set_is_used(cluster, build) -> None:
    full(cluster, build)
    only_records, used = mirrored(cluster), mirrored(cluster)
    for change in (
        lambda: cluster.create(build.podgroup("late", "q", 1)),
        lambda: cluster.delete("Pod", "a", "default"),
        lambda: cluster.delete("PodGroup", "g", "default"),
    ):
        before = used.working.version
        change()
        for mirror in (only_records, used):
            mirror.update()
        assert used.working.version > before
        assert by_uid(only_records) == by_uid(used)
    assert only_records.working.value().tasks == only_records.snapshot().tasks
    assert by_uid(only_records) == by_uid(used)


def by_uid(mirror: Mirror) -> tuple[object, ...]:
    """The records of a mirror's snapshot, in an order of their own."""
    records = mirror.snapshot()
    return (
        records.nodes,
        records.queues,
        *(sorted(some, key=lambda one: one.uid) for some in (records.podgroups, records.tasks)),
    )
