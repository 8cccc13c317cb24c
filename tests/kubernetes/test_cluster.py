"""The cluster protocol over a real API server: our own writes are seen at once, those of others soon after."""

from itertools import groupby

import pytest

from kailab.cluster.kubernetes import KubernetesCluster
from kailab.cluster.writes import BindWrite, CreateWrite, DeleteWrite, EvictWrite, PatchWrite
from kailab.errors import AlreadyExists, ApiError, Conflict, Invalid, NotFound
from kailab.model.objects import uid_of
from tests.kubernetes.made import config_map, pod, soon

pytestmark = pytest.mark.slow


# --- reading what was written -------------------------------------------------------------------------------------------


def test_what_is_created_is_there_at_once_and_told_to_watchers(cluster):
    watch = cluster.watch(["Pod"])
    created = cluster.create(pod("a"))
    assert cluster.get("Pod", "a", "default") == created
    assert [(event.type, event.object["metadata"]["name"]) for event in watch.poll()] == [("ADDED", "a")]


def test_what_others_write_arrives(cluster, other):
    watch = cluster.watch(["Pod"])
    other.create(pod("theirs"))
    soon(lambda: any(event.object["metadata"]["name"] == "theirs" for event in watch.poll()))
    assert [one["metadata"]["name"] for one in cluster.list("Pod", "default")] == ["theirs"]


def test_a_watch_begins_with_what_is_there(cluster, other):
    other.create(pod("early"))
    assert [event.object["metadata"]["name"] for event in cluster.watch(["Pod"]).poll()] == ["early"]


def test_a_bound_pod_is_bound_at_once_whatever_the_watch_still_tells(cluster):
    watch = cluster.watch(["Pod"])
    cluster.create(pod("a"))
    cluster.patch("Pod", "a", "default", {"metadata": {"labels": {"step": "one"}}})
    cluster.bind("default", "a", "n1", {"told": "yes"})
    assert cluster.get("Pod", "a", "default")["spec"]["nodeName"] == "n1"
    seen = []
    soon(lambda: seen.extend(watch.poll()) or "told" in (seen[-1].object["metadata"].get("annotations") or {}))
    nodes = [event.object["spec"].get("nodeName") for event in seen]
    assert nodes == sorted(nodes, key=lambda node: node is not None), "bound, and then not bound again"


def test_a_second_binding_is_a_conflict(cluster):
    cluster.create(pod("a"))
    cluster.bind("default", "a", "n1")
    with pytest.raises(Conflict, match="already assigned"):
        cluster.bind("default", "a", "n2")


def test_an_evicted_pod_says_why_and_leaves(cluster):
    cluster.watch(["Pod"])
    cluster.create(pod("a"))
    cluster.bind("default", "a", "n1")
    cluster.evict("default", "a", "PreemptionByScheduler", "for somebody else", 5)
    there = cluster.get("Pod", "a", "default")
    assert there["metadata"]["deletionGracePeriodSeconds"] == 5
    condition = next(one for one in there["status"]["conditions"] if one["type"] == "DisruptionTarget")
    assert (condition["reason"], condition["message"]) == ("PreemptionByScheduler", "for somebody else")


def test_what_is_deleted_is_gone_at_once_and_does_not_come_back(cluster):
    watch = cluster.watch(["ConfigMap"])
    cluster.create(config_map("a"))
    for number in range(5):
        cluster.patch("ConfigMap", "a", "default", {"data": {"number": str(number)}})

    # Others are told of too: each namespace gets a ConfigMap of the server's own, some time after it was made.
    def news():
        told = [(event.type, event.object["metadata"]["name"]) for event in watch.poll()]
        return [one for one in told if one[1] in ("a", "after")]

    news()
    cluster.delete("ConfigMap", "a", "default")
    assert news() == [("DELETED", "a")]
    cluster.create(config_map("after"))
    seen = []
    soon(lambda: seen.extend(news()) or bool(seen))
    assert {name for _, name in seen} == {"after"}


