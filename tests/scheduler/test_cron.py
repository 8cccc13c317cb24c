"""Cron expressions: the latest moment they named."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kailab.errors import InputError
from kailab.scheduler.cron import Cron


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
        ("0 0 * * 7", "2026-01-10T00:00:00", "2026-01-04T00:00:00"),
        ("5,35 9-17/4 * * *", "2026-01-01T16:00:00", "2026-01-01T13:35:00"),
    ],
)
def test_the_latest_moment(cron: str, now: str, expected: str) -> None:
    assert Cron(cron).latest(at(now)) == at(expected)


@pytest.mark.parametrize(
    "text",
    ["", "invalid", "* * * *", "60 * * * *", "* * 0 * *", "* * * 13 *", "5-1 * * * *", "*/0 * * * *", "0 0 31 2 *"],
)
def test_what_is_none(text: str) -> None:
    with pytest.raises(InputError, match="is no cron expression"):
        Cron(text)


@given(st.text(alphabet="0123456789*/-, ", max_size=20), st.integers(0, 4_000_000_000))
def test_never_later_than_now(text: str, now: int) -> None:
    try:
        cron = Cron(text)
    except InputError:
        return
    assert cron.latest(now) <= now
