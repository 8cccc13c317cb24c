"""The result of an upgrade trial: comparison of states by uid, and the text."""

from kailab.cluster.embedded import EmbeddedCluster
from kailab.trials.upgrade import SchedulerChange, Upgrade, UpgradeCheck, UpgradeClusterState, upgrade_lines


def queue(name: str, **spec: object) -> dict:
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def test_what_is_made_anew_under_an_old_name_is_lost() -> None:
    cluster = EmbeddedCluster()
    for name in ("kept", "anew"):
        cluster.create(queue(name))
    at = UpgradeClusterState.of(cluster)
    cluster.delete("Queue", "anew")
    cluster.create(queue("anew"))
    assert at.lost(UpgradeClusterState.of(cluster)) == ("Queue anew",)
    assert UpgradeClusterState.of(cluster).lost(UpgradeClusterState.of(cluster)) == ()


def podgroup(name: str, *owners: str) -> dict:
    references = [{"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": owner} for owner in owners]
    metadata = {"name": name, "namespace": "default", **({"ownerReferences": references} if owners else {})}
    return {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": metadata, "spec": {}}


def pod(name: str, group: str) -> dict:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "annotations": {"pod-group-name": group}},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
    }


def test_a_podgroup_whose_pods_are_gone_is_garbage_and_can_not_be_lost() -> None:
    """The garbage collector takes its time: it may well come while the scheduler is replaced."""
    cluster = EmbeddedCluster()
    for obj in (
        podgroup("of-one-that-runs", "runs"), podgroup("of-one-that-ended", "ended"), podgroup("of-one-that-is-gone", "gone"),
        podgroup("made-by-hand"), pod("runs", "of-one-that-runs"), pod("ended", "of-one-that-ended"),
    ):  # fmt: skip
        cluster.create(obj)
    cluster.patch("Pod", "ended", "default", {"status": {"phase": "Failed"}}, "status")
    assert set(UpgradeClusterState.of(cluster).names.values()) == {
        "PodGroup default/of-one-that-runs",
        "PodGroup default/made-by-hand",
    }


def test_only_pods_that_hold_a_node_can_be_lost() -> None:
    standing = UpgradeClusterState({"u1": "default/a", "u2": "default/b"}, {}, {})
    assert standing.lost(UpgradeClusterState({"u2": "default/b", "u3": "default/a"}, {}, {})) == ("Pod default/a",)


def test_what_a_change_altered_is_told_by_field_and_number() -> None:
    names = {"u1": "PodGroup default/a", "u2": "PodGroup default/b", "u3": "Queue q"}
    before = UpgradeClusterState({}, {"u1": {"minMember": 1, "x": 1}, "u2": {"x": 1}, "u3": {"p": 1}}, names)
    after = UpgradeClusterState({}, {"u1": {"minMember": 2}, "u2": {"new": 1}, "u3": {"p": 1}}, names)
    assert before.altered(after) == (
        "PodGroup spec.minMember changed (1)",
        "PodGroup spec.new new (1)",
        "PodGroup spec.x gone (2)",
    )


def test_a_change_is_sound_where_it_schedules_and_nothing_is_lost() -> None:
    assert SchedulerChange(name="upgrade", version="v", scheduled=1.0).sound
    assert not SchedulerChange(name="upgrade", version="v").sound
    assert not SchedulerChange(name="upgrade", version="v", scheduled=1.0, lost=("Pod a/b",)).sound
    assert not SchedulerChange(name="upgrade", version="v", scheduled=1.0, ended=("it ended",)).sound
    assert not SchedulerChange(
        name="upgrade", version="v", scheduled=1.0, checks=(UpgradeCheck(name="gang", failure="no"),)
    ).sound


def test_a_promise_is_about_the_rollback() -> None:
    def came(scheduled: float | None, promise: float | None) -> Upgrade:
        changes = (
            SchedulerChange(name="upgrade", version="b", scheduled=99.0),
            SchedulerChange(name="rollback", version="a", scheduled=scheduled),
        )
        return Upgrade(before="a", after="b", filled=1, changes=changes, promise=promise)

    assert came(39.0, 40.0).kept is True
    assert came(41.0, 40.0).kept is False
    assert came(None, 40.0).kept is False
    assert came(41.0, None).kept is None
    assert not came(41.0, 40.0).sound


def test_what_people_read() -> None:
    change = SchedulerChange(
        name="account made anew",
        version="kai v1",
        deaf="scheduler: the pod has a PodGroup, and no BindRequest",
        lost=tuple(f"Pod default/p-{number}" for number in range(7)),
        checks=(UpgradeCheck(name="gang"), UpgradeCheck(name="reclaim", failure="owner has 1 pods, not 12")),
    )
    told = list(upgrade_lines(Upgrade(before="kai v1", after="kai v2", filled=24, changes=(change,), promise=40.0)))
    assert told[:3] == ["from kai v1", "to   kai v2", "24 pods ran when it began"]
    assert "  schedules again: not within the time limit" in told
    assert (
        "  does not schedule although its processes run: scheduler: the pod has a PodGroup, and no BindRequest" in told
    )
    assert "  lost: 7: Pod default/p-0, Pod default/p-1, Pod default/p-2, Pod default/p-3, Pod default/p-4, ..." in told
    assert told[-2:] == ["  gang: passed", "  reclaim: owner has 1 pods, not 12"]
