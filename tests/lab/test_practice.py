"""The practice checks: each rule has work that it finds and work that it leaves alone."""

from __future__ import annotations

from typing import Any

import pytest

from kailab.advice.practice import RULES, PracticeFinding, lint
from kailab.errors import InputError
from kailab.fleet.reading import load_fleet
from kailab.model.manifests import from_objects

UNBOUND = {"quota": -1, "limit": -1, "overQuotaWeight": 1}


def queue(name: str, quota: float = 8, limit: float = 16, parent: str = "") -> dict[str, Any]:
    gpu = {"quota": quota, "limit": limit, "overQuotaWeight": 1}
    spec = {"resources": {"gpu": gpu, "cpu": UNBOUND, "memory": UNBOUND}, **({"parentQueue": parent} if parent else {})}
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def job(name: str = "train", queue: str | None = "team", pods: int = 4, gpus: int = 1, **given: Any) -> dict[str, Any]:
    """A Job that practice has nothing against. ``given``: fields of its parts."""
    labels = {"app": name, **({"kai.scheduler/queue": queue} if queue else {}), **given.get("labels", {})}
    container = {"name": "c", "image": "train", "resources": {"limits": {"nvidia.com/gpu": gpus}}}
    spec = {
        "schedulerName": "kai-scheduler",
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 120,
        "containers": [container],
        **given.get("pod", {}),
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": labels, **given.get("metadata", {})},
        "spec": {
            "parallelism": pods,
            "completions": pods,
            "template": {"metadata": {"labels": labels}, "spec": {k: v for k, v in spec.items() if v is not None}},
            **given.get("spec", {}),
        },
    }


def gang(pods: int, **given: Any) -> dict[str, Any]:
    return job(pods=pods, metadata={"annotations": {"kai.scheduler/batch-min-member": str(pods)}}, **given)


