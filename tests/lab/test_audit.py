"""An audit of the whole queue tree: each finding where it is true, none where nothing is wrong."""

from __future__ import annotations

import pytest

from kailab.advice.audit import Audit, audit
from kailab.advice.findings import AuditFinding, FindingCode, Severity
from kailab.engine.report.unplaceable import unplaceable_groups
from kailab.lab import Lab
from kailab.lab.lab_changes import summarize_pods
from kailab.scheduler.scheduling_state import SchedulingStateReader


@pytest.fixture
def lab():
    with Lab.open() as lab:
        yield lab


RING = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "PyTorchJob",
    "metadata": {"name": "ring", "labels": {"kai.scheduler/queue": "a"}},
    "spec": {
        "pytorchReplicaSpecs": {
            "Worker": {
                "template": {"spec": {"schedulerName": "kai-scheduler", "containers": [{"name": "c", "image": "x"}]}}
            }
        }
    },
}
"""KAI's grouper refuses workers without replicas."""


def found(lab, code: FindingCode) -> list[AuditFinding]:
    return [one for one in audited(lab).findings if one.code is code]


def audited(lab) -> Audit:
    return audit(lab)


def test_a_cluster_in_which_nothing_is_wrong(lab, queue, job):
    lab.apply(queue("a", 16), queue("b", 16), job("one", "a", 16), job("two", "b", 16))
    lab.settle()
    assert audited(lab) == Audit(queues=lab_queues(lab), findings=(), waits=())


def lab_queues(lab) -> int:
    return len(lab.get("queue"))


def test_a_starved_queue_and_what_blocks_the_return(queue, job):
    protected = queue("a", 8)
    protected["spec"]["reclaimMinRuntime"] = "1h"
    with Lab.open() as lab:
        lab.apply(protected, queue("b", 24), job("work", "a", 32, gang=True))
        lab.settle()
        begun = lab.now
        lab.apply(job("back", "b", 20, gang=True))
        lab.settle()
        (one,) = found(lab, FindingCode.STARVED)
        assert one.severity is Severity.ERROR
        assert one.objects == ("queue/b", "queue/a")
        assert one.numbers["owed"] == 20_000
        (pair,) = one.numbers["from"]
        assert (pair["beside"], pair["beyond"], pair["young"], pair["now"]) == ("a", 24_000, 32_000, 0)
        assert begun - 60 <= pair["young_last"] - 3600 <= begun
        assert (
            "b holds 0 GPUs; its quota of 24 GPUs entitles it to 20 GPUs, and its waiting work asks for 20 GPUs."
            in one.sentence
        )
        assert "a holds 24 GPUs beyond its own: 32 GPUs of a are protected by a minimum runtime until" in one.sentence
        (borrower,) = found(lab, FindingCode.BORROWING)
        assert borrower.numbers["from"] == {"b": 24_000}
        assert "its return is prevented by: 32 GPUs of a are protected" in borrower.sentence
        lab.advance(3601)
        assert not found(lab, FindingCode.STARVED)


def test_below_its_fair_share_only_is_a_warning(queue, job):
    with Lab.open(config={"actions": "allocate"}) as lab:
        lab.apply(queue("a", 0), queue("b", 0), job("work", "a", 32))
        lab.settle()
        lab.apply(job("more", "b", 20))
        lab.settle()
        (one,) = found(lab, FindingCode.STARVED)
        assert (one.severity, one.numbers["owed"]) == (Severity.WARNING, 16_000)
        assert "this scheduler does not reclaim" in one.sentence


def test_a_queue_that_is_owed_through_its_parent(lab, queue, job):
    firm = {"priorityClassName": "build"}
    lab.apply(queue("org-a", 32), queue("a", 32, parent="org-a"), job("firm", "a", 32, labels=firm))
    lab.settle()
    lab.apply(queue("org-b", 8), queue("b", 8, parent="org-b"), job("work", "b", 8))
    lab.settle()
    (one,) = found(lab, FindingCode.STARVED)
    assert one.numbers["from"] == []
    assert "PodSchedulingErrors" in one.sentence
    (beyond,) = found(lab, FindingCode.QUOTA_BEYOND_CAPACITY)
    assert (beyond.numbers["promised"], beyond.numbers["bound"]) == (40_000, 32_000)


def test_idle_quota(lab, queue, job):
    lab.apply(queue("a", 8), queue("b", 24), job("work", "a", 12), job("little", "b", 2))
    lab.settle()
    (one,) = found(lab, FindingCode.IDLE_QUOTA)
    assert one.objects == ("queue/b",)
    assert dict(one.numbers) == {"quota": 24_000, "allocated": 2_000, "lent": 4_000, "idle": 18_000}


