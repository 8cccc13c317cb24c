"""A study that searches: its proposals are reproducible, and invalid searches are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from kailab.errors import InputError, InputErrors
from kailab.studies.comparison import find_best
from kailab.studies.measures import RunResult
from kailab.studies.optuna_search import search_settings
from kailab.studies.study_file import read_study
from kailab.studies.sweep import sweep
from tests.studies.conftest import Write

pytest.importorskip("optuna")

SEARCH = (
    "{over: {policies: [[fifo], [shortest-job], [fifo, backfill]], limits: {red: {from: 2, to: 32, step: 2}}}, "
    "minimise: red mean wait, trials: %d, seed: 3, batch: %d}"
)


def made_up(runs) -> dict[str, RunResult]:
    """Results as if the wait were least at a limit of 20 with the second policy."""
    found = {}
    for run in runs:
        limit, policies = run.setting["limits"]["red"], run.setting["policies"]
        wait = (limit - 20) ** 2 + (0 if policies == ["shortest-job"] else 500) + (run.seed or 0)
        found[run.key] = RunResult(key=run.key, rows=[{"queue": "red", "waits_mean": wait}])
    return found


def test_it_finds_what_is_least_and_proposes_the_same_again(study_file: Write) -> None:
    study = read_study(study_file(search=SEARCH % (40, 4), seeds="2"))
    assert study.search is not None
    one, two = (search_settings(study, study.search, made_up) for _ in range(2))
    assert one.settings == two.settings
    assert one.proposed == 40
    best = one.best(study.search)
    assert best is not None
    assert one.settings[best] == {"policies": ["shortest-job"], "limits": {"red": 20}}
    assert one.values[best] == 0.5
    assert len(one.runs) == 2 * len(one.settings)
    assert [run.number for run in one.runs] == list(range(len(one.runs)))


def test_a_setting_that_is_proposed_twice_is_done_once(study_file: Write) -> None:
    study = read_study(study_file(search="{over: {policies: [[], [fifo]]}, minimise: mean wait, trials: 12}"))
    assert study.search is not None
    asked: list[str] = []

    def carry(runs) -> dict[str, RunResult]:
        asked.extend(run.key for run in runs)
        return {run.key: RunResult(key=run.key, rows=[{"queue": "all", "waits_mean": 1.0}]) for run in runs}

    found = search_settings(study, study.search, carry)
    assert (len(asked), found.proposed) == (len(found.settings), 12)
    assert len(asked) == len(set(asked)) <= 2


def test_a_run_that_fails_or_has_no_number_is_never_best(study_file: Write) -> None:
    study = read_study(
        study_file(search="{over: {policies: [[], [fifo], [shortest-job]]}, maximise: use, trials: 30, batch: 1}")
    )
    assert study.search is not None

    def carry(runs) -> dict[str, RunResult]:
        found = {}
        for run in runs:
            rows = [{"queue": "all", "allocated": None if run.setting["policies"] == ["fifo"] else 0.5}]
            failed = run.setting["policies"] == []
            found[run.key] = RunResult(key=run.key, error="no") if failed else RunResult(key=run.key, rows=rows)
        return found

    found = search_settings(study, study.search, carry)
    best = found.best(study.search)
    assert best is not None
    assert found.settings[best] == {"policies": ["shortest-job"]}


@pytest.mark.slow
def test_it_is_the_same_whoever_does_the_runs_and_goes_on_where_it_was(study_file: Write, tmp_path: Path) -> None:
    study = read_study(study_file(search=SEARCH % (6, 3), find="{target: red mean wait < 2h}"))
    expected = sweep(study, tmp_path / "one", workers=1)

    def interrupt(what: str, done: int, total: int) -> None:
        if len(list((tmp_path / "two" / study.name / "runs").iterdir())) >= 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep(study, tmp_path / "two", workers=2, progress=interrupt)
    again = sweep(study, tmp_path / "two", workers=2)
    assert again.before >= 3
    assert again.table.read_bytes() == expected.table.read_bytes()
    assert again.searched is not None
    assert expected.searched is not None
    assert again.searched.values == expected.searched.values
    found = find_best(again)
    assert found is not None
    assert len(found.settings) == len(again.settings)


@pytest.mark.parametrize(
    "search, told",
    [
        ("{over: {policies: [[]]}, trials: 2}", "expected one of minimise and maximise"),
        ("{over: {policies: [[]]}, trials: 2, minimise: happiness}", "unknown measure 'happiness'"),
        (
            "{over: {limits: {red: {from: 9, to: 3, step: 1}}}, trials: 2, minimise: lost}",
            "expected the smaller number first",
        ),
        ("{over: {size: {from: 8, to: 9, step: 4}}, trials: 2, minimise: lost}", "has only the value 8"),
        ("{over: {for: [1h]}, trials: 2, minimise: lost}", "for"),
        ("{over: {policies: [[]]}, minimise: lost}", "trials"),
    ],
)
def test_a_search_that_can_not_be_is_refused_with_its_place(study_file: Write, search: str, told: str) -> None:
    with pytest.raises((InputError, InputErrors), match=told):
        read_study(study_file(search=search))


def test_a_queue_that_there_is_not_is_told_before_anything_is_done(study_file: Write, tmp_path: Path) -> None:
    study = read_study(study_file(search="{over: {policies: [[]]}, trials: 1, minimise: green p99 wait}"))
    with pytest.raises(InputError, match="green p99 wait: no queue 'green'"):
        sweep(study, tmp_path)
    assert not list((tmp_path / study.name / "runs").iterdir())


def test_a_search_beside_a_grid_is_refused(study_file: Write) -> None:
    with pytest.raises((InputError, InputErrors), match="expected one of grid and search"):
        read_study(study_file(search=SEARCH % (2, 1), grid="{policies: [[]]}"))
