"""Reading KAI's scheduler configuration."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kailab.engine.config import ACTIONS, EngineConfig
from kailab.engine.policies.settings import Checkpoint, SearchBudget, WeightedOrder
from kailab.engine.policies.switches import Switches, switches
from kailab.errors import InputError
from kailab.scheduler.settings.config_file import load_settings, read_settings, settings_of

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
        prefer_shared_devices=False,
        plugins=("predicates", "proportion", "nodeplacement", "gpuspread", "minruntime"),
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
        ("usageDBConfig: {usageParams: {windowType: round}}", "expected sliding or tumbling or cron"),
        ("usageDBConfig: {usageParams: {windowType: cron}}", "cronString: '' is no cron expression"),
        ("usageDBConfig: {usageParams: {windowType: cron, cronString: '0 25 * * *'}}", "the hour is out of its range"),
        ("queueDepthPerAction: {dance: 1}", "queueDepthPerAction.dance: is not known"),
        ("queueDepthPerAction: {reclaim: -2}", "-2 is not a whole number of at least -1"),
        ("queueDepthPerAction: {reclaim: true}", "True is not a whole number"),
        ("scenarioSearchBudgets: {maxJobSearchDuration: 2}", "maxJobSearchDuration: 2 is not a duration"),
        ("scenarioSearchBudgets: {maxActionSearchDuration: {allocate: 1m}}", "allocate: is not known"),
        ("scenarioSearchBudgets: {maxJobSearchDuration: 1m, minJobSearchDuration: 1m}", "must be less than"),
        ("kailab: {jobOder: {}}", "kailab.jobOder: is not known"),
        ("kailab: {jobOrder: {weights: {priority: -1}}}", "kailab.jobOrder.weights.priority: -1 is negative"),
        ("kailab: {jobOrder: {weights: {priority: 0}}}", "kailab.jobOrder.weights: are all zero"),
        ("kailab: {jobOrder: {weights: {prority: 1}}}", "prority: is not known"),
        ("kailab: {jobOrder: {fullWait: 0s}}", "kailab.jobOrder.fullWait: is zero"),
        ("kailab: {jobOrder: {scope: team}}", "'team' is no scope; expected queue or cluster"),
        ("kailab: {agedAfter: soon}", "kailab.agedAfter: 'soon' is not a duration"),
        ("kailab: {victimOrder: newest}", "c.yaml: kailab.victimOrder: no policy is called 'newest'"),
        ("kailab: {maxEvictionsPerCycle: many}", "'many' is not a whole number of at least 0"),
        ("kailab: {maxEvictionsPerCycleByPriority: {train: 3}}", "train: is not a priority"),
        ("kailab: {maxTakenRatio: 0}", "kailab.maxTakenRatio: 0 allows no evictions; expected a number above 0"),
        ("kailab: {maxTakenRatio: twice}", "kailab.maxTakenRatio: 'twice' is not a number"),
        ("kailab: {checkpoint: 2m}", "kailab.checkpoint: is str; expected a mapping"),
        ("kailab: {useSchedulingSignatures: 1}", "1 is not true or false"),
        ("usageDBConfig: {usageParams: {windowSize: 0s}}", "is zero"),
        ("- a", "expected a mapping"),
        ("a: [", "c.yaml:2: not valid YAML"),
    ],
)
def test_faults_are_reported_with_their_place(text: str, expected: str) -> None:
    with pytest.raises(InputError) as error:
        read_settings(text + "\n", "c.yaml")
    assert expected in str(error.value)
    assert str(error.value).startswith("c.yaml")


KAI_DEFAULTS = """
tiers:
- plugins: [{name: predicates}, {name: proportion}, {name: priority}, {name: elastic}, {name: kubeflow}, {name: ray},
    {name: nodeavailability}, {name: gpusharingorder}, {name: gpupack}, {name: resourcetype}, {name: podaffinity},
    {name: subgrouporder}, {name: taskorder}, {name: nominatednode}, {name: dynamicresources},
    {name: nodeplacement, arguments: {cpu: binpack, gpu: binpack}}, {name: minruntime}, {name: topology},
    {name: snapshot}, {name: sg-nodelocalgreedy}, {name: sg-multinodegang}]
"""


def test_kais_own_list_of_plugins_is_the_default() -> None:
    found = read_settings(KAI_DEFAULTS)
    assert (found.engine, found.notices) == (EngineConfig(), ())


def test_without_podaffinity_it_is_the_list_built_into_kais_scheduler() -> None:
    found = read_settings(KAI_DEFAULTS.replace(" {name: podaffinity},", "")).engine
    assert switches(found.plugins) == Switches(pod_affinity=False)


def test_settings_without_effect_are_reported() -> None:
    text = """
tiers: [{plugins: [{name: predicates}, {name: reflectjoborder}, {name: priority, disableJobOrder: true},
         {name: gpupack, arguments: {tightness: 9}}]}]
