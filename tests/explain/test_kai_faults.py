"""Waiting work is told where KAI decides otherwise by a fault, and where a decision rests on an imitated one."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from kailab.engine.config import EngineConfig
from kailab.engine.decisions import ImitatedFaults
from kailab.explain import kai_faults
from kailab.explain.questions import ask
from kailab.lab import Lab
from kailab.lab.settle import NotSettled
from tests.explain.manifests import Object, fleet, job, pod, queue

REGRESSIONS = Path(__file__).parents[2] / "examples/regressions"
L4: Object = {"count": 1, "gpus": 1, "gpuModel": "L4", "gpuMemory": "24Gi"}
FEW_SLOTS: Object = {"count": 1, "gpus": 8, "pods": 2}
MULTIPLE = {"gpu-memory": "49000"}


def told(*works: Object, pool: Object = L4, name: str = "want", **config: Any) -> list[str]:
    with Lab.open(fleet(pool), config=EngineConfig(**config)) as lab:
        lab.apply([queue("org"), queue("red", "org"), queue("blue", "org")])
        for work in works:
            lab.apply([work])
            lab.settle()
        return [line for line in ask(lab, "Pod", name, tried=False).lines() if "imitate_faults" in line]


def test_what_kai_does_by_a_fault_is_told_with_its_number_and_the_setting() -> None:
    (line,) = told(pod("want", "red", 0, annotations=MULTIPLE))
    assert line.startswith("KAI would start 1 pod of it in the next cycle, by fault 12 of KAI (it binds")
    assert "only with imitate_faults" in line


def test_work_that_waits_for_another_reason_is_told_of_no_fault() -> None:
    assert not told(job("have", "red"), pod("want", "red"))


SLOTS = pod("have", "red"), pod("want", "blue", 0, annotations={"gpu-fraction": "0.5"})
"""A share of a new GPU takes two pod slots; in the search the other pod gives one up, and stays."""


def test_a_promise_that_kai_would_repeat_for_ever_is_told() -> None:
    (line,) = told(*SLOTS, pool=FEW_SLOTS)
    assert line.startswith("KAI would promise places to 1 pod of it in the next cycle, by fault 18 of KAI")


@pytest.mark.parametrize("imitated", [True, (18,)])
def test_a_decision_that_rests_on_an_imitated_fault_names_it(imitated: bool | tuple[int, ...]) -> None:
    (line,) = told(*SLOTS, pool=FEW_SLOTS, imitate_faults=imitated)
    assert line.startswith("The decision rests on fault 18 of KAI (it promises places that no pod has to leave)")
    assert line.endswith("Without it the next cycle would let it wait.")


def test_a_large_lab_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kai_faults, "MOST_TASKS", 0)
    assert not told(pod("want", "red", 0, annotations=MULTIPLE))


def test_a_decision_that_was_made_by_an_imitated_fault_names_it() -> None:
    """KAI evicts a pod of the elastic gang in each cycle, because it counts that pod twice."""
    scenario = yaml.safe_load((REGRESSIONS / "a-victim-counted-twice.yaml").read_text())
    with Lab.open(fleet({"count": 1, "gpus": 8}), config=EngineConfig(imitate_faults=True)) as lab:
        for step in scenario["steps"]:
            lab.apply(step["apply"])
            with suppress(NotSettled):
                lab.settle()
        evicted = lab.log.evictions[-1]
        assert (evicted.podgroup, evicted.imitated) == ("default/elastic", ImitatedFaults(numbers=(2,)))
        assert any(
            "This rests on fault 2 of KAI (it evicts a victim twice" in line
            for line in ask(lab, "Deployment", "elastic").lines()
        )
