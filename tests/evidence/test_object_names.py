"""The names that decisions give to pods and PodGroups."""

from __future__ import annotations

from kailab.cluster.embedded import EmbeddedCluster
from kailab.evidence.decision_log import NameIndex, ObjectName


def pod(name: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "pause"}]},
    }


def test_an_object_keeps_its_first_name_when_it_changes_and_when_it_is_gone() -> None:
    cluster = EmbeddedCluster()
    names = NameIndex(cluster)
    relabelled, annotated = (cluster.create(pod(name))["metadata"]["uid"] for name in ("relabelled", "annotated"))
    names.refresh()
    cluster.patch("Pod", "relabelled", "default", {"metadata": {"labels": {"app": "other"}}})
    cluster.patch("Pod", "annotated", "default", {"metadata": {"annotations": {"a": "b"}}})
    names.refresh()
    expected = {relabelled: ObjectName("default/relabelled", "web"), annotated: ObjectName("default/annotated", "web")}
    assert {uid: names.of(uid) for uid in expected} == expected
    for name in ("relabelled", "annotated"):
        cluster.delete("Pod", name, "default", 0)
    names.refresh()
    assert {uid: names.of(uid) for uid in expected} == expected
    assert set(names.everyone()) == set(expected.values())
    assert names.of("unknown") == ObjectName("unknown")


def test_names_of_another_index_are_carried_on() -> None:
    cluster = EmbeddedCluster()
    before = NameIndex(cluster)
    uid = cluster.create(pod("gone"))["metadata"]["uid"]
    before.refresh()
    fork = cluster.fork()
    fork.delete("Pod", "gone", "default", 0)
    after = NameIndex(fork)
    after.carry_on(before)
    assert after.of(uid) == ObjectName("default/gone", "web")
