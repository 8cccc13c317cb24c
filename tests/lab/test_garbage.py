"""When Python's collector looks at what a lab has made."""

from __future__ import annotations

import gc
import weakref

import pytest

from kailab.lab import garbage


@pytest.fixture
def collector():
    gc.collect()
    yield
    gc.enable()
    gc.collect()


def _old(kept):
    tracked = {id(one) for one in gc.get_objects(generation=2)}
    return sum(id(one) in tracked for one in kept)


def test_much_that_was_made_counts_as_old_once_until_everything_was_looked_through(collector, monkeypatch):
    monkeypatch.setattr(garbage, "_MANY_OBJECTS", 1000)
    monkeypatch.setattr(garbage, "_aged_at", -1)
    kept = []
    with garbage.collector_off():
        kept += [[] for _ in range(5000)]
    assert gc.isenabled()
    assert _old(kept) == len(kept)
    with garbage.collector_off():
        more = [[] for _ in range(5000)]
        assert not gc.isenabled()
    # The collector may have looked at these by now, but not because of us.
    assert garbage._aged_at == gc.get_stats()[-1]["collections"]
    gc.collect()
    with garbage.collector_off():
        still = [[] for _ in range(5000)]
    assert _old(still) == len(still)
    assert len(more) == 5000


def test_little_that_was_made_is_left_as_it_is(collector, monkeypatch):
    monkeypatch.setattr(garbage, "_aged_at", -1)
    with garbage.collector_off():
        kept = [[] for _ in range(10)]
    assert garbage._aged_at == -1
    assert len(kept) == 10


def test_what_others_have_frozen_stays_so(collector, monkeypatch):
    monkeypatch.setattr(garbage, "_MANY_OBJECTS", 1000)
    monkeypatch.setattr(garbage, "_aged_at", -1)
    gc.freeze()
    frozen = gc.get_freeze_count()
    try:
        with garbage.collector_off():
            kept = [[] for _ in range(5000)]
        # Frozen ones may die meanwhile, none is thawed.
        assert 0 < gc.get_freeze_count() <= frozen
        assert len(kept) == 5000
    finally:
        gc.unfreeze()


def test_what_dies_in_cycles_while_time_passes_is_taken_away(collector, monkeypatch):
    class Cyclic:
        def __init__(self) -> None:
            self.own = self

    monkeypatch.setattr(garbage, "_MOMENTS", 10)
    gone: list[int] = []
    with garbage.collector_off():
        for moment in garbage.collect_regularly(range(25)):
            weakref.finalize(Cyclic(), gone.append, moment)
        assert gone == list(range(20))


def test_where_the_collector_is_on_it_is_left_alone(collector, monkeypatch):
    monkeypatch.setattr(garbage, "_MOMENTS", 1)
    before = gc.get_stats()[0]["collections"]
    assert list(garbage.collect_regularly(range(3))) == [0, 1, 2]
    assert gc.get_stats()[0]["collections"] == before
