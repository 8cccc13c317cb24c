from __future__ import annotations

import pytest

from checks.recorded.scenarios import ABOUT_PLACEMENT, read_scenarios, run_recorded_scenario
from checks.recorded_files import VARIABLE, shared_folder
from kailab.model import labels
from kailab.scenarios.scenario import Scenario


def queue(name, parent="", quota=-1):
    share = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    spec = {"resources": {"cpu": share, "memory": share, "gpu": {**share, "quota": quota}}}
    return {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {**spec, "parentQueue": parent} if parent else spec,
    }


def pod(name, gpus=1, in_queue="team"):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name, labels.QUEUE: in_queue}},
        "spec": {
            "schedulerName": labels.SCHEDULER_NAME,
            "tolerations": [{"key": labels.FAKE_NODE_TAINT, "operator": "Exists"}],
            "containers": [{"name": "app", "image": "pause", "resources": {"limits": {labels.GPU_RESOURCE: gpus}}}],
        },
    }


def scenario(*steps, name="one"):
    return Scenario(suite="test", name=name, steps=steps, placement=name.startswith(ABOUT_PLACEMENT))


def expecting(apps, **step):
    return {**step, "expect": {"apps": apps, "pending_reasons": step.pop("reasons", {})}}


SETUP = {"apply": [queue("org"), queue("team", "org")]}


def test_a_scenario_that_comes_out_as_recorded():
    steps = [
        SETUP,
        expecting({"a": {"Running": 1}}, apply=[pod("a", 4)]),
        expecting({"a": {"Running": 0}}, delete={"kind": "Pod", "name": "a"}),
    ]
    assert run_recorded_scenario(scenario(*steps)).differences == ()


def test_counts_and_reasons_that_differ_are_spelt_out():
    steps = [SETUP, expecting({"a": {"Running": 1}}, apply=[pod("a", 9)], reasons={"a": ["OverLimit"]})]
    first, second = run_recorded_scenario(scenario(*steps)).differences
    assert first.startswith("step 2: a: 0 Running, KAI had 1")
    assert second == "step 2: a: pending for PodSchedulingErrors, KAI gave OverLimit"


def test_an_app_that_is_not_named_has_nothing_running():
    assert run_recorded_scenario(scenario(SETUP, expecting({}, apply=[pod("a")]))).differences == (
        "step 2: a: 1 Running, KAI had 0",
    )


def test_placement_counts_where_the_name_says_so():
    step = expecting({"a": {"Running": 1}}, apply=[pod("a", 4)]) | {"seen_nodes": {"a": {"h100-0": 1}}}
    assert run_recorded_scenario(scenario(SETUP, step)).passed
    (difference,) = run_recorded_scenario(scenario(SETUP, step, name="place-somewhere")).differences
    assert difference == "step 2: a: placed rack-3: 1, KAI had rack-2: 1"


def test_a_bad_object_stops_the_scenario_with_its_reason():
    (difference,) = run_recorded_scenario(scenario({"apply": [{"kind": "Pod"}]})).differences
    assert difference.startswith("step 1: stopped: ")


@pytest.mark.slow
def test_what_a_real_kai_showed():
    folder = shared_folder() / "scenarios"
    if not folder.is_dir():
        pytest.skip(f"no recorded scenarios at {folder} (set {VARIABLE})")
    results = [run_recorded_scenario(one) for one in read_scenarios([folder])]
    assert results
    assert {r.id: r.differences for r in results if not r.passed and "random-" not in r.id} == {}
