"""Work that can't start even on an empty cluster, though each of its pods could: too large in sum, or for one domain, or kept apart."""

from __future__ import annotations

from typing import Any

import pytest

from kailab.explain.questions import ask
from kailab.lab.answer import CauseCode
from tests.explain.building import causes, queue
from tests.explain.node_building import (
    MODEL,
    apart,
    assert_told,
    change_node,
    deployment,
    job,
    opened,
    pod,
    pool,
    put,
    racks,
    template,
    told,
)
from tests.explain.situations import says

TWO = pool("n", 2)
CORDON = {"spec": {"unschedulable": True}}
TAINT = [{"key": "reserved", "effect": "NoSchedule"}]

SITUATIONS = {
    "more pods than GPUs": ([TWO], job("x", 17), CauseCode.LARGER_THAN_THE_FLEET, ["17", "16"]),
    "more GPUs in sum": ([TWO], job("x", 5, 4), CauseCode.LARGER_THAN_THE_FLEET, ["5", "20", "16"]),
    "more than the nodes of the model have": (
        [pool("a100", 1, gpuModel="A100"), pool("l4", 4, gpuModel="L4")], job("x", 3, 4, nodeSelector={MODEL: "A100"}),
        CauseCode.LARGER_THAN_THE_FLEET, ["12", "8"],
    ),
    "more CPU in sum": ([TWO], job("x", 3, 1, cpu="50"), CauseCode.LARGER_THAN_THE_FLEET, ["150", "128"]),
    "more without those that are reserved for others": (
        [TWO, pool("cpu", 4, 0, taints=TAINT)], job("x", 17), CauseCode.LARGER_THAN_THE_FLEET, ["17", "16"],
    ),
    "parts that leave a rest on each node": ([TWO], job("x", 3, 5), CauseCode.FRAGMENTED, ["15", "16", "2"]),
    "memory that leaves a rest on each node": ([TWO], job("x", 3, 1, memory="150Gi"), CauseCode.FRAGMENTED, ["3", "150Gi", "450Gi", "2"]),
    "a rest for none of the larger": ([pool("n", 3, 4)], job("x", 4, 3), CauseCode.FRAGMENTED, ["12", "3"]),
    "more than any rack": ([racks(2)], job("x", 3, 8, level="lab/rack"), CauseCode.LARGER_THAN_ANY_DOMAIN, ["24", "16", "lab/rack"]),
    "more than any node": (
        [racks(2)], job("x", 9, 1, level="kubernetes.io/hostname"), CauseCode.LARGER_THAN_ANY_DOMAIN, ["9", "8"],
    ),
    "a rest in each rack": ([racks(3)], job("x", 3, 5, level="lab/rack"), CauseCode.LARGER_THAN_ANY_DOMAIN, ["15", "16"]),
    "more than the fleet is more than any rack": ([racks(2)], job("x", 33, 1, level="lab/rack"), CauseCode.LARGER_THAN_THE_FLEET, ["33", "32"]),
    "a topology there is not": (
        [racks(2)], job("x", 2, 1, notes={"kai.scheduler/topology": "hall", "kai.scheduler/topology-required-placement": "lab/rack"}),
        CauseCode.TOPOLOGY_UNKNOWN, ["hall", "floor"],
    ),
    "a level there is not": ([racks(2)], job("x", 2, 1, level="lab/row"), CauseCode.TOPOLOGY_UNKNOWN, ["lab/row", "lab/rack"]),
    "a level that no node has a label of": ([TWO], job("x", 2, 1, level="lab/rack"), CauseCode.TOPOLOGY_UNKNOWN, ["lab/rack", "floor"]),
    "pods apart that have to be on one node": (
        [racks(2)], job("x", 3, labels={"app": "x"}, affinity=apart(app="x"), level="kubernetes.io/hostname"),
        CauseCode.KEPT_APART, ["3", "in one kubernetes.io/hostname of topology floor"],
    ),
    "more pods apart than nodes with room for one": (
        [pool("n", 2), pool("cpu", 4, 0)], job("x", 3, labels={"app": "x"}, affinity=apart(app="x")), CauseCode.KEPT_APART, ["3", "2"],
    ),
    "more pods apart than nodes": (
        [TWO], job("x", 3, labels={"app": "x"}, affinity=apart(app="x")), CauseCode.KEPT_APART, ["3", "2"],
    ),
    "more pods apart than racks": (
        [racks(2)], job("x", 3, labels={"app": "x"}, affinity=apart("lab/rack", app="x")), CauseCode.KEPT_APART, ["3", "2", "lab/rack"],
    ),
}  # fmt: skip


