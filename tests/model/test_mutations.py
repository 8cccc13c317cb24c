"""Loaders fed with damaged manifests: an answer or a KailabError, never anything else."""

from __future__ import annotations

import copy

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kailab.errors import KailabError
from kailab.model.defaults import apply_defaults
from kailab.model.kinds import kind_key
from kailab.model.manifests import from_objects, load_text
from kailab.model.queues import check_queue_tree
from kailab.model.yamltext import write_documents
from kailab.scheduler.reading.nodes import node_record
from kailab.scheduler.reading.podgroups import PriorityClasses, podgroup_record
from kailab.scheduler.reading.queues import queue_record
from kailab.scheduler.reading.shapes import ShapeCache

READERS = {
    "Pod": lambda pod: ShapeCache().of(pod),
    "Node": node_record,
    "Queue": queue_record,
    "PodGroup": lambda group: podgroup_record(group, PriorityClasses(), {}),
}

TEMPLATE = {
    "metadata": {"labels": {"app": "x"}, "annotations": {"gpu-fraction": "0.5"}},
    "spec": {
        "schedulerName": "kai-scheduler",
        "restartPolicy": "Never",
        "nodeSelector": {"a": "b"},
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]
                },
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 1, "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}
                ],
            },
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "a", "labelSelector": {"matchLabels": {"app": "x"}}}
                ]
            },
        },
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": 1, "memory": "1Gi"}}}],
    },
}
SERVING = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "restartPolicy": "Always"}}
SEEDS = [
    {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", **TEMPLATE["metadata"]}, "spec": TEMPLATE["spec"]},
    {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"parallelism": 2, "template": TEMPLATE}},
    {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "x"}}, "template": SERVING},
    },
    {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "t"},
        "spec": {"pytorchReplicaSpecs": {"Master": {"replicas": 1, "template": TEMPLATE}}},
    },
    {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "l"},
        "spec": {"replicas": 1, "leaderWorkerTemplate": {"size": 2, "workerTemplate": TEMPLATE}},
    },
    {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": "r"},
        "spec": {"headGroupSpec": {"template": TEMPLATE}, "workerGroupSpecs": [{"replicas": 1, "template": TEMPLATE}]},
    },
    {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": "q"},
        "spec": {
            "parentQueue": "root",
            "priority": 100,
            "preemptMinRuntime": "5m",
            "resources": {"gpu": {"quota": 1, "limit": -1, "overQuotaWeight": 1}, "cpu": {"quota": 0.5}},
        },
    },
    {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "g"},
        "spec": {"minSubGroup": 1, "subGroups": [{"name": "a", "minMember": 1}, {"name": "b", "minMember": 2}]},
    },
    {
        "apiVersion": "kai.scheduler/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": "t"},
        "spec": {"levels": [{"nodeLabel": "rack"}, {"nodeLabel": "kubernetes.io/hostname"}]},
    },
    {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n"},
        "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]},
        "status": {"capacity": {"cpu": 1}, "allocatable": {"cpu": 1}, "conditions": [{"type": "Ready", "status": "True"}]},
    },
    {"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}]},
]  # fmt: skip
ODD = [
    None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, -(2**63), 10**400, 0.5, -0.5, 1e308, float("inf"), float("nan"), "", " ", "x",
    "-1", "1e99", "1Zi", "NaN", "9" * 100, "a/b/c", "é", "\x00", "\ud800", "0.5", "5m", "true", [], [[]], [None], {}, {"": ""},
    {"a": None}, ["x"], [3], {"x": {"y": []}}, "x" * 300, "Exists", "In",
]  # fmt: skip
BYTES = ":-[]{}&*!|>'\"%@`#,? \n\t\r\0~<=\\"


def places(value, path=()):
    """Every place in a tree."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*path, key))


def damaged(seed, where, how, odd):
    """A copy of an object with one place replaced, removed, doubled or renamed."""
    obj = copy.deepcopy(seed)
    spots = [path for path in places(obj) if path]
    path = spots[where % len(spots)]
    parent = obj
    for key in path[:-1]:
        parent = parent[key]
    key = path[-1]
    if how == 0:
        parent[key] = odd
    elif how == 1:
        del parent[key]
    elif how == 2:
        parent[key] = [parent[key], parent[key]]
    elif isinstance(parent, dict):
        parent[str(odd)[:300]] = parent.pop(key)
    else:
        parent.append(odd)
    return obj


def digest(objects):
    """All that happens to objects on their way in."""
    manifests = from_objects(objects)
    check_queue_tree([m for m in manifests if m.kind == "Queue"])
    for manifest in manifests:
        filled = apply_defaults(manifest.object, manifest.kind)
        if manifest.kind in READERS:
            # What passed validation can be read, once a server has given it a name and a uid.
            READERS[manifest.kind]({**filled, "metadata": {"name": "x", **filled["metadata"], "uid": "u"}})
    return manifests


def answered(call):
    """What a call gives; None where it says, in words, what is wrong. Any other exception goes through."""
    try:
        return call()
    except KailabError as error:
        said = str(error)
    assert said
    return None


mutations = st.tuples(st.integers(0, 10**6), st.integers(0, 3), st.sampled_from(ODD))


def check_objects(seed, steps):
    for step in steps:
        seed = damaged(seed, *step) if isinstance(seed, dict) and seed else seed
    manifests = answered(lambda: digest([seed]))
    if manifests is not None:
        assert load_text(write_documents(manifests.objects)).objects == manifests.objects


def check_text(seed, cuts):
    text = write_documents([seed])
    for at, length, insert in cuts:
        at %= len(text) + 1
        text = text[:at] + insert + text[at + length :]
    answered(lambda: digest(load_text(text).objects))


edits = st.tuples(st.integers(0, 10**6), st.integers(0, 6), st.text(BYTES, max_size=4))


@given(st.sampled_from(SEEDS), st.lists(mutations, min_size=1, max_size=3))
@settings(max_examples=300)
def test_damaged_objects(seed, steps):
    check_objects(seed, steps)


@given(st.sampled_from(SEEDS), st.lists(edits, min_size=1, max_size=4))
@settings(max_examples=200)
def test_damaged_text(seed, cuts):
    check_text(seed, cuts)


@given(st.one_of(st.text(), st.text(BYTES + "ab1"), st.binary().map(lambda data: data.decode("latin-1"))))
@settings(max_examples=200)
def test_any_text(text):
    answered(lambda: load_text(text))


@pytest.mark.slow
@given(st.sampled_from(SEEDS), st.lists(mutations, min_size=1, max_size=5), st.lists(edits, max_size=6))
@settings(max_examples=1500, suppress_health_check=list(HealthCheck))
def test_thousands_of_damaged_manifests(seed, steps, cuts):
    check_objects(seed, steps)
    check_text(seed, cuts)


@pytest.mark.slow
def test_every_place_of_every_object_with_every_odd_value():
    for seed in SEEDS:
        for where in range(sum(1 for _ in places(seed)) - 1):
            for odd in ODD:
                check_objects(seed, [(where, 0, odd)])
            for how in (1, 2, 3):
                check_objects(seed, [(where, how, "x")])


def test_the_seeds_themselves_are_sound():
    for seed in SEEDS:
        assert kind_key(seed)
        assert digest([copy.deepcopy(seed)])
