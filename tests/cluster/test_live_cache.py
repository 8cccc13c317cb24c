"""What is known of a real cluster while answers are late, lost, or out of order."""

from __future__ import annotations

import pytest

from kailab.cluster.kubernetes.cache import Cache
from kailab.cluster.kubernetes.informer import Doubt, News
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


def looked_up(obj: Object, number: int) -> News:
    return News("Pod", "LOOKED_UP", obj, [], doubt=Doubt(KEY, "u1", number))


@pytest.fixture
def cache() -> Cache:
    made = Cache()
    made.take(News("Pod", "LISTED", {}, [pod(1)]))
    return made


def node(cache: Cache) -> str:
    return str(cache.kinds["Pod"][KEY]["spec"].get("nodeName", ""))


def doubt(cache: Cache, number: int, where: str = "n1") -> None:
    cache.bound(*KEY, "u1", where)
    cache.doubt(Doubt(KEY, "u1", number))


def test_a_pod_in_doubt_counts_as_bound(cache: Cache) -> None:
    doubt(cache, 1)
    assert node(cache) == "n1"
    cache.put("Pod", pod(2))
    assert node(cache) == "n1"


def test_it_was_bound(cache: Cache) -> None:
    doubt(cache, 1)
    cache.take(looked_up(pod(2, "n1"), 1))
    assert cache.kinds["Pod"][KEY] == pod(2, "n1")


def test_it_was_not_bound(cache: Cache) -> None:
    watch = cache.open(("Pod",))
    watch.poll()
    doubt(cache, 1)
    cache.take(looked_up(pod(1), 1))
    assert node(cache) == ""
    assert [event.object["spec"].get("nodeName", "") for event in watch.poll()] == ["n1", ""]


def test_somebody_else_bound_it(cache: Cache) -> None:
    doubt(cache, 1)
    cache.take(looked_up(pod(2, "n2"), 1))
    assert node(cache) == "n2"


def test_the_watch_knew_before(cache: Cache) -> None:
    doubt(cache, 1)
    cache.put("Pod", pod(5, "n1"))
    cache.take(looked_up(pod(1), 1))
    assert node(cache) == "n1"


def test_the_answer_to_an_earlier_question_settles_nothing(cache: Cache) -> None:
    cache.doubt(Doubt(KEY, "u1", 1))
    doubt(cache, 2)
    cache.take(looked_up(pod(1), 1))
    assert node(cache) == "n1"
    cache.take(looked_up(pod(1), 2))
    assert node(cache) == ""


def test_it_is_gone(cache: Cache) -> None:
    doubt(cache, 1)
    cache.take(looked_up({}, 1))
    assert node(cache) == ""
    cache.take(News("Pod", "DELETED", pod(3), []))
    assert cache.kinds["Pod"] == {}
    cache.take(looked_up({}, 1))


def test_another_one_has_its_name(cache: Cache) -> None:
    doubt(cache, 1)
    cache.take(looked_up(pod(7, uid="u2"), 1))
    assert cache.kinds["Pod"][KEY]["metadata"]["uid"] == "u2"
    assert node(cache) == ""
