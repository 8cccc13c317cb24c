"""Parse targets of a replay, such as ``p99 wait < 1h``, ``team-b mean slowdown < 2`` or ``use > 60%``.

    [QUEUE] MEASURE < AMOUNT        or with >

A measure is a column of a study's table (``waited_p99``) or a name for one (``p99 wait``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import isfinite

import msgspec

from kailab.errors import InputError
from kailab.lab.seen_names import describe_names
from kailab.model.times import duration_seconds, format_duration

ALL = "all"
"""Stands for all jobs instead of a queue's name."""
WAITS = "waits_"
"""Prefix of measures that have no number if too many jobs never began."""

_STATISTICS = {"mean": "mean", "p50": "p50", "median": "p50", "p99": "p99", "longest": "most"}
_SPOKEN: Mapping[str, str] = {
    **{f"{word} wait": f"{WAITS}{of}" for word, of in _STATISTICS.items()},
    "mean time": "took_mean",
    "mean slowdown": "slowdown_mean",
    "evictions": "evictions",
    "lost": "lost",
    "ended": "ended",
    "use": "allocated",
    "use arriving": "allocated_arriving",
    "cost": "cost",
    "energy": "kwh",
}
"""Names of measures. Waits by name count jobs that never began as waiting forever."""
_DURATIONS = ("waited", "waits", "took")
_PARTS = ("allocated", "allocated_arriving")
_PRICED = ("cost", "kwh")
_OF_FLEET = (*_PARTS, *_PRICED)
MEASURABLE = (
    *(f"{part}_{of}" for part in ("waits", "waited") for of in ("mean", "p50", "p99", "most")),
    "took_mean", "slowdown_mean", "evictions", "lost", "ended", *_OF_FLEET,
)  # fmt: skip
"""Columns that a target may name."""
_RISING = ("ended", *_PRICED)
"""Measures that rise with the number of GPUs; the others fall."""
_SENTENCE = re.compile(r"([^<>=]*)(<=|>=|==?|<|>)(.*)", re.DOTALL)
_NUMBER = re.compile(r"\d+(\.\d*)?|\.\d+", re.ASCII)


class StudyTarget(msgspec.Struct, frozen=True, kw_only=True):
    """``measure`` of ``queue`` must be ``below`` or ``above`` a number: seconds, GPU-hours, jobs, or a part of the
    fleet's GPUs."""

    measure: str
    queue: str = ALL
    below: float | None = None
    above: float | None = None

    @property
    def limit(self) -> float:
        return self.below if self.below is not None else self.above or 0.0

    @property
    def upper(self) -> bool:
        """True if the target is an upper limit."""
        return self.below is not None

    @property
    def more_helps(self) -> bool:
        """True if more GPUs can help to meet the target."""
        return (self.measure in _RISING) != self.upper

    @property
    def priced(self) -> bool:
        """True if the target needs prices."""
        return self.measure in _PRICED

    @property
    def subject(self) -> str:
        """The queue and the measure in words.

        >>> StudyTarget(measure="waits_p99", queue="team-b", below=60.0).subject
        'team-b p99 wait'
        """
        return subject(self.measure, self.queue)

    def __str__(self) -> str:
        if self.below is None and self.above is None:
            return self.subject
        return f"{self.subject} {'<' if self.upper else '>'} {format_measure(self.measure, self.limit)}"

    def check(self, queues: Sequence[str], *, priced: bool) -> None:
        """Raise InputError if the queue is unknown, or if the target needs prices and there are none."""
        if self.priced and not priced:
            raise InputError(
                f"{self}: the target needs a file of prices; expected --prices, or the field prices of a study"
            )
        if self.queue != ALL and self.queue not in queues:
            raise InputError(f"{self}: no queue {self.queue!r:.80}; {describe_names(queues, self.queue)}")

    def keeps(self, value: float) -> bool:
        return value < self.limit if self.upper else value > self.limit


def possible(measure: str, value: float) -> float:
    """Limit a value to what the measure can be.

    >>> possible("allocated", 1.4), possible("allocated", -0.2), possible("waits_p99", 90.0)
    (1.0, 0.0, 90.0)
    """
    return max(0.0, min(value, 1.0) if measure in _PARTS else value)