def test_quotas_of_children_beyond_their_parents_in_any_resource(lab, queue):
    a, b, org = queue("a", 6, parent="org"), queue("b", 6, parent="org"), queue("org", 8)
    for one, cpu in ((a, 1000), (b, 3000), (org, 3500)):
        one["spec"]["resources"]["cpu"] = {"quota": cpu, "limit": -1, "overQuotaWeight": 1}
    lab.apply(org, a, b)
    lab.settle()
    both = {one.numbers["resource"]: one for one in found(lab, FindingCode.QUOTA_BEYOND_CAPACITY)}
    assert {name: (one.numbers["promised"], one.numbers["bound"]) for name, one in both.items()} == {
        "GPU": (12_000, 8_000),
        "CPU": (4_000, 3_500),
    }
    assert both["GPU"].objects == ("queue/org", "queue/a", "queue/b")
    assert (
        "GPU quotas below org add up to 12 GPUs; the quota of org is 8 GPUs (a 6 GPUs, b 6 GPUs)."
        in both["GPU"].sentence
    )
    lab.apply(queue("a", -1, parent="org"))
    endless = next(one for one in found(lab, FindingCode.QUOTA_BEYOND_CAPACITY) if one.numbers["resource"] == "GPU")
    assert endless.numbers["promised"] == -1


def bare(name: str, parent: str = "", labels: dict | None = None) -> dict:
    spec = {"parentQueue": parent} if parent else {}
    metadata = {"name": name, "labels": labels or {}}
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": metadata, "spec": spec}


def test_queues_that_can_run_nothing(lab, queue, job):
    pooled = queue("pooled", 4)
    pooled["metadata"]["labels"] = {"kai.scheduler/node-pool": "h100"}
    lab.apply(bare("bare"), queue("zero", 4, limit=0), queue("lost", 4, parent="nowhere"), pooled)
    lab.apply(queue("org", 8), queue("leaf", 8, parent="org"))
    lab.settle()
    codes = {
        one.objects[0]: one.code
        for one in audited(lab).findings
        if one.severity is Severity.WARNING and one.code is not FindingCode.QUOTA_BEYOND_CAPACITY
    }
    assert codes == {
        "queue/bare": FindingCode.QUEUE_HAS_NO_RESOURCES,
        "queue/zero": FindingCode.LIMIT_ZERO,
        "queue/lost": FindingCode.QUEUE_PARENT_MISSING,
        "queue/pooled": FindingCode.NODE_POOL_NOT_SERVED,
    }
    lab.apply(job("one", "bare", 1), job("two", "zero", 1), job("three", "lost", 1), job("four", "org", 1))
    lab.apply(job("five", "nosuch", 1))
    lab.settle()
    errors = {one.objects[0]: one.code for one in audited(lab).findings if one.severity is Severity.ERROR}
    assert errors == {
        "queue/bare": FindingCode.QUEUE_HAS_NO_RESOURCES,
        "queue/zero": FindingCode.LIMIT_ZERO,
        "queue/lost": FindingCode.QUEUE_PARENT_MISSING,
        "queue/org": FindingCode.QUEUE_NOT_LEAF,
        "queue/nosuch": FindingCode.QUEUE_MISSING,
    }


def test_a_ring_of_parents(lab, queue):
    lab.apply(queue("b", 4), queue("a", 4, parent="b"), queue("leaf", 4, parent="b"))
    lab.cluster.patch(
        "Queue", "b", None, {"spec": {"parentQueue": "a"}}
    )  # nobody can apply it, but an API server takes it
    lab.settle()
    one = next(one for one in found(lab, FindingCode.QUEUE_PARENT_MISSING) if one.objects == ("queue/leaf",))
    assert "its parents form a cycle" in one.sentence


def test_work_that_no_emptied_cluster_holds(lab, queue, job):
    lab.apply(queue("team", -1), job("filler", "team", 32), job("fits", "team", 20, gang=True))
    lab.apply(job("gang", "team", 33, gang=True), job("wide", "team", 1, gpus=9), job("wide-too", "team", 1, gpus=9))
    lab.settle()
    told = {one.numbers["gpu"]: one for one in found(lab, FindingCode.FITS_NOWHERE)}
    assert sorted(told) == [9_000, 33_000]
    assert told[33_000].numbers["placed"] == 32
    assert told[33_000].numbers["cause"] == "LargerThanTheFleet"
    assert "would not fit on the empty cluster either. Its 33 pods must start together" in told[33_000].sentence
    assert told[9_000].numbers["cause"] == "LargerThanAnyNode"
    assert told[9_000].numbers["groups"] == 2
    assert len(told[9_000].objects) == 2


