"""Invariants over random input: merge patches, and that a watch tells exactly what the store holds."""

from __future__ import annotations

import contextlib
import copy

from hypothesis import given, settings
from hypothesis import strategies as st

from kailab.cluster.embedded import EmbeddedCluster
from kailab.cluster.embedded.merge import apply_patch, merge_patch
from kailab.cluster.embedded.storage.store import name_suffix
from kailab.errors import ApiError

KEYS = st.sampled_from("abcd")
LEAVES = st.one_of(st.integers(0, 3), st.booleans(), st.text("xy", max_size=2), st.lists(st.integers(0, 2), max_size=2))


def documents(leaves):
    return st.dictionaries(
        KEYS, st.recursive(leaves, lambda inner: st.dictionaries(KEYS, inner, max_size=3), max_leaves=6), max_size=4
    )


DOCUMENTS = documents(LEAVES)
PATCHES = documents(st.one_of(LEAVES, st.none()))


def rfc7386(target, patch):
    """The RFC's own pseudo-code."""
    if not isinstance(patch, dict):
        return patch
    target = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        else:
            target[key] = rfc7386(target.get(key), value)
    return target


@given(DOCUMENTS, PATCHES)
def test_merge_patch_is_the_rfcs_and_never_touches_its_input(target, patch):
    kept = copy.deepcopy(target)
    result = merge_patch(target, patch)
    assert result == rfc7386(kept, patch)
    assert target == kept
    assert merge_patch(result, patch) is result, "the second time changes nothing"


@given(DOCUMENTS, DOCUMENTS, DOCUMENTS)
def test_applying_what_was_applied_last_gives_what_is_given_now(first, other, second):
    live = merge_patch(first, {f"o-{key}": value for key, value in other.items()})
    result = apply_patch(live, first, second)
    for key, value in second.items():
        if not isinstance(value, dict):
            assert result[key] == value
    assert all(key in second for key in first if key in result)
    assert all(result[f"o-{key}"] == value for key, value in other.items())
    assert apply_patch(result, second, second) == result


@given(st.text(max_size=10), st.sets(st.integers(0, 14_000_000), min_size=2, max_size=50))
def test_suffixes_differ(seed, numbers):
    assert len({name_suffix(seed, number) for number in numbers}) == len(numbers)


NAMES = st.sampled_from(["a", "b", "c"])
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("create"), NAMES, st.sampled_from(["", "a", "b"])),
        st.tuples(st.just("label"), NAMES, st.sampled_from(["x", "y"])),
        st.tuples(st.just("hold"), NAMES, st.booleans()),
        st.tuples(st.just("status"), NAMES, st.sampled_from(["x", "y"])),
        st.tuples(st.just("bind"), NAMES, st.just("n")),
        st.tuples(st.just("evict"), NAMES, st.just("")),
        st.tuples(st.just("delete"), NAMES, st.sampled_from([None, 0, 30])),
        st.tuples(st.just("advance"), NAMES, st.integers(0, 3)),
    ),
    max_size=40,
)


def play(cluster, actions):
    for what, name, value in actions:
        with contextlib.suppress(ApiError):
            act(cluster, what, name, value)


def act(cluster, what, name, value):
    if what == "create":
        meta = {"name": name, "labels": {"l": name}}
        if value and value != name:
            owner = cluster.get("Pod", value, "default")["metadata"]
            meta["ownerReferences"] = [{"apiVersion": "v1", "kind": "Pod", "name": value, "uid": owner["uid"]}]
        spec = {"containers": [{"name": "c", "image": "i"}]}
        cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
    elif what == "label":
        cluster.patch("Pod", name, "default", {"metadata": {"labels": {"l": value}}})
    elif what == "hold":
        cluster.patch("Pod", name, "default", {"metadata": {"finalizers": ["example.com/h"] if value else None}})
    elif what == "status":
        cluster.patch("Pod", name, "default", {"status": {"message": value}}, "status")
    elif what == "bind":
        cluster.bind("default", name, value)
    elif what == "evict":
        cluster.evict("default", name, "r", "m")
    elif what == "delete":
        cluster.delete("Pod", name, "default", value)
    else:
        cluster.advance(value)


def new_cluster():
    cluster = EmbeddedCluster()
    cluster.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})
    return cluster


@settings(max_examples=150)
@given(ACTIONS)
def test_a_watch_tells_what_the_store_holds(actions):
    cluster = new_cluster()
    watch = cluster.watch(["Pod"])
    play(cluster, actions)
    seen, version = {}, 0
    for event in watch.poll():
        meta = event.object["metadata"]
        assert int(meta["resourceVersion"]) > version, "versions only go up"
        version = int(meta["resourceVersion"])
        assert (event.type == "ADDED") == (meta["name"] not in seen)
        if event.type == "DELETED":
            del seen[meta["name"]]
        else:
            seen[meta["name"]] = event.object
    assert [seen[name] for name in sorted(seen)] == cluster.list("Pod")
    for label in ("a", "b", "c", "x", "y"):
        expected = [pod for pod in cluster.list("Pod") if pod["metadata"]["labels"]["l"] == label]
        assert cluster.list("Pod", labels={"l": label}) == expected


@settings(max_examples=100)
@given(ACTIONS, ACTIONS)
def test_a_resumed_cluster_goes_on_as_one_never_stopped(before, after):
    straight, stopped = new_cluster(), new_cluster()
    play(straight, before)
    play(stopped, before)
    stopped = EmbeddedCluster.restore(stopped.dump())
    play(straight, after)
    play(stopped, after)
    assert stopped.dump() == straight.dump()
    assert stopped.next_timer() == straight.next_timer()
