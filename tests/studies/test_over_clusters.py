"""Studies over several clusters: dispatch policies as settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from kailab.errors import InputError, InputErrors
from kailab.studies.comparison import find_best
from kailab.studies.measures import result_of
from kailab.studies.planning import sites_of
from kailab.studies.study_file import read_study
from kailab.studies.sweep import sweep
from tests.replay.clusters_file import clusters_file
from tests.studies.conftest import Write

GRID = "{dispatch: [stay-home, {policy: spill-over, parameters: {bound: 60}}]}"


@pytest.fixture
def clusters(tmp_path: Path) -> Path:
    return clusters_file(
        tmp_path, {"name": "west", "nodes": 1, "gpus": 8, "per_hour": 1, "teams": ["red", "blue"]}, {"name": "east", "nodes": 2, "gpus": 8, "per_hour": 1},
    )  # fmt: skip


@pytest.mark.slow
def test_dispatch_policies_are_compared_with_the_same_seeds(study_file: Write, clusters: Path, tmp_path: Path) -> None:
    file = study_file(
        fleet="", clusters="clusters.yaml", grid=GRID, seeds="2", find="{target: mean wait < 60m, least: cost}"
    )
    study = read_study(file)
    swept = sweep(study, tmp_path / "studies", workers=1)
    assert not swept.failed
    waited = [
        [row["waited_mean"] for row in swept.results[run.key].rows if row["queue"] == "all"] for run in swept.runs
    ]
    home, spilled = waited[:2], waited[2:]
    assert all(there < here for (here,), (there,) in zip(home, spilled, strict=True))
    assert swept.table.read_text().count("spill-over bound=60") == 2 * 3
    found = find_best(swept)
    assert found is not None
    assert [one.setting["dispatch"] for one in found.settings] == list(study.grid["dispatch"])
    costs = [[row["cost"] for row in swept.results[run.key].rows if row["queue"] == "all"] for run in swept.runs]
    assert [one.least for one in found.settings] == [round((a + b) / 2, 2) for ((a,), (b,)) in (costs[:2], costs[2:])]
    rows = swept.results[swept.runs[0].key].rows
    assert {(row["gpus"], row["jobs"]) for row in rows if row["queue"] == "all"} == {(24, 20)}
    assert rows[0]["cost"] > 0
    again = sweep(study, tmp_path / "studies", workers=1)
    assert again.before == 4


def test_dispatch_policies_are_searched_through(study_file: Write, clusters: Path, tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    over = "{dispatch: [stay-home, {policy: spill-over, parameters: {bound: 60}}], clusters: [clusters.yaml]}"
    search = f"{{over: {over}, minimise: mean wait, trials: 6, seed: 1}}"
    study = read_study(study_file(fleet="", clusters="", search=search))
    assert study.search is not None
    swept = sweep(study, tmp_path / "studies", workers=1)
    assert swept.searched is not None
    best = swept.searched.best(study.search)
    assert best is not None
    assert swept.searched.settings[best]["dispatch"] == {"policy": "spill-over", "parameters": {"bound": 60}}


def test_another_file_that_the_clusters_name_is_another_run(study_file: Write, clusters: Path, tmp_path: Path) -> None:
    study = read_study(study_file(fleet="", clusters="clusters.yaml", dispatch="most-free"))
    before = study.runs()[0].key
    (tmp_path / "east-prices.yaml").write_text("{apiVersion: kailab.dev/v1, kind: Prices, other: {perHour: 9}}")
    after = study.runs()[0]
    assert after.key != before
    assert result_of(after).error == ""


def test_random_placement_has_the_seed_in_every_cluster(study_file: Write, clusters: Path) -> None:
    study = read_study(study_file(fleet="", clusters="clusters.yaml", policies="[random]", seeds="2"))
    drawn = [
        {site.plan.config.engine.node_score_policy.parameters["seed"] for site in sites_of(run).sites}
        for run in study.runs()
    ]
    assert drawn == [{run.seed} for run in study.runs()]
    # Without the policy nobody asks for it.
    assert len(sites_of(read_study(study_file(fleet="", clusters="clusters.yaml", seeds="2")).runs()[0]).sites) == 2


def test_the_clusters_own_policy_keeps_its_parameters(study_file: Write, tmp_path: Path) -> None:
    told = {"policy": "spill-over", "parameters": {"bound": 5000}}
    clusters_file(tmp_path, {"name": "west", "nodes": 1, "gpus": 8}, dispatch=told)
    grid = "{dispatch: [spill-over, {policy: spill-over}, stay-home]}"
    runs = read_study(study_file(fleet="", clusters="clusters.yaml", grid=grid)).runs()
    assert [dict(sites_of(run).dispatching.policy.parameters) for run in runs] == [{"bound": 5000}, {}, {}]


@pytest.mark.parametrize(
    "fields, told",
    [
        ({"fleet": "lesson", "clusters": "clusters.yaml"}, "fleet: expected one of fleet and clusters"),
        ({"fleet": ""}, "fleet: expected one of fleet and clusters"),
        ({"fleet": "", "clusters": "clusters.yaml", "size": "40"}, "size: applies only to a single fleet"),
        (
            {"fleet": "", "clusters": "clusters.yaml", "grid": "{limits: [{red: 8}]}"},
            "grid.limits: applies only to a single fleet",
        ),
        ({"dispatch": "most-free"}, "dispatch: expected clusters together with dispatch"),
        ({"grid": "{dispatch: [most-free]}"}, "grid.dispatch: expected clusters together with dispatch"),
    ],
)
def test_what_is_of_one_fleet_does_not_go_with_clusters(study_file: Write, fields, told) -> None:
    with pytest.raises((InputError, InputErrors), match=told):
        read_study(study_file(**fields))


def test_a_policy_that_does_not_dispatch_is_refused_before_anything(
    study_file: Write, clusters: Path, tmp_path: Path
) -> None:
    study = read_study(study_file(fleet="", clusters="clusters.yaml", grid="{dispatch: [stay-home, fifo]}"))
    with pytest.raises(InputError, match="policy 'fifo' is not a dispatch policy"):
        sweep(study, tmp_path / "studies", workers=1)
    assert not (tmp_path / "studies").exists()


def test_least_cost_takes_prices(study_file: Write, tmp_path: Path) -> None:
    clusters_file(tmp_path, {"name": "west", "nodes": 1, "gpus": 8})
    study = read_study(study_file(fleet="", clusters="clusters.yaml", find="{target: mean wait < 5m, least: cost}"))
    with pytest.raises(InputError, match="least cost needs a file of prices"):
        sweep(study, tmp_path / "studies", workers=1)
