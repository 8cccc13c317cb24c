"""Price files: what they say of a model of GPU, and what is wrong with one, by file, line and field."""

from __future__ import annotations

from pathlib import Path

import pytest

from kailab.errors import InputError
from kailab.model.prices import GpuPrice, load_prices, read_prices

FILE = """\
apiVersion: kailab.dev/v1
kind: Prices
currency: EUR
gpus:
  A100: {perHour: 2.5, watts: 400, idleWatts: 50}
  H100: {perHour: 5}
"""


def test_each_model_has_its_price(tmp_path: Path) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text(FILE)
    prices = load_prices(path)
    assert prices.currency == "EUR"
    assert prices.of("A100") == GpuPrice(per_hour=2.5, watts=400.0, idle_watts=50.0)
    assert prices.of("H100").cost(800 * 24) == 96_000


def test_other_is_the_price_of_models_that_are_not_named() -> None:
    prices = read_prices(FILE + "other: {perHour: 1}\n")
    assert prices.of("L40S").per_hour == 1
    assert prices.of("").per_hour == 1


def test_energy_is_told_where_its_powers_are() -> None:
    prices = read_prices(FILE)
    assert prices.of("A100").kilowatt_hours(10, 20) == pytest.approx(5.0)
    assert prices.of("H100").kilowatt_hours(10, 0) is None


def test_models_without_a_price_are_told_all_at_once() -> None:
    with pytest.raises(InputError) as raised:
        read_prices(FILE, "p.yaml").check(["A100", "L40S", "B200"])
    told = str(raised.value)
    assert "no price for 'B200'; there are: A100, H100" in told
    assert "'L40S'" in told


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ("gpus: {A100: {perHour: -1}}", "gpus.A100.perHour: -1 is too small; expected 0 or more"),
        ("gpus: {A100: {perHour: two}}", "gpus.A100.perHour: 'two' is not valid; expected a number"),
        ("gpus: {A100: {watts: 400}}", "gpus.A100.perHour: is required"),
        ("gpus: {A100: {perHour: 1, watt: 400}}", "gpus.A100.watt: unknown field; did you mean watts?"),
        ("gpus: {}", "gpus: is empty; expected at least one"),
        ("gpu: {A100: {perHour: 1}}", "gpu: unknown field; did you mean gpus?"),
        ("currency: EUR", "gpus: is required, or `other`"),
    ],
)
def test_what_is_wrong_is_told_by_its_place(wrong: str, told: str) -> None:
    with pytest.raises(InputError) as raised:
        read_prices(f"apiVersion: kailab.dev/v1\nkind: Prices\n{wrong}\n", "p.yaml")
    assert told in str(raised.value)
    assert "p.yaml" in str(raised.value)
