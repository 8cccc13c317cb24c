"""What is known of a real cluster while answers are late, lost, or out of order."""

from __future__ import annotations

from typing import Any

import pytest

from kailab.cluster.kubernetes.cache import ObjectCache
from kailab.cluster.kubernetes.informer import InformerUpdate, WriteInquiry
from kailab.cluster.protocol import Object

KEY = ("default", "p")


def pod(version: int, node: str = "", uid: str = "u1") -> Object:
    metadata = {
        "name": "p",
        "namespace": "default",
        "uid": uid,
        "resourceVersion": str(version),
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    return {"kind": "Pod", "metadata": metadata, "spec": {"nodeName": node} if node else {}, "status": {}}


def looked_up(obj: Object, number: int) -> InformerUpdate:
    return InformerUpdate("Pod", "LOOKED_UP", obj, [], inquiry=WriteInquiry(KEY, "u1", number))


@pytest.fixture
def cache() -> ObjectCache:
    made = ObjectCache()
    made.process_update(InformerUpdate("Pod", "LISTED", {}, [pod(1)]))
    return made


def node(cache: ObjectCache) -> str:
    return str(cache.kinds["Pod"][KEY]["spec"].get("nodeName", ""))


def doubt(cache: ObjectCache, number: int, where: str = "n1") -> None:
    cache.mark_bound(*KEY, "u1", where)
    cache.record_inquiry(WriteInquiry(KEY, "u1", number))


def test_a_pod_in_doubt_counts_as_bound(cache: ObjectCache) -> None:
    doubt(cache, 1)
    assert node(cache) == "n1"
    cache.put("Pod", pod(2))
    assert node(cache) == "n1"


def test_it_was_bound(cache: ObjectCache) -> None:
    doubt(cache, 1)
    cache.process_update(looked_up(pod(2, "n1"), 1))
    assert cache.kinds["Pod"][KEY] == pod(2, "n1")


def test_it_was_not_bound(cache: ObjectCache) -> None:
    watch = cache.open(("Pod",))
    watch.poll()
    doubt(cache, 1)
    cache.process_update(looked_up(pod(1), 1))
    assert node(cache) == ""
    assert [event.object["spec"].get("nodeName", "") for event in watch.poll()] == ["n1", ""]


def test_somebody_else_bound_it(cache: ObjectCache) -> None:
    doubt(cache, 1)
    cache.process_update(looked_up(pod(2, "n2"), 1))
    assert node(cache) == "n2"


def test_the_watch_knew_before(cache: ObjectCache) -> None:
    doubt(cache, 1)
    cache.put("Pod", pod(5, "n1"))
    cache.process_update(looked_up(pod(1), 1))
    assert node(cache) == "n1"


def test_the_answer_to_an_earlier_question_settles_nothing(cache: ObjectCache) -> None:
    cache.record_inquiry(WriteInquiry(KEY, "u1", 1))
    doubt(cache, 2)
    cache.process_update(looked_up(pod(1), 1))
    assert node(cache) == "n1"
    cache.process_update(looked_up(pod(1), 2))
    assert node(cache) == ""


def test_a_question_from_before_a_binding_settles_nothing_about_it(cache: ObjectCache) -> None:
    cache.record_inquiry(WriteInquiry(KEY, "u1", 1))
    cache.mark_bound(*KEY, "u1", "n1")
    cache.process_update(looked_up(pod(1), 1))
    assert node(cache) == "n1"


def test_a_pod_whose_binding_was_refused_waits_again(cache: ObjectCache) -> None:
    watch = cache.open(("Pod",))
    watch.poll()
    cache.mark_bound(*KEY, "u1", "n1")
    cache.put("Pod", pod(2))
    cache.mark_unbound(*KEY, "u1")
    assert [event.object["spec"].get("nodeName", "") for event in watch.poll()] == ["n1", "n1", ""]
    assert cache.kinds["Pod"][KEY] == pod(2)


def test_one_that_the_server_shows_as_bound_is_not_given_back(cache: ObjectCache) -> None:
    cache.mark_bound(*KEY, "u1", "n1")
    cache.put("Pod", pod(2, "n2"))
    cache.mark_unbound(*KEY, "u1")
    assert node(cache) == "n2"


def test_another_one_under_its_name_is_not_given_back(cache: ObjectCache) -> None:
    cache.mark_bound(*KEY, "u1", "n1")
    cache.put("Pod", pod(3, "n2", uid="u2"))
    cache.mark_unbound(*KEY, "u1")
    assert node(cache) == "n2"


def test_it_is_gone(cache: ObjectCache) -> None:
    doubt(cache, 1)
    cache.process_update(looked_up({}, 1))
    assert node(cache) == ""
    cache.process_update(InformerUpdate("Pod", "DELETED", pod(3), []))
    assert cache.kinds["Pod"] == {}
    cache.process_update(looked_up({}, 1))


def test_another_one_has_its_name(cache: ObjectCache) -> None:
    doubt(cache, 1)
    cache.process_update(looked_up(pod(7, uid="u2"), 1))
    assert cache.kinds["Pod"][KEY]["metadata"]["uid"] == "u2"
    assert node(cache) == ""


# --- created, or perhaps created ----------------------------------------------------------------------------------------


def unsent() -> dict[str, Any]:
    """As it is handed over to be created."""
    return {"kind": "Pod", "metadata": {"name": "q", "namespace": "default"}, "spec": {"nodeName": "n1"}}


def named_q(version: int, uid: str = "u9") -> Object:
    obj = pod(version, "n1", uid)
    return {**obj, "metadata": {**obj["metadata"], "name": "q"}}


Q = ("default", "q")


@pytest.fixture
def supposed(cache: ObjectCache) -> str:
    uid = cache.record_supposed(unsent(), "2026-01-01T00:00:01Z")
    cache.record_inquiry(WriteInquiry(Q, uid, 1))
    return uid


def told_of_q(cache: ObjectCache) -> Object | None:
    return cache.kinds["Pod"].get(Q)


def answer(obj: Object, uid: str, number: int = 1) -> InformerUpdate:
    return InformerUpdate("Pod", "LOOKED_UP", obj, [], inquiry=WriteInquiry(Q, uid, number))


def test_one_that_may_have_been_created_counts_until_the_server_has_said(cache: ObjectCache, supposed: str) -> None:
    watch = cache.open(("Pod",))
    assert [event.object["spec"].get("nodeName", "") for event in watch.poll()] == ["", "n1"]
    cache.process_update(InformerUpdate("Pod", "LISTED", {}, [pod(1)], version=8))  # it may be on its way yet
    cache.record_deleted("Pod", *Q)  # "not found" as yet
    assert told_of_q(cache)
    cache.process_update(answer({}, supposed))
    assert told_of_q(cache) is None
    assert [event.type for event in watch.poll()] == ["DELETED"]


def test_it_was_created(cache: ObjectCache, supposed: str) -> None:
    watch = cache.open(("Pod",))
    watch.poll()
    cache.process_update(answer(named_q(5), supposed))
    assert told_of_q(cache) == named_q(5)
    assert [event.type for event in watch.poll()] == ["DELETED", "ADDED"]


def test_the_watch_tells_of_it_before_the_answer(cache: ObjectCache, supposed: str) -> None:
    cache.process_update(InformerUpdate("Pod", "ADDED", named_q(5), []))
    assert told_of_q(cache) == named_q(5)
    cache.process_update(InformerUpdate("Pod", "DELETED", named_q(6), []))
    cache.process_update(answer({}, supposed))
    assert told_of_q(cache) is None


def test_nothing_is_supposed_of_one_that_is_known(cache: ObjectCache) -> None:
    cache.process_update(InformerUpdate("Pod", "ADDED", named_q(5), []))
    assert cache.record_supposed(unsent(), "2026-01-01T00:00:01Z") == ""
    assert told_of_q(cache) == named_q(5)


def test_a_list_that_is_older_than_what_was_created_says_nothing_of_it(cache: ObjectCache) -> None:
    cache.record_created("Pod", named_q(5))
    cache.process_update(InformerUpdate("Pod", "LISTED", {}, [pod(1)], version=4))
    assert told_of_q(cache)
    cache.process_update(InformerUpdate("Pod", "LISTED", {}, [pod(1)], version=6))
    assert told_of_q(cache) is None


def test_once_told_of_it_is_as_any_other(cache: ObjectCache) -> None:
    """A server that was set back to an earlier state has lost it."""
    cache.record_created("Pod", named_q(5))
    cache.process_update(InformerUpdate("Pod", "ADDED", named_q(5), []))
    cache.process_update(InformerUpdate("Pod", "LISTED", {}, [pod(1)], version=4))
    assert told_of_q(cache) is None


# --- written on condition of what was there -----------------------------------------------------------------------------


def test_what_became_of_a_write_is_told_even_if_nothing_did(cache: ObjectCache) -> None:
    watch = cache.open(("Pod",))
    watch.poll()
    cache.record_inquiry(WriteInquiry(KEY, "u1", 1))
    cache.record_inquiry(WriteInquiry(KEY, "u1", 2))
    cache.process_update(looked_up(pod(1), 1))
    assert watch.poll() == []  # as it was before the second write
    cache.process_update(looked_up(pod(1), 2))
    assert [event.type for event in watch.poll()] == ["MODIFIED"]
    cache.record_inquiry(WriteInquiry(KEY, "u1", 3))
    cache.process_update(looked_up(pod(4, "n3"), 3))
    assert [event.object["spec"]["nodeName"] for event in watch.poll()] == ["n3"]
