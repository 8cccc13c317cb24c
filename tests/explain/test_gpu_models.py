"""Work that asks for one model of GPU, while those that are free are of another."""

from __future__ import annotations

from kailab.explain.questions import ask
from kailab.lab import Lab
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
        return [line for line in ask(lab, kind, name, tried=False).lines() if "of other models" in line]


def want(pods: int = 1, gpus: int = 4, **spec: object) -> Object:
    return job("want", "blue", pods, gpus, gang=True, **spec)


def test_the_model_that_is_full_is_named_and_what_is_free_of_others() -> None:
    line = (
        "Of H100, which it may use, all 8 GPUs are held; of other models there are free: A100 (12 GPUs), L4 (4 GPUs)."
    )
    assert told(job("have", "red", 8, 1, nodeSelector=H100), want(nodeSelector=H100)) == [line]


def test_of_a_queue_it_is_told_of_the_first_that_waits() -> None:
    assert told(job("have", "red", 8, nodeSelector=H100), want(nodeSelector=H100), kind="Queue", name="blue")


def test_what_is_left_of_the_model_is_told() -> None:
    [line] = told(job("have", "red", 6, 1, nodeSelector=H100), want(2, 2, nodeSelector=H100))
    assert line.startswith("Of H100, which it may use, 6 of 8 GPUs are held; ")


def test_nothing_is_told_where_others_are_full_too() -> None:
    assert not told(job("have", "red", 8, nodeSelector=H100), job("rest", "red", 16), want(nodeSelector=H100))


def test_nothing_is_told_where_it_may_use_every_model() -> None:
    assert not told(job("have", "red", 24), want())


def test_nothing_is_told_where_its_model_is_free_and_something_else_keeps_it() -> None:
    short = {"requests": {"cpu": "31"}, "nodeSelector": H100}
    assert not told(job("have", "red", 2, 0, **short), want(nodeSelector=H100, requests={"cpu": "8"}))
