"""Policies of other distributions in configurations and in labs."""

from __future__ import annotations

import sys

import msgspec
import pytest

from kailab.engine.config import EngineConfig
from kailab.engine.policies import contract
from kailab.engine.policies.settings import PolicyChoice, WeightedOrder
from kailab.errors import ExtensionError, InputError, PolicyError
from kailab.explain.questions import ask
from kailab.lab import Lab, expect
from kailab.scheduler.observers import Observer
from kailab.scheduler.settings.config_file import read_settings
from tests.extensions.conftest import pods

MODULE = """
from kailab.engine.policies.contract import JobOrder, NodeScore

class Fewest(JobOrder):
    reverse: bool = False
    def key(self, job):
        return -job.wants.gpu if self.reverse else job.wants.gpu

class Numpys(JobOrder):
    def key(self, job):
        import numpy as np
        return np.float64(job.wants.gpu)

class Last(NodeScore):
    def score(self, task, nodes):
        return [i / len(nodes.records) for i in range(len(nodes.records))]

class Faulty(JobOrder):
    def key(self, job):
        return job.no_such_field
"""
POINTS = """[kailab.policies]
fewest-first = acme_policies:Fewest
last-node = acme_policies:Last
faulty = acme_policies:Faulty
numpys = acme_policies:Numpys
no-policy = acme_policies:__name__
"""


@pytest.fixture
def acme(bring):
    return bring("acme", POINTS, acme_policies=MODULE)


def test_a_configuration_names_a_policy_and_is_told_whose_it_is(acme) -> None:
    found = read_settings("kailab: {jobOrder: fewest-first, nodeScore: {policy: last-node}}").engine
    assert found == EngineConfig(
        job_order_policy=PolicyChoice(name="fewest-first", distribution="acme", version="1.2"),
        node_score_policy=PolicyChoice(name="last-node", distribution="acme", version="1.2"),
    )


def test_a_policy_with_parameters(acme) -> None:
    text = "kailab: {jobOrder: {policy: fewest-first, parameters: {reverse: true}}}"
    choice = read_settings(text).engine.job_order_policy
    assert choice is not None
    assert dict(choice.parameters) == {"reverse": True}


@pytest.mark.parametrize(
    ("section", "told"),
    [
        (
            "{jobOrder: absent}",
            "c.yaml: kailab.jobOrder: no policy is called 'absent'; installed distributions bring: fa",
        ),
        ("{jobOrder: last-node}", "policy 'last-node' is a NodeScore; expected a JobOrder"),
        ("{jobOrder: no-policy}", "kailab.policies 'no-policy' of acme 1.2: 'acme_policies' is no policy"),
        ("{jobOrder: {policy: 7}}", "jobOrder.policy: 7 is no name of a policy"),
        ("{jobOrder: {policy: fewest-first, weights: {}}}", "jobOrder.weights: is not known"),
        ("{jobOrder: {policy: fewest-first, parameters: {reverse: 3}}}", "Expected `bool`, got `int`"),
        ("{victimOrder: fewest-first}", "is a JobOrder; expected a VictimOrder"),
        ("{victimOrder: 7}", "7 is no order of victims; expected queue or priority"),
        ("{nodeScore: {gpu: spread}}", "nodeScore: names no policy"),
        ("{nodeScore: 7}", "nodeScore: names no policy"),
        ("{reservation: 7}", "reservation: names no policy"),
        ("{reservation: fifo}", "'fifo' is a JobOrder; expected a Reservation"),
    ],
)
def test_what_is_wrong_is_told_with_the_file(acme, section: str, told: str) -> None:
    with pytest.raises(InputError) as raised:
        read_settings(f"kailab: {section}", "c.yaml")
    assert str(raised.value).startswith("c.yaml")
    assert told in str(raised.value)


def test_an_engine_configuration_is_checked_where_a_lab_opens(acme) -> None:
    with pytest.raises(ExtensionError, match="no policy is called 'absent'"):
        Lab.open(config=EngineConfig(job_order_policy=PolicyChoice(name="absent")))
    with pytest.raises(ExtensionError, match="'no-policy' of acme"):
        Lab.open(config=EngineConfig(job_order_policy=PolicyChoice(name="no-policy")))
    both = EngineConfig(job_order_policy=PolicyChoice(name="fewest-first"), weighted_order=WeightedOrder())
    with pytest.raises(InputError, match="one or the other"):
        Lab.open(config=both)


def _apply(lab: Lab, **gpus: int) -> None:
    for name, count in gpus.items():
        lab.apply(pods(**{name: count}))


def test_a_policy_decides_in_a_lab_and_in_one_that_is_taken_up_again(acme, tmp_path) -> None:
    with Lab.open(fleet="lesson", config={"kailab": {"jobOrder": "fewest-first"}}) as lab:
        _apply(lab, large=8, middle=5, small=2)
        lab.settle()
        expect(lab.pod("small")).running()
        expect(lab.pod("large")).pending()
        told = str(ask(lab, "Pod", "large", tried=False))
        assert "the policy 'fewest-first' gives it 8000; the smallest comes first" in told
        lab.save(tmp_path / "lab")
    with Lab.resume(tmp_path / "lab") as again:
        assert again.config.job_order_policy == PolicyChoice(name="fewest-first", distribution="acme", version="1.2")
        again.delete(pods(small=2).split("---")[1])
        again.settle()
        expect(again.pod("middle")).running()


def test_a_lab_without_the_policy_it_was_opened_with_says_so(bring, tmp_path, monkeypatch) -> None:
    site = bring("acme", POINTS, acme_policies=MODULE)
    with Lab.open(config={"kailab": {"nodeScore": "last-node"}}) as lab:
        lab.settle()
        lab.save(tmp_path / "lab")
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place != str(site)])
    monkeypatch.setattr(contract, "_registered", {})  # as in another process
    with pytest.raises(
        ExtensionError,
        match=r"no policy is called 'last-node'; installed distributions bring: none; it was brought by acme 1.2",
    ):
        Lab.resume(tmp_path / "lab")


class _Seen(Observer):
    def __init__(self) -> None:
        self.decisions = []

    def on_cycle(self, record) -> None:
        self.decisions.append(record.decisions)


def test_a_number_of_a_class_of_its_own_is_recorded_as_a_number(acme) -> None:
    seen = _Seen()
    with Lab.open(fleet="lesson", config={"kailab": {"jobOrder": "numpys"}}, observers=(seen,)) as lab:
        _apply(lab, large=9)
        lab.settle()
    # Evidence is written so: without a hook for what others bring.
    told = [msgspec.json.decode(msgspec.json.encode(decisions)) for decisions in seen.decisions]
    assert [one["numbers"]["policy"]["key"] for one in told[-1]["pending"]] == [[9000.0]]


def test_a_policy_s_fault_in_a_lab_names_it(acme) -> None:
    with Lab.open(config={"kailab": {"jobOrder": "faulty"}}) as lab:
        _apply(lab, one=1)
        with pytest.raises(
            PolicyError,
            match=r"policy 'faulty' of acme 1.2: key of PodGroup default/.* failed: AttributeError: .*[Ii]t has: group, holds, minimum, now",
        ):
            lab.settle()