def pod(name: str, size: str, index: str) -> dict[str, Any]:
    labels = {"kai.nvidia.com/job-id": "llama", "kai.nvidia.com/job-size": size, "kai.nvidia.com/job-index": index}
    spec = {"containers": [{"name": "c", "image": "train"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}


def priority_class(name: str, value: int) -> dict[str, Any]:
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}


def found(*objects: dict[str, Any], fleet: str = "lesson") -> list[PracticeFinding]:
    return lint(from_objects(objects), load_fleet(fleet) if fleet else None).findings


def rules(*objects: dict[str, Any], fleet: str = "lesson") -> set[str]:
    return {one.rule for one in found(*objects, fleet=fleet)}


FIELDLESS = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kai-scheduler"}}
STRANGE = {"apiVersion": "kai.nvidia.com/v1", "kind": "Quota", "metadata": {"name": "x"}, "spec": {}}
OLDER = {**queue("team"), "apiVersion": "scheduling.run.ai/v9"}

FAULTS: list[tuple[str, list[dict[str, Any]]]] = [
    ("no-queue", [queue("team"), job(queue=None)]),
    ("queue-missing", [queue("team"), job(queue="tame")]),
    ("queue-not-leaf", [queue("team"), queue("below", parent="team"), job()]),
    ("parent-missing", [queue("team", parent="org")]),
    ("no-scheduler", [queue("team"), job(pod={"schedulerName": None})]),
    ("kais-namespace", [FIELDLESS, queue("team"), job(metadata={"namespace": "kai-scheduler"})]),
    ("queue-no-quota", [queue("team", quota=0)]),
    ("queue-no-limit", [queue("team", limit=-1)]),
    ("queue-endless-quota", [queue("team", quota=-1)]),
    ("quota-over-parent", [queue("org"), queue("team", quota=9, parent="org")]),
    ("children-over-parent", [queue("org"), queue("a", quota=5, parent="org"), queue("b", quota=5, parent="org")]),
    ("quotas-over-share", [queue("a", quota=12), queue("b", quota=12)]),
    ("quotas-over-share", [queue("root", quota=-1), queue("a", quota=23, limit=24, parent="root")]),
    ("pod-over-node", [queue("team"), job(gpus=9)]),
    ("gang-over-cluster", [queue("team", limit=40), gang(33, spec={"backoffLimit": 100})]),
    ("gang-over-limit", [queue("team"), gang(17, spec={"backoffLimit": 100})]),
    ("gang-over-limit", [queue("org", limit=8), queue("team", quota=4, parent="org"), gang(3, gpus=3)]),
    ("gang-over-limit", [queue("team", quota=2, limit=4), job(gpus=5)]),
    (
        "non-preemptible-over-quota",
        [queue("team"), gang(9, labels={"kai.scheduler/preemptibility": "non-preemptible"})],
    ),
    ("class-non-preemptible", [priority_class("background", 100)]),
    ("many-classes", [priority_class(f"p{value}", value) for value in range(10, 70, 10)]),
    ("gang-labels", [pod("a", "3", "0"), pod("b", "3", "1"), pod("c", "4", "2")]),
    ("gang-labels", [pod("a", "3", "0"), pod("b", "3", "1")]),
    ("gang-labels", [pod("a", "2", "0"), pod("b", "2", "0")]),
    ("no-grace", [queue("team"), job(pod={"terminationGracePeriodSeconds": None})]),
    ("evictions-end-job", [queue("team"), job(pods=7)]),
    ("ignored-by-kai", [{**priority_class("low", 10), "preemptionPolicy": "Never"}]),
    ("not-meant", [queue("team", quota=17)]),
    ("unknown-kind", [STRANGE]),
    ("unknown-version", [OLDER]),
]
CLEAN: list[list[dict[str, Any]]] = [
    [queue("team"), job()],
    [queue("org", limit=-1), queue("team", parent="org", limit=16)],
    [queue("org", limit=16), queue("team", parent="org", limit=-1), gang(16, spec={"backoffLimit": 16})],
    [queue("team"), gang(8, labels={"kai.scheduler/preemptibility": "non-preemptible"}, spec={"backoffLimit": 8})],
    [priority_class("low", 10), priority_class("high", 99)],
    [{key: part for key, part in priority_class("zero", 0).items() if key != "value"}],
    [pod("a", "2", "0"), pod("b", "2", "1")],
    [queue("team"), job(pods=7, spec={"backoffLimit": 7})],
]


@pytest.mark.parametrize(("rule", "objects"), FAULTS, ids=[rule for rule, _ in FAULTS])
def test_what_goes_against_a_rule_is_found(rule: str, objects: list[dict[str, Any]]) -> None:
    mine = [one for one in found(*objects) if one.rule == rule]
    assert mine
    assert all(one.why and one.cure and one.where.object for one in mine)


@pytest.mark.parametrize("objects", CLEAN, ids=range(len(CLEAN)))
def test_good_manifests_are_clean(objects: list[dict[str, Any]]) -> None:
    assert found(*objects) == []


def test_each_rule_has_a_case() -> None:
    assert {rule for rule, _ in FAULTS} == set(RULES)


def test_a_finding_has_its_place_and_the_numbers() -> None:
    (one,) = found(queue("team"), gang(17, spec={"backoffLimit": 100}))
    assert (one.where.object, one.where.field) == ("Job/train", "spec.template.spec.containers")
    assert one.why == "17 pods that start together ask for 17 GPUs; queue team has a limit of 16 GPUs"


def test_without_a_fleet_nothing_is_said_of_its_size() -> None:
    objects = [queue("team", quota=900, limit=1000), job(gpus=9), gang(33, spec={"backoffLimit": 100})]
    objects[1]["metadata"]["name"] = "wide"  # one name twice would be bad input
    assert rules(*objects) >= {"pod-over-node", "gang-over-cluster", "quotas-over-share"}
    assert rules(*objects, fleet="") == set()


def test_a_class_is_told_where_it_is_and_not_again_where_it_is_used() -> None:
    used = job(pod={"priorityClassName": "background"})
    both = [one for one in found(queue("team"), priority_class("background", 100), used) if "non-pre" in one.rule]
    assert [one.where.object for one in both] == ["PriorityClass/background"]


def test_what_can_not_be_judged_is_said() -> None:
    shared = job(pod={"containers": [{"name": "c", "image": "train"}]})
    shared["spec"]["template"]["metadata"]["annotations"] = {"gpu-fraction": "0.5"}
    done = lint(from_objects([queue("team"), shared]))
    assert done.unknown == ["Job/train: not judged as a gang: part of a GPU"]


def test_queues_that_no_cluster_takes_are_bad_input() -> None:
    with pytest.raises(InputError, match="cycle"):
        found(queue("a", parent="b"), queue("b", parent="a"))


def test_work_for_gpus_that_is_nobodys_is_found() -> None:
    article = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "article", "labels": {"kai.nvidia.com/queue": "team"}},
        "spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 2, "template": {"spec": {"containers": [
            {"name": "pytorch", "image": "x", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}}}}},
    }  # fmt: skip
    (one,) = [one for one in found(queue("team"), article) if one.rule == "no-scheduler"]
    assert one.where.field == "spec.pytorchReplicaSpecs.Worker.template.spec.schedulerName"
    assert "kai-scheduler" in one.why
    assert "kai.scheduler/queue" in one.why


def test_work_without_gpus_or_with_a_scheduler_of_its_own_is_left_to_others() -> None:
    web = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": [{"name": "a", "image": "x"}]}}  # fmt: skip
    gpu = {"limits": {"nvidia.com/gpu": 1}}
    other = {**web, "metadata": {"name": "other"}, "spec": {"schedulerName": "volcano", "containers": [{"name": "a", "image": "x", "resources": gpu}]}}  # fmt: skip
    assert "no-scheduler" not in rules(web, other)


def test_what_a_controller_made_is_checked_by_what_it_was_made_from() -> None:
    """The output of kubectl get has a Job and its pods; pods whose owner is not there are checked themselves."""
    owner = job(metadata={"uid": "job-1"}, pod={"terminationGracePeriodSeconds": None})
    template = owner["spec"]["template"]
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"train-{number}",
                "labels": template["metadata"]["labels"],
                "ownerReferences": [
                    {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "job-1", "controller": True}
                ],
            },
            "spec": template["spec"],
        }
        for number in range(4)
    ]

    def found(*objects: dict[str, Any]) -> list[str]:
        findings = lint(from_objects([queue("team"), *objects])).findings
        return [finding.where.object for finding in findings if finding.rule == "no-grace"]

    assert found(owner, *pods) == ["Job/train"]
    assert found(*pods[:2]) == ["Pod/train-0", "Pod/train-1"]
