"""Work that asks for one model of GPU, while those that are free are of another."""

from __future__ import annotations

import pytest

from kailab.errors import ExpectationFailed
from kailab.explain.questions import ask
from kailab.lab import Lab
from kailab.lab.expectations import expect
from tests.explain.manifests import Object, fleet, job, queue

POOLS: tuple[Object, ...] = (
    {"count": 2, "gpuModel": "H100"},
    {"count": 3, "gpuModel": "A100"},
    {"count": 1, "gpuModel": "L4"},
)
H100 = {"nvidia.com/gpu.product": "H100"}


def told(*works: Object, kind: str = "Job", name: str = "want") -> list[str]:
    with Lab.open(fleet(*POOLS)) as lab:
        lab.apply([queue("org"), queue("red", "org"), queue("blue", "org")])
        for work in works:
            lab.apply([work])
            lab.settle()
        return [line for line in ask(lab, kind, name, tried=False).lines() if " not take." in line]


def want(pods: int = 1, gpus: int = 4, **spec: object) -> Object:
    return job("want", "blue", pods, gpus, gang=True, **spec)


def test_the_model_that_is_full_is_named_and_what_is_free_of_others() -> None:
    line = "8 of 8 H100 GPUs are in use; 16 free GPUs are A100 (12) and L4 (4), which it does not take."
    assert told(job("have", "red", 8, 1, nodeSelector=H100), want(nodeSelector=H100)) == [line]


def test_a_queue_says_it_of_its_waiting_work() -> None:
    [line] = told(job("have", "red", 8, nodeSelector=H100), want(nodeSelector=H100), kind="Queue", name="blue")
    assert line.endswith("which its waiting work for 4 GPUs does not take.")


def test_the_numbers_are_data_too() -> None:
    with Lab.open(fleet(*POOLS)) as lab:
        lab.apply([queue("org"), queue("red", "org"), queue("blue", "org")])
        lab.apply([job("have", "red", 8, nodeSelector=H100)])
        lab.settle()
        lab.apply([want(nodeSelector=H100)])
        lab.settle()
        answers = [
            ask(lab, kind, name, tried=False) for kind, name in (("Job", "want"), ("Queue", "blue"), ("Queue", "org"))
        ]
        for answer in answers:
            [short] = answer.data()["model_shortages"]
            assert (short["models"], short["gpus"], short["used"], short["free"]) == (["H100"], 8, 8, 0)
            assert (short["others"], short["waiting"], short["queues"]) == ({"A100": 12, "L4": 4}, 4, ["blue"])


def test_a_failing_expectation_says_it() -> None:
    with Lab.open(fleet(*POOLS)) as lab:
        lab.apply([queue("org"), queue("red", "org"), queue("blue", "org")])
        lab.apply([job("have", "red", 8, nodeSelector=H100)])
        lab.settle()
        lab.apply([want(nodeSelector=H100)])
        for subject in (lab.job("want"), lab.queue("blue")):
            with pytest.raises(ExpectationFailed, match="8 of 8 H100 GPUs are in use; 16 free GPUs are A100"):
                expect(subject).running(gpus=4)


def test_a_cordoned_node_of_its_model_is_no_free_gpu() -> None:
    with Lab.open(fleet(*POOLS)) as lab:
        lab.apply([queue("org"), queue("red", "org"), queue("blue", "org")])
        for name in ("p0-0", "p0-1"):
            lab.patch("Node", name, {"spec": {"unschedulable": True}})
        lab.apply([want(nodeSelector=H100)])
        lab.settle()
        [line] = [line for line in ask(lab, "Job", "want", tried=False).lines() if " not take." in line]
        assert line.startswith("0 of 8 H100 GPUs are in use (8 are on nodes that take no new pods); 16 free GPUs")


def test_work_that_tolerates_two_models_takes_both() -> None:
    terms = [{"matchExpressions": [{"key": "nvidia.com/gpu.product", "operator": "In", "values": ["H100", "L4"]}]}]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    [line] = told(job("have", "red", 12, affinity=affinity), want(affinity=affinity))
    assert line == "12 of 12 H100 and L4 GPUs are in use; 12 free GPUs are A100 (12), which it does not take."


def test_what_is_left_of_the_model_is_told() -> None:
    [line] = told(job("have", "red", 6, 1, nodeSelector=H100), want(2, 2, nodeSelector=H100))
    assert line.startswith("6 of 8 H100 GPUs are in use and 2 are free, too few for the 4 GPUs that it wants at once; ")


def test_nothing_is_told_where_others_are_full_too() -> None:
    assert not told(job("have", "red", 8, nodeSelector=H100), job("rest", "red", 16), want(nodeSelector=H100))


def test_nothing_is_told_where_it_may_use_every_model() -> None:
    assert not told(job("have", "red", 24), want())


def test_nothing_is_told_where_its_model_is_free_and_something_else_keeps_it() -> None:
    short = {"requests": {"cpu": "31"}, "nodeSelector": H100}
    assert not told(job("have", "red", 2, 0, **short), want(nodeSelector=H100, requests={"cpu": "8"}))
