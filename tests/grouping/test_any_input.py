"""For any owner and pod the result is a complete grouping or a GroupingError, and always the same one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kailab.grouping import GroupingConfig, GroupingError, group_pod, podgroup_object
from kailab.model.kinds import KINDS

words = st.sampled_from(
    ["Worker", "Master", "Launcher", "replicas", "minReplicas", "template", "spec", "name", "annotations", "metadata"]
)
numbers = st.integers(-3, 12)
anything = st.recursive(
    st.none() | st.booleans() | numbers | st.just(0.5) | st.sampled_from(["", "3", "-1", "x", "InOrder", "w"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=4),
    max_leaves=12,
)
replica_specs = st.dictionaries(
    st.sampled_from(["Master", "Worker", "Launcher"]),
    st.fixed_dictionaries({"replicas": numbers | anything}, optional={"template": anything}) | anything,
    max_size=3,
)
few = st.integers(0, 4)
segmented = st.dictionaries(st.just("kai.scheduler/segment-size"), st.sampled_from(["2", "3", "0", "x"]))
some = st.fixed_dictionaries(
    {"replicas": few},
    optional={"template": st.fixed_dictionaries({"metadata": st.fixed_dictionaries({"annotations": segmented})})},
)
nearly_right = st.fixed_dictionaries(
    {
        "pytorchReplicaSpecs": st.fixed_dictionaries({"Worker": some}, optional={"Master": some}),
        "tfReplicaSpecs": st.fixed_dictionaries({"Worker": some}, optional={"PS": some}),
        "xgbReplicaSpecs": st.fixed_dictionaries({"Master": some, "Worker": some}),
        "jaxReplicaSpecs": st.fixed_dictionaries({"Worker": some}),
        "mpiReplicaSpecs": st.fixed_dictionaries({"Launcher": some, "Worker": some}),
        "replicatedJobs": st.lists(
            st.fixed_dictionaries({"name": st.sampled_from("wx"), "replicas": few}),
            min_size=1,
            max_size=2,
            unique_by=lambda each: each["name"],
        ),
        "workerGroupSpecs": st.lists(st.fixed_dictionaries({"replicas": few}), max_size=3),
        "leaderWorkerTemplate": st.fixed_dictionaries(
            {"size": st.integers(1, 9)},
            optional={"subGroupPolicy": st.fixed_dictionaries({"subGroupSize": st.integers(1, 5)})},
        ),
    },
    optional={"elasticPolicy": st.fixed_dictionaries({"minReplicas": few})},
)
specs = (
    nearly_right
    | anything
    | st.fixed_dictionaries(
        {},
        optional={
            "pytorchReplicaSpecs": replica_specs,
            "tfReplicaSpecs": replica_specs,
            "mpiReplicaSpecs": replica_specs,
            "launcherCreationPolicy": st.just("WaitForWorkersReady") | anything,
            "replicatedJobs": st.lists(anything, max_size=3) | anything,
            "workerGroupSpecs": st.lists(anything, max_size=3) | anything,
            "headGroupSpec": anything,
            "leaderWorkerTemplate": st.fixed_dictionaries({"size": numbers}, optional={"subGroupPolicy": anything}),
            "runPolicy": anything,
            "elasticPolicy": anything,
        },
    )
)
KEYS = [
    "kai.scheduler/batch-min-member",
    "kai.scheduler/segment-size",
    "kai.scheduler/preemption-delay",
    "kai.nvidia.com/job-id",
    "kai.nvidia.com/job-size",
    "training.kubeflow.org/replica-type",
    "training.kubeflow.org/replica-index",
    "leaderworkerset.sigs.k8s.io/worker-index",
    "leaderworkerset.sigs.k8s.io/group-index",
    "jobset.sigs.k8s.io/replicatedjob-name",
    "jobset.sigs.k8s.io/job-index",
    "ray.io/group",
    "project",
    "kai.scheduler/node-pool",
]
tags = st.dictionaries(
    st.sampled_from(KEYS), st.sampled_from(["0", "1", "2", "-1", "x", "", "worker", "w"]), max_size=8
)


class Echo:
    """An ObjectReader that returns an object of the requested kind with a spec of any shape, or None."""

    def __init__(self, spec):
        self._spec = spec

    def get(self, api_version, kind, namespace, name):
        if self._spec is None:
            return None
        identity = {"name": name, "namespace": namespace, "uid": "u-read"}
        return {"apiVersion": api_version, "kind": kind, "metadata": identity, "spec": self._spec}

    def list(self, api_version, kind, namespace, labels=None):
        found = self.get(api_version, kind, namespace, "x")
        return [] if found is None else [found]


@given(
    st.sampled_from([(kind.group, kind.kind) for kind in KINDS.values() if kind.grouping]),
    specs,
    tags,
    tags,
    tags,
    st.none() | specs,
)
def test_any_owner_and_pod(key, spec, labels, owner_annotations, pod_annotations, read):
    group_name, kind = key
    owner = {
        "apiVersion": f"{group_name}/v1" if group_name else "v1",
        "kind": kind,
        "metadata": {"name": "o", "namespace": "ns", "uid": "u-o", "annotations": owner_annotations},
        "spec": spec,
    }
    identity = {"name": "p", "namespace": "ns", "uid": "u-p"}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**identity, "labels": labels, "annotations": pod_annotations},
        "spec": {},
    }

    def ask():
        try:
            return group_pod(pod, [owner], Echo(read), GroupingConfig())
        except GroupingError as refusal:
            return str(refusal)

    first = ask()
    assert ask() == first
    if isinstance(first, str):
        assert first
        return
    obj = podgroup_object(first)
    assert obj["metadata"]["name"]
    assert ("minMember" in obj["spec"]) != ("minSubGroup" in obj["spec"])
    names = [each["name"] for each in obj["spec"].get("subGroups", ())]
    assert len(names) == len(set(names))
    for each in obj["spec"].get("subGroups", ()):
        assert each.get("parent", names[0]) in names
        assert ("minMember" in each) != ("minSubGroup" in each)
    assert sum("p" in each.pods for each in first.sub_groups) <= 1
