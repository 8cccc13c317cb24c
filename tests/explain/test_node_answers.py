"""``explain --nodes``: what each node says to the pods of a workload, of those that wait and of those that run."""

from __future__ import annotations

import json

import pytest

from kailab.errors import InputError, NotFound
from kailab.explain.node_answers import about_nodes
from kailab.lab import Lab
from tests.explain.building import queue
from tests.explain.node_building import MODEL, change_node, deployment, job, on, opened, pod, pool, put, racks

A100, L4 = pool("a100", 2, gpuModel="A100"), pool("l4", 3, 4, gpuModel="L4")


def test_nodes_that_say_the_same_stand_together_with_both_values() -> None:
    with opened(A100, L4) as lab:
        change_node(lab, "a100-1", {"spec": {"unschedulable": True}})
        put(lab, pod("h", 7, nodeSelector=on("a100-0")), pod("x", 2, nodeSelector={MODEL: "A100"}))
        [told] = about_nodes(lab, "Pod", "x")
    assert (told.pods, told.node, told.nodes) == (("default/x",), "", 5)
    assert [(one.text, one.nodes) for one in told.answers] == [
        (f"{MODEL}=L4, wants A100", ("l4-0", "l4-1", "l4-2")),
        ("GPUs 1 free of 8, wants 2", ("a100-0",)),
        ("cordoned", ("a100-1",)),
    ]
    assert told.head()[0] == "Pod default/x: waits; by itself none of 5 nodes would take it now."


def test_a_pod_that_runs_hears_why_not_elsewhere() -> None:
    with opened(A100, L4) as lab:
        put(lab, pod("x", 8))
        [told] = about_nodes(lab, "Pod", "x")
    assert told.node == "a100-0"
    assert {one.text: len(one.nodes) for one in told.answers} == {
        "it is here": 1, "takes it": 1, "GPUs 4 in all, wants 8": 3,
    }  # fmt: skip
    assert "runs on a100-0; of the other 4 nodes 1 would take it now" in told.head()[0]


def test_replicas_are_alike_and_those_that_wait_come_first() -> None:
    with opened(pool("n", 2)) as lab:
        put(lab, deployment("x", 20))
        waiting, running = about_nodes(lab, "Deployment", "x")
    assert (len(waiting.pods), waiting.node, len(running.pods)) == (4, "", 16)
    assert "and 3 more like it" in waiting.head()[0]


def test_a_gang_that_fits_pod_by_pod_and_not_together_says_so() -> None:
    with opened(pool("n", 2)) as lab:
        put(lab, pod("h", 6, nodeSelector=on("n-0"), priority="build"), job("x", 4, 4))
        [told] = about_nodes(lab, "Job", "x")
    assert told.answers[0].text == "takes it"
    assert "room for 2 of the 4 pods that must start together" in told.head()[1]


def test_domains_are_told_with_their_room() -> None:
    with opened(racks(2)) as lab:
        put(lab, *(pod(f"h{node}", 4, nodeSelector=on(f"n-{node}"), priority="build") for node in (0, 2)))
        put(lab, job("x", 2, 8, level="lab/rack"))
        [told] = about_nodes(lab, "Job", "x")
    texts = {node: one.text for one in told.answers for node in one.nodes}
    assert texts["n-0"] == texts["n-2"] == "GPUs 4 free of 8, wants 8"
    assert texts["n-1"].startswith("lab/rack=rack-0 has room for 1 of the 2 pods of its group")
    assert texts["n-3"].startswith("lab/rack=rack-1 has room for 1 of the 2 pods of its group")


def test_a_queue_rule_stands_beside_nodes_that_would_take_it() -> None:
    with opened(A100) as lab:
        put(lab, queue("small", quota=1, limit=1), pod("x", 2, queue="small"))
        [told] = about_nodes(lab, "Pod", "x")
    assert [(one.rule, len(one.nodes)) for one in told.answers] == [(None, 2)]
    assert "limit" in told.head()[1]


def test_work_that_is_not_applied_is_asked_of_a_fork() -> None:
    with opened(A100, L4) as lab, lab.fork() as trial:
        put(trial, pod("x", 8))
        [told] = about_nodes(trial, "Pod", "x")
        assert {one.text for one in told.answers} >= {"GPUs 4 in all, wants 8"}
        with pytest.raises(NotFound):
            about_nodes(lab, "Pod", "x")


def test_as_data() -> None:
    with opened(A100) as lab:
        put(lab, pod("h", 7, nodeSelector=on("a100-0")), pod("x", 2, nodeSelector=on("a100-0")))
        [told] = about_nodes(lab, "Pod", "x")
    short = next(one for one in json.loads(json.dumps(told.data()))["answers"] if one["rule"] == "free")
    assert short == {
        "takes": False, "rule": "free", "text": "GPUs 1 free of 8, wants 2", "nodes": ["a100-0"],
        "resource": "nvidia.com/gpu", "free": 1000, "capacity": 8000, "wanted": 2000,
    }  # fmt: skip


def test_what_has_no_pods_to_place_is_refused() -> None:
    with opened(A100) as lab:
        put(lab, deployment("none", 0), pod("pooled", labels={"kai.scheduler/node-pool": "batch"}))
        for kind, name, said in (
            ("Queue", "team", "not placed on nodes"),
            ("Deployment", "none", "no pods"),
            ("Pod", "pooled", "no pods that the scheduler would place"),
        ):
            with pytest.raises(InputError, match=said):
                about_nodes(lab, kind, name)
        with pytest.raises(NotFound):
            about_nodes(lab, "Pod", "nobody")


def test_under_another_scheduler_it_says_that_others_decide() -> None:
    with Lab.open("lesson", scheduler="kube-scheduler") as lab:
        put(lab, pod("x"))
        with pytest.raises(InputError, match="kube-scheduler decides"):
            about_nodes(lab, "Pod", "x")


def test_the_table_is_a_screen_unless_everything_is_asked_for() -> None:
    with opened(*(pool(f"p{number:02}", 2, gpus=1 + number % 7, cpu=number + 1) for number in range(30))) as lab:
        put(lab, pod("x", 8, cpu="40"))
        [told] = about_nodes(lab, "Pod", "x")
    rows = list(told.rows())
    assert len(rows) == 21
    assert rows[-1][2].endswith("more answers (--all)")
    assert sum(int(row[0]) for row in rows) == 60
    assert len(list(told.rows(everything=True))) == 30