def test_nobody_starves_whose_own_work_can_not_run(lab, queue, job):
    """It waits within its quota, and no share would help: it fits nowhere, or lacks pods."""
    incomplete = job("short", "team", 2, annotations={"kai.scheduler/batch-min-member": "3"})
    lab.apply(queue("team", 32), queue("other", 0), job("wide", "team", 1, gpus=9), incomplete, job("work", "other", 4))
    lab.settle()
    assert not found(lab, FindingCode.STARVED)
    (one,) = found(lab, FindingCode.FITS_NOWHERE)
    assert "wide" in one.objects[0]


def test_nobody_starves_whose_own_limit_is_in_the_way(lab, queue, job):
    """It holds 6 of its limit of 8; what waits wants more than the rest."""
    lab.apply(queue("team", 8, limit=8), job("runs", "team", 6), job("waits", "team", 4, gang=True))
    lab.settle()
    assert lab.picture().waiting()
    assert not found(lab, FindingCode.STARVED)


def test_the_quota_of_a_queue_without_a_root_counts_nowhere(lab, queue):
    lab.apply(queue("lost", 400, parent="nowhere"), queue("team", 32))
    lab.settle()
    assert not found(lab, FindingCode.QUOTA_BEYOND_CAPACITY)


def test_a_gang_larger_than_any_domain(lab, queue, job):
    fleet_labels = {key for node in lab.get("node") for key in node["metadata"]["labels"]}
    level = "kubernetes.io/hostname"
    assert level in fleet_labels
    lab.apply(
        {
            "apiVersion": "kai.scheduler/v1alpha1",
            "kind": "Topology",
            "metadata": {"name": "floor"},
            "spec": {"levels": [{"nodeLabel": level}]},
        }
    )
    where = {"kai.scheduler/topology": "floor", "kai.scheduler/topology-required-placement": level}
    lab.apply(queue("team", -1), job("big", "team", 9, gang=True, annotations=where))
    lab.apply(job("filler", "team", 30), job("small", "team", 8, gang=True, annotations=where))
    lab.settle()
    (one,) = found(lab, FindingCode.FITS_NOWHERE)
    assert "big" in one.objects[0]
    assert one.sentence.startswith("Job default/big (9 pods that start together, 9 GPUs) would not fit")
    assert one.numbers["cause"] == "LargerThanAnyDomain"
    assert "the largest kubernetes.io/hostname" in one.sentence


def test_queues_by_how_long_their_work_waits(lab, queue, job):
    lab.apply(queue("full", 32, limit=32), job("filler", "full", 32), queue("late", 4, limit=0))
    lab.settle()
    lab.apply(job("first", "full", 1))
    lab.settle()
    lab.advance(100)
    lab.apply(job("second", "late", 1), job("third", "full", 1))
    lab.settle()
    lab.advance(50)
    waits = audited(lab).waits
    assert [(one.queue, one.groups) for one in waits] == [("full", 2), ("late", 1)]
    assert waits[0].longest.startswith("default/pg-first-")
    assert waits[0].workload == "Job default/first"
    assert waits[0].seconds >= 150
    assert 50 <= waits[1].seconds < 100
    assert waits[1].seconds <= waits[0].p50 <= waits[0].p99 <= waits[0].seconds


def test_under_kube_scheduler_shares_are_not_judged(queue, job):
    with Lab.open(scheduler="kube-scheduler") as lab:
        lab.apply(queue("a", 8), queue("b", 24), job("work", "a", 40))
        lab.settle()
        told = audited(lab)
        assert not [one for one in told.findings if one.code in (FindingCode.STARVED, FindingCode.BORROWING)]
        assert "has no queues" in told.unknown[0]


def test_a_gang_within_a_domain_where_the_scheduler_keeps_no_mirror(queue, job):
    """Who only counts what queues hold need not look at topologies; who places work has to."""
    level = "kubernetes.io/hostname"
    where = {"kai.scheduler/topology": "floor", "kai.scheduler/topology-required-placement": level}
    with Lab.open() as lab:
        lab.apply({
            "apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology", "metadata": {"name": "floor"},
            "spec": {"levels": [{"nodeLabel": level}]},
        })  # fmt: skip
        lab.apply(queue("team", -1), job("filler", "team", 30), job("small", "team", 8, gang=True, annotations=where))
        lab.apply(job("big", "team", 9, gang=True, annotations=where))
        lab.settle()
        reader = SchedulingStateReader(lab.cluster, lab.config, None, ["kai-scheduler"])
        moment = reader.scheduling_state().cycle_input()
        (one,) = unplaceable_groups(moment.snapshot, moment.config, moment.now)
        assert reader.scheduling_state().podgroup(one.podgroups[0]).startswith("default/pg-big")
        reader.close()


