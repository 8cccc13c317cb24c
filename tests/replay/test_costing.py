"""Cost of a replay by a price file, and its energy."""

from __future__ import annotations

import pytest

from kailab.errors import InputError
from kailab.fleet.fleet import Fleet, Pool
from kailab.model.prices import read_prices
from kailab.replay.summary import summarise

PRICES = read_prices("""\
apiVersion: kailab.dev/v1
kind: Prices
currency: EUR
gpus:
  A100: {perHour: 2, watts: 400, idleWatts: 100}
  T4: {perHour: 0.5, watts: 70}
""")
HEADER = "name,submit,seconds,gpus,team,models"


@pytest.fixture
def fleet() -> Fleet:
    a100 = Pool(name="a", count=1, cpu="64", memory="512Gi", gpus=4, gpu_model="A100")
    t4 = Pool(name="t", count=1, cpu="64", memory="512Gi", gpus=2, gpu_model="T4")
    return Fleet(name="two", pools=(a100, t4))


def test_gpus_cost_held_or_not_and_draw_power_by_what_they_do(trace_file, replayed, fleet) -> None:
    # Two hours: A100 hold 3 for one hour and 1.5 for two; T4 both for two hours.
    path = trace_file("a,0,3600,3,x,A100", "b,0,7200,0.5,y,A100", "c,0,7200,2,x,T4", header=HEADER)
    found = summarise(replayed(path, fleet=fleet, prices=PRICES)).costs
    assert found.currency == "EUR"
    by_model = {one.model: one for one in found.models}
    assert (by_model["A100"].used, by_model["A100"].idle, by_model["A100"].cost) == (4, 4, 16)
    assert by_model["A100"].kwh == pytest.approx(4 * 0.4 + 4 * 0.1)
    assert (by_model["T4"].used, by_model["T4"].idle, by_model["T4"].cost) == (4, 0, 2)
    assert by_model["T4"].kwh == pytest.approx(4 * 0.07), "none was idle, so what that draws need not be told"
    assert (found.cost, found.idle_cost, found.per_done) == (18, 8, 2.25)
    assert {one.name: (one.used, one.cost) for one in found.queues} == {"x": (7, 8), "y": (1, 2)}


def test_what_little_work_costs_is_not_reckoned_from_cents(trace_file, replayed, two_nodes) -> None:
    found = summarise(
        replayed(trace_file("a,0,1,8", header="name,submit,seconds,gpus"), "one", fleet=two_nodes, prices=PRICES)
    ).costs
    # 8 GPUs for a second are far below a cent.
    assert (found.cost, found.per_done) == (0.0, 2.0)


def test_energy_is_not_told_where_a_power_is_not(trace_file, replayed, fleet) -> None:
    found = summarise(replayed(trace_file("a,0,3600,1,x,T4", header=HEADER), fleet=fleet, prices=PRICES)).costs
    assert found.kwh is None
    assert found.cost == 9


def test_what_evictions_held_is_paid_for(trace_file, queue_file, replayed, two_nodes) -> None:
    path = trace_file("early,0,3600,8,blue", "late,600,1200,4,red", header="name,submit,seconds,gpus,team")
    done = replayed(path, queue_file({"blue": 2, "red": 6}), prices=PRICES, lasting=5000)
    found = summarise(done).costs
    assert done.balance.lost > 0
    assert sum(one.used for one in found.queues) == pytest.approx(done.balance.held / 3_600_000, abs=0.002)
    assert found.cost == round(8 * 5000 / 3600 * 2, 2)


def test_a_model_without_a_price_is_told_before_anything_is_replayed(trace_file, replayed, fleet) -> None:
    prices = read_prices("apiVersion: kailab.dev/v1\nkind: Prices\ngpus: {A100: {perHour: 1}}\n")
    with pytest.raises(InputError, match="no price for 'T4'"):
        replayed(trace_file("a,0,60,1,x,", header=HEADER), fleet=fleet, prices=prices)
