"""The policy kinds of documents: what comes of them decides as they say, and each field is told."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kailab.advice.policykinds import KINDS, FieldVerdict, Translation, translate
from kailab.errors import InputError
from kailab.lab import Lab, expect
from kailab.model.manifests import from_objects
from kailab.scheduler.settings.config_file import settings_from


def policy(kind: str, name: str = "one", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "kai.nvidia.com/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def translated(*objects: dict[str, Any], gpus: int | None = None) -> Translation:
    return translate(from_objects(objects), None if gpus is None else Fraction(gpus))


def meanings(found: Translation) -> dict[str, Any]:
    return {field.given.path: field.meaning for field in found.fields}


def job(name: str, queue: str, pods: int) -> dict[str, Any]:
    labels = {"app": name, "kai.scheduler/queue": queue}
    container = {"name": "c", "image": "train", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    spec = {"schedulerName": "kai-scheduler", "restartPolicy": "Never", "containers": [container]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "parallelism": pods,
            "completions": pods,
            "backoffLimit": 1000,
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def amounts(found: Translation) -> dict[str, tuple[Any, Any]]:
    return {
        one["metadata"]["name"]: (one["spec"].get("parentQueue", ""), one["spec"]["resources"]["gpu"]["quota"])
        for one in found.objects
        if one["kind"] == "Queue"
    }


def test_quota_and_burst_are_quota_and_limit_in_a_lab() -> None:
    quota = policy("Quota", namespace="llm", guaranteedQuota={"gpus": 8, "maxPodsPerDay": 50}, burstQuota={"gpus": 4})
    found = translated(quota)
    assert meanings(found)["spec.guaranteedQuota.maxPodsPerDay"].verdict is FieldVerdict.NONE
    with Lab.open() as lab:
        lab.apply(found.objects)
        lab.apply(job("train", "llm", 20))
        expect(lab.queue("llm")).running(gpus=12)
        expect(lab.app("train")).pending(pods=8)


def test_a_quota_without_burst_is_a_limit_too() -> None:
    with Lab.open() as lab:
        lab.apply(translated(policy("Quota", namespace="llm", guaranteedQuota={"gpus": 8})).objects)
        lab.apply(job("train", "llm", 20))
        expect(lab.queue("llm")).running(gpus=8)


def test_weights_are_shares_of_the_cluster() -> None:
    children = [{"name": "llm", "weight": 60}, {"name": "vision", "weight": 40}]
    shares = policy(
        "ResourceQuota", hierarchy=[{"name": "a", "weight": 3, "children": children}, {"name": "b", "weight": 1}]
    )
    assert amounts(translated(shares, gpus=32)) == {
        "a": ("", 24),
        "llm": ("a", 14.4),
        "vision": ("a", 9.6),
        "b": ("", 8),
    }
    total = policy("KAISchedulerConfig", "cluster", clusterResources={"totalGpus": 32})
    assert (
        amounts(translated(shares, total)) == amounts(translated(total, shares)) == amounts(translated(shares, gpus=32))
    )
    untold = translated(shares)
    assert {quota for _, quota in amounts(untold).values()} == {0}
    assert "give --gpus" in meanings(untold)["spec.hierarchy[0].weight"].text


@given(st.lists(st.integers(1, 100), min_size=1, max_size=6), st.integers(1, 5000))
def test_shares_add_up(weights: list[int], gpus: int) -> None:
    nodes = [{"name": f"q{number}", "weight": weight} for number, weight in enumerate(weights)]
    found = amounts(translated(policy("ResourceQuota", hierarchy=nodes), gpus=gpus))
    assert sum(quota for _, quota in found.values()) == pytest.approx(gpus, abs=0.01)


def test_a_draining_policy_is_a_configuration() -> None:
    drain = policy(
        "QueueDrainingPolicy",
        selectionCriteria=[{"criterion": "priority-class", "weight": 0.4}, {"criterion": "wait-time", "weight": 0.6}],
        maxJobsPerDrainCycle=5,
    )
    order = translated(drain).configuration
    engine = settings_from(order).engine
    assert engine.weighted_order is not None
    assert (engine.weighted_order.priority, engine.weighted_order.waiting) == (0.4, 0.6)
    assert engine.queue_depth == settings_from({"queueDepthPerAction": {"allocate": 5}}).engine.queue_depth


def test_preemption_switched_off_leaves_the_loan_where_it_is() -> None:
    quotas = [
        policy("Quota", name, namespace=name, guaranteedQuota={"gpus": 16}, burstQuota={"gpus": 16}) for name in "ab"
    ]
    off = policy("PreemptionPolicy", "off", enabled=False)
    for policies, kept in (([], 16), ([off], 32)):
        found = translated(*quotas, *policies)
        with Lab.open(config=found.configuration) as lab:
            lab.apply([one for one in found.objects if one["kind"] == "Queue"])
            lab.apply(job("first", "a", 32))
            expect(lab.queue("a")).running(gpus=32)
            lab.apply(job("second", "b", 16))
            expect(lab.queue("a")).running(gpus=kept)


def test_placement_is_of_a_shard_and_two_take_two() -> None:
    pack, spread = (policy("SchedulingPolicy", name, strategyName=name) for name in ("bin-pack", "spread"))
    (one,) = translated(spread).objects
    assert (one["metadata"]["name"], one["spec"]) == ("default", {"placementStrategy": {"gpu": "spread"}})
    config = translated(spread).configuration
    with Lab.open(config=config) as lab:
        lab.apply(translated(policy("Quota", namespace="q", guaranteedQuota={"gpus": 32})).objects, job("j", "q", 4))
        expect(lab.app("j")).running(pods=4).spread_over(4)
    both = {one["metadata"]["name"]: one["spec"] for one in translated(pack, spread).objects}
    assert {name: spec["partitionLabelValue"] for name, spec in both.items()} == {
        "bin-pack": "bin-pack",
        "spread": "spread",
    }
    assert translated(pack, spread).configuration == {}


def test_an_order_of_preemption_is_classes_and_bounds() -> None:
    order = [
        {"name": "low", "priority": 50, "maxPreemptionsPerCycle": 3},
        {"name": "high", "priority": 1000, "maxPreemptionsPerCycle": 0},
    ]
    found = translated(policy("PreemptionPolicy", preemptionOrder=order, gracePeriodsSeconds=120))
    assert {one["metadata"]["name"]: one["value"] for one in found.objects} == {"low": 50, "high": 1000}
    engine = settings_from(found.configuration).engine
    assert dict(engine.max_evictions_by_priority) == {50: 3, 1000: 0}
    assert engine.checkpoint is not None
    assert engine.checkpoint.grace == 120
    told = meanings(found)
    assert "non-preemptible unless" in told["spec.preemptionOrder[1].priority"].text
    assert "non-preemptible" not in told["spec.preemptionOrder[0].priority"].text


def test_every_rule_is_reached_by_a_field() -> None:
    """Each pattern of the table is the pattern of the path that it is written for."""
    values: dict[str, Any] = {
        "algorithmName": "fair-share", "schedulingPolicy": "fair-share", "strategyName": "spread", "strategy": "SingleNode",
        "placementStrategy": "spread", "memory": "1Gi", "totalMemory": "1Gi", "namespace": "n", "criterion": "wait-time",
        "metricsEndpoint": "/metrics", "conditionRequired": "idle", "queueDrainingPolicy": "q", "name": "n", "gracePeriod": "30s",
        "memoryThreshold": "80%",
    }  # fmt: skip
    flags = ("Enabled", "enabled", "prefer", "Allowed", "enable", "timeWeighted", "spreadExclusive")
    for kind, rules in KINDS.items():
        for pattern in rules:
            *path, last = pattern.replace("hierarchy*", "hierarchy[]").split(".")
            value = values.get(last, any(word in last for word in flags) or 1)
            extra: dict[str, Any] = {"name": "n"} if last == "weight" and kind == "ResourceQuota" else {}
            extra |= {"weight": 1} if pattern == "hierarchy*.name" else {}
            extra |= {"criterion": "wait-time"} if pattern == "selectionCriteria[].weight" else {}
            extra |= {"name": "n", "priority": 1} if path == ["preemptionOrder[]"] else {}
            inside: Any = {**extra, last: value}
            for step in reversed(path):
                inside = {step.removesuffix("[]"): [inside] if step.endswith("[]") else inside}
            found = meanings(translated(policy(kind, **inside)))
            assert all("nor do the documents" not in one.text for one in found.values()), (kind, pattern)
            assert any(path.endswith(last) for path in found), (kind, pattern)


def test_a_field_that_no_document_has_is_told() -> None:
    found = meanings(translated(policy("Quota", namespace="a", boost={"by": 2})))
    assert found["spec.boost.by"].verdict is FieldVerdict.NONE


@pytest.mark.parametrize(
    ("spec", "what"),
    [
        ({"guaranteedQuota": {"gpus": "many"}}, "spec.guaranteedQuota.gpus: 'many': expected a number"),
        ({"guaranteedQuota": {"gpus": True}}, "spec.guaranteedQuota.gpus: True: expected a number"),
        ({"guaranteedQuota": {"gpus": -1}}, "expected a number of at least 0"),
        ({"guaranteedQuota": {"gpus": float("nan")}}, "."),
        ({"guaranteedQuota": 24}, "spec.guaranteedQuota: 24: expected what it holds field by field"),
        ({"guaranteedQuota": {"memory": "much"}}, "spec.guaranteedQuota.memory"),
        ({"preemptionAllowed": "no"}, "expected true or false"),
        ({"namespace": ""}, "spec.namespace: '': expected a text"),
        ({"namespace": "Not A Name"}, "Queue"),
    ],
)
def test_bad_values_are_refused(spec: dict[str, Any], what: str) -> None:
    with pytest.raises(InputError, match=what):
        translated(policy("Quota", **spec))


def test_what_contradicts_itself_is_refused() -> None:
    twice = [
        policy("Quota", name, namespace="llm", guaranteedQuota={"gpus": gpus}) for name, gpus in (("a", 8), ("b", 9))
    ]
    with pytest.raises(
        InputError, match=r"9 for queue llm gpu quota, where Quota/a: spec\.guaranteedQuota\.gpus wants 8"
    ):
        translated(*twice)
    known = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "low"}, "value": 10}
    with pytest.raises(InputError, match="expected 10, the value of the PriorityClass low"):
        translated(known, policy("PreemptionPolicy", preemptionOrder=[{"name": "low", "priority": 11}]))


def test_only_the_documents_kinds_are_taken() -> None:
    for objects in ([job("a", "q", 1)], [policy("Quotas", gpus=1)], [{**policy("Quota"), "spec": 3}]):
        with pytest.raises(InputError):
            translated(*objects)
    found = translated(policy("QueueMonitor", metricsEndpoint="/metrics"), job("a", "q", 1))
    assert [one.name for one in found.passed_over] == ["Job/a"]


def test_the_order_of_files_does_not_matter() -> None:
    policies = [
        policy("Quota", "a", namespace="a", guaranteedQuota={"gpus": 8}),
        policy("SchedulingPolicy", "p", strategyName="spread"),
        policy("ResourceQuota", "h", hierarchy=[{"name": "b", "weight": 1}]),
    ]
    found = [sorted(map(str, translated(*order, gpus=8).objects)) for order in itertools.permutations(policies)]
    assert all(one == found[0] for one in found)
