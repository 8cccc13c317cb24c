"""Grace, finalizers, dependents, namespaces."""

from __future__ import annotations

import pytest

from kailab.errors import ApiError, Invalid, NotFound


def exists(cluster, kind, name, namespace="default"):
    try:
        cluster.get(kind, name, namespace)
    except NotFound:
        return False
    return True


def test_pods_without_a_node_go_at_once(cluster, build):
    cluster.create(build.pod())
    cluster.delete("Pod", "p", "default")
    assert not exists(cluster, "Pod", "p")


def test_running_pods_go_gracefully(cluster, running):
    running()
    cluster.delete("Pod", "p", "default")
    meta = cluster.get("Pod", "p", "default")["metadata"]
    assert meta["deletionTimestamp"] == "2026-01-01T00:00:31Z"
    assert meta["deletionGracePeriodSeconds"] == 30
    assert cluster.next_prompt() == cluster.now() + 1
    cluster.advance(1)
    assert not exists(cluster, "Pod", "p")


@pytest.mark.parametrize("how", ["argument", "spec"])
def test_no_grace(cluster, running, how):
    running(spec={"terminationGracePeriodSeconds": 0} if how == "spec" else None)
    cluster.delete("Pod", "p", "default", 0 if how == "argument" else None)
    assert not exists(cluster, "Pod", "p")


def test_evict_says_why_before_the_pod_goes(cluster, running):
    running()
    watch = cluster.watch(["Pod"])
    watch.poll()
    cluster.evict("default", "p", "Reclaimed", "for team-b")
    condition = cluster.get("Pod", "p", "default")["status"]["conditions"][-1]
    assert (condition["type"], condition["status"], condition["reason"]) == ("DisruptionTarget", "True", "Reclaimed")
    cluster.advance(1)
    events = watch.poll()
    assert events[-1].type == "DELETED"
    assert events[-1].object["status"]["conditions"][-1]["message"] == "for team-b"
    with pytest.raises(NotFound):
        cluster.evict("default", "p", "Reclaimed", "")


def test_shorter_grace_wins(cluster, running):
    running(annotations={"kailab.dev/termination-seconds": "60"})
    cluster.delete("Pod", "p", "default", 60)
    cluster.delete("Pod", "p", "default", 5)
    cluster.advance(5)
    assert not exists(cluster, "Pod", "p")


def test_one_that_is_leaving_can_be_made_to_go_at_once(cluster, running):
    running(annotations={"kailab.dev/termination-seconds": "60"})
    cluster.delete("Pod", "p", "default", 60)
    cluster.delete("Pod", "p", "default", 0)
    assert not exists(cluster, "Pod", "p")


def test_nothing_is_due_for_a_pod_that_is_gone(cluster, running):
    running(annotations={"kailab.dev/run-seconds": "60"})
    assert cluster.next_timer() is not None
    cluster.delete("Pod", "p", "default", 0)
    assert cluster.next_timer() is None


def test_finalizers_hold(cluster, build):
    cluster.create(build.config(finalizers=["example.com/a", "example.com/b"]))
    cluster.delete("ConfigMap", "c", "default")
    assert "deletionTimestamp" in cluster.get("ConfigMap", "c", "default")["metadata"]
    cluster.patch("ConfigMap", "c", "default", {"metadata": {"finalizers": ["example.com/b"]}})
    assert exists(cluster, "ConfigMap", "c")
    cluster.patch("ConfigMap", "c", "default", {"metadata": {"finalizers": None}})
    assert not exists(cluster, "ConfigMap", "c")


def test_finalizers_hold_pods_as_ended(cluster, running):
    running(finalizers=["example.com/a"])
    cluster.delete("Pod", "p", "default")
    cluster.advance(5)
    assert cluster.get("Pod", "p", "default")["status"]["phase"] == "Failed"
    cluster.patch("Pod", "p", "default", {"metadata": {"finalizers": None}})
    assert not exists(cluster, "Pod", "p")


