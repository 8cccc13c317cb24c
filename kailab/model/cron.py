"""Compute the times of a cron expression: the ``schedule`` of a CronJob, the windows of usage in KAI's configuration.

Five fields (minute, hour, day of month, month, day of week), ``*``, ``?``, lists, ranges, steps, names of months and days, and
``@hourly`` to ``@yearly``. If both day fields are restricted, a day matches if either does; ``*/2`` restricts, as in Go's cron library.
``cronsim`` computes the times. When clocks change, it follows Debian's cron: a time in the skipped hour comes right after it, a time
in the repeated hour comes once. Its extensions (seconds, ``L``, ``#``, 7 for Sunday) are refused, because Kubernetes and KAI refuse them.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, tzinfo
from functools import cache
from typing import TYPE_CHECKING, TypeAlias
from zoneinfo import ZoneInfo

from kailab.errors import InputError, Where
from kailab.model.times import date, duration_seconds

if TYPE_CHECKING:
    from cronsim import CronSim

_ALIASES = {
    "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}  # fmt: skip
_VALUE = r"([0-9]{1,2}|[a-z]{3})"
_TERM = rf"([*?]|{_VALUE}(-{_VALUE})?)(/[0-9]{{1,4}})?"
_FIELD = re.compile(rf"{_TERM}(,{_TERM})*", re.ASCII | re.IGNORECASE)
_ZONES = ("TZ=", "CRON_TZ=")
_BEFORE_ANY_CENTURY = datetime(2096, 3, 1, tzinfo=UTC)  # 29 February comes every four years from here back to 1904


class Cron:
    """``Cron("0 0 * * mon")``. Raises InputError if the text is not a cron expression, or names a day that never comes."""

    def __init__(self, text: str, where: Where | None = None) -> None:
        self._text = text
        self._where = where or Where()
        self._fields = self._read()
        if self._at_or_before(_BEFORE_ANY_CENTURY) is None:
            raise self._error("names a day that never comes")

    def after(self, when: float, zone: tzinfo = UTC) -> float | None:
        """The first time after ``when``, in seconds since the epoch, on the clocks of a zone; None if there is none in 50 years."""
        moment = next(self._moments(date(when, zone)), None)
        return None if moment is None else moment.timestamp()

    def latest(self, now: float, zone: tzinfo = UTC, *, since: float = 0.0) -> float:
        """The last time at or before ``now``, in seconds since the epoch, on the clocks of a zone. ``since``: the last time that is known,
        from which only a ``ConstantDelay`` counts."""
        moment = self._at_or_before(date(now, zone))
        assert moment is not None
        return moment.timestamp()

    def _at_or_before(self, when: datetime) -> datetime | None:
        # Backwards, cronsim returns only earlier times, so the search for "at or before" starts at the next whole minute.
        next_minute = date((when.timestamp() // 60 + 1) * 60, when.tzinfo or UTC)
        return next(self._moments(next_minute, reverse=True), None)

    def _moments(self, when: datetime, reverse: bool = False) -> CronSim:
        from cronsim import CronSim, CronSimError

        try:
            return CronSim(self._fields, when, reverse=reverse)
        except CronSimError as error:
            # cronsim's own message is one such as ``Bad day-of-month``.
            field = str(error).removeprefix("Bad ").replace("-", " ")
            raise self._error(f"the {field} is out of its range, runs backwards, or never comes") from None

    def _read(self) -> str:
        text = self._text.strip()
        # Named in the message, because Go's cron library accepts @every and TZ= and users expect them.
        if text.lower().startswith("@every"):
            raise self._error("@every is not supported; expected five fields, or one of @hourly to @yearly")
        if text.upper().startswith(_ZONES):
            raise self._error("names a zone; expected five fields (a CronJob has its zone in timeZone)")
        fields = _ALIASES.get(text, text).split()
        if len(fields) != 5:
            raise self._error(f"has {len(fields)} fields; expected five (minute hour day month weekday)")
        # cronsim accepts more than Kubernetes does.
        for field in fields:
            if not _FIELD.fullmatch(field):
                raise self._error(
                    f"{field!r:.40} is not understood; expected *, a value, a range a-b, a step /n, or a list of them"
                )
        minute, hour, day, month, weekday = " ".join(fields).replace("?", "*").split()
        return " ".join((minute, hour, self._days(day, 1, 31), month, self._days(weekday, 0, 6)))

    def _days(self, field: str, least: int, most: int) -> str:
        """A day field as cronsim reads it in Go's sense: cronsim counts ``*/2`` as unrestricted, and 7 as a day of the week."""
        terms: list[str] = []
        for term in field.split(","):
            days, _, step = term.partition("/")
            if days == "*" and step in ("", "1"):
                return "*"
            if any(end.isdigit() and int(end) > most for end in days.split("-")):
                raise self._error(f"{term!r:.40} is out of its range; expected {least} to {most}")
            if step and "-" not in days:
                days = f"{least if days == '*' else days}-{most}"
            terms.append(f"{days}/{step}" if step else days)
        return ",".join(terms)

    def _error(self, problem: str) -> InputError:
        return InputError(f"{self._text!r:.80} is no cron expression: {problem}", self._where)


class ConstantDelay:
    """``ConstantDelay("@every 90m")``: a time every 90 minutes from the last one, as Go's cron library has it under this name.
    Raises InputError.
    """

    def __init__(self, text: str) -> None:
        self._seconds = max(1, int(duration_seconds(text.split(maxsplit=1)[-1])))

    def after(self, when: float, zone: tzinfo = UTC) -> float:
        return math.floor(when) + self._seconds

    def latest(self, now: float, zone: tzinfo = UTC, *, since: float) -> float:
        first = self.after(since)
        return first + (now - first) // self._seconds * self._seconds


class NeverComing:
    """``NeverComing("0 0 31 2 *")``: a day that no month has. Kubernetes takes it, and starts nothing. Raises InputError for another text."""

    def __init__(self, text: str) -> None:
        fields = text.split()
        for day in (2, 3):  # each of day and month can come by itself
            Cron(" ".join("*" if place == day else field for place, field in enumerate(fields)))

    def after(self, when: float, zone: tzinfo = UTC) -> None:
        return None

    def latest(self, now: float, zone: tzinfo = UTC, *, since: float) -> float:
        return since


Schedule: TypeAlias = Cron | ConstantDelay | NeverComing


def schedule_of(text: str) -> Schedule:
    """The schedule of a CronJob, without its zone (see ``split_zone``). Raises InputError."""
    if text.startswith("@every "):
        return ConstantDelay(text)
    try:
        return Cron(text)
    except InputError as error:
        try:
            return NeverComing(text)
        except InputError:
            raise error from None


def split_zone(text: str) -> tuple[str | None, str]:
    """The name of the zone that a schedule begins with, or None, and the rest: ``TZ=Europe/Berlin 0 5 * * *``. An API server takes no
    new CronJob with such a schedule, and runs those that it has."""
    if not text.startswith(_ZONES):
        return None, text
    zone, _, rest = text.partition(" ")
    return zone.partition("=")[2], rest.strip()


@cache
def zone_of(name: str | None) -> tzinfo:
    """The time zone of this name, or UTC for an empty name. Raises InputError."""
    try:
        return ZoneInfo(name) if name else UTC
    except (LookupError, ValueError, OSError):
        raise InputError(f"{name!r} is not a time zone") from None
