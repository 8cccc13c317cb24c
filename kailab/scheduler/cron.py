"""Moments given by a cron expression: five fields (minute, hour, day of month, month, day of week), in UTC.

``*``, lists, ranges, steps, names of months and days, and ``@hourly`` to ``@yearly``; as in cron, a day matches either of
the two day fields where both are restricted. Source: KAI's cron windows of usage (usageParams.cronString).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from kailab.errors import InputError, Where

_ALIASES = {
    "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}  # fmt: skip
_FIELDS = (("minute", 0, 59), ("hour", 0, 23), ("day of month", 1, 31), ("month", 1, 12), ("day of week", 0, 7))
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FARTHEST = 366 * 8 + 3  # days back in which any expression that ever matches has matched (29 February, 8 years)


class Cron:
    """``Cron("0 0 * * mon")``. Raises InputError for what is no cron expression, or never comes."""

    def __init__(self, text: str, where: Where | None = None) -> None:
        self._text = text
        self._where = where or Where()
        fields = _ALIASES.get(text.strip().lower(), text).split()
        if len(fields) != len(_FIELDS):
            raise self._error(f"has {len(fields)} fields; expected five (minute hour day month weekday)")
        sets = [self._field(field, *about) for field, about in zip(fields, _FIELDS, strict=True)]
        self._minutes, self._hours = sorted(sets[0], reverse=True), sorted(sets[1], reverse=True)
        self._days, self._months, self._weekdays = sets[2], sets[3], {day % 7 for day in sets[4]}
        self._any_day, self._any_weekday = fields[2].startswith("*"), fields[4].startswith("*")
        if self._latest(datetime(2096, 3, 1, tzinfo=UTC)) is None:
            raise self._error("names a day that never comes")

    def latest(self, now: float) -> float:
        """The last moment at or before ``now``, in seconds since the epoch."""
        found = self._latest(datetime.fromtimestamp(now, UTC))
        assert found is not None
        return found.timestamp()

    def _latest(self, now: datetime) -> datetime | None:
        day = now.replace(hour=0, minute=0, second=0, microsecond=0)
        for back in range(_FARTHEST):
            date = day - timedelta(days=back)
            if not self._matches(date):
                continue
            for hour in self._hours:
                for minute in self._minutes:
                    moment = date.replace(hour=hour, minute=minute)
                    if moment <= now:
                        return moment
        return None

    def _matches(self, date: datetime) -> bool:
        if date.month not in self._months:
            return False
        by_day, by_weekday = date.day in self._days, date.isoweekday() % 7 in self._weekdays
        if self._any_day or self._any_weekday:
            return by_day and by_weekday
        return by_day or by_weekday

    def _field(self, field: str, noun: str, low: int, high: int) -> set[int]:
        found: set[int] = set()
        for part in field.split(","):
            span, slash, step = part.partition("/")
            every = self._whole(step, noun, 1, high) if slash else 1
            if span == "*":
                first, last = low, high
            else:
                begin, dash, end = span.partition("-")
                first = self._whole(begin, noun, low, high)
                last = self._whole(end, noun, low, high) if dash else (high if slash else first)
            if last < first:
                raise self._error(f"{noun} {part!r} runs backwards")
            found.update(range(first, last + 1, every))
        return found

    def _whole(self, text: str, noun: str, low: int, high: int) -> int:
        names = {"month": _MONTHS, "day of week": _DAYS}.get(noun, ())
        if text.lower() in names:
            return names.index(text.lower()) + (1 if noun == "month" else 0)
        if not (text.isascii() and text.isdigit()) or not low <= int(text) <= high:
            raise self._error(f"{noun} {text!r} is not between {low} and {high}")
        return int(text)

    def _error(self, problem: str) -> InputError:
        return InputError(f"{self._text!r} is no cron expression: {problem}", self._where)
