"""Cron expressions: the moments they name, before and after, and on the clocks of a zone."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kailab.errors import InputError
from kailab.model.cron import Cron, schedule_of, zone_of


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("cron", "now", "expected"),
    [
        ("0 * * * *", "2026-01-01T10:30:00", "2026-01-01T10:00:00"),
        ("0 * * * *", "2026-01-01T10:00:00", "2026-01-01T10:00:00"),
        ("@daily", "2026-01-01T23:59:59", "2026-01-01T00:00:00"),
        ("0 */6 * * *", "2026-01-01T17:00:00", "2026-01-01T12:00:00"),
        ("0 12 * * mon", "2026-01-07T00:00:00", "2026-01-05T12:00:00"),
        ("0 12 * * 1", "2026-01-05T11:59:59", "2025-12-29T12:00:00"),
        ("0 0 1 * *", "2026-03-31T00:00:00", "2026-03-01T00:00:00"),
        ("30 8 * jan-mar 1-5", "2026-05-10T00:00:00", "2026-03-31T08:30:00"),
        ("0 0 29 2 *", "2026-01-01T00:00:00", "2024-02-29T00:00:00"),
        ("0 0 13 * fri", "2026-01-10T00:00:00", "2026-01-09T00:00:00"),  # either day field
        ("0 0 * * 0", "2026-01-10T00:00:00", "2026-01-04T00:00:00"),
        ("5,35 9-17/4 * * *", "2026-01-01T16:00:00", "2026-01-01T13:35:00"),
    ],
)
def test_the_latest_moment(cron: str, now: str, expected: str) -> None:
    assert Cron(cron).latest(at(now)) == at(expected)


@pytest.mark.parametrize(
    ("cron", "after"),
    [
        ("0 12 * * *", "2026-01-01T12:00:00"),
        ("@hourly", "2026-01-01T01:00:00"),
        ("@weekly", "2026-01-04T00:00:00"),
        ("30 0 2 1 *", "2026-01-02T00:30:00"),
        ("0 0 * * sat", "2026-01-03T00:00:00"),
        ("0 0 * * 2/2", "2026-01-03T00:00:00"),
        ("0 0 */30 * fri", "2026-01-02T00:00:00"),
        ("0 0 5,* * fri", "2026-01-02T00:00:00"),
        ("0 0 15 * fri", "2026-01-02T00:00:00"),
        ("0 0 ? * fri", "2026-01-02T00:00:00"),
        ("5-10/5 0 * jan *", "2026-01-01T00:05:00"),
        ("15/20 * * * ?", "2026-01-01T00:15:00"),
        ("0 0 29 2 *", "2028-02-29T00:00:00"),
    ],
)
def test_the_next_moment(cron: str, after: str) -> None:
    assert Cron(cron).after(at("2026-01-01T00:00:00")) == at(after)
    assert Cron(cron).after(at("2026-01-01T00:00:00") + 0.5) == at(after)


def test_an_interval_counts_from_the_last_time() -> None:
    schedule = schedule_of("@every 1h30m")
    start = at("2026-01-01T00:10:00")
    assert schedule.after(start) == at("2026-01-01T01:40:00")
    assert schedule.latest(at("2026-01-01T05:00:00"), since=start) == at("2026-01-01T04:40:00")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "has 0 fields"), ("invalid", "has 1 fields"), ("* * * *", "has 4 fields"), ("0 0 0 * * *", "has 6 fields"),
        ("60 * * * *", "minute is out of its range"), ("* * 0 * *", "day of month"), ("* * * 13 *", "month"),
        ("5-1 * * * *", "runs backwards"), ("*/0 * * * *", "minute"), ("0 0 31 2 *", "never comes"), ("0 0 30 2 *", "never comes"),
        ("0 0 30 x *", "'x' is not understood"), ("0 0 L * *", "'L' is not understood"), ("0 0 * * mon#2", "is not understood"),
        ("0 0 * * 7", "'7' is out of its range; expected 0 to 6"), ("0 0 */0 * mon", "day of month"),
        ("0 0 LW * *", "is not understood"), ("0 0 * foo *", "month"), ("²0 0 * * *", "is not understood"),
        ("@every 1h", "@every is not supported"), ("TZ=Europe/Berlin 0 0 * * *", "timeZone"),
        ("CRON_TZ=UTC @daily", "timeZone"), ("@fortnightly", "has 1 fields"), ("@Daily", "has 1 fields"),
    ],
)  # fmt: skip
def test_what_is_none(text: str, problem: str) -> None:
    with pytest.raises(InputError, match="is no cron expression") as caught:
        Cron(text)
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("cron", "zone", "when", "after"),
    [
        ("0 9 * * *", "Europe/Berlin", "2026-07-01T00:00:00", "2026-07-01T07:00:00"),
        ("0 9 * * *", "Europe/Berlin", "2026-01-01T00:00:00", "2026-01-01T08:00:00"),
        ("0 9 * * *", "Asia/Kolkata", "2026-01-01T00:00:00", "2026-01-01T03:30:00"),
        (
            "30 2 * * *",
            "Europe/Berlin",
            "2026-03-29T00:00:00",
            "2026-03-29T01:00:00",
        ),  # 2:30 is left out: at 3:00 local
        ("30 2 * * *", "Europe/Berlin", "2026-10-25T00:00:00", "2026-10-25T00:30:00"),  # 2:30 comes twice: the first
        ("30 2 * * *", "Europe/Berlin", "2026-10-25T00:30:00", "2026-10-26T01:30:00"),  # and not again
        (
            "*/30 * * * *",
            "Europe/Berlin",
            "2026-10-25T00:30:00",
            "2026-10-25T01:00:00",
        ),  # the repeated hour has its own
        ("0 0 * * *", None, "2026-01-01T00:00:00", "2026-01-02T00:00:00"),
    ],
)
def test_clocks_of_a_zone(cron: str, zone: str | None, when: str, after: str) -> None:
    assert Cron(cron).after(at(when), zone_of(zone)) == at(after)


@pytest.mark.parametrize(
    ("cron", "zone", "now", "latest"),
    [
        ("0 9 * * *", "Asia/Tokyo", "2026-05-01T12:00:00", "2026-05-01T00:00:00"),
        ("0 9 * * *", "America/New_York", "2026-05-01T12:00:00", "2026-04-30T13:00:00"),
        ("0 9 * * *", None, "2026-05-01T12:00:00", "2026-05-01T09:00:00"),
        ("*/30 * * * *", "Europe/Berlin", "2026-03-29T01:10:00", "2026-03-29T01:00:00"),
    ],
)
def test_the_latest_moment_on_the_clocks_of_a_zone(cron: str, zone: str | None, now: str, latest: str) -> None:
    assert Cron(cron).latest(at(now), zone_of(zone)) == at(latest)


def test_a_day_that_no_month_has_never_comes() -> None:
    schedule = schedule_of("0 0 31 feb,4 *")
    assert schedule.after(at("2026-01-01T00:00:00")) is None
    for text in ("0 0 32 2 *", "0 0 31 2", "60 0 31 2 *"):
        with pytest.raises(InputError, match="is no cron expression"):
            schedule_of(text)


@pytest.mark.parametrize("name", ["Europe/Atlantis", "../../etc/passwd", "/etc/localtime", "x\0y", "Local"])
def test_what_is_no_zone(name: str) -> None:
    with pytest.raises(InputError, match="is not a time zone"):
        zone_of(name)


@given(st.text(alphabet="0123456789*/-, ", max_size=20), st.integers(0, 4_000_000_000))
def test_never_later_than_now(text: str, now: int) -> None:
    try:
        cron = Cron(text)
    except InputError:
        return
    assert cron.latest(now) <= now
    following = cron.after(now)
    assert following is None or following > now
    assert following is None or cron.latest(following) == following
