"""Targets in one sentence, and the confidence of verdicts."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kailab.errors import InputError
from kailab.studies.comparison import interval
from kailab.studies.confidence import TargetVerdict, all_of, estimate
from kailab.studies.measures import MEASURES, OF_FLEET
from kailab.studies.target import MEASURABLE, StudyTarget, read_target


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("p99 wait < 1h", StudyTarget(measure="waits_p99", below=3600)),
        ("team-b p99 wait<10min", StudyTarget(measure="waits_p99", queue="team-b", below=600)),
        ("median wait < 90", StudyTarget(measure="waits_p50", below=90)),
        ("all waited_p99 < 2d", StudyTarget(measure="waited_p99", below=172_800)),
        ("use > 60%", StudyTarget(measure="allocated", above=0.6)),
        ("red mean slowdown < 1.5", StudyTarget(measure="slowdown_mean", queue="red", below=1.5)),
        ("wait mean wait < 1s", StudyTarget(measure="waits_mean", queue="wait", below=1)),
    ],
)
def test_a_sentence_says_measure_queue_and_amount(text: str, expected: StudyTarget) -> None:
    assert read_target(text) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not a target"),
        ("p99 wait", "is not a target"),
        ("p99 wait <= 1h", "is not a target"),
        ("wait < 1h", "unknown measure 'wait'"),
        ("a b p99 wait < 1h", "unknown measure 'a b p99 wait'"),
        ("red use > 60%", "of the whole fleet"),
        ("p99 wait < soon", "is not a duration"),
        ("p99 wait < -1h", "is negative"),
        ("p99 wait < 60%", "is not a duration"),
        ("use > nan", "a part such as 60%"),
        ("lost < 3 h", "is not an amount"),
        ("p99 wait < 1h < 2h", "is not a duration"),
    ],
)
def test_what_is_no_target_is_told(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        read_target(text)


@given(st.sampled_from(MEASURABLE), st.sampled_from(["all", "team-b", "p99"]), st.integers(0, 10**6), st.booleans())
def test_what_is_written_is_read_again(measure: str, queue: str, limit: int, upper: bool) -> None:
    queue = "all" if measure in OF_FLEET else queue
    amount = limit % 101 / 100 if measure.startswith("allocated") else float(limit)
    target = StudyTarget(measure=measure, queue=queue, **{"below" if upper else "above": amount})
    assert read_target(str(target)) == target


def test_each_measure_that_can_be_asked_about_is_a_column() -> None:
    assert set(MEASURABLE) <= {*MEASURES, *OF_FLEET}


def test_seeds_tell_yes_no_or_neither() -> None:
    target = read_target("p99 wait < 100s")
    assert estimate(target, [10, 12, 11]).verdict is TargetVerdict.yes
    assert estimate(target, [300, 310, 305]).verdict is TargetVerdict.no
    assert estimate(target, [10, 20, 150]).verdict is TargetVerdict.open
    assert estimate(target, [10, 11, None]).verdict is TargetVerdict.no, "in one seed jobs never began"
    assert estimate(target, [10]).verdict is TargetVerdict.open, "one seed says nothing of others"
    assert estimate(target, [10], sampled=False).verdict is TargetVerdict.yes
    assert all_of([TargetVerdict.yes, TargetVerdict.open]) is TargetVerdict.open
    assert all_of([TargetVerdict.no, TargetVerdict.open]) is TargetVerdict.no


@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=12), st.floats(1, 1e6), st.booleans())
def test_yes_needs_a_mean_that_keeps_it_and_no_one_that_does_not(
    values: list[float], limit: float, upper: bool
) -> None:
    target = StudyTarget(measure="lost", **{"below" if upper else "above": limit})
    found = estimate(target, values)
    assert found.mean is not None
    if found.verdict is TargetVerdict.yes:
        assert target.keeps(found.mean)
    if found.verdict is TargetVerdict.no:
        assert not target.keeps(found.mean) or found.mean == pytest.approx(limit)


def test_an_interval_holds_the_mean_of_what_it_is_drawn_from_as_often_as_it_says() -> None:
    chance = random.Random(1)
    held = 0
    for _ in range(2000):
        found = interval("evictions", [chance.gauss(100, 15) for _ in range(5)])
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 100 <= found.high
    assert 0.93 < held / 2000 < 0.97


def test_an_interval_of_one_seed_has_no_bounds_and_of_none_no_mean() -> None:
    one, none = interval("evictions", [3.0, None]), interval("evictions", [None])
    assert (one.mean, one.low, one.high, one.missing) == (3.0, None, None, 1)
    assert (none.mean, none.missing) == (None, 1)
    wide = interval("evictions", [0.0, 4.0])
    assert wide.low == 0


def test_no_bound_of_a_part_of_the_gpus_is_above_all_or_below_none() -> None:
    found = interval("allocated", [0.1, 0.9])
    assert (found.low, found.high) == (0.0, 1.0)
    use = read_target("use > 40%")
    assert estimate(use, [0.1, 0.9]).bound == 0.0
    assert estimate(read_target("use < 40%"), [0.1, 0.9]).bound == 1.0


@pytest.mark.parametrize(
    "values, failed, verdict",
    [
        ([5.0, 6.0, None], 1, TargetVerdict.open),  # what was not done could have said no
        ([None, None], 2, TargetVerdict.open),
        ([5.0, 6.0, None], 0, TargetVerdict.no),  # jobs never began
        ([5.0, None, None], 1, TargetVerdict.no),
        ([99.0, 99.0, None], 1, TargetVerdict.no),
    ],
)
def test_a_run_that_could_not_be_done_says_nothing(values, failed, verdict) -> None:
    found = estimate(read_target("p99 wait < 60s"), values, failed=failed)
    assert found.verdict is verdict
    assert (found.missing, found.failed) == (values.count(None), failed)
