"""KAI's scheduler configuration, read."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kailab.engine.config import ACTIONS, EngineConfig
from kailab.errors import InputError
from kailab.scheduler import load_settings, read_settings

FULL = """
actions: "allocate, reclaim, stalegangeviction"
tiers:
- plugins:
  - name: predicates
  - name: proportion
    arguments:
      kValue: "0.5"
      relcaimerSaturationMultiplier: "1.5"
  - name: nodeplacement
    arguments:
      cpu: binpack
      gpu: spread
  - name: gpuspread
  - name: minruntime
    arguments:
      defaultReclaimMinRuntime: "10m"
      defaultPreemptMinRuntime: "1h"
      reclaimResolveMethod: queue
usageDBConfig:
  clientType: prometheus
  usageParams:
    windowSize: 1w
    halfLifePeriod: 10m
    windowType: tumbling
    tumblingWindowStartTime: 2026-01-01T00:00:00Z
"""


def test_a_full_file() -> None:
    found = read_settings(FULL)
    assert found.engine == EngineConfig(
        actions=("allocate", "reclaim", "stalegangeviction"),
        gpu_placement="spread",
        gpu_sharing="spread",
        reclaim_min_runtime=600.0,
        preempt_min_runtime=3600.0,
        reclaim_resolve="queue",
        saturation_multiplier=1.5,
        k_value=0.5,
    )
    assert (found.usage.window, found.usage.half_life) == (604_800.0, 600.0)
    assert found.usage.tumbling_start == 1_767_225_600.0


def test_an_empty_file_gives_the_defaults() -> None:
    assert read_settings("").engine == EngineConfig()
    assert read_settings("").engine.actions == ACTIONS


def test_k_value_without_a_usage_database_means_nothing() -> None:
    text = "tiers: [{plugins: [{name: predicates}, {name: proportion, arguments: {kValue: '3'}}]}]"
    assert read_settings(text).engine.k_value == 0.0


def test_predicates_can_be_left_out() -> None:
    assert not read_settings("tiers: [{plugins: [{name: proportion}]}]").engine.predicates


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("actions: allocate, dance", "no action is called 'dance'"),
        ("actions: allocate, allocate", "given twice"),
        ("actions: [allocate]", "expected text"),
        ("tiers: [{plugins: [{name: nonsense}]}]", "tiers[0].plugins[0]: no plugin is called 'nonsense'"),
        ("tiers: {}\nactions: allocate\nwhat: 1", "what: is not known"),
        ("tiers: 3", "tiers: is int; expected a list"),
        ("tiers: [{plugins: [{name: nodeplacement, arguments: {gpu: sideways}}]}]", "'sideways' is no placement"),
        ("tiers: [{plugins: [{name: minruntime, arguments: {defaultReclaimMinRuntime: x}}]}]", "not a duration"),
        ("usageDBConfig: {usageParams: {windowType: cron}}", "expected sliding or tumbling"),
        ("usageDBConfig: {usageParams: {windowSize: 0s}}", "is zero"),
        ("- a", "expected a mapping"),
        ("a: [", "c.yaml:2: is not YAML"),
    ],
)
def test_what_is_wrong_is_named(text: str, expected: str) -> None:
    with pytest.raises(InputError) as error:
        read_settings(text + "\n", "c.yaml")
    assert expected in str(error.value)
    assert str(error.value).startswith("c.yaml")


def test_a_missing_file(tmp_path) -> None:
    with pytest.raises(InputError, match="can't be read"):
        load_settings(tmp_path / "none.yaml")


_LEAVES = st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.floats()
_TREES = st.recursive(_LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner))


@given(st.dictionaries(st.sampled_from(["actions", "tiers", "usageDBConfig", "queueDepthPerAction"]), _TREES))
def test_any_document_is_read_or_refused(document: dict) -> None:
    import yaml

    with contextlib.suppress(InputError):
        read_settings(yaml.safe_dump(document))
