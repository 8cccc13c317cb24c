"""Patches as Kubernetes documents them: strategic merge, JSON patch, and what became of an object as a merge patch."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kailab.cluster.embedded.merge import merge_patch
from kailab.errors import InputError
from kailab.model.objects import Object
from kailab.model.patches import difference, json_patch, strategic_patch


def pod(*containers: Object, **spec: Any) -> Object:
    return {"spec": {"containers": list(containers), **spec}}


MAIN = {
    "name": "main",
    "image": "one",
    "resources": {"limits": {"nvidia.com/gpu": 1}},
    "env": [{"name": "A", "value": "1"}],
}
SIDE = {"name": "side", "image": "log"}


def test_a_container_is_changed_by_its_name() -> None:
    patched = strategic_patch(pod(SIDE, MAIN), pod({"name": "main", "image": "two"}))
    assert patched == pod(SIDE, {**MAIN, "image": "two"})


def test_what_is_new_comes_first() -> None:
    """As in Kubernetes' own example of a patch that adds a container."""
    assert strategic_patch(pod(MAIN), pod(SIDE)) == pod(SIDE, MAIN)


def test_lists_within_items_are_merged_too() -> None:
    more = {"name": "main", "env": [{"name": "B", "value": "2"}, {"name": "A", "value": "3"}]}
    assert strategic_patch(pod(MAIN), pod(more))["spec"]["containers"][0]["env"] == [
        {"name": "B", "value": "2"},
        {"name": "A", "value": "3"},
    ]


def test_lists_without_a_key_are_replaced() -> None:
    before = pod(MAIN, tolerations=[{"key": "a", "operator": "Exists"}])
    after = strategic_patch(before, {"spec": {"tolerations": [{"key": "b", "operator": "Exists"}]}})
    assert after["spec"]["tolerations"] == [{"key": "b", "operator": "Exists"}]
    assert after["spec"]["containers"] == [MAIN]


@pytest.mark.parametrize(
    "patch, containers",
    [
        (pod({"name": "side", "$patch": "delete"}), [MAIN]),
        (pod({"$patch": "replace"}, {"name": "new"}), [{"name": "new"}]),
        (pod({"name": "main", "$patch": "replace", "image": "x"}), [{"name": "main", "image": "x"}, SIDE]),
        (pod({"name": "main", "env": None}), [{k: v for k, v in MAIN.items() if k != "env"}, SIDE]),
    ],
)
def test_directives(patch: Object, containers: list[Object]) -> None:
    assert strategic_patch(pod(MAIN, SIDE), patch)["spec"]["containers"] == containers


def test_directives_of_mappings() -> None:
    strategy = {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}
    retained = strategic_patch(strategy, {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}})
    assert retained == {"spec": {"strategy": {"type": "Recreate"}}}
    marked = {"metadata": {"finalizers": ["a", "b"]}}
    assert strategic_patch(marked, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}) == {
        "metadata": {"finalizers": ["b"]}
    }
    assert strategic_patch(marked, {"metadata": {"finalizers": ["c", "a"]}})["metadata"]["finalizers"] == [
        "a",
        "b",
        "c",
    ]


@pytest.mark.parametrize(
    "patch, said",
    [
        (pod({"image": "x"}), "spec.containers: each item has to say which it is, once: name"),
        (pod({"name": "a"}, {"name": "a"}), "spec.containers: each item"),
        ({"spec": {"$patch": "drop"}}, "spec: $patch: 'drop' is not valid"),
        ({"spec": {"$remove": 1}}, "spec.$remove: is no directive"),
        ({"metadata": {"$deleteFromPrimitiveList/finalizers": "a"}}, "expected a list, not 'a'"),
    ],
)
def test_what_is_no_strategic_patch_is_refused(patch: Object, said: str) -> None:
    before = pod(MAIN)
    kept = copy.deepcopy(before)
    with pytest.raises(InputError) as told:
        strategic_patch(before, patch)
    assert said in str(told.value)
    assert before == kept


def test_the_operations_of_a_json_patch() -> None:
    """Examples after RFC 6902, appendix A."""
    done = json_patch(
        {"foo": {"bar": "baz", "waldo": "fred"}, "list": ["all", "cows", "eat"], "a/b": {"m~n": 1}},
        [
            {"op": "test", "path": "/list/1", "value": "cows"},
            {"op": "add", "path": "/list/-", "value": "grass"},
            {"op": "move", "from": "/list/0", "path": "/list/2"},
            {"op": "move", "from": "/foo/waldo", "path": "/thud"},
            {"op": "replace", "path": "/a~1b/m~0n", "value": 2},
            {"op": "copy", "from": "/foo/bar", "path": "/qux"},
            {"op": "remove", "path": "/foo"},
            {"op": "add", "path": "/none", "value": None},
            {"op": "replace", "path": "/list/0", "value": "pigs"},
        ],
    )
    assert done == {
        "list": ["pigs", "eat", "all", "grass"],
        "a/b": {"m~n": 2},
        "thud": "fred",
        "qux": "baz",
        "none": None,
    }


@pytest.mark.parametrize(
    "operation, said",
    [
        ({"op": "replace", "path": "/spec/nope", "value": 1}, "/spec/nope: is not there"),
        ({"op": "remove", "path": "/spec/list/3"}, "there is no item 3 of 1"),
        ({"op": "add", "path": "/spec/list/-1", "value": 1}, "there is no item -1"),
        ({"op": "add", "path": "/a/b/c", "value": 1}, "there is nothing to hold it"),
        ({"op": "test", "path": "/spec/n", "value": 2}, "test /spec/n: is 1, not 2"),
        ({"op": "add", "path": "spec", "value": 2}, "is no JSON pointer"),
        ({"op": "add", "path": "/spec"}, "value is missing"),
        ({"op": "move", "path": "/spec"}, "from is missing"),
        ({"op": "drop", "path": "/spec"}, "'drop' is not valid"),
        ({"op": "replace", "path": "", "value": 3}, "what is left is no object"),
        ("x", "expected an operation"),
    ],
)
def test_what_can_not_be_done_is_said(operation: Any, said: str) -> None:
    before = {"spec": {"n": 1, "list": [1]}}
    with pytest.raises(InputError) as told:
        json_patch(before, [{"op": "add", "path": "/first", "value": 1}, operation])
    assert said in str(told.value)
    assert before == {"spec": {"n": 1, "list": [1]}}


VALUES = st.recursive(
    st.booleans() | st.integers(0, 2) | st.text("ab", max_size=1) | st.lists(st.integers(0, 1), max_size=2),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3)


@given(OBJECTS, OBJECTS)
def test_a_difference_makes_one_of_the_other(before: Object, after: Object) -> None:
    made = merge_patch(before, difference(before, after))
    assert made == after
    assert difference(after, made) == {}
