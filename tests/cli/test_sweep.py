"""``sweep`` on the command line."""

from __future__ import annotations

import csv
import json

import pytest

from tests.tables import as_text

TRACE = "name,submit,seconds,gpus,team\na,0,3600,8,blue\nb,60,3600,4,red\nc,120,1800,8,red\n"


@pytest.fixture
def study(home):
    (home / "trace.csv").write_text(TRACE)
    path = home / "study.yaml"
    path.write_text("trace: trace.csv\nfleet: lesson\ngrid: {limits: [{red: 8}, {red: 16}]}\n")
    return path


def test_settings_are_told_side_by_side_and_not_done_again(kailab, study, home) -> None:
    done = kailab("sweep", "study.yaml", "--workers", "1", "--table", "all.csv")
    assert done.code == 0, done.err
    assert "2 runs of study: studies/study/results.csv" in done.out
    lines = [line.split() for line in done.out.splitlines()]
    assert ["red=16", "-", "3", "0s", "0s", "0"] in [line[:6] for line in lines]
    with (home / "all.csv").open() as file:
        red = [row for row in csv.DictReader(file) if row["queue"] == "red"]
    assert [(row["limits"], row["waited_most"]) for row in red] == [("red=8", "3540"), ("red=16", "0")]

    again = kailab("sweep", "study.yaml", "-o", "json", "--table", "all.parquet")
    assert again.code == 0, again.err
    assert json.loads(again.out)["done_before"] == 2
    assert as_text(home / "all.parquet") == list(csv.DictReader((home / "all.csv").open()))


def test_over_several_seeds_each_measure_has_an_interval(kailab, study) -> None:
    study.write_text(study.read_text() + "seeds: 3\n")
    done = kailab("sweep", "study.yaml", "--workers", "1")
    assert done.code == 0, done.err
    assert "Means over 3 seeds, with 95 % confidence intervals:" in done.out
    told = json.loads(kailab("sweep", "study.yaml", "-o", "json").out)
    for one, limit in zip(told["intervals"], (8, 16), strict=True):
        assert one["setting"] == {"limits": {"red": limit}}
        assert set(one["queues"]) == {"all", "blue", "red"}
        waited = one["queues"]["all"]["waited_mean"]
        assert (waited["seeds"], waited["missing"]) == (3, 0)
        assert 0 <= waited["low"] <= waited["mean"] <= waited["high"]


def test_settings_are_held_against_one_of_them_seed_by_seed(kailab, study) -> None:
    study.write_text(study.read_text() + "seeds: 3\ncompare: {measures: [red mean wait]}\n")
    done = kailab("sweep", "study.yaml", "--workers", "1")
    assert done.code == 0, done.err
    assert "Against limits red=8, seed by seed; 95 % confidence in all differences at once:" in done.out
    (line,) = [line for line in done.out.splitlines() if line.startswith("red=16 ")]
    assert "red mean wait" in line
    assert " less, 0 more of 3 " in line
    other = kailab("sweep", "study.yaml", "--compare", "evictions", "--against", "limits red=16", "-o", "json")
    found = json.loads(other.out)["compare"]
    assert found["against"] == {"limits": {"red": 16}}
    ((setting, (difference,)),) = [(one["setting"], one["differences"]) for one in found["settings"]]
    assert setting == {"limits": {"red": 8}}
    assert (difference["measure"], difference["seeds"]) == ("evictions", 3)
    for arguments, said in (
        (("--compare", "green mean wait"), "no queue 'green'"),
        (("--compare", "cost"), "needs a file of prices"),
        (("--compare", "haste"), "unknown measure"),
        (("--compare", "evictions", "--against", "fifo"), "no such setting"),
    ):
        done = kailab("sweep", "study.yaml", *arguments)
        assert (done.code, said in done.err) == (2, True), done.err


def test_what_can_not_be_is_refused(kailab, study, home) -> None:
    for arguments, said in (
        (("--dask", "tcp://h:1", "--workers", "2"), "--workers: can't be used with --dask"),
        (("--table", "all.txt"), "expected a file name that ends in"),
    ):
        done = kailab("sweep", "study.yaml", *arguments)
        assert (done.code, said in done.err) == (2, True), done.err
    study.write_text("trace: trace.csv\nfleet: lesson\ngrid: {limits: [{green: 8}]}\n")
    done = kailab("sweep", "study.yaml")
    assert done.code == 2
    assert "no queue 'green'" in done.err
    assert not (home / "studies").exists()