def test_a_namespace_that_leaves_is_there_until_it_is_gone(cluster):
    """Its finalizers stand in its spec."""
    cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "leaving"}})
    kept = {"name": "kept", "namespace": "leaving", "finalizers": ["example.com/held"]}
    cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": kept})
    assert "leaving" in [one["metadata"]["name"] for one in cluster.list("Namespace")]
    cluster.delete("Namespace", "leaving")
    (left,) = [one for one in cluster.list("Namespace") if one["metadata"]["name"] == "leaving"]
    assert "deletionTimestamp" in left["metadata"]
    cluster.patch("ConfigMap", "kept", "leaving", {"metadata": {"finalizers": None}})
    soon(lambda: "leaving" not in [one["metadata"]["name"] for one in cluster.list("Namespace")])
    with pytest.raises(NotFound):
        cluster.get("Namespace", "leaving")


def test_a_pod_made_anew_under_its_name_is_another(cluster):
    watch = cluster.watch(["Pod"])
    first = cluster.create(pod("a"))["metadata"]["uid"]
    cluster.delete("Pod", "a", "default", 0)
    second = cluster.create(pod("a"))["metadata"]["uid"]
    told = [(event.type, event.object["metadata"]["uid"]) for event in watch.poll()]
    assert told == [("ADDED", first), ("DELETED", first), ("ADDED", second)]


# --- apply --------------------------------------------------------------------------------------------------------------


def test_apply_creates_changes_and_leaves_alone(cluster):
    assert cluster.apply(config_map("a", one="1", two="2"))[1] == "created"
    assert cluster.apply(config_map("a", one="1", two="2"))[1] == "unchanged"
    after, what = cluster.apply(config_map("a", one="1"))
    assert (what, after["data"]) == ("configured", {"one": "1"})


def test_apply_leaves_the_fields_of_others(cluster, other):
    cluster.apply(config_map("a", ours="1"))
    other.patch("ConfigMap", "a", "default", {"data": {"theirs": "2"}})
    assert cluster.apply(config_map("a"))[0]["data"] == {"theirs": "2"}


# --- refusals -----------------------------------------------------------------------------------------------------------


def test_refusals_are_the_errors_of_the_protocol(cluster):
    cluster.create(config_map("a"))
    with pytest.raises(AlreadyExists):
        cluster.create(config_map("a"))
    with pytest.raises(NotFound):
        cluster.get("ConfigMap", "b", "default")
    with pytest.raises(NotFound, match="no kind"):
        cluster.get("Unheard.example.com", "b")
    with pytest.raises(Invalid) as refused:
        cluster.create(pod("a", restartPolicy="Perhaps"))
    assert refused.value.field == "spec.restartPolicy"
    with pytest.raises(Conflict):
        cluster.update({**config_map("a"), "metadata": {"name": "a", "namespace": "default", "resourceVersion": "1"}})


def test_kinds_that_the_server_lacks_are_empty_and_watched_for(cluster):
    watch = cluster.watch(["NodeResourceTopology"])
    assert watch.poll() == []
    assert cluster.list("NodeResourceTopology") == []


# --- many at once -------------------------------------------------------------------------------------------------------


def test_chains_go_side_by_side_and_each_stops_at_its_first_refusal(cluster):
    chains = [
        [
            CreateWrite(pod("a")),
            BindWrite("default", "a", "n1"),
            PatchWrite("Pod", "a", "default", {"metadata": {"labels": {"x": "y"}}}),
        ],
        [CreateWrite(pod("b")), BindWrite("default", "nobody", "n1"), CreateWrite(config_map("never"))],
        [DeleteWrite("Pod", "nobody", "default")],
    ]
    first, second, third = cluster.write_all(chains)
    assert first.error is None
    assert first.objects[2]["metadata"]["labels"] == {"x": "y"}
    assert isinstance(second.error, ApiError)
    assert len(second.objects) == 1
    assert isinstance(third.error, NotFound)
    with pytest.raises(NotFound):
        cluster.get("ConfigMap", "never", "default")


