"""Rules for all kinds of owners: names, queue, priority class, preemptibility, durations, topology."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kailab.grouping import GroupingConfig, GroupOwner, PlannedTopology
from kailab.grouping.default import top_owner_metadata

yaml = pytest.importorskip("yaml")


@pytest.fixture
def owner(make):
    def build(kind="StatefulSet", **metadata):
        return make.thing("apps/v1", kind, "web", {}, **metadata)

    return build


def test_a_group_is_named_after_its_top_owner_and_owned_by_it(make, grouped, owner):
    grouping = grouped(make.pod(), owner())
    assert grouping.name == "pg-web-uid-statefulset-web"
    assert grouping.namespace == "ns"
    assert grouping.owner == GroupOwner("apps/v1", "StatefulSet", "web", "uid-statefulset-web")
    assert grouping.min_member == 1


def test_labels_and_annotations_of_the_owner_are_taken_over_and_those_of_the_pod_are_not(make, grouped, owner):
    top = owner(labels={"app": "web"}, annotations={"note": "kept"})
    grouping = grouped(make.pod(labels={"x": "y", "user": "ann"}, annotations={"z": "w", "user": "ann"}), top)
    assert grouping.labels == {"app": "web", "user": "ann"}
    assert grouping.annotations.keys() == {"note", "user", "kai.scheduler/top-owner-metadata"}


QUEUE_RULES = [
    ({"kai.scheduler/queue": "own"}, {"kai.scheduler/queue": "pods"}, "own"),
    ({}, {"kai.scheduler/queue": "pods"}, "pods"),
    ({"project": "ours"}, {}, "ours"),
    ({"project": "ours"}, {"kai.scheduler/node-pool": "a100"}, "ours-a100"),
    ({}, {}, "default-queue"),
    ({"runai/queue": "old"}, {"runai/queue": "older"}, "old"),
    ({}, {"runai/queue": "old"}, "old"),
    ({"runai/queue": "old"}, {"kai.scheduler/queue": "new"}, "new"),
]


@pytest.mark.parametrize(("owner_labels", "pod_labels", "queue"), QUEUE_RULES)
def test_queue(make, grouped, owner, owner_labels, pod_labels, queue):
    assert grouped(make.pod(labels=pod_labels), owner(labels=owner_labels)).queue == queue


def test_a_namespace_label_is_the_queue_of_pods_that_name_none(make, grouped, owner):
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "ns", "labels": {"runai/queue": "team"}},
    }
    assert grouped(make.pod(), owner(), reads=(namespace,)).queue == "team"
    labelled = make.pod(labels={"kai.scheduler/queue": "own"})
    assert grouped(labelled, owner(), reads=(namespace,)).queue == "own"
    plain = GroupingConfig(older_labels=False)
    assert grouped(make.pod(), owner(), reads=(namespace,), config=plain).queue == "default-queue"


def test_a_named_priority_class_counts_only_if_it_exists(make, grouped, owner):
    top, member = owner(labels={"priorityClassName": "rush"}), make.pod()
    assert grouped(member, top).priority_class == "train"
    assert grouped(member, top, reads=(make.priority_class("rush"),)).priority_class == "rush"


def test_priority_class_of_owner_before_pod_label_before_pod_spec(make, grouped, owner):
    classes = tuple(map(make.priority_class, ("a", "b", "c")))
    member = make.pod(labels={"priorityClassName": "b"})
    member["spec"]["priorityClassName"] = "c"
    assert grouped(member, owner(labels={"priorityClassName": "a"}), reads=classes).priority_class == "a"
    assert grouped(member, owner(), reads=classes).priority_class == "b"
    del member["metadata"]["labels"]
    assert grouped(member, owner(), reads=classes).priority_class == "c"


def defaults(*entries, text=None):
    data = {"types": json.dumps(entries) if text is None else text}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "d", "namespace": "kai"},
        "data": data,
    }


WITH_DEFAULTS = GroupingConfig(defaults_configmap=("kai", "d"))


def test_defaults_by_kind(make, grouped, owner):
    by_kind = {"typeName": "StatefulSet", "priorityName": "plain", "preemptibility": "Non-Preemptible"}
    by_group = {"typeName": "StatefulSet", "group": "apps", "priorityName": "exact"}
    classes = (make.priority_class("plain"), make.priority_class("exact"))
    some = grouped(make.pod(), owner(), reads=(defaults(by_kind), *classes), config=WITH_DEFAULTS)
    assert (some.priority_class, some.preemptibility) == ("plain", "non-preemptible")
    both = grouped(make.pod(), owner(), reads=(defaults(by_kind, by_group), *classes), config=WITH_DEFAULTS)
    assert (both.priority_class, both.preemptibility) == ("exact", "")


@pytest.mark.parametrize("text", ["", "{", "3", '{"a": 1}', "[1]", '[{"typeName": 3}]'])
def test_defaults_that_cannot_be_read_are_as_good_as_none(make, grouped, owner, text):
    grouping = grouped(make.pod(), owner(), reads=(defaults(text=text),), config=WITH_DEFAULTS)
    assert (grouping.priority_class, grouping.preemptibility) == ("train", "")


def test_preemptibility_of_owner_before_pod_and_nonsense_is_passed_over(make, grouped, owner):
    key = "kai.scheduler/preemptibility"
    member = make.pod(labels={key: "preemptible"})
    assert grouped(member, owner(labels={key: "non-preemptible"})).preemptibility == "non-preemptible"
    assert grouped(member, owner(labels={key: "perhaps"})).preemptibility == "preemptible"
    assert grouped(make.pod(), owner()).preemptibility == ""


DURATIONS = [
    ("kai.scheduler/preemption-delay", "90s", "preemption_delay", "1m30s"),
    ("kai.scheduler/preemption-delay", "-1s", "preemption_delay", None),
    ("kai.scheduler/preemption-delay", "soon", "preemption_delay", None),
    ("kai.scheduler/staleness-grace-period", "5m", "staleness_grace_period", "5m0s"),
    ("kai.scheduler/staleness-grace-period", "-1s", "staleness_grace_period", "-1s"),
]


@pytest.mark.parametrize(("key", "text", "field", "expected"), DURATIONS)
def test_durations(make, grouped, owner, key, text, field, expected):
    assert getattr(grouped(make.pod(), owner(annotations={key: text})), field) == expected
    assert getattr(grouped(make.pod(annotations={key: text}), owner()), field) == expected


def test_topology_is_asked_for_on_the_owner(make, grouped, owner):
    annotations = {
        "kai.scheduler/topology": "racks",
        "kai.scheduler/topology-required-placement": "rack",
        "kai.scheduler/topology-preferred-placement": "node",
    }
    expected = PlannedTopology("racks", required_level="rack", preferred_level="node")
    assert grouped(make.pod(), owner(annotations=annotations)).topology == expected
    assert grouped(make.pod(annotations=annotations), owner()).topology == PlannedTopology()


def test_in_a_chain_the_nearest_owner_speaks_first(make, grouped):
    near = make.thing("example.com/v1", "Step", "s", labels={"kai.scheduler/preemptibility": "preemptible"})
    far = make.thing("example.com/v1", "Flow", "f", labels={"kai.scheduler/preemptibility": "non-preemptible"})
    grouping = grouped(make.pod(), near, far)
    assert grouping.preemptibility == "preemptible"
    assert grouping.name == "pg-f-uid-flow-f"


@example("0_.")
@given(st.text("abcxyeE0123456789.-:_~ #", max_size=12))
def test_the_top_owner_annotation_reads_back_as_yaml(name):
    owner = {"apiVersion": "apps/v1", "kind": "No", "metadata": {"name": name, "uid": "1e3"}}
    expected = {"name": name, "uid": "1e3", "group": "apps", "version": "v1", "kind": "No"}
    assert yaml.safe_load(top_owner_metadata(owner)) == expected
