"""What the lab's GPUs cost, from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

PRICES = """\
apiVersion: kailab.dev/v1
kind: Prices
currency: EUR
gpus:
  A100: {perHour: 2, watts: 400, idleWatts: 50}
  H100: {perHour: 5, watts: 700, idleWatts: 70}
  L40S: {perHour: 1, watts: 300, idleWatts: 30}
"""


@pytest.fixture
def priced(busy, home: Path):
    """A busy lab, and a file of prices beside it."""
    (home / "prices.yaml").write_text(PRICES)
    return busy


def test_the_bill_is_of_all_gpus_and_every_line_a_part_of_it(priced) -> None:
    told = json.loads(priced("cost", "--prices", "prices.yaml", "-o", "json").out)
    assert told["whole_per_hour"] == 16 * 2 + 8 * 5 + 8 * 1 == sum(told["per_hour"].values())
    assert sum(told["doing"].values()) == 32_000
    assert told["month"] == 730 * 80
    lines = priced("cost", "--prices", "prices.yaml").out.splitlines()
    assert lines[0].split() == ["GPUS", "HOW", "MANY", "PART", "EUR/HOUR", "EUR/MONTH"]
    assert lines[6].split() == ["all", "32", "100.0%", "80.00", "58,400"]


def test_models_add_up_to_the_fleet_and_queues_to_what_is_held(priced) -> None:
    told = json.loads(priced("cost", "--prices", "prices.yaml", "-o", "json").out)
    for state, amount in told["doing"].items():
        assert sum(one["doing"][state] for one in told["models"]) == amount
    held = told["doing"]["work"] + told["doing"]["held"]
    roots = [one for one in told["queues"] if not one["parent"]]
    assert sum(one["held"] for one in roots) == held
    assert sum(one["per_hour"] for one in roots) == pytest.approx(told["per_hour"]["work"] + told["per_hour"]["held"])


def test_the_power_is_told_where_it_is_known(priced, home: Path) -> None:
    assert "power of the GPUs: " in priced("cost", "--prices", "prices.yaml").err
    (home / "prices.yaml").write_text(PRICES.replace(", watts: 300, idleWatts: 30", ""))
    assert "power" not in priced("cost", "--prices", "prices.yaml").err


def test_a_model_without_a_price_stops_it(priced, home: Path) -> None:
    (home / "few.yaml").write_text(PRICES.replace("  L40S: {perHour: 1, watts: 300, idleWatts: 30}\n", ""))
    done = priced("cost", "--prices", "few.yaml")
    assert (done.code, done.out) == (2, "")
    assert "no price for 'L40S'; there are: A100, H100" in done.err


def test_no_prices_no_bill(priced) -> None:
    assert priced("cost").code == 2
    assert "can't be read" in priced("cost", "--prices", "nope.yaml").err