ELASTIC = {
    "more in all than any rack": (
        [racks(2)], job("x", 5, 4, 1, level="lab/rack"), "later", CauseCode.LARGER_THAN_ANY_DOMAIN, ["5", "20", "16"],
    ),
    "more in all than any node": (
        [racks(2)], job("x", 3, 4, 2, level="kubernetes.io/hostname"), "never", CauseCode.LARGER_THAN_ANY_DOMAIN, ["3", "12", "8"],
    ),
    "more in all than the fleet": ([TWO], job("x", 10, 2, 2), "later", CauseCode.NOT_ENOUGH_GPUS, ["10", "20", "16"]),
}  # fmt: skip


@pytest.mark.parametrize("name", ELASTIC)
def test_pods_beyond_a_minimum_that_never_fit_beside_the_first_are_told_with_them(name: str) -> None:
    """Their verdict depends on whether they are a gang of their own once the first have ended."""
    pools, asked, verdict, code, names = ELASTIC[name]
    with opened(*pools) as lab:
        put(lab, asked)
        assert_told(lab, "Job", "x", verdict, code, names)


def test_pods_that_have_ended_need_no_room_any_more() -> None:
    with opened(racks(1, 2, 4)) as lab:
        put(lab, pod("h", 4, priority="build", nodeSelector={"kubernetes.io/hostname": "n-0"}))
        work = job("x", 2, 4, 1, level="lab/rack", annotations={"kailab.dev/run-seconds": "60"})
        work["spec"]["completions"] = 3
        put(lab, work)
        lab.advance(70)
        verdict, code, sentence = told(lab, "Job", "x")
        assert (verdict, code) == ("later", CauseCode.NO_DOMAIN_FREE), sentence


def test_pods_that_may_use_other_nodes_are_not_told_with_those_that_wait() -> None:
    group = {
        "apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": {"name": "x"},
        "spec": {"queue": "team", "minMember": 1, "priorityClassName": "train"},
    }  # fmt: skip
    members = [
        pod(name, gpus, annotations={"pod-group-name": "x"}, nodeSelector={"kubernetes.io/hostname": node})
        for name, gpus, node in (("x-0", 8, "a-0"), ("x-1", 4, "b-0"))
    ]
    with opened(pool("a", 1), pool("b", 1, 4)) as lab:
        put(lab, pod("h", 1, priority="build", nodeSelector={"kubernetes.io/hostname": "b-0"}))
        put(lab, group, *members)
        verdict, code, sentence = told(lab, "PodGroup", "x")
    assert (verdict, code) == ("later", CauseCode.NOT_ENOUGH_GPUS)
    assert not says(sentence, "12"), sentence


def test_pods_beyond_a_minimum_that_others_keep_from_their_rack_wait_for_it() -> None:
    firm = {"priority": "build", "nodeSelector": {"lab/rack": "rack-0"}}
    with opened(racks(1)) as lab:
        put(lab, pod("h", 8, **firm))
        put(lab, job("x", 2, 8, 1, level="lab/rack"))
        verdict, code, sentence = told(lab, "Job", "x")
        assert (verdict, code) == ("later", CauseCode.NO_DOMAIN_FREE), sentence


def rack(name: str, count: int, gpus: int, **fields: object) -> dict:
    """A pool that is one rack of its name."""
    return pool(name, count, gpus, layout=[{"label": "lab/rack", "nodes": count, "name": f"{name}-rack"}], **fields)


def test_pods_that_have_to_join_others_are_told_of_the_rack_that_these_are_in() -> None:
    with opened(racks(2)) as lab:
        put(lab, pod("h", 8, priority="build", nodeSelector={"kubernetes.io/hostname": "n-0"}))
        put(lab, job("x", 2, 8, 1, level="lab/rack"))
        verdict, code, sentence = told(lab, "Job", "x")
    assert (verdict, code) == ("later", CauseCode.NO_DOMAIN_FREE)
    assert sentence.endswith("rack-0 has 0 free.")
    assert "rack-1" not in sentence