scenarioSearchBudgets: {maxJobSearchDuration: 2s, maxActionSearchDuration: {default: 1m}}
usageDBConfig: {clientType: prometheus, connectionString: 'http://prometheus:9090'}
"""
    notices = "\n".join(read_settings(text).notices)
    for told in (
        "plugin priority: disableJobOrder has no effect",
        "plugin gpupack: argument tightness has no effect",
        "plugin proportion is not listed, but has its effect",
        "plugin reflectjoborder has no effect",
        "scenarioSearchBudgets: durations are counted as sets of victims simulated",
        "without a database",
    ):
        assert told in notices


def test_plugins_that_a_file_leaves_out_are_told() -> None:
    """With what their absence means; not what makes no difference, nor gpupack where gpuspread stands for it."""
    without = KAI_DEFAULTS.replace("{name: sg-nodelocalgreedy}, {name: sg-multinodegang}", "{name: reflectjoborder}")
    told = read_settings(without.replace("{name: kubeflow}, ", "").replace("gpupack", "gpuspread")).notices
    assert [notice for notice in told if notice.startswith("tiers")] == [
        "tiers replaces KAI's list of plugins, so plugins sg-nodelocalgreedy, sg-multinodegang are off: nothing is "
        "reclaimed or preempted"
    ]
    (one,) = read_settings(KAI_DEFAULTS.replace(" {name: taskorder},", "")).notices
    assert one == "tiers replaces KAI's list of plugins, so plugin taskorder is off"
    shard = "apiVersion: kai.scheduler/v1\nkind: SchedulingShard\nspec: {plugins: {taskorder: {enabled: false}}}\n"
    assert read_settings(shard).notices == ()


@pytest.mark.parametrize(
    ("plugins", "expected"),
    [("{name: gpupack}", "binpack"), ("{name: gpuspread}", "spread"), ("{name: gpupack}, {name: gpuspread}", "any"),
     ("{name: predicates}", "any")],
)  # fmt: skip
def test_which_shared_gpu_first(plugins: str, expected: str) -> None:
    assert read_settings(f"tiers: [{{plugins: [{plugins}]}}]").engine.gpu_sharing == expected


def test_depths_and_budgets() -> None:
    found = read_settings("""
queueDepthPerAction: {allocate: 5, reclaim: -1}
scenarioSearchBudgets:
  maxJobSearchDuration: 2s
  minJobSearchDuration: 100ms
  maxActionSearchDuration: {default: 10s, reclaim: 0s}
  maxGeneratorSearchDuration: {NodeLocalGreedy: 500ms}
""").engine
    assert found.queue_depth == {"allocate": 5, "reclaim": -1}
    assert found.search_budget == SearchBudget(
        per_job=200,
        min_per_job=10,
        per_action={"default": 1000, "reclaim": 0},
        per_generator={"NodeLocalGreedy": 50},
    )


def test_policies_of_our_own() -> None:
    found = read_settings("""
kailab:
  jobOrder: {weights: {priority: 2, waiting: 1}, fullWait: 12h, scope: cluster}
  agedAfter: 1d
  victimOrder: priority
  maxEvictionsPerCycle: 3
  maxEvictionsPerCycleByPriority: {75: 1, 50: 3}
  maxTakenRatio: 2.5
  checkpoint: {gracePeriod: 2m}
  searchBudget: {maxScenariosPerJob: 200, maxScenariosPerAction: {reclaim: 1000}}
  maxConsolidationVictims: -1
  allowConsolidatingReclaim: false
  useSchedulingSignatures: false
  stalenessGracePeriod: 5m
""").engine
    assert found == EngineConfig(
        weighted_order=WeightedOrder(
            priority=2.0, waiting=1.0, efficiency=0.0, fairness=0.0, full_wait=43_200.0, scope="cluster"
        ),
        aged_after=86_400.0,
        victim_order="priority",
        max_evictions_per_cycle=3,
        max_evictions_by_priority=((50, 3), (75, 1)),
        max_taken_ratio=2.5,
        checkpoint=Checkpoint(grace=120.0),
        search_budget=SearchBudget(per_job=200, per_action={"reclaim": 1000}),
        max_consolidation_victims=-1,
        allow_consolidating_reclaim=False,
        use_signatures=False,
        staleness_grace=300.0,
    )


def test_a_policy_named_without_values_has_the_usual_ones() -> None:
    found = read_settings("kailab: {jobOrder: , agedAfter: , checkpoint: }").engine
    assert found == EngineConfig(weighted_order=WeightedOrder(), aged_after=86_400.0, checkpoint=Checkpoint())


def test_settings_from_whatever_says_them(tmp_path) -> None:
    (tmp_path / "c.yaml").write_text("actions: allocate\n")
    expected = EngineConfig(actions=("allocate",))
    for source in ("c.yaml", {"actions": "allocate"}, expected, settings_of(expected)):
        assert settings_of(source, tmp_path).engine == expected
    assert settings_of(None).engine == EngineConfig()


def test_a_missing_file(tmp_path) -> None:
    with pytest.raises(InputError, match="can't be read"):
        load_settings(tmp_path / "none.yaml")


_LEAVES = st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.floats()
_TREES = st.recursive(_LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner))


@given(
    st.dictionaries(
        st.sampled_from(
            ["actions", "tiers", "usageDBConfig", "queueDepthPerAction", "scenarioSearchBudgets", "kailab"]
        ),
        _TREES,
    )
)
def test_any_document_is_read_or_refused(document: dict) -> None:
    import yaml

    with contextlib.suppress(InputError):
        read_settings(yaml.safe_dump(document))
