"""A study's file: faults are reported with line and field, and a run's key covers everything that can change its
result."""

from __future__ import annotations

from pathlib import Path

import pytest

from kailab.errors import InputError, InputErrors
from kailab.replay.failures import NodeFailure
from kailab.studies.planning import plan_of
from kailab.studies.study_file import read_study
from kailab.studies.sweep import sweep
from tests.studies.conftest import Write


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"fleet": ""}, "fleet"),
        ({"gird": "{}"}, "did you mean grid?"),
        ({"for": "soon"}, "expected a duration such as 30m, 12h or 7d"),
        ({"for": "1500ms"}, "expected whole seconds"),
        ({"grid": "{limits: []}"}, "grid.limits"),
        ({"grid": "{checkpoint: [1h, 0s]}"}, "grid.checkpoint[1]"),
        ({"grid": "{colour: [red]}"}, "unknown field"),
        ({"arrivalsOnly": "true", "checkpoint": "1h"}, "because jobs do not end"),
        ({"find": "{measure: waited_mean}"}, "expected one of below and above"),
        ({"find": "{target: wait < 1h}"}, "find.target"),
        ({"find": "{target: [p99 wait < 1h, use > much]}"}, "find.target[1]"),
        ({"find": "{target: p99 wait < 1h, below: 3}"}, "find.below"),
        ({"find": "{least: gpus}"}, "expected one of target and measure"),
        ({"size": "0"}, "size"),
        ({"find": "{measure: waiting, below: 1}"}, "find.measure"),
        (
            {"find": "{measure: evictions, below: 10m}"},
            "find.below: '10m' is a time and evictions is none; expected a number",
        ),
        (
            {"find": "{measure: allocated, above: 60}"},
            "find.above: 60 is no part of the GPUs; expected a part such as 60%",
        ),
        ({"find": "{target: use > 60}"}, "60 is no part of the GPUs; expected a part such as 60%"),
        ({"find": "{measure: lost, below: .nan}"}, ".nan is not a number"),
        ({"find": "{measure: lost, below: 1, least: quotas}"}, "the study does not vary"),
        ({"checkpointCost": "5s"}, "checkpointCost: expected checkpoint with it"),
        ({"grid": "{restart: [0s, 500ms]}"}, "grid.restart[1]: 500ms: expected whole seconds, none or more"),
        ({"estimates": "-1"}, "estimates"),
        ({"estimates": "2", "arrivalsOnly": "true"}, "estimates: expected none with arrivalsOnly"),
        ({"block": "1d"}, "block: expected seeds with it"),
        ({"seeds": "0"}, "seeds: 0 is not valid; expected how many (1 to 10000), or a list of different whole numbers"),
        (
            {"seeds": "[1, 1]"},
            "seeds: a list is not valid; expected how many (1 to 10000), or a list of different whole",
        ),
        ({"grid": "{size: [0]}"}, "grid.size[0]: 0 is not valid; expected a number above 0, or for each model"),
        ({"grid": "{size: [16, 16]}"}, "grid.size: has an entry twice; expected each once"),
        ({"for": "x"}, "'x' is not valid; expected a duration such as"),
    ],
)
def test_what_is_wrong_is_told_by_field(study_file: Write, fields: dict[str, str], said: str) -> None:
    path = study_file(**fields)
    with pytest.raises((InputError, InputErrors)) as caught:
        read_study(path)
    assert said in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_study_has_each_combination_with_each_seed(study_file: Write) -> None:
    study = read_study(study_file(grid="{for: [1h, 2h], limits: [{red: 4}, {red: 8}, {blue: 1}]}", seeds="[5, 9]"))
    runs = study.runs()
    assert [(run.setting["for"], run.setting["limits"], run.seed) for run in runs][:3] == [
        (3600, {"red": 4}, 5),
        (3600, {"red": 4}, 9),
        (3600, {"red": 8}, 5),
    ]
    assert len(runs) == len({run.key for run in runs}) == 12
    assert [run.number for run in runs] == list(range(12))