def test_a_cause_that_comes_up_once_the_others_have_gone_is_told_so() -> None:
    made = template(2, priority="train", labels={"app": "x"}, annotations=in_one_rack())
    spec = {"replicas": 8, "selector": {"matchLabels": {"app": "x"}}, "template": made}
    notes = {"labels": made["metadata"]["labels"], "annotations": in_one_rack()}
    store = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "x", **notes}, "spec": spec}
    with opened(rack("a", 2, 4), rack("b", 2, 8)) as lab:
        put(lab, queue("team", quota=-1, limit=24))
        for node, gpus in (("a-0", 4), ("a-1", 4), ("b-0", 8), ("b-1", 8)):
            put(lab, pod(f"h-{node}", gpus, priority="build", nodeSelector={"kubernetes.io/hostname": node}))
        put(lab, store)
        verdict, code, sentence = told(lab, "StatefulSet", "x")
    assert (verdict, code) == ("never", CauseCode.NO_DOMAIN_FREE)
    assert sentence.startswith("Without other work: ")
    assert "a-rack, where pods of it run" in sentence
    # Another rack would hold them, and the one that they have to join does not.
    assert sentence.endswith(" Its 5 pods want 10 GPUs together, and a-rack has 8 in all.")


def test_pods_that_have_to_join_others_on_a_closed_node_are_told_so() -> None:
    """Their rack has the GPUs, on its one node. Other nodes are of no use to them, closed or open."""
    with opened(rack("a", 1, 8), rack("b", 1, 8), rack("c", 1, 8)) as lab:
        for name, gpus in (("a", 4), ("b", 8), ("c", 8)):
            put(lab, pod(name, gpus, priority="build", nodeSelector={"kubernetes.io/hostname": f"{name}-0"}))
        put(lab, job("x", 2, 4, 1, level="lab/rack"))
        for node in ("a-0", "b-0"):
            change_node(lab, node, CORDON)
        for name in ("a", "b", "c"):
            lab.delete("Pod", name)
        lab.settle()
        verdict, code, sentence = told(lab, "Job", "x")
        assert (verdict, code) == ("later", CauseCode.NODES_CORDONED)
        assert sentence == "The node that it could use, a-0, is cordoned."
        change_node(lab, "a-0", {"spec": {"unschedulable": False}})
        lab.settle()
        assert not causes(lab, "Job", "x")


def in_one_rack() -> dict[str, str]:
    return {"kai.scheduler/topology": "floor", "kai.scheduler/topology-required-placement": "lab/rack"}


def test_a_rack_that_is_one_node_is_not_told_as_too_small_where_the_scheduler_does_not_look_at_it() -> None:
    with opened(rack("n", 1, 8, gpuMemory="80Gi")) as lab:
        put(lab, job("x", 1, cpu="1", level="lab/rack", annotations={"gpu-memory": "20000"}))
        verdict, code, sentence = told(lab, "Job", "x")
    assert (verdict, code) == ("never", CauseCode.LARGER_THAN_ANY_DOMAIN)
    assert sentence.startswith(
        "It has to be in one lab/rack of topology floor; all nodes of the topology are in one kubernetes.io/hostname, n-0"
    )
    assert "20000" not in sentence


def test_a_part_of_a_group_finds_no_rack_in_a_rack_of_one_node() -> None:
    """The group as a whole is in a rack, and KAI looks for the rack of each part among the nodes of that one."""
    ray = {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": "x", "labels": {"kai.scheduler/queue": "team"}, "annotations": in_one_rack()},
        "spec": {
            "headGroupSpec": {"rayStartParams": {}, "template": in_rack(template(0, cpu="1"))},
            "workerGroupSpecs": [
                {
                    "groupName": "w", "replicas": 1, "minReplicas": 1, "maxReplicas": 1, "rayStartParams": {},
                    "template": in_rack(template(1)),
                }
            ],
        },
    }  # fmt: skip
    with opened(rack("a", 1, 8), rack("b", 1, 8)) as lab:
        put(lab, ray)
        verdict, code, sentence = told(lab, "RayCluster", "x")
    assert (verdict, code) == ("never", CauseCode.LARGER_THAN_ANY_DOMAIN)
    assert "all nodes of lab/rack a-rack are in one kubernetes.io/hostname, a-0" in sentence
    assert "has room" not in sentence
    with opened(rack("a", 2, 8), rack("b", 1, 8)) as lab:
        put(lab, ray)
        assert ask(lab, "RayCluster", "x").verdict == "running"


def in_rack(made: dict[str, Any]) -> dict[str, Any]:
    made["metadata"].setdefault("annotations", {}).update(in_one_rack())
    return made


def test_a_gang_with_too_few_pods_and_too_little_room_is_made_smaller() -> None:
    """One more pod would complete it, and would find no room: no step says to add it."""
    with opened(pool("n", 1, 4)) as lab:
        short = job("x", 5)
        short["metadata"]["annotations"]["kai.scheduler/batch-min-member"] = "6"
        put(lab, short)
        answer = ask(lab, "Job", "x")
    assert answer.cause is not None
    assert answer.cause.code == CauseCode.GANG_INCOMPLETE
    assert [step.do for step in answer.steps] == [
        "Make it a gang of 4 pods (now 5), with its minimum to match: delete Job x, and apply with that change."
    ]


