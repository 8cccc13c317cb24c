"""PodGroup objects, and the fields that survive an update."""

from __future__ import annotations

import msgspec
import pytest

from kailab.grouping import (
    Grouping,
    GroupingConfig,
    GroupOwner,
    PlannedSubGroup,
    PlannedTopology,
    keep_foreign_fields,
    podgroup_object,
)
from kailab.grouping.podgroup import updated_podgroup

CONFIG = GroupingConfig()


def grouping(**fields):
    owner = GroupOwner("batch/v1", "Job", "j", "u1")
    return Grouping("pg", "ns", "team", "train", owner, **fields)


def stored(made, **spec):
    """A PodGroup of the cluster, with fields that other components wrote into its spec."""
    obj = podgroup_object(made)
    metadata = {**obj["metadata"], "resourceVersion": "5", "uid": "x"}
    return {**obj, "metadata": metadata, "spec": {**obj["spec"], **spec}, "status": {"phase": "kept"}}


def test_a_podgroup_says_what_the_grouping_says():
    made = grouping(
        min_member=4,
        preemptibility="preemptible",
        preemption_delay="30s",
        staleness_grace_period="-1s",
        labels={"a": "b"},
        topology=PlannedTopology("racks", preferred_level="rack"),
        sub_groups=[PlannedSubGroup("w", min_sub_group=1), PlannedSubGroup("w-0", 4, parent="w", pods=("p",))],
    )
    assert podgroup_object(made) == {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {
            "name": "pg",
            "namespace": "ns",
            "labels": {"a": "b"},
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u1"}],
        },
        "spec": {
            "minMember": 4,
            "queue": "team",
            "priorityClassName": "train",
            "preemptibility": "preemptible",
            "preemptionDelay": "30s",
            "stalenessGracePeriod": "-1s",
            "topologyConstraint": {"topology": "racks", "preferredTopologyLevel": "rack"},
            "subGroups": [{"name": "w", "minSubGroup": 1}, {"name": "w-0", "minMember": 4, "parent": "w"}],
        },
    }


def test_min_sub_group_takes_the_place_of_min_member():
    spec = podgroup_object(grouping(min_member=0, min_sub_group=2))["spec"]
    assert spec["minSubGroup"] == 2
    assert "minMember" not in spec


@pytest.mark.parametrize(
    ("field", "value"), [("queue", "moved"), ("markUnschedulable", False), ("schedulingBackoff", -1)]
)
def test_what_others_wrote_survives(field, value):
    kept = keep_foreign_fields(stored(grouping(), **{field: value}), podgroup_object(grouping(min_member=9)), CONFIG)
    assert kept["spec"][field] == value
    assert kept["spec"]["minMember"] == 9


def test_a_topology_given_from_outside_survives_until_the_workload_names_one():
    outside = {"topology": "theirs", "requiredTopologyLevel": "zone"}
    old = stored(grouping(), topologyConstraint=outside)
    unnamed = podgroup_object(grouping(topology=PlannedTopology(preferred_level="rack")))
    named = podgroup_object(grouping(topology=PlannedTopology("ours", "rack")))
    assert keep_foreign_fields(old, unnamed, CONFIG)["spec"]["topologyConstraint"] == outside
    assert keep_foreign_fields(old, named, CONFIG)["spec"]["topologyConstraint"]["topology"] == "ours"


def test_the_node_pool_label_is_somebody_elses_also_when_it_is_absent():
    new = podgroup_object(grouping(labels={CONFIG.node_pool_label: "b", CONFIG.queue_label: "q2"}))
    old = stored(grouping(labels={CONFIG.node_pool_label: "a", CONFIG.queue_label: "q1"}))
    expected = {CONFIG.node_pool_label: "a", CONFIG.queue_label: "q1"}
    assert keep_foreign_fields(old, new, CONFIG)["metadata"]["labels"] == expected
    assert keep_foreign_fields(stored(grouping()), new, CONFIG)["metadata"]["labels"] == {CONFIG.queue_label: "q2"}


def test_a_podgroup_that_is_right_is_left_alone():
    made = grouping(min_member=2, labels={"a": "b"})
    old = stored(made, markUnschedulable=True, topologyConstraint={})
    old["metadata"]["labels"] = {"a": "b", "more": "labels"}
    assert updated_podgroup(old, made, CONFIG) is None


def test_an_update_keeps_foreign_labels_and_the_resource_version():
    old = stored(grouping(labels={"a": "b"}))
    old["metadata"]["labels"] = {"a": "b", "foreign": "yes"}
    new = updated_podgroup(old, grouping(min_member=3, labels={"a": "c"}), CONFIG)
    assert new["spec"]["minMember"] == 3
    assert new["metadata"]["labels"] == {"a": "c", "foreign": "yes"}
    assert new["metadata"]["resourceVersion"] == "5"
    assert new["status"] == {"phase": "kept"}
    assert old["spec"]["minMember"] == 1, "what a cluster hands out is not changed"


@pytest.mark.parametrize("fields", [{"controller": True}, {"controller": False, "blockOwnerDeletion": True}])
def test_a_podgroup_says_of_its_owner_all_that_was_given(fields):
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u1", **fields}
    made = grouping()
    made.owner = msgspec.convert(reference, GroupOwner)
    assert podgroup_object(made)["metadata"]["ownerReferences"] == [reference]
    assert updated_podgroup(stored(made), made, CONFIG) is None
    assert updated_podgroup(stored(grouping()), made, CONFIG)["metadata"]["ownerReferences"] == [reference]


def test_a_shared_podgroup_keeps_its_content_and_gains_owners():
    old = stored(grouping(min_member=4, shared=True))
    other = grouping(min_member=9, shared=True)
    other.owner = GroupOwner("v1", "Pod", "p", "u2")
    new = updated_podgroup(old, other, CONFIG)
    assert new["spec"] == old["spec"]
    assert [each["uid"] for each in new["metadata"]["ownerReferences"]] == ["u1", "u2"]
    assert updated_podgroup(new, other, CONFIG) is None