def test_what_is_handed_over_to_be_bound_counts_at_once_and_is_told_later(cluster, other):
    for name in "abc":
        cluster.create(pod(name))
    watch = cluster.watch(["Pod"])
    watch.poll()
    handed = cluster.hand_over([[BindWrite("default", name, "n1")] for name in "abc"])
    assert [cluster.get("Pod", name, "default")["spec"]["nodeName"] for name in "abc"] == ["n1"] * 3
    taken = []
    soon(lambda: watch.poll() is None or taken.extend(handed.collect()) or len(taken) == 3)
    assert sorted((number, outcome.error) for number, outcome in taken) == [(0, None), (1, None), (2, None)]
    assert cluster.under_way == 0
    assert [other.get("Pod", name, "default")["spec"]["nodeName"] for name in "abc"] == ["n1"] * 3


def test_a_handed_over_pod_that_is_refused_is_given_back(cluster):
    cluster.create(pod("a", schedulingGates=[{"name": "not-yet"}]))
    watch = cluster.watch(["Pod"])
    watch.poll()
    handed = cluster.hand_over([[BindWrite("default", "a", "n1")]])
    seen, taken = [], []
    soon(lambda: seen.extend(watch.poll()) or taken.extend(handed.collect()) or bool(taken))
    assert isinstance(taken[0][1].error, ApiError)
    assert not taken[0][1].error.unanswered
    seen.extend(watch.poll())
    # A refusal has the server asked for the pod as it is, and the answer is told too: at once or later, and the same.
    assert [node for node, _ in groupby(event.object["spec"].get("nodeName") for event in seen)] == ["n1", None]
    assert "nodeName" not in cluster.get("Pod", "a", "default")["spec"]


def test_what_is_handed_over_is_created_once_and_a_name_that_is_there_is_told(cluster, other):
    cluster.watch(["ConfigMap"])
    other.create(config_map("a-3"))
    handed = cluster.hand_over([[CreateWrite(config_map(f"a-{n}"))] for n in range(200)])
    taken = []
    soon(lambda: cluster.process_updates() or taken.extend(handed.collect()) or len(taken) == 200)
    assert {number for number, outcome in taken if outcome.error is not None} == {3}
    assert isinstance(dict(taken)[3].error, AlreadyExists)


def test_hundreds_of_writes_are_each_carried_out_once(cluster):
    outcomes = cluster.write_all([[CreateWrite(config_map(f"m{number}"))] for number in range(300)])
    assert [outcome.error for outcome in outcomes] == [None] * 300
    assert len(cluster.list("ConfigMap", "default", {})) >= 300


def test_an_eviction_of_a_pod_on_its_way_out_is_done_already(cluster):
    cluster.watch(["Pod"])
    cluster.create(pod("a"))
    cluster.bind("default", "a", "n1")
    cluster.evict("default", "a", "Reason", "once")
    before = cluster.get("Pod", "a", "default")["metadata"]["resourceVersion"]
    (outcome,) = cluster.write_all([[EvictWrite("default", "a", "Reason", "twice")]])
    assert outcome.error is None
    assert cluster.get("Pod", "a", "default")["metadata"]["resourceVersion"] == before


def test_what_was_decided_about_a_pod_does_not_reach_the_next_one_of_its_name(cluster):
    cluster.watch(["Pod"])
    uid = uid_of(cluster.create(pod("a")))
    cluster.delete("Pod", "a", "default", grace_seconds=0)
    new = cluster.create(pod("a"))
    labels = {"metadata": {"uid": uid, "labels": {"of": "the-old-one"}}}
    status = {"metadata": {"uid": uid}, "status": {"reason": "TheOldOne"}}
    writes = [
        BindWrite("default", "a", "n1", None, uid),
        EvictWrite("default", "a", "Reason", "message", 0, uid),
        PatchWrite("Pod", "a", "default", labels),
        PatchWrite("Pod", "a", "default", status, "status"),
    ]
    assert [type(outcome.error) for outcome in cluster.write_all([[write] for write in writes])] == [NotFound] * 4
    assert cluster.assume("default", "a", uid, {"pod-group-name": "g"}) is None
    assert cluster.get("Pod", "a", "default") == new


# --- assumed annotations --------------------------------------------------------------------------------------------------