def is_time(measure: str) -> bool:
    """True if the measure is in seconds.

    >>> is_time("waits_p99"), is_time("evictions")
    (True, False)
    """
    return measure.partition("_")[0] in _DURATIONS


def part_fault(measure: str, limit: float) -> str:
    """Why a limit can't be a part of the fleet's GPUs; empty for a good one and for other measures.

    >>> part_fault("allocated", 60)
    '60 is no part of the GPUs; expected a part such as 60% or 0.6'
    """
    if measure not in _PARTS or 0 <= limit <= 1:
        return ""
    return f"{limit:g} is no part of the GPUs; expected a part such as 60% or 0.6"


def subject(measure: str, queue: str) -> str:
    """A measure of a queue, or of all jobs, in words."""
    words = next((text for text, name in _SPOKEN.items() if name == measure), measure)
    return words if queue == ALL else f"{queue} {words}"


def read_subject(text: str) -> tuple[str, str]:
    """Split ``[QUEUE] MEASURE`` into queue and measure. Raises InputError.

    >>> read_subject("team-b p99 wait"), read_subject("use")
    (('team-b', 'waits_p99'), ('all', 'allocated'))
    """
    return _measured(text.split(), text)


def read_target(text: str) -> StudyTarget:
    """Parse a target. Raises InputError.

    >>> str(read_target("team-b p99 wait<10min")), str(read_target("use > 0.6"))
    ('team-b p99 wait < 10m', 'use > 60.00%')
    """
    match = _SENTENCE.fullmatch(text)
    if match is None or match[2] not in "<>":
        raise InputError(
            f"{text!r:.80} is not a target; expected [QUEUE] MEASURE < AMOUNT (or >), such as 'p99 wait < 1h' or 'use > 60%'"
        )
    queue, measure = _measured(match[1].split(), text)
    limit = _limit(measure, match[3].strip(), text)
    return StudyTarget(measure=measure, queue=queue, **{"below" if match[2] == "<" else "above": limit})


def format_measure(measure: str, value: float | None) -> str:
    """Format a measure's value for people.

    >>> format_measure("waits_p99", 90.4), format_measure("allocated", 0.5), format_measure("lost", 2.25), format_measure("lost", None)
    ('1m30s', '50.00%', '2.25', '-')
    """
    if value is None:
        return "-"
    if is_time(measure):
        text = format_duration(round(value))
        # Shorten 10m0s to 10m and 1h0m0s to 1h.
        return re.sub(r"(?<=h)0m$", "", re.sub(r"(?<=[hm])0s$", "", text))
    return f"{value:.2%}" if measure in _PARTS else f"{value:.2f}"


def _measured(words: list[str], text: str) -> tuple[str, str]:
    """Queue and measure; the measure is the longest run of last words that names one."""
    for first in range(len(words)):
        name = " ".join(words[first:])
        measure = _SPOKEN.get(name, name if name in MEASURABLE else "")
        if not measure or first > 1:
            continue
        if first and measure in _OF_FLEET and words[0] != ALL:
            raise InputError(
                f"{text!r:.80}: {name} is a measure of the whole fleet, not of a queue; expected {name!r} alone"
            )
        return (words[0] if first else ALL), measure
    raise InputError(
        f"{text!r:.80}: unknown measure {' '.join(words)!r:.60}; expected, after an optional queue, one of "
        f"{', '.join(dict.fromkeys([*_SPOKEN, *MEASURABLE]))}"
    )


def _limit(measure: str, limit: str, text: str) -> float:
    number = limit.removesuffix("%") if measure in _PARTS else limit
    if _NUMBER.fullmatch(number) and isfinite(float(number)):
        value = float(number) / (100 if number != limit else 1)
        if fault := part_fault(measure, value):
            raise InputError(f"{text!r:.80}: {fault}")
        return value
    if is_time(measure):
        try:
            return duration_seconds(re.sub(r"min\b", "m", limit), days=True)
        except InputError as error:
            raise InputError(f"{text!r:.80}: {error.message}") from None
    raise InputError(
        f"{text!r:.80}: {limit!r:.40} is not an amount; expected {'a part such as 60% or 0.6' if measure in _PARTS else 'a number'}"
    )