def test_a_limit_that_was_lowered_under_what_runs(lab, queue, job):
    lab.apply(queue("a", 16), job("work", "a", 8))
    lab.settle()
    assert not found(lab, FindingCode.ABOVE_LIMIT)
    lab.apply(queue("a", 16, limit=4))
    lab.settle()
    (one,) = found(lab, FindingCode.ABOVE_LIMIT)
    assert (one.objects, one.numbers["allocated"], one.numbers["limit"]) == (("queue/a",), 8000, 4000)
    assert "a holds 8 GPUs, above its limit of 4 GPUs" in one.sentence


def test_a_quota_that_was_lowered_under_what_nobody_may_take_back(lab, queue, job):
    lab.apply(
        queue("a", 16), queue("b", 16), job("firm", "a", 6, labels={"priorityClassName": "build"}), job("soft", "b", 16)
    )
    lab.settle()
    lab.apply(queue("a", 2), queue("b", 2))
    lab.settle()
    (one,) = found(lab, FindingCode.NON_PREEMPTIBLE_ABOVE_QUOTA)
    assert one.severity is Severity.WARNING
    assert "a holds 6 GPUs of non-preemptible work, above its quota of 2 GPUs" in one.sentence


def test_pods_of_a_scheduler_that_is_not_there_are_an_error(lab, queue, job):
    lost = job("lost", "a", 2)
    del lost["spec"]["template"]["spec"]["schedulerName"]
    lab.apply(queue("a", 16), lost)
    lab.settle()
    (one,) = found(lab, FindingCode.SCHEDULER_MISSING)
    assert one.severity is Severity.ERROR
    assert "2 pods" in one.sentence
    assert "default-scheduler" in one.sentence
    assert summarize_pods(lab) == "2 pods pending (2 OtherScheduler)"


def test_pods_that_name_no_scheduler_are_all_right_where_they_are_adopted(queue, job):
    lost = job("lost", "a", 2)
    del lost["spec"]["template"]["spec"]["schedulerName"]
    with Lab.open(adopt_default_scheduler=True) as lab:
        lab.apply(queue("a", 16), lost)
        lab.settle()
        assert not found(lab, FindingCode.SCHEDULER_MISSING)


def test_pods_that_can_t_be_grouped_are_an_error(lab, queue, job):
    lone = job("lone", "a", 1)["spec"]["template"]
    lone = {
        "apiVersion": "v1",
        "kind": "Pod",
        **lone,
        "metadata": {"name": "lone", "annotations": {"pod-group-name": "absent"}},
    }
    lab.apply(queue("a", 16), RING, lone)
    lab.settle()
    first, second = found(lab, FindingCode.NOT_GROUPED)
    assert {first.severity, second.severity} == {Severity.ERROR}
    text = f"{first.sentence}\n{second.sentence}"
    assert "replicas" in text
    assert "default/absent" in text


def test_work_for_which_nothing_makes_pods_is_not_passed_over_in_silence() -> None:
    template = {"spec": {"containers": [{"name": "c", "image": "x"}]}}
    run = {"apiVersion": "tekton.dev/v1", "kind": "PipelineRun", "metadata": {"name": "run"}, "spec": {}}
    task = {**run, "kind": "TaskRun", "metadata": {"name": "task"}}
    owner = {"apiVersion": "tekton.dev/v1", "kind": "TaskRun", "name": "task", "controller": True}
    unknown = {"apiVersion": "x.io/v1", "kind": "Robot", "metadata": {"name": "r"}, "spec": {"template": template}}
    monitor = {"apiVersion": "x.io/v1", "kind": "Monitor", "metadata": {"name": "m"}, "spec": {}}
    with Lab.open("lesson") as lab:
        lab.apply([run, task, unknown, monitor])
        owner["uid"] = lab.get("TaskRun", "task")["metadata"]["uid"]
        metadata = {"name": "p", "ownerReferences": [owner]}
        lab.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]})
        (sentence,) = audit(lab).unknown
    assert "for PipelineRun default/run, Robot r, so" in sentence
