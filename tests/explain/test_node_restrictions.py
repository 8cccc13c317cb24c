"""Pods that no node could ever take: by their selectors, by taints and cordons, by size, by kind of GPU, by what is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kailab.lab import Lab
from kailab.lab.answer import CauseCode
from kailab.lab.change import carry_out, read_changes
from tests.explain.building import causes
from tests.explain.node_building import MODEL, assert_told, change_node, on, opened, pod, pool, put, told

A100 = pool("a100", 2, gpuModel="A100", gpuMemory="80Gi")
L4 = pool("l4", 1, 4, gpuModel="L4", gpuMemory="24Gi")
CPU = pool("cpu", 1, 0)
MIG = pool("mig", 1, 4, gpuModel="A100", mig={"strategy": "mixed", "profiles": {"1g.10gb": 14, "3g.40gb": 2}})
RESERVED = pool("h100", 2, gpuModel="H100", taints=[{"key": "reserved", "value": "llm", "effect": "NoSchedule"}])
MAINTAINED = pool("b200", 1, gpuModel="B200", taints=[{"key": "maintenance", "effect": "NoExecute"}])
CORDON = {"spec": {"unschedulable": True}}
NOT_READY = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}


def affinity(*expressions: dict[str, Any]) -> dict[str, Any]:
    terms = [{"matchExpressions": [one]} for one in expressions]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def mounting(**volume: Any) -> dict[str, Any]:
    container = {"name": "work", "image": "busybox", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    container["resources"] = {"limits": {"nvidia.com/gpu": 1}}
    return {"volumes": [{"name": "data", **volume}], "containers": [container]}


def reading(config: str) -> dict[str, Any]:
    source = [{"configMapRef": {"name": config}}]
    return {
        "containers": [
            {"name": "work", "image": "busybox", "envFrom": source, "resources": {"limits": {"nvidia.com/gpu": 1}}}
        ]
    }


SITUATIONS = {
    "a model there is not": ([A100, L4], {}, pod("x", nodeSelector={MODEL: "H200"}), CauseCode.SELECTOR_MATCHES_NO_NODE, ["H200", "A100", "L4"]),
    "a label no node has": ([A100], {}, pod("x", nodeSelector={"disk": "nvme"}), CauseCode.SELECTOR_MATCHES_NO_NODE, ["disk", "nvme"]),
    "labels that no node has together": (
        [A100, L4], {}, pod("x", nodeSelector={MODEL: "A100", **on("l4-0")}), CauseCode.SELECTOR_MATCHES_NO_NODE, ["A100", "l4-0"],
    ),
    "an affinity that no node meets": (
        [A100], {}, pod("x", affinity=affinity({"key": MODEL, "operator": "In", "values": ["H100", "H200"]})),
        CauseCode.SELECTOR_MATCHES_NO_NODE, ["H100", "H200", "A100"],
    ),
    "a cordon does not matter where the selector matches nothing": (
        [A100], {"a100-0": CORDON, "a100-1": CORDON}, pod("x", nodeSelector={MODEL: "H200"}), CauseCode.SELECTOR_MATCHES_NO_NODE, ["H200"],
    ),
    "all nodes reserved": ([RESERVED], {}, pod("x"), CauseCode.TAINT_NOT_TOLERATED, ["reserved=llm", "h100-0", "h100-1"]),
    "the nodes of the model reserved": (
        [A100, RESERVED], {}, pod("x", nodeSelector={MODEL: "H100"}), CauseCode.TAINT_NOT_TOLERATED, ["reserved=llm"],
    ),
    "the only nodes with GPUs reserved": ([CPU, RESERVED], {}, pod("x"), CauseCode.TAINT_NOT_TOLERATED, ["reserved"]),
    "the only nodes that are large enough reserved": ([L4, RESERVED], {}, pod("x", 8), CauseCode.TAINT_NOT_TOLERATED, ["reserved"]),
    "another value tolerated": (
        [RESERVED], {}, pod("x", tolerations=[{"key": "reserved", "value": "vision"}]), CauseCode.TAINT_NOT_TOLERATED, ["reserved=llm"],
    ),
    "two kinds of taint": ([MAINTAINED, RESERVED], {}, pod("x"), CauseCode.TAINT_NOT_TOLERATED, ["reserved", "maintenance"]),
    "the only node cordoned": ([L4], {"l4-0": CORDON}, pod("x"), CauseCode.NODES_CORDONED, ["l4-0", "cordoned"]),
    "the nodes of the model cordoned": (
        [A100, L4], {"a100-0": CORDON, "a100-1": CORDON}, pod("x", nodeSelector={MODEL: "A100"}), CauseCode.NODES_CORDONED, ["2", "a100-0"],
    ),
    "the only node not ready": ([L4], {"l4-0": NOT_READY}, pod("x"), CauseCode.NODES_CORDONED, ["l4-0", "not ready"]),
    "cordoned the one, not ready the other": (
        [A100], {"a100-0": CORDON, "a100-1": NOT_READY}, pod("x"), CauseCode.NODES_CORDONED, ["a100-0", "a100-1"],
    ),
    "cordoned as kubectl does it, with its taint": (
        [L4],
        {"l4-0": {"spec": {"unschedulable": True, "taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]}}},
        pod("x"), CauseCode.NODES_CORDONED, ["l4-0"],
    ),
    "more GPUs than any node has": ([A100, L4], {}, pod("x", 9), CauseCode.LARGER_THAN_ANY_NODE, ["9", "8"]),
    "more than the nodes of the model have": ([A100, L4], {}, pod("x", 6, nodeSelector={MODEL: "L4"}), CauseCode.LARGER_THAN_ANY_NODE, ["6", "4"]),
    "more memory than any node has": ([A100], {}, pod("x", memory="300Gi"), CauseCode.LARGER_THAN_ANY_NODE, ["300", "256"]),
    "more CPU than the only nodes with GPUs have": ([A100, pool("big", 1, 0, cpu=128)], {}, pod("x", cpu="96"), CauseCode.LARGER_THAN_ANY_NODE, ["96", "64"]),
    "GPUs where there are none": ([CPU], {}, pod("x", 2), CauseCode.LARGER_THAN_ANY_NODE, ["2", "cpu-0"]),
    "whole GPUs where all are split": ([MIG], {}, pod("x"), CauseCode.LARGER_THAN_ANY_NODE, ["1"]),
    "a multiple of the memory of a GPU": ([L4], {}, pod("x", annotations={"gpu-memory": "49000"}), CauseCode.GPU_SHARE_TOO_LARGE, ["24500 MiB at most", "fault of KAI"]),
    "more GPU memory than a GPU has": ([L4], {}, pod("x", annotations={"gpu-memory": "30000"}), CauseCode.GPU_SHARE_TOO_LARGE, ["30000", "memory", "24500"]),
    "more than the GPUs of the model have": (
        [A100, L4], {}, pod("x", annotations={"gpu-memory": "40000"}, nodeSelector={MODEL: "L4"}), CauseCode.GPU_SHARE_TOO_LARGE, ["40000"],
    ),
    "parts of more GPUs than a node has": (
        [L4], {}, pod("x", 0.5, annotations={"gpu-fraction-num-devices": "5"}), CauseCode.GPU_SHARE_TOO_LARGE, ["5", "4"],
    ),
    "nodes that do not tell their GPU memory": ([pool("p", 2)], {}, pod("x", annotations={"gpu-memory": "8000"}), CauseCode.GPU_MEMORY_UNKNOWN, ["memory", "p-0"]),
    "the nodes of the model do not tell it": (
        [A100, pool("p40", 1, gpuModel="P40")], {}, pod("x", annotations={"gpu-memory": "8000"}, nodeSelector={MODEL: "P40"}),
        CauseCode.GPU_MEMORY_UNKNOWN, ["p40-0"],
    ),
    "nor does it help that others have no GPUs": ([CPU, pool("p", 1)], {}, pod("x", annotations={"gpu-memory": "8000"}), CauseCode.GPU_MEMORY_UNKNOWN, ["p-0"]),
    "a MIG profile that no GPU is split into": ([MIG], {}, pod("x", mig="7g.80gb"), CauseCode.MIG_PROFILE_ABSENT, ["7g.80gb", "3g.40gb"]),
    "a MIG profile where no GPU is split": ([A100], {}, pod("x", mig="1g.10gb"), CauseCode.MIG_PROFILE_ABSENT, ["1g.10gb"]),
    "a MIG profile where there are no GPUs": ([CPU], {}, pod("x", mig="1g.10gb"), CauseCode.MIG_PROFILE_ABSENT, ["1g.10gb"]),
    "a MIG profile, and nodes without GPUs that are too small too": (
        [A100, pool("cpu", 1, 0, cpu=16)], {}, pod("x", mig="1g.10gb", cpu="60"), CauseCode.MIG_PROFILE_ABSENT, ["1g.10gb"],
    ),
    "a claim that is not there": (
        [A100], {}, pod("x", **mounting(persistentVolumeClaim={"claimName": "scans"})), CauseCode.VOLUME_MISSING, ["scans"],
    ),
    "a ConfigMap that is not mounted": ([A100], {}, pod("x", **mounting(configMap={"name": "settings"})), CauseCode.VOLUME_MISSING, ["settings"]),
    "a ConfigMap for the environment": ([A100], {}, pod("x", **reading("hyperparameters")), CauseCode.VOLUME_MISSING, ["hyperparameters"]),
    "a pool that is not served": ([A100], {}, pod("x", labels={"kai.scheduler/node-pool": "batch"}), CauseCode.NODE_POOL_NOT_SERVED, ["batch"]),
}  # fmt: skip


@contextmanager
def situated(name: str) -> Iterator[Lab]:
    """A lab in which a situation has come about."""
    pools, nodes, asked, _, _ = SITUATIONS[name]
    with opened(*pools) as lab:
        for node, patch in nodes.items():
            change_node(lab, node, patch)
        put(lab, asked)
        yield lab


@pytest.mark.parametrize("name", SITUATIONS)
def test_what_no_node_takes_is_told_by_what_has_to_go_first(name: str) -> None:
    *_, code, names = SITUATIONS[name]
    with situated(name) as lab:
        assert_told(lab, "Pod", "x", "never", code, names)


MENDED: dict[str, tuple[str, dict[str, Any]]] = {
    "a model there is not": ("l4-0", {"metadata": {"labels": {MODEL: "H200"}}}),
    "all nodes reserved": ("h100-1", {"spec": {"taints": None}}),
    "the only nodes that are large enough reserved": ("h100-1", {"spec": {"taints": None}}),
    "the only node cordoned": ("l4-0", {"spec": {"unschedulable": False}}),
    "more GPUs than any node has": ("a100-0", {"status": {"allocatable": {"nvidia.com/gpu": "9"}}}),
    "nodes that do not tell their GPU memory": ("p-0", {"metadata": {"labels": {"nvidia.com/gpu.memory": "16384"}}}),
}  # fmt: skip


@pytest.mark.parametrize("name", MENDED)
def test_without_the_cause_it_runs(name: str) -> None:
    with situated(name) as lab:
        change_node(lab, *MENDED[name])
        lab.settle()
        assert told(lab, "Pod", "x")[:2] == ("running", "")


def test_what_has_to_go_next_is_told_too() -> None:
    """The only node of the model is cordoned and has a taint: the one gone, the other is there."""
    with opened(A100, MAINTAINED) as lab:
        change_node(lab, "b200-0", CORDON)
        put(lab, pod("x", nodeSelector={MODEL: "B200"}))
        codes = [cause.code for cause in causes(lab, "Pod", "x")]
        assert codes == [CauseCode.TAINT_NOT_TOLERATED, CauseCode.NODES_CORDONED]
        change_node(lab, "b200-0", {"spec": {"taints": None}})
        lab.settle()
        assert told(lab, "Pod", "x")[1] == CauseCode.NODES_CORDONED


def test_the_profiles_to_choose_from_are_those_of_nodes_that_it_may_use() -> None:
    """The absent one is on the tainted node alone, and is none of those that there are."""
    small = pool("mig", 1, 4, gpuModel="A100", mig={"strategy": "mixed", "profiles": {"1g.10gb": 28}})
    with opened(small, {**MIG, "name": "other", "taints": RESERVED["taints"]}) as lab:
        put(lab, pod("x", mig="3g.40gb", nodeSelector=on("mig-0")))
        verdict, code, sentence = told(lab, "Pod", "x")
    assert (verdict, code) == ("never", CauseCode.MIG_PROFILE_ABSENT)
    assert sentence == (
        "It wants nvidia.com/mig-3g.40gb, and no node of those that it may use offers that profile; these offer nvidia.com/mig-1g.10gb."
    )


def test_one_node_with_split_gpus_has_none_that_are_whole() -> None:
    with opened(MIG) as lab:
        put(lab, pod("x"))
        assert told(lab, "Pod", "x")[2] == (
            "It wants 1 whole GPU; the node that it may use, mig-0, has only GPUs that are split (MIG)."
        )


BATCH = {"kai.scheduler/node-pool": "batch"}


@pytest.mark.parametrize("there", [[], [L4]], ids=["no other nodes", "others that it does not ask for"])
def test_nodes_of_a_pool_that_is_not_served(there: list[Any]) -> None:
    with opened(*there, {**A100, "labels": BATCH}) as lab:
        put(lab, pod("x", nodeSelector={MODEL: "A100"}))
        verdict, code, sentence = told(lab, "Pod", "x")
        assert (verdict, code) == ("never", CauseCode.NODE_POOL_NOT_SERVED)
        assert "a100-" in sentence
        assert "batch" in sentence
        change_node(lab, "a100-0", {"metadata": {"labels": {"kai.scheduler/node-pool": None}}})
        lab.settle()
        assert told(lab, "Pod", "x")[0] == "running"


def test_where_no_node_is_served_that_comes_before_what_the_nodes_lack() -> None:
    with opened(pool("a100", 2, gpuModel="A100", labels=BATCH, taints=[{"key": "k", "effect": "NoSchedule"}])) as lab:
        put(lab, pod("x"))
        verdict, code, sentence = told(lab, "Pod", "x")
        assert (verdict, code) == ("never", CauseCode.NODE_POOL_NOT_SERVED)
        assert "a100-0, a100-1" in sentence
        for name in ("a100-0", "a100-1"):
            change_node(lab, name, {"metadata": {"labels": {"kai.scheduler/node-pool": None}}})
        lab.settle()
        assert told(lab, "Pod", "x")[1] == CauseCode.TAINT_NOT_TOLERATED


def test_a_queue_of_a_pool_that_is_not_served() -> None:
    with opened(A100) as lab:
        lab.patch("Queue", "team", {"metadata": {"labels": BATCH}})
        put(lab, pod("x"))
        assert told(lab, "Pod", "x")[:2] == ("never", CauseCode.NODE_POOL_NOT_SERVED)


def test_a_node_that_becomes_ready_again_keeps_its_pods() -> None:
    with opened(L4) as lab:
        put(lab, pod("first"))
        change_node(lab, "l4-0", NOT_READY)
        put(lab, pod("x"))
        [step] = [step for step in lab.explain("Pod", "x").steps if "ready" in step.do]
        assert step.do == "Make node l4-0 ready again."
        assert step.outcome is not None
        assert (step.outcome.running, step.outcome.evicted) == (1, ())
        uid = lab.cluster.get("Pod", "first", "default")["metadata"]["uid"]
        with lab.fork() as copy:
            carry_out(copy, read_changes([dict(change) for change in step.changes]))
            assert copy.cluster.get("Pod", "first", "default")["metadata"]["uid"] == uid
            assert copy.cluster.get("Pod", "x", "default")["spec"]["nodeName"] == "l4-0"
