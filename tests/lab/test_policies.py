"""Policies in a lab: kept over a resume, and explained."""

from __future__ import annotations

from pathlib import Path

import pytest

from kailab.engine.policies.settings import Checkpoint, SearchBudget, WeightedOrder
from kailab.errors import InputError
from kailab.explain.questions import ask
from kailab.lab import Lab, expect
from kailab.lab.answer import Answer
from kailab.scheduler.usage import UsageParams

EVERYTHING = {
    "actions": "allocate, reclaim, preempt",
    "tiers": [{"plugins": [{"name": "predicates"}, {"name": "elastic"}, {"name": "priority"}]}],
    "queueDepthPerAction": {"preempt": 3},
    "usageDBConfig": {"usageParams": {"windowType": "cron", "cronString": "@daily"}},
    "kailab": {
        "jobOrder": {"scope": "cluster"},
        "agedAfter": "12h",
        "victimOrder": "priority",
        "maxEvictionsPerCycle": 3,
        "maxEvictionsPerCycleByPriority": {50: 2},
        "checkpoint": {"gracePeriod": "90s"},
        "searchBudget": {"maxScenariosPerJob": 9, "maxScenariosPerAction": {"reclaim": 7}},
    },
}
EXERCISE = Path(__file__).resolve().parents[2] / "exercises" / "policies"


def test_a_configuration_lives_on_in_a_resumed_lab(tmp_path) -> None:
    with Lab.open(config=EVERYTHING) as lab:
        lab.settle()
        lab.save(tmp_path / "lab")
        config, usage = lab.config, lab.usage
    with Lab.resume(tmp_path / "lab") as again:
        assert (again.config, again.usage) == (config, usage)
    assert usage == UsageParams(window_type="cron", cron="@daily")
    assert config.weighted_order == WeightedOrder(scope="cluster")
    assert (config.aged_after, config.victim_order, config.max_evictions_per_cycle) == (43_200.0, "priority", 3)
    assert config.max_evictions_by_priority == ((50, 2),)
    assert config.checkpoint == Checkpoint(grace=90.0)
    assert config.search_budget == SearchBudget(per_job=9, per_action={"reclaim": 7})
    assert (config.plugins, config.queue_depth) == (("predicates", "elastic", "priority"), {"preempt": 3})


def test_a_lab_says_what_is_wrong_with_a_configuration(tmp_path) -> None:
    with pytest.raises(InputError, match=r"kailab\.agedAfter: 'soon' is not a duration"):
        Lab.open(config={"kailab": {"agedAfter": "soon"}})
    with pytest.raises(InputError, match="can't be read"):
        Lab.open(config=tmp_path / "none.yaml")


def told(lab: Lab, pod: str) -> Answer:
    """Without steps: each is tried on a copy of the lab, and none is read here."""
    return ask(lab, "Pod", pod, tried=False)


@pytest.fixture
def held() -> list[Path]:
    """A team's 8 GPUs, held by a gang for twenty hours."""
    return [EXERCISE / "manifests" / name for name in ("queues-one-team.yaml", "tenant-20h.yaml")]


def test_the_score_decides_who_is_said_to_be_ahead(held) -> None:
    for config, ahead_of_young in ((None, []), (EXERCISE / "config" / "weighted.yaml", ["pg-old-"])):
        with Lab.open(config=config) as lab:
            lab.apply(*held)
            lab.settle()
            lab.apply(EXERCISE / "manifests" / "old-gang.yaml")
            lab.settle()
            lab.advance(19 * 3600)
            lab.apply(EXERCISE / "manifests" / "young.yaml")
            lab.settle()
            ahead = told(lab, "young").data()["ahead"]
            assert [name[:7] for name in ahead] == ahead_of_young


def test_the_score_is_told_as_it_is_now(held) -> None:
    with Lab.open(config=EXERCISE / "config" / "weighted.yaml") as lab:
        lab.apply(*held)
        lab.settle()
        lab.apply(EXERCISE / "manifests" / "old-gang.yaml")
        lab.settle()
        [pod, *_] = [row.name.partition("/")[2] for row in lab.picture().rows if row.phase == "Pending"]
        assert "waiting 0.000 x" in str(told(lab, pod))
        lab.advance(12 * 3600)
        assert "waiting 0.500 x" in str(told(lab, pod))


def test_explain_tells_of_age() -> None:
    with Lab.open(config={"kailab": {"agedAfter": "2h"}}) as lab:
        lab.apply(*(EXERCISE / "manifests" / name for name in ("queues-one-team.yaml", "old-gang.yaml")))
        lab.settle()
        lab.apply(EXERCISE / "manifests" / "humble.yaml")
        lab.settle()
        assert "Aged" not in str(told(lab, "humble"))
        lab.advance(2 * 3600 + 10)
        assert "Aged: it waits since 2026-01-01T00:00:0" in str(told(lab, "humble"))
        lab.apply(EXERCISE / "manifests" / "young.yaml")
        lab.settle()
        assert [name[:9] for name in told(lab, "young").data()["ahead"]] == ["pg-humble"]


def test_explain_tells_of_a_victim_that_saves_its_state() -> None:
    with Lab.open(config=EXERCISE / "config" / "checkpoint.yaml") as lab:
        lab.apply(EXERCISE / "manifests" / "queues-lenders.yaml", EXERCISE / "manifests" / "saving.yaml")
        lab.settle()
        lab.apply(EXERCISE / "manifests" / "owner-four.yaml")
        expect(lab.queue("owner")).pending(pods=4)
        leaving = [row for row in lab.picture().rows if row.phase == "Terminating"]
        assert len(leaving) == 4
        said = str(told(lab, leaving[0].name.partition("/")[2]))
        assert "It has been saving its state since 2026-01-01T00:00:0" in said
        assert "keeps its GPUs meanwhile" in said
