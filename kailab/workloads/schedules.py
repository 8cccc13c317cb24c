"""Cron schedules: the five fields of crontab, names of months and days, and the @-words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from kailab.errors import InputError

_WORDS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTHS = {
    name: n
    for n, name in enumerate(
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"], start=1
    )
}
_DAYS = {name: n for n, name in enumerate(["sun", "mon", "tue", "wed", "thu", "fri", "sat"])}
_HORIZON_DAYS = 366 * 5


class Schedule(NamedTuple):
    """Sets of allowed minutes, hours, days of the month, months and days of the week (0 is Sunday)."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    any_day: bool  # of the month
    any_weekday: bool

    def _day_fits(self, day: datetime) -> bool:
        if day.month not in self.months:
            return False
        by_date = day.day in self.days
        by_weekday = day.isoweekday() % 7 in self.weekdays
        if self.any_day or self.any_weekday:
            return by_date and by_weekday
        return by_date or by_weekday  # crontab: with both given, either will do

    def after(self, when: float, zone: tzinfo = UTC) -> float | None:
        """The first time due later than ``when`` (seconds since the epoch); None within five years."""
        moment = datetime.fromtimestamp(when, zone).replace(second=0, microsecond=0) + timedelta(minutes=1)
        day = moment.replace(hour=0, minute=0)
        for _ in range(_HORIZON_DAYS):
            if self._day_fits(day):
                for hour in sorted(self.hours):
                    for minute in sorted(self.minutes):
                        found = day.replace(hour=hour, minute=minute)
                        if found >= moment:
                            return found.timestamp()
            day = (day + timedelta(days=1)).replace(hour=0, minute=0)
        return None


def _field(text: str, low: int, high: int, names: dict[str, int]) -> frozenset[int]:
    def number(part: str) -> int:
        value = names.get(part.lower())
        if value is None:
            if not part.isdigit():
                raise ValueError(part)
            value = int(part)
        if not low <= value <= high:
            raise ValueError(part)
        return value

    result: set[int] = set()
    for part in text.split(","):
        span, slash, step_text = part.partition("/")
        step = int(step_text) if slash else 1
        if step < 1:
            raise ValueError(part)
        if span in ("*", "?"):
            first, last = low, high
        elif "-" in span:
            begin, _, end = span.partition("-")
            first, last = number(begin), number(end)
            if first > last:
                raise ValueError(part)
        else:
            first = number(span)
            last = high if slash else first
        result.update(range(first, last + 1, step))
    return frozenset(result)


@lru_cache(maxsize=256)
def parse_schedule(text: str) -> Schedule:
    """Raises InputError."""
    fields = _WORDS.get(text.strip(), text).split()
    try:
        if len(fields) != 5:
            raise ValueError(text)
        return Schedule(
            _field(fields[0], 0, 59, {}),
            _field(fields[1], 0, 23, {}),
            _field(fields[2], 1, 31, {}),
            _field(fields[3], 1, 12, _MONTHS),
            frozenset(day % 7 for day in _field(fields[4], 0, 7, _DAYS)),
            fields[2][0] in "*?",
            fields[4][0] in "*?",
        )
    except ValueError:
        raise InputError(f"{text!r} is not a cron schedule; expected five fields such as '*/5 * * * *'") from None


def zone_of(name: str | None) -> tzinfo:
    """A time zone by its name; UTC for none. Raises InputError."""
    try:
        return ZoneInfo(name) if name else UTC
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InputError(f"{name!r} is not a time zone") from None
