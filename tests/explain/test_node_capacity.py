"""Work that waits for room: of what there is too little, where it is free, and what keeps it apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kailab.engine.relaxing.rules import AllTolerated, TopologyGone
from kailab.explain.causes.waiting_group import waiting_podgroups
from kailab.explain.subject import SubjectRef
from kailab.lab.answer import CauseCode
from tests.explain.building import causes
from tests.explain.node_building import (
    MODEL,
    apart,
    assert_told,
    change_node,
    deployment,
    job,
    near,
    on,
    opened,
    pod,
    pool,
    put,
    racks,
    told,
)
from tests.explain.situations import says

FIRM = "build"
FPGA, DISK = "example.com/fpga", "ephemeral-storage"
ONE, TWO = pool("n"), pool("n", 2)
A100, L4 = pool("a100", 1, gpuModel="A100"), pool("l4", 1, 4, gpuModel="L4")
MIG = pool("mig", 1, 4, gpuModel="A100", mig={"strategy": "mixed", "profiles": {"1g.10gb": 2}})


def port(number: int) -> dict[str, Any]:
    container = {"name": "work", "image": "busybox", "ports": [{"containerPort": number, "hostPort": number}]}
    return {"containers": [container]}


def fpgas(count: int) -> dict[str, Any]:
    limits = {"nvidia.com/gpu": 1, FPGA: count}
    return {"containers": [{"name": "work", "image": "busybox", "resources": {"limits": limits}}]}


def disk(amount: str) -> dict[str, Any]:
    limits = {"nvidia.com/gpu": 1, DISK: amount}
    return {"containers": [{"name": "work", "image": "busybox", "resources": {"limits": limits}}]}


def slots(count: int) -> dict[str, Any]:
    return pool("n", 1, pods=count)


SITUATIONS: dict[str, tuple[Sequence[Any], Sequence[Any], Any, CauseCode, Sequence[str], Sequence[str]]] = {
    # fleet, who is there, who asks, cause, what is named, who has to go
    "one GPU too few": ([ONE], [pod("h", 7, priority=FIRM)], pod("x", 2), CauseCode.NOT_ENOUGH_GPUS, ["2", "1", "n-0"], ["h"]),
    "free ones are of another model": (
        [A100, L4], [pod("h", 7, nodeSelector={MODEL: "A100"}, priority=FIRM)], pod("x", 2, nodeSelector={MODEL: "A100"}),
        CauseCode.NOT_ENOUGH_GPUS, ["2", "1", "a100-0"], ["h"],
    ),
    "a gang for which too few are free": (
        [TWO], [pod("h", 6, nodeSelector=on("n-0"), priority=FIRM), pod("k", 7, nodeSelector=on("n-1"), priority=FIRM)],
        job("x", 4), CauseCode.NOT_ENOUGH_GPUS, ["4", "3"], ["h"],
    ),
    "instances of a MIG profile are taken": ([MIG], [pod("h", mig="1g.10gb"), pod("k", mig="1g.10gb")], pod("x", mig="1g.10gb"), CauseCode.NOT_ENOUGH_GPUS, ["1g.10gb", "0"], ["h"]),
    "too little CPU": ([ONE], [pod("h", 1, cpu="60", priority=FIRM)], pod("x", 1, cpu="6"), CauseCode.NOT_ENOUGH_CPU, ["6", "4", "n-0"], ["h"]),
    "too little CPU where the free GPUs are": (
        [TWO], [pod("h", 8, nodeSelector=on("n-0"), priority=FIRM), pod("k", 1, cpu="60", nodeSelector=on("n-1"), priority=FIRM)],
        pod("x", 1, cpu="6"), CauseCode.NOT_ENOUGH_CPU, ["6", "4", "n-1"], ["k"],
    ),
    "too little CPU and memory where the free GPUs are": (
        [TWO], [pod("h", 8, nodeSelector=on("n-0"), priority=FIRM), pod("k", 1, cpu="60", memory="250Gi", nodeSelector=on("n-1"), priority=FIRM)],
        pod("x", 1, cpu="6", memory="10Gi"), CauseCode.NOT_ENOUGH_CPU, ["6", "4", "n-1"], ["k"],
    ),
    "too little CPU where GPUs would be taken back": (
        [TWO],
        [
            pod("h", 8, memory="250Gi", nodeSelector=on("n-0"), priority=FIRM), pod("v", 8, nodeSelector=on("n-1")),
            pod("k", 0, cpu="60", nodeSelector=on("n-1"), priority=FIRM),
        ],
        pod("x", 1, cpu="6", memory="10Gi", priority="build-preemptible"), CauseCode.NOT_ENOUGH_CPU, ["6", "4", "n-1"], ["k"],
    ),
    "too little CPU for work without GPUs": ([ONE], [pod("h", 0, cpu="60", priority=FIRM)], pod("x", 0, cpu="6"), CauseCode.NOT_ENOUGH_CPU, ["6", "4"], ["h"]),
    "too little CPU for a gang": ([TWO], [pod("h", 0, cpu="60", nodeSelector=on("n-0"), priority=FIRM)], job("x", 3, 1, cpu="30"), CauseCode.NOT_ENOUGH_CPU, ["3", "30", "2"], ["h"]),
    "too little memory": ([ONE], [pod("h", 1, memory="250Gi", priority=FIRM)], pod("x", 1, memory="10Gi"), CauseCode.NOT_ENOUGH_MEMORY, ["10", "6"], ["h"]),
    "too little memory where the free GPUs are": (
        [TWO], [pod("h", 8, nodeSelector=on("n-0"), priority=FIRM), pod("k", 1, memory="250Gi", nodeSelector=on("n-1"), priority=FIRM)],
        pod("x", 1, memory="10Gi"), CauseCode.NOT_ENOUGH_MEMORY, ["10", "6", "n-1"], ["k"],
    ),
    "too little memory for a gang": ([ONE], [pod("h", 0, memory="200Gi", priority=FIRM)], job("x", 2, 1, memory="40Gi"), CauseCode.NOT_ENOUGH_MEMORY, ["40", "56"], ["h"]),
    "no pod slots": ([slots(2)], [pod("h", priority=FIRM), pod("k", priority=FIRM)], pod("x"), CauseCode.NO_POD_SLOTS, ["2", "n-0"], ["h"]),
    "one pod slot for a share, and none for what reserves its GPU": (
        [slots(3)], [pod("h", priority=FIRM), pod("k", priority=FIRM)], pod("x", 0.5), CauseCode.NO_POD_SLOTS, ["2 free pod slots", "2 of 3", "n-0"], ["h"],
    ),
    "a pod slot that the reservation of a shared GPU has": (
        [slots(4)], [pod("h", 0.2, priority=FIRM), pod("k", priority=FIRM)], pod("x", 0.2), CauseCode.NO_POD_SLOTS, ["2 free pod slots", "3 of 4"], ["k"],
    ),
    "no pod slots for work without GPUs": ([slots(1)], [pod("h", 0, priority=FIRM)], pod("x", 0), CauseCode.NO_POD_SLOTS, ["1"], ["h"]),
    "too few pod slots for a gang": ([slots(3)], [pod("h", priority=FIRM)], job("x", 3), CauseCode.NO_POD_SLOTS, ["3", "2"], ["h"]),
    "free in halves": (
        [TWO], [pod("h", 5, nodeSelector=on("n-0"), priority=FIRM), pod("k", 5, nodeSelector=on("n-1"), priority=FIRM)],
        pod("x", 6), CauseCode.FRAGMENTED, ["6", "3"], ["h"],
    ),
    "free in halves for a gang": (
        [TWO], [pod("h", 5, nodeSelector=on("n-0"), priority=FIRM), pod("k", 5, nodeSelector=on("n-1"), priority=FIRM)],
        job("x", 3, 2), CauseCode.FRAGMENTED, ["3", "6", "2"], ["h"],
    ),
    "free in parts of shared GPUs": (
        [pool("n", 2, 1, gpuMemory="80Gi")], [pod("h", 0.7, nodeSelector=on("n-0"), priority=FIRM), pod("k", 0.7, nodeSelector=on("n-1"), priority=FIRM)],
        pod("x", 0.5), CauseCode.FRAGMENTED, ["0.5", "0.3"], ["h"],
    ),
    "none of another device beside free GPUs": (
        [pool("n", 1, resources={FPGA: 1})], [pod("h", **fpgas(1), priority=FIRM)], pod("x", **fpgas(1)),
        CauseCode.NOT_ENOUGH_RESOURCES, [FPGA, "0 of 1", "n-0"], ["h"],
    ),
    "GPUs are free only beside another device that is not": (
        [pool("n", 1, resources={FPGA: 1}), pool("m")], [pod("h", 8, nodeSelector=on("n-0"), priority=FIRM)], pod("x", **fpgas(1)),
        CauseCode.NOT_ENOUGH_GPUS, ["0 of 8", "n-0"], ["h"],
    ),
    "GPUs are free only where another device is taken": (
        [pool("n", 2, resources={FPGA: 1})],
        [pod("h", 8, nodeSelector=on("n-0"), priority=FIRM), pod("k", **fpgas(1), nodeSelector=on("n-1"), priority=FIRM)],
        pod("x", **fpgas(1)), CauseCode.NOT_ENOUGH_GPUS, ["with all else free", "0 of 8", "n-0"], ["h"],
    ),
    "too little ephemeral storage beside free GPUs": (
        [pool("n", 1, resources={DISK: "100Gi"})], [pod("h", **disk("60Gi"), priority=FIRM)], pod("x", **disk("60Gi")),
        CauseCode.NOT_ENOUGH_RESOURCES, [DISK, "60Gi", "40Gi of 100Gi", "n-0"], ["h"],
    ),
    "another device in pieces": (
        [pool("n", 2, resources={FPGA: 2})],
        [pod("h", **fpgas(1), nodeSelector=on("n-0"), priority=FIRM), pod("k", **fpgas(1), nodeSelector=on("n-1"), priority=FIRM)],
        pod("x", **fpgas(2)), CauseCode.FRAGMENTED, [f"2 {FPGA}", "at most 1 on one"], ["h"],
    ),
    "no device with room for a share, on one node": (
        [pool("n", 1, 2, gpuMemory="80Gi")], [pod("h", 0.6, priority=FIRM), pod("k", 0.6, priority=FIRM)],
        pod("x", 0.6), CauseCode.FRAGMENTED, ["0.6", "0.8", "at most 0.4 on one device", "n-0"], ["h"],
    ),
    "no two devices with room for a part of each": (
        [pool("n", 1, 2, gpuMemory="80Gi")], [pod("h", 0.9, priority=FIRM)],
        pod("x", 0.5, annotations={"gpu-fraction": "0.5", "gpu-fraction-num-devices": "2"}),
        CauseCode.FRAGMENTED, ["0.5 on each of 2 GPUs", "1.1", "at most 0.6 on one node's 2 devices (of n-0), of which it takes up to 0.5 each"], ["h"],
    ),
    "no rack free": (
        [racks(2)], [pod("h", 4, nodeSelector={"lab/rack": "rack-0"}, priority=FIRM), pod("k", 4, nodeSelector={"lab/rack": "rack-1"}, priority=FIRM)],
        job("x", 2, 8, level="lab/rack"), CauseCode.NO_DOMAIN_FREE, ["16", "12", "lab/rack"], ["h"],
    ),
    "no rack with enough CPU": (
        [racks(2)], [pod("h", 0, cpu="40", nodeSelector={"lab/rack": "rack-0"}, priority=FIRM), pod("k", 0, cpu="40", nodeSelector={"lab/rack": "rack-1"}, priority=FIRM)],
        job("x", 2, 1, cpu="60", level="lab/rack"), CauseCode.NO_DOMAIN_FREE, ["120", "88"], ["h"],
    ),
    "no node free for a gang that has to be on one": (
        [racks(1)], [pod("h", 6, nodeSelector=on("n-0"), priority=FIRM), pod("k", 6, nodeSelector=on("n-1"), priority=FIRM)],
        job("x", 3, level="kubernetes.io/hostname"), CauseCode.NO_DOMAIN_FREE, ["3", "2"], ["h"],
    ),
    "kept off by a pod of its kind": (
        [ONE], [pod("h", labels={"app": "db"}, priority=FIRM)], pod("x", labels={"app": "db"}, affinity=apart(app="db")), CauseCode.KEPT_APART, ["h", "n-0"], ["h"],
    ),
    "kept off by the other's rule": (
        [ONE], [pod("h", affinity=apart(app="noisy"), priority=FIRM)], pod("x", labels={"app": "noisy"}), CauseCode.KEPT_APART, ["h"], ["h"],
    ),
    "kept off a whole rack": (
        [racks(1)], [pod("h", labels={"app": "db"}, priority=FIRM)], pod("x", affinity=apart("lab/rack", app="db")), CauseCode.KEPT_APART, ["h", "2"], ["h"],
    ),
    "a host port is taken": ([ONE], [pod("h", **port(8080))], pod("x", **port(8080)), CauseCode.KEPT_APART, ["h", "port"], ["h"]),
}  # fmt: skip


@pytest.mark.parametrize("name", SITUATIONS)
def test_what_lacks_is_told_with_its_figures_and_is_all_that_lacks(name: str) -> None:
    pools, there, asked, code, names, gone = SITUATIONS[name]
    kind = asked["kind"]
    with opened(*pools) as lab:
        for one in there:
            put(lab, one)
        put(lab, asked)
        assert_told(lab, kind, "x", "later", code, names)
        for one in gone:
            lab.delete("Pod", one)
        lab.settle()
        assert told(lab, kind, "x")[0] == "running"


def test_replicas_that_keep_each_other_away_never_all_run() -> None:
    with opened(TWO) as lab:
        put(lab, deployment("x", 3, affinity=apart(app="x")))
        verdict, code, sentence = told(lab, "Deployment", "x")
        assert (verdict, code) == ("never", CauseCode.KEPT_APART)
        assert "2 nodes" in sentence


def test_replicas_beyond_the_fleet_lack_gpus() -> None:
    with opened(ONE) as lab:
        put(lab, deployment("x", 10, 1))
        verdict, code, sentence = told(lab, "Deployment", "x")
        assert (verdict, code) == ("never", CauseCode.NOT_ENOUGH_GPUS)
        assert all(says(sentence, number) for number in ("0", "10", "8")), sentence


def test_company_that_is_not_there() -> None:
    with opened(ONE) as lab:
        put(lab, pod("x", affinity=near(app="cache")))
        assert told(lab, "Pod", "x")[1] == CauseCode.SELECTOR_MATCHES_NO_NODE


def test_nodes_that_may_not_be_used_are_told_beside_those_that_are_full() -> None:
    taint = [{"key": "reserved", "effect": "NoSchedule"}]
    with opened(ONE, pool("r", 1, taints=taint), pool("c")) as lab:
        change_node(lab, "c-0", {"spec": {"unschedulable": True}})
        put(lab, pod("h", 7, priority=FIRM), pod("x", 2))
        first, *rest = causes(lab, "Pod", "x")
        assert first.code in (CauseCode.NODES_CORDONED, CauseCode.TAINT_NOT_TOLERATED, CauseCode.NOT_ENOUGH_GPUS)
        assert {cause.code for cause in (first, *rest)} >= {
            CauseCode.NODES_CORDONED, CauseCode.TAINT_NOT_TOLERATED, CauseCode.NOT_ENOUGH_GPUS,
        }  # fmt: skip


def test_of_two_that_lack_on_one_node_gpus_come_first_and_the_other_is_named() -> None:
    with opened(ONE) as lab:
        put(lab, pod("h", 8, cpu="60", priority=FIRM), pod("x", 1, cpu="6"))
        verdict, code, sentence = told(lab, "Pod", "x")
        assert (verdict, code) == ("later", CauseCode.NOT_ENOUGH_GPUS)
        assert "CPU" in sentence


def test_trials_leave_the_pods_that_are_told_of_as_they_are() -> None:
    """Trials put others in the place of pods and groups, and take them back."""
    with opened(racks(12)) as lab:  # large enough for trials to change the working set in place
        put(lab, pod("h", 7, nodeSelector=on("n-0"), priority=FIRM), job("x", 5, 8, level="lab/rack"))
        [group] = waiting_podgroups(SubjectRef.of(lab, "Job", "x").state(lab))
        facts = group.node_facts
        assert facts is not None
        for _ in range(2):
            assert facts.next_tasks
            assert all(task.podset in facts.job.root.podsets for task in facts.next_tasks)
            facts.relaxed_cycles(AllTolerated(), TopologyGone())