def test_durations_may_be_days_and_sizes_may_be_varied(study_file: Write) -> None:
    study = read_study(study_file(grid="{for: [1d], size: [16, {NVIDIA-H100-80GB-HBM3: 8}]}", checkpoint="1d12h"))
    assert [run.options["size"] for run in study.runs()] == [16, {"NVIDIA-H100-80GB-HBM3": 8}]
    assert study.runs()[0].options["for"] == 86_400
    assert study.options["checkpoint"] == 129_600


def test_a_target_in_words_is_the_same_as_its_fields(study_file: Write) -> None:
    words = read_study(study_file(find="{target: red p99 wait < 10min}")).find
    fields = read_study(study_file(find="{measure: waits_p99, queue: red, below: 10m}")).find
    assert words == fields


def test_a_run_is_another_where_a_file_is(study_file: Write, tmp_path: Path) -> None:
    path = study_file()
    (before,) = read_study(path).runs()
    assert [run.key for run in read_study(path).runs()] == [before.key]
    trace = tmp_path / "trace.csv"
    trace.write_text(trace.read_text() + "more,9000,60,1,red\n")
    assert [run.key for run in read_study(path).runs()] != [before.key]


def test_a_target_of_cost_takes_prices(study_file: Write, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="needs a file of prices"):
        sweep(read_study(study_file(find="{target: cost < 100}")), tmp_path / "studies")
    assert not (tmp_path / "studies").exists()


def test_what_saves_restarts_failures_and_estimates_cost_is_varied(study_file: Write, tmp_path: Path) -> None:
    (tmp_path / "failures.csv").write_text("node,at,seconds\nn-0,50,20\n")
    (tmp_path / "one.yaml").write_text(
        "{apiVersion: kailab.dev/v1, kind: Fleet, name: one, pools: [{name: n, count: 1, gpus: 8, gpuModel: A100, cpu: 64, memory: 256Gi}]}\n"
    )
    grid = "{restart: [0s, 30s], estimates: [0, 4]}"
    path = study_file(
        fleet="one.yaml",
        checkpoint="1h",
        checkpointCost="20s",
        failures="failures.csv",
        grid=grid,
        seeds="2",
        block="5m",
    )
    runs = read_study(path).runs()
    plans = [plan_of(run) for run in runs]
    assert [(plan.progress.saving, plan.restart) for plan in plans[::2]] == [(20, 0), (20, 0), (20, 30), (20, 30)]
    assert all(plan.failures == (NodeFailure("n-0", 50, 20),) for plan in plans)
    exact, wrong = plans[0].trace.jobs, plans[2].trace.jobs
    assert [job.seconds for job in exact] == [job.seconds for job in wrong]
    assert [job.estimate for job in exact] != [job.estimate for job in wrong]
    assert len({run.key for run in runs}) == 8


def test_speeds_and_services_are_varied(study_file: Write, tmp_path: Path) -> None:
    (tmp_path / "slow.csv").write_text("model,nodes,speed\n,,0.5\n")
    (tmp_path / "fast.csv").write_text("model,nodes,speed\n,,2\n")
    (tmp_path / "search.csv").write_text("name,queue,gpus,least,most,peak\nsearch,red,1,0,4,12\n")
    runs = read_study(study_file(services="search.csv", grid="{speeds: [slow.csv, fast.csv]}")).runs()
    plans = [plan_of(run) for run in runs]
    assert [plan.speeds and plan.speeds.of("", ["A100"], 1) for plan in plans] == [500, 2000]
    assert [[service.queue for service in plan.services] for plan in plans] == [["red"], ["red"]]
    assert len({run.key for run in runs}) == 2
    (refused,) = read_study(study_file(speeds="slow.csv", arrivalsOnly="true")).runs()
    with pytest.raises(InputError, match="speeds: has no effect with arrivalsOnly"):
        plan_of(refused)
