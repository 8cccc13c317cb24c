"""The order in which a search evicts with KAI's faults imitated: that of Go maps, so that it varies, but not by chance."""

from __future__ import annotations

import pytest

from kailab.engine.config import EngineConfig
from kailab.engine.session import Session
from kailab.engine.snapshot.records import GPU
from kailab.engine.working.layout import GPUS
from kailab.engine.working.maporder import MapOrder

NOW = 1_000_000.0


@pytest.mark.parametrize(("imitate_faults", "free"), [(False, {GPU}), (True, {0, GPU})])
def test_the_order_of_evictions_decides_whether_a_gpu_is_lost(team, imitate_faults, free):
    """A share that is evicted after places were promised on its node is lost from the count, before that it is not."""
    team.node("n", gpus=3)
    team.job("whole", tasks=2, on="n")
    team.job("half", gpus=0.5, on="n", groups=[("g",)])
    team.job("next", tasks=2)
    working = team.working()
    found = set()
    for share_first in (True, False):
        session = Session(working, EngineConfig(imitate_faults=imitate_faults), NOW)
        tasks = working.tasks
        if share_first:
            session.evict(tasks["half-0"])
        for number in range(2):
            session.evict(tasks[f"whole-{number}"])
            session.pipeline(tasks[f"next-{number}"], "n", (), True)
        if not share_first:
            session.evict(tasks["half-0"])
        found.add(int(session.table.free_of(GPUS)[0]))
        session.close()
    assert found == free


def test_few_items_of_a_go_map_come_in_turn_from_one_of_them_on():
    """Up to eight entries share one group of slots, which Go walks around from a random slot."""
    items = ["a", "b", "c"]
    orders = {"".join(MapOrder(seed).of(items)) for seed in range(100)}
    assert orders == {"abc", "bca", "cab"}


def test_many_items_of_a_go_map_come_in_any_order():
    items = list(range(20))
    orders = [MapOrder(seed).of(items) for seed in range(5)]
    assert all(sorted(order) == items for order in orders)
    assert len({tuple(order) for order in orders}) == 5


@pytest.mark.parametrize(("imitate_faults", "varies"), [(False, False), ((2,), False), ((4,), True), ((11,), True)])
def test_the_order_varies_only_where_it_decides(team, imitate_faults, varies):
    """Only with the faults that leave changed counts behind does it matter who is evicted first."""
    team.node("n")
    session = Session(team.working(), EngineConfig(imitate_faults=imitate_faults), NOW)
    assert (session.map_order is not None) is varies
