"""The order of what is known: whichever way states of an object come in, the newest holds, and what is bound stays bound."""

from hypothesis import given
from hypothesis import strategies as st

from kailab.cluster.kubernetes.cache import ObjectCache
from kailab.cluster.kubernetes.informer import InformerUpdate
from tests.kubernetes.test_late_answers import pod


def state(version: int, node: str = "", uid: str = "u", **labels: str) -> dict:
    made = pod(version, node, uid)
    return {**made, "metadata": {**made["metadata"], "labels": labels}}


def cache() -> ObjectCache:
    made = ObjectCache()
    made.process_update(InformerUpdate("Pod", "LISTED", {}, []))
    return made


def event(obj: dict, type: str = "MODIFIED") -> InformerUpdate:
    return InformerUpdate("Pod", type, obj, [])


@given(st.permutations(range(1, 8)), st.lists(st.booleans(), min_size=7, max_size=7))
def test_the_newest_state_holds_in_whatever_order_they_come(order, from_watch):
    known = cache()
    for version, watched in zip(order, from_watch, strict=True):
        if watched:
            known.process_update(event(state(version, step=str(version))))
        else:
            known.put("Pod", state(version, step=str(version)))
    assert known.kinds["Pod"]["default", "p"]["metadata"]["labels"] == {"step": "7"}


@given(st.integers(1, 6), st.integers(1, 6))
def test_once_bound_a_pod_is_never_seen_unbound(bound_after, late):
    """The server binds at version 7. States from before it keep coming in."""
    known = cache()
    watch = known.open(["Pod"])
    for version in range(1, bound_after + 1):
        known.process_update(event(state(version)))
    known.mark_bound("default", "p", "u", "n1")
    watch.poll()
    for version in range(bound_after + 1, bound_after + late):
        known.process_update(event(state(min(version, 6))))
    known.process_update(event(state(7, "n1")))
    assert all(seen.object["spec"].get("nodeName") == "n1" for seen in watch.poll())
    assert known.kinds["Pod"]["default", "p"]["spec"] == {"nodeName": "n1"}


def test_what_we_deleted_does_not_come_back_by_late_news():
    known = cache()
    known.process_update(event(state(1), "ADDED"))
    watch = known.open(["Pod"])
    watch.poll()
    known.record_deleted("Pod", "default", "p")
    known.process_update(event(state(2)))
    known.process_update(event(state(3), "DELETED"))
    assert [seen.type for seen in watch.poll()] == ["DELETED"]
    known.process_update(event(state(4, uid="v"), "ADDED"))
    assert known.kinds["Pod"]["default", "p"]["metadata"]["uid"] == "v"


def test_late_news_of_one_that_was_there_under_the_name_before_is_nothing():
    known = cache()
    known.process_update(event(state(5, uid="new"), "ADDED"))
    known.process_update(event(state(3, uid="old")))
    assert known.kinds["Pod"]["default", "p"]["metadata"]["uid"] == "new"


def test_a_new_list_tells_what_changed_in_between():
    known = cache()
    known.process_update(event(state(1), "ADDED"))
    known.process_update(
        event({**state(2, uid="w"), "metadata": {**state(2, uid="w")["metadata"], "name": "gone"}}, "ADDED")
    )
    watch = known.open(["Pod"])
    watch.poll()
    known.process_update(InformerUpdate("Pod", "LISTED", {}, [state(4, step="new")]))
    told = sorted((seen.type, seen.object["metadata"]["name"]) for seen in watch.poll())
    assert told == [("DELETED", "gone"), ("MODIFIED", "p")]


def test_a_list_that_says_the_same_is_no_news():
    known = cache()
    known.process_update(event(state(1), "ADDED"))
    watch = known.open(["Pod"])
    watch.poll()
    known.process_update(InformerUpdate("Pod", "LISTED", {}, [state(1)]))
    assert watch.poll() == []


@given(st.integers(1, 5))
def test_assumed_annotations_stay_until_the_server_has_them(updates):
    known = cache()
    known.process_update(event(state(1), "ADDED"))
    known.assume("default", "p", "u", {"a": "b"})
    for version in range(2, 2 + updates):
        known.process_update(event(state(version)))
        assert known.kinds["Pod"]["default", "p"]["metadata"]["annotations"] == {"a": "b"}
    there = state(10)
    there["metadata"]["annotations"] = {"a": "b", "c": "d"}
    known.process_update(event(there))
    assert known.kinds["Pod"]["default", "p"]["metadata"]["annotations"] == {"a": "b", "c": "d"}
    assert known.assumed == {}
