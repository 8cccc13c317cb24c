"""The virtual clock."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kailab.cluster.embedded.clock import VirtualClock


@given(st.lists(st.integers(0, 20), max_size=30), st.lists(st.integers(0, 7), max_size=10))
def test_timers_run_in_time_order_ties_by_sequence(times, steps):
    clock = VirtualClock(0)
    ran = []
    for number, when in enumerate(times):
        clock.call_at(when, lambda when=when, number=number: ran.append((when, number, clock.now)))
    for step in steps:
        clock.advance(step)
    clock.advance(100)
    assert [entry[:2] for entry in ran] == sorted((when, number) for number, when in enumerate(times))
    assert all(now == when for when, _, now in ran)


def test_prompt_and_other_timers():
    clock = VirtualClock(0)
    clock.call_at(5, lambda: None)
    clock.call_at(3, lambda: None, prompt=False)
    assert (clock.next_timer(), clock.next_prompt()) == (3, 5)
    clock.advance(5)
    assert (clock.next_timer(), clock.next_prompt()) == (None, None)


def test_a_key_replaces_and_timers_may_set_timers():
    clock = VirtualClock(0)
    ran = []
    clock.call_at(1, lambda: ran.append("old"), key="k")
    clock.call_at(2, lambda: (ran.append("new"), clock.call_at(clock.now, lambda: ran.append("then"))), key="k")
    clock.advance(5)
    assert ran == ["new", "then"]
    assert clock.now == 5


def test_overdue_timers_run_at_the_next_advance_and_time_never_goes_back():
    clock = VirtualClock(10)
    ran = []
    clock.call_at(3, lambda: ran.append(clock.now))
    clock.advance(0)
    assert ran == [10]
    clock.advance_to(5)
    assert clock.now == 10
    with pytest.raises(ValueError):
        clock.advance(-1)
