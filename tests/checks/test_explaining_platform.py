"""Clusters of a platform team, and the judge of words, outcomes, numbers and screens: every lie is found."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace

import pytest
import yaml

from checks.explaining.ground_truth import without_others
from checks.explaining.judging import judge_situation
from checks.explaining.platform_cluster import SIZES, platform_situation
from checks.explaining.run import AREAS, run_seed, situation_of
from checks.explaining.screens import Screens
from checks.explaining.sentence_numbers import number_faults
from checks.explaining.situation import Situation
from checks.explaining.step_outcomes import outcome_faults
from checks.explaining.step_words import difference
from checks.explaining.workloads import KINDS, AppliedWorkload
from checks.fuzzing.walk_objects import queue
from kailab.lab.answer import Answer, Cause, CauseCode, Step, StepOutcome
from kailab.lab.lab import Lab

FLEET = yaml.safe_load("""
apiVersion: kailab.dev/v1
kind: Fleet
name: two
pools: [{name: a100, count: 2, gpus: 4, gpuModel: A100, cpu: 64, memory: 512Gi, taints: []}]
""")
LATE = AppliedWorkload("Deployment", "late")


def deployment(name: str, team: str, replicas: int) -> dict:
    marks = {"app": name, "kai.scheduler/queue": team, "priorityClassName": "train"}
    container = {"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    template = {"metadata": {"labels": marks}, "spec": {"schedulerName": "kai-scheduler", "containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    metadata = {"name": name, "labels": dict(marks)}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


FULL = Situation(
    "full",
    FLEET,
    (
        {"apply": [queue("ours", "", 4, 3, 1), queue("theirs", "", 4, -1, 1)]},
        {"apply": [deployment("first", "theirs", 5)]},
        {"advance": 5},
        {"apply": [deployment("late", "ours", 4)]},
    ),
)
"""Queue ours holds 3 of its limit of 3, and one pod of ``late`` waits; theirs holds 5 with a quota of 4."""


@pytest.fixture
def full() -> Iterator[Lab]:
    with FULL.opened() as lab:
        yield lab


def limit_step(words: str, limit: int, **outcome: object) -> Step:
    patch = {"kind": "Queue", "name": "ours", "patch": {"spec": {"resources": {"gpu": {"limit": limit}}}}}
    return Step(words, ({"patch": patch},), True, StepOutcome(4, **outcome))  # type: ignore[arg-type]


# Clusters


def test_a_seed_gives_the_same_cluster_again() -> None:
    assert platform_situation(7) == platform_situation(7)
    assert platform_situation(7) != platform_situation(8)
    assert situation_of(7, "platform-small") == platform_situation(7, "platform-small")


def test_clusters_have_work_of_all_kinds_and_four_models() -> None:
    kinds, models = set(), set()
    for seed in range(12):
        situation = platform_situation(seed, "platform")
        kinds |= {manifest["kind"] for manifest in situation.applied()}
        models |= {pool["gpuModel"] for pool in situation.fleet["pools"] if "gpuModel" in pool}
    assert {*KINDS, "CronJob", "Queue"} <= kinds
    assert len(models) == 4


def test_a_large_cluster_has_the_size_of_a_real_one() -> None:
    least, most = SIZES["platform-large"].nodes
    counts = [
        sum(pool["count"] for pool in platform_situation(seed, "platform-large").fleet["pools"]) for seed in range(20)
    ]
    assert min(counts) >= least
    assert most - 60 < max(counts) <= most + len(FLEET["pools"]) * 8


# Words


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("Raise the gpu limit of queue ours to 4.", ""),
        ("Raise the gpu limit of queue ours to 5.", "spec.resources.gpu.limit is 5 by the words, 4 by the changes"),
        ("Raise the gpu quota of queue theirs to 8.", "the changes also change Queue ours"),
        ("Raise the gpu limit of queue ours to 4 and the gpu quota of queue theirs to 8.", "the changes do not change Queue theirs"),
        ("Raise the gpu limit of queue ours to 2.", "the words raise the gpu limit of queue ours from 3 to 2"),
        ("Do what is right.", "the words are not understood: Do what is right"),
    ],
)  # fmt: skip
def test_words_that_say_something_else_than_the_changes_are_found(full: Lab, words: str, found: str) -> None:
    assert found in difference(full, LATE, limit_step(words, 4))
    assert bool(difference(full, LATE, limit_step(words, 4))) is bool(found)


def test_names_that_words_only_count_are_taken_from_the_changes(full: Lab) -> None:
    changes = tuple({"delete": {"kind": "Deployment", "name": name}} for name in ("first", "late"))
    assert difference(full, LATE, Step("Delete Deployment first and 1 more.", changes)) == ""
    assert "the words name 2 more" in difference(full, LATE, Step("Delete Deployment first and 2 more.", changes))


def test_what_is_deleted_and_applied_again_is_said(full: Lab) -> None:
    changed = deepcopy(full.cluster.get("Deployment", "late", "default"))
    changed["metadata"]["labels"]["kai.scheduler/queue"] = "theirs"
    changed["spec"]["template"]["metadata"]["labels"]["kai.scheduler/queue"] = "theirs"
    changes = ({"delete": {"kind": "Deployment", "name": "late"}}, {"apply": [changed]})
    words = "Name queue theirs in the label kai.scheduler/queue"
    told = Step(f"{words}: delete Deployment late, and apply with that change.", changes)
    assert difference(full, LATE, told) == ""
    assert "the words delete and apply nothing" in difference(full, LATE, Step(f"{words}.", changes))


def test_nodes_that_a_step_changes_are_none_that_it_adds(full: Lab) -> None:
    full.cluster.patch("Node", "a100-0", None, {"spec": {"taints": [{"key": "lab/reserved", "effect": "NoSchedule"}]}})
    added = deepcopy(full.cluster.get("Node", "a100-1"))
    added["metadata"]["name"] = "a100-2"
    patch = {"kind": "Node", "name": "a100-0", "patch": {"spec": {"taints": []}}}
    words = "Remove the taint lab/reserved from node a100-0; then add {} nodes to the pool a100."
    for number, fault in ((1, ""), (2, "the words add 2 nodes to a100, the changes 1")):
        told = Step(words.format(number), ({"patch": patch}, {"apply": [added]}))
        assert difference(full, LATE, told) == fault


# Outcomes


def test_an_outcome_that_happens_is_right(full: Lab) -> None:
    assert list(outcome_faults(full, LATE, limit_step("Raise the gpu limit of queue ours to 4.", 4))) == [
        "1 pods of other work lose their place (" + _lost(full) + "), and it tells 0 as evicted",
        f"its data name no eviction of {_lost(full)}",
    ]
    told = limit_step("Raise the gpu limit of queue ours to 4.", 4, evicted=(f"default/{_lost(full)}",))
    assert list(outcome_faults(full, LATE, told)) == []


def _lost(full: Lab) -> str:
    """The pod of the other queue that gives way once the limit is raised."""
    with full.fork() as copy:
        before = {pod["metadata"]["name"] for pod in copy.cluster.list("Pod") if pod["spec"].get("nodeName")}
        copy.patch("Queue", "ours", {"spec": {"resources": {"gpu": {"limit": 4}}}})
        copy.settle()
        after = {pod["metadata"]["name"] for pod in copy.cluster.list("Pod") if pod["spec"].get("nodeName")}
        (name,) = before - after
        return str(name)


def test_a_step_that_does_less_than_it_tells_is_found(full: Lab) -> None:
    idle = limit_step("Raise the gpu limit of queue ours to 3.", 3)
    faults = list(outcome_faults(full, LATE, idle))
    assert "3 pods of it run then, and not all" in faults
    assert "it tells that 4 pods run, and 3 do" in faults


# Numbers


@pytest.mark.parametrize(
    ("sentence", "found"),
    [
        ("Queue ours holds 3 GPUs of its limit of 3 GPUs; its next pod wants 1 GPU more.", ""),
        ("Queue ours holds 2 GPUs of its limit of 3 GPUs; its next pod wants 1 GPU more.", "queue ours holds 3 gpu by its pods"),
        ("Queue ours holds 3 GPUs of its limit of 4 GPUs; its next pod wants 1 GPU more.", "within the limit of 4 GPUs"),
        ("Queue ours holds 3 GPUs of its limit of 3 GPUs; its next pod wants 2 GPUs more.", "a pod of it wants 1, not 2 GPUs"),
        ("Queue ours is owed more, holding 3 GPUs with a quota of 4 GPUs, and it wants 1 GPU; but none of the others holds more than "
         "its own quota: theirs holds 5 GPUs with a quota of 4 GPUs.", "the others hold 1 beyond their quotas"),
        ("Queue ours is owed more, holding 3 GPUs with a quota of 4 GPUs, and it wants 1 GPU; but the others hold too little beyond "
         "their own quota: theirs holds 5 GPUs with a quota of 4 GPUs.", "the others hold 1 beyond their quotas, and 1 GPU is wanted"),
        ("It wants 1 GPU; of the nodes that it may use a100-0 has the most free: 0 of 8.", "node a100-0 has 4 nvidia.com/gpu, not 8"),
        ("It wants 1 GPU on one node; 3 are free in sum on the 2 nodes with room that it may use, at most 2 on one (a100-1).",
         "it wants 1 GPU, and 2 are free on one"),
        ("It wants 4 nvidia.com/mig-1g.10gb; the nodes that it may use have 0 in all.", "no pod of it wants nvidia.com/mig-1g.10gb"),
        ("Deployment late wants 4 pods, and none of them exist.", "it wants 4 pods and 4 exist"),
        ("The 2 nodes that it could use are cordoned: a100-0, a100-1.", "node a100-0 is not cordoned"),
    ],
)  # fmt: skip
def test_numbers_that_objects_do_not_have_are_found(full: Lab, sentence: str, found: str) -> None:
    faults = number_faults(full, LATE, Cause(CauseCode.OVER_LIMIT, sentence))
    assert any(found in fault for fault in faults) if found else not faults, faults


# Screens


def test_screens_of_one_moment_agree_and_another_cause_is_found(full: Lab) -> None:
    screens, answer = Screens(full), full.explain("Deployment", "late", tried=False)
    assert list(screens.disagreements(LATE, answer)) == []
    assert list(screens.failing_test(LATE, answer)) == []
    other = Cause(CauseCode.TAINT_NOT_TOLERATED, "It does not tolerate a taint.")
    wrong: Answer = replace(
        answer, cause=other, more=(), groups=tuple(replace(group, causes=(other,)) for group in answer.groups)
    )
    faults = list(screens.disagreements(LATE, wrong))
    assert any(fault.startswith("explain pod: OverLimit") for fault in faults)
    assert any(fault.startswith("tables say OverLimit") for fault in faults)
    assert list(screens.failing_test(LATE, wrong))


# The whole


@pytest.mark.parametrize("seed", [5, 7])
def test_answers_about_a_small_platform_are_right(seed: int) -> None:
    result = run_seed(seed, area="platform-small")
    assert result.judged
    assert not result.broken
    assert [(str(judged.work), judged.faults) for judged in result.judged if not judged.right] == []


@pytest.mark.slow
def test_steps_about_small_platforms_do_what_they_say() -> None:
    """Slow because every step is carried out again: about 3 s of processor time a cluster, and five times that for some before these."""
    for seed in range(3, 8):
        result = run_seed(seed, steps=True, area="platform-small")
        assert [(seed, str(judged.work), judged.faults) for judged in result.judged if not judged.right] == []


def test_areas_have_names() -> None:
    assert AREAS == ("mistakes", "platform-small", "platform", "platform-large")


# Other work, and room


def test_a_node_that_is_a_domain_of_its_own_gets_room_by_larger_nodes() -> None:
    """One pod of ``late`` runs on the small node, which the other has to join. Empty copies of nodes are other domains."""
    pools = [{**FLEET["pools"][0], "count": 1}, {**FLEET["pools"][0], "name": "h100", "count": 1, "gpus": 8}]
    first = deployment("first", "theirs", 8)
    first["spec"]["template"]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "h100-0"}
    notes = {"kai.scheduler/topology": "dc", "kai.scheduler/topology-required-placement": "kubernetes.io/hostname"}
    template = deployment("late", "ours", 1)["spec"]["template"]
    template["metadata"]["annotations"] = notes
    template["spec"]["restartPolicy"] = "Never"
    template["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = 3
    late = {
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "late", "labels": template["metadata"]["labels"], "annotations": notes},
        "spec": {"parallelism": 2, "completions": 2, "template": template},
    }  # fmt: skip
    levels = [{"nodeLabel": "kubernetes.io/hostname"}]
    topology = {
        "apiVersion": "kai.scheduler/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": "dc"},
        "spec": {"levels": levels},
    }
    steps = (
        {"apply": [topology, queue("ours", "", -1, -1, 1), queue("theirs", "", -1, -1, 1)]},
        {"apply": [first]},
        {"advance": 5},
        {"apply": [late]},
    )
    [judged] = judge_situation(Situation("small home", {**FLEET, "pools": pools}, steps))
    assert (judged.code, judged.faults) == (CauseCode.NO_DOMAIN_FREE, ())


def test_the_next_job_of_a_schedule_is_other_work(full: Lab) -> None:
    template = deployment("nightly", "theirs", 1)["spec"]["template"]
    template["spec"]["restartPolicy"] = "Never"
    job = {"spec": {"template": template}}
    spec = {"schedule": "0 3 * * *", "jobTemplate": job}
    full.apply({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "nightly"}, "spec": spec})
    with without_others(FULL, full, LATE) as alone:
        assert not alone.cluster.list("CronJob")
        assert LATE.pods(alone)
    assert full.cluster.list("CronJob")
