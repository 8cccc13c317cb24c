"""Comparison of several settings by seeds."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kailab.errors import InputError
from kailab.studies.comparison import SettingDifference, compare_settings, find_best, read_compare
from kailab.studies.confidence import TargetVerdict, least_part, t_quantile
from kailab.studies.measures import RunResult
from kailab.studies.study import Study, StudyQuestion, StudyRun
from kailab.studies.sweep import SweptStudy
from kailab.studies.target import read_target


def swept(*settings: list[float | None]) -> SweptStudy:
    """A setting for each list, with an evicted pod's number for each seed."""
    study = Study(
        name="made",
        options={},
        grid={"policies": tuple([f"p{number}"] for number in range(len(settings)))},
        seeds=tuple(range(len(settings[0]))),
    )
    runs, results = [], {}
    for setting, values in zip(study.settings(), settings, strict=True):
        for seed, value in enumerate(values):
            run = StudyRun(number=len(runs), options={}, setting=setting, seed=seed, key=f"key-{len(runs)}")
            runs.append(run)
            results[run.key] = RunResult(key=run.key, rows=[{"queue": "all", "evictions": value, "gpus": 8}])
    return SweptStudy(
        study=study, settings=list(study.settings()), runs=runs, results=results, before=0, table=Path("results.csv")
    )


def differences(made: SweptStudy, against: str = "") -> list[SettingDifference]:
    found = compare_settings(made, read_compare(made.study, ["evictions"], against))
    return [difference for _, (difference,) in found.settings]


@pytest.mark.parametrize(
    "freedom, error, value",
    [(1, 0.05, 6.314), (2, 0.05, 2.920), (4, 0.05, 2.132), (30, 0.05, 1.697), (120, 0.05, 1.658), (9, 0.025, 2.262), (4, 0.0005, 8.610), (7, 0.005, 3.499)],
)  # fmt: skip
def test_quantiles_are_those_of_the_tables(freedom: int, error: float, value: float) -> None:
    assert t_quantile(freedom, error) == pytest.approx(value, abs=6e-4)


def test_a_part_is_bounded_by_how_many_seeds_keep_it() -> None:
    assert least_part(59, 59) == pytest.approx(0.05 ** (1 / 59))
    assert least_part(18, 20) == pytest.approx(0.717, abs=1e-3)  # Clopper and Pearson's table, one-sided
    assert least_part(3, 5) < least_part(4, 5) < least_part(5, 5)


def test_seeds_in_pairs_tell_what_the_spread_of_seeds_hides() -> None:
    # From seed to seed much differs; between the two always about ten do.
    made = swept([100, 250, 30, 420], [91, 239, 20, 411], [100, 250, 30, 420], [0, 400, 5, 500])
    less, same, unknown = differences(made)
    assert (less.verdict, less.below, less.above) == ("less", 4, 0)
    assert less.more is not None
    assert less.more.low < -9.75 < less.more.high < 0
    assert (same.verdict, same.more and (same.more.low, same.more.high)) == ("same", (0, 0))
    assert (unknown.verdict, unknown.below, unknown.above) == ("open", 2, 2)


def test_a_setting_is_named_as_it_is_told() -> None:
    made = swept([1, 2, 3], [11, 12.5, 13])
    assert [one.verdict for one in differences(made)] == ["more"]
    assert [one.verdict for one in differences(made, "policies p1")] == ["less"]
    with pytest.raises(InputError, match="no such setting; expected one of: policies p0; policies p1"):
        read_compare(made.study, ["evictions"], "policies p2")


def test_where_a_seed_has_no_number_nothing_is_known() -> None:
    (found,) = differences(swept([1, 2, 3], [11, None, 13]))
    assert (found.verdict, found.missing, found.more) == ("open", 1, None)


def test_one_seed_or_one_setting_has_nothing_to_be_compared_with() -> None:
    for made in (swept([1], [2]), swept([1, 2])):
        with pytest.raises(InputError, match="expected two or more of each"):
            read_compare(made.study, ["evictions"])


def test_many_settings_that_are_alike_are_seldom_told_apart_or_found_good() -> None:
    """Twenty settings that all have the mean 100: with 95 % each, one of twenty would be told wrongly in most tables."""
    chance = random.Random(3)
    find = StudyQuestion(targets=(read_target("evictions < 100"),))
    wrong = told_apart = 0
    for _ in range(200):
        made = swept(*([chance.gauss(100, 15) for _ in range(6)] for _ in range(20)))
        found = find_best(made, find)
        assert found is not None
        wrong += found.best is not None
        told_apart += any(one.verdict != "open" for one in differences(made))
    assert wrong / 200 < 0.09
    assert told_apart / 200 < 0.09


def test_a_setting_that_is_far_better_is_found_among_many() -> None:
    chance = random.Random(4)
    made = swept(*([chance.gauss(100, 15) for _ in range(6)] for _ in range(9)), [10, 12, 9, 11, 10, 12])
    found = find_best(made, StudyQuestion(targets=(read_target("evictions < 60"),)))
    assert found is not None
    assert found.best is not None
    assert found.best.setting == {"policies": ["p9"]}
    assert found.best.estimates[0].part == pytest.approx((0.05 / 10) ** (1 / 6))
    assert found.settings[0].verdict is TargetVerdict.no
    assert differences(made)[-1].verdict == "less"
