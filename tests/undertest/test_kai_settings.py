"""What KAI can be told: each setting there and back through the reader of KAI's own configuration files."""

from pathlib import Path

import pytest
import yaml

from kailab.engine.config import EngineConfig
from kailab.engine.policies.settings import Checkpoint, SearchBudget, WeightedOrder
from kailab.scheduler.settings.config_file import POLICY_SECTION_KEYS, load_settings, read_settings
from kailab.undertest.contract import Unsupported
from kailab.undertest.kai.releases import LINES, ReleaseFeatures
from kailab.undertest.kai.settings import _OWN, kai_arguments

NEWEST = ReleaseFeatures((*LINES[-1], 0))
CONFIGS = Path(__file__).parents[2] / "exercises" / "policies" / "config"


@pytest.mark.parametrize(
    "config",
    [
        EngineConfig(),
        EngineConfig(actions=("allocate", "reclaim")),
        EngineConfig(gpu_placement="spread", cpu_placement="spread"),
        EngineConfig(gpu_sharing="spread"),
        EngineConfig(gpu_sharing="any"),
        EngineConfig(prefer_shared_devices=False),
        EngineConfig(predicates=False),
        EngineConfig(reclaim_min_runtime=600.0, preempt_min_runtime=0.25, reclaim_resolve="queue"),
        EngineConfig(saturation_multiplier=2.5),
        EngineConfig(queue_depth={"reclaim": 5}),
        EngineConfig(
            search_budget=SearchBudget(per_job=100, min_per_job=1, per_action={"default": 200, "reclaim": 50})
        ),
        EngineConfig(plugins=("predicates", "proportion", "nodeplacement", "gpupack", "gpusharingorder", "taskorder")),
    ],
)
def test_there_and_back(config: EngineConfig) -> None:
    assert read_settings(kai_arguments(config, NEWEST).conf).engine == config


@pytest.mark.parametrize("name", ["spread.yaml", "first-come.yaml", "kai-budgets.yaml"])
def test_files_in_kais_own_words(name: str) -> None:
    settings = load_settings(CONFIGS / name)
    assert read_settings(kai_arguments(settings, NEWEST).conf).engine == settings.engine


def test_shared_devices_keep_their_place_in_the_list() -> None:
    plugins = [one["name"] for one in yaml.safe_load(kai_arguments(EngineConfig(), NEWEST).conf)["tiers"][0]["plugins"]]
    spread = kai_arguments(EngineConfig(gpu_sharing="spread"), NEWEST).conf
    told = [one["name"] for one in yaml.safe_load(spread)["tiers"][0]["plugins"]]
    assert told.index("gpuspread") == plugins.index("gpupack")


def test_settings_that_only_flags_have() -> None:
    config = EngineConfig(
        max_consolidation_victims=0, allow_consolidating_reclaim=False, use_signatures=False, staleness_grace=1.5
    )
    assert kai_arguments(config, NEWEST).flags == (
        "--max-consolidation-preemptees=0",
        "--allow-consolidating-reclaim=false",
        "--use-scheduling-signatures=false",
        "--default-staleness-grace-period=1500ms",
    )


@pytest.mark.parametrize("grace", [-1.0, float("inf")])
def test_an_endless_grace(grace: float) -> None:
    assert "--default-staleness-grace-period=-1s" in kai_arguments(EngineConfig(staleness_grace=grace), NEWEST).flags


@pytest.mark.parametrize(
    ("config", "named"),
    [
        (EngineConfig(weighted_order=WeightedOrder()), "jobOrder"),
        (EngineConfig(aged_after=60.0), "agedAfter"),
        (EngineConfig(victim_order="priority"), "victimOrder"),
        (EngineConfig(max_evictions_per_cycle=0), "maxEvictionsPerCycle"),
        (EngineConfig(max_evictions_by_priority=((50, 1),)), "maxEvictionsPerCycleByPriority"),
        (EngineConfig(max_taken_ratio=2.0), "maxTakenRatio"),
        (EngineConfig(checkpoint=Checkpoint()), "checkpoint"),
        (EngineConfig(k_value=1.0), "Prometheus"),
    ],
)
def test_settings_that_only_kailab_has_are_refused(config: EngineConfig, named: str) -> None:
    with pytest.raises(Unsupported, match=named):
        kai_arguments(config, NEWEST)


def test_every_setting_is_passed_on_or_refused() -> None:
    """A field that is added to EngineConfig must be thought of here."""
    told = {
        "actions", "gpu_placement", "cpu_placement", "gpu_sharing", "prefer_shared_devices", "max_consolidation_victims",
        "allow_consolidating_reclaim", "use_signatures", "staleness_grace", "reclaim_min_runtime", "preempt_min_runtime",
        "reclaim_resolve", "saturation_multiplier", "predicates", "plugins", "queue_depth", "search_budget",
    }  # fmt: skip
    refused = {
        "k_value", "usage", "weighted_order", "aged_after", "victim_order", "max_evictions_per_cycle",
        "max_evictions_by_priority", "max_taken_ratio", "checkpoint", "job_order_policy", "node_score_policy",
        "victim_order_policy", "reservation_policy", "queue_shares_policy",
    }  # fmt: skip
    how_kai_is_anyway = {"imitate_faults", "promised", "refused", "tell_turns"}
    assert set(EngineConfig.__struct_fields__) == told | refused | how_kai_is_anyway


def test_settings_are_named_as_the_reader_names_them() -> None:
    assert {name.partition(" ")[0] for name in _OWN.values()} <= set(POLICY_SECTION_KEYS)


def test_an_older_release_gets_only_the_plugins_that_it_has() -> None:
    def plugins(number: tuple[int, int, int]) -> set[str]:
        tier = yaml.safe_load(kai_arguments(EngineConfig(), ReleaseFeatures(number)).conf)["tiers"][0]
        return {one["name"] for one in tier["plugins"]}

    newest = plugins((0, 17, 0))
    assert newest - plugins((0, 15, 3)) == {"sg-nodelocalgreedy", "sg-multinodegang"}
    assert newest - plugins((0, 7, 8)) == {"sg-nodelocalgreedy", "sg-multinodegang", "subgrouporder"}
    assert newest - plugins((0, 6, 0)) == {"sg-nodelocalgreedy", "sg-multinodegang", "subgrouporder", "topology"}


def test_search_budgets_came_late() -> None:
    config = EngineConfig(search_budget=SearchBudget(per_job=100, min_per_job=1))
    assert "scenarioSearchBudgets" in kai_arguments(config, ReleaseFeatures((0, 16, 0))).conf
    with pytest.raises(Unsupported, match=r"came with KAI v0\.16"):
        kai_arguments(config, ReleaseFeatures((0, 15, 3)))
