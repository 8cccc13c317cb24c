"""The areas of random clusters: each draws what its name says, within every invariant, and the same for a seed."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from msgspec import structs

from checks.cli import app
from checks.fuzzing.areas import AREAS, TEAM_AREAS, seeded
from checks.fuzzing.fuzz import violations
from checks.fuzzing.shrinking import NOTHING
from checks.invariants import check
from checks.recorded.case_reading import build_case, read_cases
from checks.recorded.case_writing import as_case
from kailab.engine.config import EngineConfig
from kailab.engine.cycle import run_cycle

DRAWS = 40
FEATURES = {
    "cpu-quota": lambda made: any(queue.cpu.quota > 0 for queue in made.queues),
    "cpu-beside-shares": lambda made: any(not task.shape.gpu.devices for task in made.tasks)
    and any(task.shape.gpu.shared for task in made.tasks),
    "gpu-memory": lambda made: any(task.shape.gpu.memory_mib for task in made.tasks)
    and len({node.gpu_memory_mib for node in made.nodes if node.gpus}) > 1,
    "topology": lambda made: any(group.root.constraint for group in made.podgroups),
    "subgroups": lambda made: any(len(group.root.podsets) + len(group.root.groups) > 1 for group in made.podgroups),
    "min-runtimes": lambda made: any(queue.reclaim_min_runtime for queue in made.queues),
    "settings": lambda made: made.config != EngineConfig(),
}  # fmt: skip


@pytest.mark.parametrize("area", FEATURES)
def test_most_clusters_of_an_area_have_what_its_name_says(area):
    assert sum(map(FEATURES[area], (seeded(seed, area) for seed in range(DRAWS)))) > DRAWS / 2


@pytest.mark.parametrize("area", [area for area in AREAS if area.startswith("large-")])
def test_large_clusters_are_large(area):
    drawn = [seeded(seed, area) for seed in range(DRAWS)]
    assert all(8 <= len(made.nodes) <= 32 and len(made.podgroups) >= 8 for made in drawn)
    assert sum(len(made.podgroups) >= 20 for made in drawn) > DRAWS / 2


@pytest.mark.parametrize("area", TEAM_AREAS)
def test_a_cluster_starts_sound_and_is_written_and_drawn_again_the_same(area):
    for seed in range(10):
        made = seeded(seed, area)
        assert check(made, {task.uid: task for task in made.tasks}, NOTHING) == []
        assert seeded(seed, area) == made != seeded(seed + 1, area)
        again = build_case(json.loads(json.dumps(as_case(made, "random/0", 12))))
        for part in ("nodes", "queues", "podgroups", "tasks", "topologies", "config"):
            assert getattr(again, part) == getattr(made, part), (seed, part)


@pytest.mark.parametrize("area", ["topology", "cpu-quota"])
def test_clusters_of_an_area_keep_the_invariants(area):
    assert [violations(seeded(seed, area)) for seed in range(2)] == [[], []]


@pytest.mark.parametrize(("area", "seed"), [("topology", 136), ("gpu-memory", 25)])
def test_consolidation_ends_where_the_next_cycle_remembers_for_which_jobs_it_moved_others(area, seed):
    def forgetful(working, config, now):
        return run_cycle(working, structs.replace(config, promised=()), now)

    assert violations(seeded(seed, area)) == []
    assert "still changing" in violations(seeded(seed, area), forgetful)[-1]


def test_a_job_that_lost_its_place_and_got_another_by_consolidation_keeps_it():
    assert violations(seeded(366)) == []


def test_spreading_shares_opens_no_gpu_that_is_held():
    assert violations(seeded(103, "large-variety")) == []


def test_drawn_clusters_are_written_by_area_and_read_again(tmp_path):
    options = ["--area", "large-mixed", "--area", "topology", "--cases", "2", "--seed", "7", "--cycles", "2"]
    done = CliRunner().invoke(app, ["draw", *options, "--out", str(tmp_path)])
    assert (done.exit_code, sorted(file.name for file in tmp_path.iterdir())) == (
        0,
        ["large-mixed.json", "topology.json"],
    )
    read = list(read_cases([tmp_path / "large-mixed.json"]))
    assert [case.id for case in read] == ["random/large-mixed/7", "random/large-mixed/8"]
    assert [case.nodes for case in read] == [seeded(seed, "large-mixed").nodes for seed in (7, 8)]
    assert {(case.rounds_until_match, case.tags) for case in read} == {(2, ("area-large-mixed",))}
    assert {case.config.max_consolidation_victims for case in read} == {-1}


@pytest.mark.parametrize("command", [["fuzz"], ["draw", "--out", "unused"]])
def test_an_unknown_area_is_refused(command):
    refused = CliRunner().invoke(app, [*command, "--area", "nowhere"])
    assert refused.exit_code == 2
    assert "there is no area 'nowhere'" in refused.output