def test_a_node_that_its_own_pods_fill_is_not_what_the_rest_waits_for() -> None:
    with opened(pool("n", 1, 4), pool("r", 1, 8, taints=TAINT)) as lab:
        put(lab, deployment("x", 6))
        change_node(lab, "n-0", CORDON)
        lab.settle()
        verdict, code, sentence = told(lab, "Deployment", "x")
    assert (verdict, code) == ("never", CauseCode.TAINT_NOT_TOLERATED), sentence
    assert says(sentence, "r-0"), sentence


@pytest.mark.parametrize("name", SITUATIONS)
def test_what_can_not_start_together_is_told_by_what_has_to_go_first(name: str) -> None:
    pools, asked, code, names = SITUATIONS[name]
    with opened(*pools) as lab:
        put(lab, asked)
        assert_told(lab, "Job", "x", "never", code, names)


def test_a_gang_that_needs_a_cordoned_node() -> None:
    with opened(TWO) as lab:
        change_node(lab, "n-1", CORDON)
        put(lab, job("x", 10))
        verdict, code, sentence = told(lab, "Job", "x")
        assert (verdict, code) == ("never", CauseCode.NODES_CORDONED)
        assert "n-1" in sentence
        change_node(lab, "n-1", {"spec": {"unschedulable": False}})
        lab.settle()
        assert told(lab, "Job", "x")[0] == "running"


def test_a_gang_that_needs_a_node_with_a_taint() -> None:
    with opened(pool("n"), pool("r", 1, taints=TAINT)) as lab:
        put(lab, job("x", 10))
        verdict, code, sentence = told(lab, "Job", "x")
        assert (verdict, code) == ("never", CauseCode.TAINT_NOT_TOLERATED)
        assert "r-0" in sentence
        assert "reserved" in sentence


def test_a_queue_that_is_full_does_not_hide_that_it_is_too_large() -> None:
    with opened(TWO) as lab:
        put(lab, queue("small", quota=1, limit=1), job("x", 20, queue="small"))
        found = [cause.code for cause in causes(lab, "Job", "x")]
        assert found[0] == CauseCode.LARGER_THAN_THE_FLEET
        assert CauseCode.OVER_LIMIT in found


def test_other_work_does_not_matter() -> None:
    with opened(TWO) as lab:
        put(lab, *(pod(f"held-{number}", 4) for number in range(4)), job("x", 17))
        assert told(lab, "Job", "x")[:2] == ("never", CauseCode.LARGER_THAN_THE_FLEET)


def test_a_device_keeps_its_name_where_other_work_wants_further_devices() -> None:
    """The other work's profile is a resource of the present cluster, and of none without that work."""
    with opened(pool("n", 2, resources={"example.com/fpga": 1})) as lab:
        gang = job("x", 3)
        gang["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["example.com/fpga"] = 1
        put(lab, pod("other", mig="1g.10gb"), gang)
        verdict, code, sentence = told(lab, "Job", "x")
    assert (verdict, code) == ("never", CauseCode.LARGER_THAN_THE_FLEET)
    assert "want 3 example.com/fpga (1 example.com/fpga each); the nodes that they may use have 2 in all" in sentence


def test_cpu_is_told_of_the_one_node_with_a_free_gpu_also_if_memory_is_lacking_there() -> None:
    store = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "x", "labels": {"kai.scheduler/queue": "team"}, "annotations": in_one_rack()},
        "spec": {
            "replicas": 2,
            "serviceName": "x",
            "selector": {"matchLabels": {"app": "x"}},
            "template": in_rack(template(0.5, cpu="40", memory="200Gi", labels={"app": "x"})),
        },
    }
    with opened(rack("a", 2, 1), rack("b", 2, 1)) as lab:
        for node, cpu in (("a-1", "60"), ("b-0", "1"), ("b-1", "1")):
            put(lab, pod(f"on-{node}", 1, cpu=cpu, nodeSelector={"kubernetes.io/hostname": node}))
        put(lab, store)
        verdict, code, sentence = told(lab, "StatefulSet", "x")
    # The nodes of the other rack have the CPU, but no GPU for a pod that has to be in the rack of the first one.
    assert (verdict, code) == ("later", CauseCode.NOT_ENOUGH_CPU)
    assert sentence == "It wants 40 CPU; a-0, where GPUs are free, has 24 of 64 free."