def test_finalizer_taken_off_early_does_not_cut_the_grace_short(cluster, running):
    running(finalizers=["example.com/a"])
    cluster.delete("Pod", "p", "default")
    cluster.patch("Pod", "p", "default", {"metadata": {"finalizers": None}})
    assert exists(cluster, "Pod", "p")
    cluster.advance(1)
    assert not exists(cluster, "Pod", "p")


def test_dependents_go_with_their_owner_and_theirs_with_them(cluster, build):
    top = cluster.create(build.config("top"))
    middle = cluster.create(build.config("middle", ownerReferences=[build.owner(top)]))
    cluster.create(build.pod("leaf", ownerReferences=[build.owner(middle)]))
    cluster.create(build.pod("free"))
    cluster.delete("ConfigMap", "top", "default")
    assert not exists(cluster, "ConfigMap", "middle")
    assert not exists(cluster, "Pod", "leaf")
    assert exists(cluster, "Pod", "free")


def test_one_owner_of_two_is_enough_to_stay(cluster, build):
    a, b = cluster.create(build.config("a")), cluster.create(build.config("b"))
    cluster.create(build.pod(ownerReferences=[build.owner(a), build.owner(b, False)]))
    cluster.delete("ConfigMap", "a", "default")
    assert [ref["name"] for ref in cluster.get("Pod", "p", "default")["metadata"]["ownerReferences"]] == ["b"]
    cluster.delete("ConfigMap", "b", "default")
    assert not exists(cluster, "Pod", "p")


def test_namespaces_take_everything_along_once_it_has_gone(cluster, build, running):
    cluster.create(build.namespace("team"))
    cluster.create(build.config(namespace="team"))
    cluster.event(cluster.create(build.pod(namespace="team")), "Normal", "X", "y")
    cluster.bind("team", "p", "n")
    cluster.advance(1)
    cluster.delete("Namespace", "team")
    assert cluster.get("Namespace", "team")["status"]["phase"] == "Terminating"
    assert not exists(cluster, "ConfigMap", "c", "team")
    with pytest.raises(ApiError, match="being terminated"):
        cluster.create(build.config("late", "team"))
    cluster.advance(1)
    assert not exists(cluster, "Namespace", "team")
    assert cluster.list("Event", "team") == []


def test_empty_namespace_goes_at_once_and_default_never(cluster, build):
    cluster.create(build.namespace("team"))
    cluster.delete("Namespace", "team")
    assert not exists(cluster, "Namespace", "team")
    with pytest.raises(Invalid, match="may not be deleted"):
        cluster.delete("Namespace", "default")


@pytest.mark.parametrize("filled", [False, True], ids=["empty", "with a pod that is still stopping"])
def test_a_namespace_that_went_with_its_last_finalizer_can_be_made_anew(cluster, build, filled):
    cluster.create(build.node())
    cluster.create({**build.namespace("team"), "metadata": {"name": "team", "finalizers": ["example.com/a"]}})
    pod = cluster.create(build.pod(namespace="team"))
    cluster.event(pod, "Normal", "X", "y")
    if filled:
        cluster.bind("team", "p", "n")
        cluster.advance(1)
    cluster.delete("Namespace", "team")
    cluster.advance(1)
    assert exists(cluster, "Namespace", "team")
    cluster.patch("Namespace", "team", None, {"metadata": {"finalizers": None}})
    assert not exists(cluster, "Namespace", "team")
    assert cluster.list("Event", "team") == []
    cluster.create(build.namespace("team"))
    cluster.create(build.config(namespace="team"))
    assert exists(cluster, "ConfigMap", "c", "team")


def test_a_finalizer_that_goes_first_leaves_the_namespace_to_its_last_object(cluster, build, running):
    running()
    cluster.create({**build.namespace("team"), "metadata": {"name": "team", "finalizers": ["example.com/a"]}})
    cluster.create(build.pod(namespace="team"))
    cluster.bind("team", "p", "n")
    cluster.advance(1)
    cluster.delete("Namespace", "team")
    cluster.patch("Namespace", "team", None, {"metadata": {"finalizers": None}})
    assert exists(cluster, "Namespace", "team")
    cluster.advance(1)
    assert not exists(cluster, "Namespace", "team")
