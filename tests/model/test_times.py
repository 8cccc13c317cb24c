from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kailab.errors import InputError
from kailab.model import times


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("1h30m", 5400), ("1.5h", 5400), ("300ms", 0.3), ("0", 0), ("1m0.5s", 60.5), ("+2m", 120), (".5s", 0.5),
     ("1µs", 1e-6), ("1us", 1e-6)],
)  # fmt: skip
def test_go_durations(text, seconds):
    assert times.duration_seconds(text) == seconds


def test_days_and_weeks_where_kai_reads_them():
    assert times.duration_seconds("1w2d3h", days=True) == 9 * 86400 + 3 * 3600
    with pytest.raises(InputError):
        times.duration_seconds("1d")


def test_negative_only_where_asked_for():
    assert times.duration_seconds("-10s", signed=True) == -10
    with pytest.raises(InputError, match="zero or more"):
        times.duration_seconds("-10s")


@pytest.mark.parametrize("bad", ["", "s", "10", "1 h", "1h 30m", "1x", "-", 60, None, "9999999999h", "1" * 100 + "s"])
def test_what_is_no_duration_is_refused(bad):
    with pytest.raises(InputError, match="expected text such as 90s"):
        times.duration_seconds(bad)


@pytest.mark.parametrize(
    ("seconds", "text"), [(5400, "1h30m0s"), (0.3, "300ms"), (0, "0s"), (-10, "-10s"), (60.5, "1m0.5s"), (1e-6, "1µs")]
)
def test_durations_as_go_prints_them(seconds, text):
    assert times.format_duration(seconds) == text


@given(st.integers(-(10**12), 10**12))
def test_durations_round_trip(milliseconds):
    seconds = milliseconds / 1000
    assert times.duration_seconds(times.format_duration(seconds), signed=True) == pytest.approx(seconds, abs=1e-6)


def test_times():
    assert times.parse_time("2026-01-01T00:00:00Z") == 1767225600.0
    assert times.parse_time("2026-01-01T01:00:00.25+01:00") == 1767225600.25
    assert times.format_time(1767225600.9) == "2026-01-01T00:00:00Z"
    assert times.format_micro_time(1767225600.25) == "2026-01-01T00:00:00.250000Z"


@pytest.mark.parametrize("seconds", [1e12, 2.0**53, 9.3e18, 1e300])
def test_a_time_beyond_the_calendar_is_the_last_that_can_be_written(seconds):
    assert times.format_time(seconds) == "9999-12-31T23:59:59Z"
    assert times.format_micro_time(seconds) == "9999-12-31T23:59:59.000000Z"
    assert times.format_time(-seconds) == "1000-01-01T00:00:00Z"


@pytest.mark.parametrize("bad", ["", "today", "2026-01-01", "2026-13-01T00:00:00Z", "2026-01-01T00:00:00", 0, None])
def test_what_is_no_time_is_refused(bad):
    with pytest.raises(InputError, match="RFC 3339"):
        times.parse_time(bad)


@given(st.integers(0, 4 * 10**9))
def test_times_round_trip(seconds):
    assert times.parse_time(times.format_time(float(seconds))) == seconds