def test_assumed_annotations_are_ours_until_the_binding_carries_them(cluster, other):
    watch = cluster.watch(["Pod"])
    uid = uid_of(cluster.create(pod("a")))
    cluster.assume("default", "a", uid, {"pod-group-name": "g"})
    assert cluster.get("Pod", "a", "default")["metadata"]["annotations"]["pod-group-name"] == "g"
    assert "annotations" not in other.get("Pod", "a", "default")["metadata"]
    cluster.patch("Pod", "a", "default", {"metadata": {"labels": {"x": "y"}}})
    cluster.bind("default", "a", "n1", {"more": "1"})
    assert other.get("Pod", "a", "default")["metadata"]["annotations"] == {"pod-group-name": "g", "more": "1"}
    assert all(
        event.object["metadata"]["annotations"]["pod-group-name"] == "g"
        for event in watch.poll()
        if event.type == "MODIFIED"
    )


def test_what_was_assumed_can_be_forgotten(cluster):
    cluster.watch(["Pod"])
    uid = uid_of(cluster.create(pod("a")))
    cluster.assume("default", "a", uid, {"pod-group-name": "g"})
    cluster.forget_assumed()
    assert "pod-group-name" not in (cluster.get("Pod", "a", "default")["metadata"].get("annotations") or {})


# --- marks, trying ------------------------------------------------------------------------------------------------------


def test_what_a_marked_connection_creates_carries_its_marks(kubeconfig):
    from kailab.cluster.kubernetes import Connection

    marked = KubernetesCluster(Connection.from_kubeconfig(kubeconfig), marks={"kailab.dev/lab": "x"})
    try:
        assert marked.create(config_map("marked"))["metadata"]["labels"] == {"kailab.dev/lab": "x"}
        with marked.unmarked():
            assert "labels" not in marked.create(config_map("plain"))["metadata"]
    finally:
        marked.delete_all("ConfigMap", "default")
        marked.close()


def test_a_dry_run_keeps_nothing(cluster, other):
    cluster.dry_run()
    assert cluster.apply(config_map("a"))[1] == "created"
    with pytest.raises(NotFound):
        other.get("ConfigMap", "a", "default")


# --- kinds that come and go ---------------------------------------------------------------------------------------------


def crd(kind: str, version: str) -> dict:
    plural = f"{kind.lower()}s"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.lab.example.com"},
        "spec": {
            "group": "lab.example.com",
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                }
            ],
        },
    }


def made(cluster: KubernetesCluster, kind: str, version: str) -> bool:
    metadata = {"name": "one", "namespace": "default"}
    try:
        cluster.create({"apiVersion": f"lab.example.com/{version}", "kind": kind, "metadata": metadata})
    except AlreadyExists:
        return True
    except NotFound:
        return False
    return True


def test_a_kind_is_found_once_it_is_there_also_beside_others_and_not_after_it_has_gone(cluster):
    def names(kind: str) -> list[str]:
        return [obj["metadata"]["name"] for obj in cluster.list(f"{kind}.lab.example.com")]

    try:
        cluster.create(crd("Early", "v1"))
        soon(lambda: made(cluster, "Early", "v1"))
        assert names("Late") == []
        cluster.create(crd("Late", "v1"))
        soon(lambda: made(cluster, "Late", "v1"))
        assert (names("Early"), names("Late")) == (["one"], ["one"])
        cluster.delete("CustomResourceDefinition", "lates.lab.example.com")
        soon(lambda: names("Late") == [])
        soon(
            lambda: (
                "lates.lab.example.com" not in [o["metadata"]["name"] for o in cluster.list("CustomResourceDefinition")]
            )
        )
        # Come back in another version it is not looked for where it was.
        cluster.create(crd("Late", "v2"))
        soon(lambda: made(cluster, "Late", "v2"))
        soon(lambda: names("Late") == ["one"])
        assert cluster.list_metadata("Late.lab.example.com")[0]["metadata"]["name"] == "one"
    finally:
        for kind in ("Early", "Late"):
            cluster.delete("CustomResourceDefinition", f"{kind.lower()}s.lab.example.com")
