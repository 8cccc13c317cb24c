"""What is asked of a replay, in one sentence: ``p99 wait < 1h``, ``team-b mean slowdown < 2``, ``use > 60%``.

    [QUEUE] MEASURE < AMOUNT        or with >

A measure is a column of a study's table (``waited_p99``), or words for one (``p99 wait``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import isfinite

import msgspec

from kailab.errors import InputError
from kailab.lab.seen_names import there_are
from kailab.model.times import duration_seconds, format_duration

ALL = "all"
"""Instead of a queue's name: all jobs."""
WAITS = "waits_"
"""Measures that have no number where too many jobs never began."""

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
"""Words for measures. A wait by words counts jobs that never began, as waiting without end."""
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
"""Measures that more GPUs make larger; they make the others smaller."""
_SENTENCE = re.compile(r"([^<>=]*)(<=|>=|==?|<|>)(.*)", re.DOTALL)
_NUMBER = re.compile(r"\d+(\.\d*)?|\.\d+", re.ASCII)


class StudyTarget(msgspec.Struct, frozen=True, kw_only=True):
    """``measure`` of ``queue`` is to be ``below`` or ``above`` a number: seconds, GPU-hours, jobs, a part of the fleet's GPUs."""

    measure: str
    queue: str = ALL
    below: float | None = None
    above: float | None = None

    @property
    def limit(self) -> float:
        return self.below if self.below is not None else self.above or 0.0

    @property
    def upper(self) -> bool:
        """It is to be below something."""
        return self.below is not None

    @property
    def more_helps(self) -> bool:
        """More GPUs bring it nearer, where they do anything."""
        return (self.measure in _RISING) != self.upper

    @property
    def priced(self) -> bool:
        """Whether it takes prices."""
        return self.measure in _PRICED

    @property
    def subject(self) -> str:
        """
        >>> Target(measure="waits_p99", queue="team-b", below=60.0).subject, Target(measure="allocated", above=0.5).subject
        ('team-b p99 wait', 'use')
        """
        return subject(self.measure, self.queue)

    def __str__(self) -> str:
        if self.below is None and self.above is None:
            return self.subject
        return f"{self.subject} {'<' if self.upper else '>'} {amount(self.measure, self.limit)}"

    def check(self, queues: Sequence[str], *, priced: bool) -> None:
        """Whether the queue is one of these, and there are prices where it takes them. Raises InputError."""
        if self.priced and not priced:
            raise InputError(f"{self}: that takes a file of prices; expected --prices, or the field prices of a study")
        if self.queue != ALL and self.queue not in queues:
            raise InputError(f"{self}: there is no queue {self.queue!r:.80}; {there_are(queues, self.queue)}")

    def keeps(self, value: float) -> bool:
        return value < self.limit if self.upper else value > self.limit


def possible(measure: str, value: float) -> float:
    """The nearest to it that the measure can be.

    >>> possible("allocated", 1.4), possible("allocated", -0.2), possible("waits_p99", 90.0)
    (1.0, 0.0, 90.0)
    """
    return max(0.0, min(value, 1.0) if measure in _PARTS else value)


def subject(measure: str, queue: str) -> str:
    """A measure of a queue, or of all, in words."""
    words = next((text for text, name in _SPOKEN.items() if name == measure), measure)
    return words if queue == ALL else f"{queue} {words}"


def read_subject(text: str) -> tuple[str, str]:
    """Queue and measure of ``[QUEUE] MEASURE``. Raises InputError.

    >>> read_subject("team-b p99 wait"), read_subject("use")
    (('team-b', 'waits_p99'), ('all', 'allocated'))
    """
    return _measured(text.split(), text)


def read_target(text: str) -> StudyTarget:
    """Raises InputError.

    >>> str(read_target("team-b p99 wait<10min")), str(read_target("use > 0.6"))
    ('team-b p99 wait < 10m', 'use > 60.00%')
    """
    said = _SENTENCE.fullmatch(text)
    if said is None or said[2] not in "<>":
        raise InputError(
            f"{text!r:.80} is no target; expected [QUEUE] MEASURE < AMOUNT, or >: 'p99 wait < 1h', 'use > 60%'"
        )
    queue, measure = _measured(said[1].split(), text)
    limit = _limit(measure, said[3].strip(), text)
    return StudyTarget(measure=measure, queue=queue, **{"below" if said[2] == "<" else "above": limit})


def amount(measure: str, value: float | None) -> str:
    """A measure's value for people.

    >>> amount("waits_p99", 90.4), amount("allocated", 0.5), amount("lost", 2.25), amount("lost", None)
    ('1m30s', '50.00%', '2.25', '-')
    """
    if value is None:
        return "-"
    if measure.partition("_")[0] in _DURATIONS:
        text = format_duration(round(value))
        # 10m0s is 10m, 1h0m0s is 1h.
        return re.sub(r"(?<=h)0m$", "", re.sub(r"(?<=[hm])0s$", "", text))
    return f"{value:.2%}" if measure in _PARTS else f"{value:.2f}"


def _measured(words: list[str], text: str) -> tuple[str, str]:
    """Queue and measure: the measure is as many of the last words as name one."""
    for first in range(len(words)):
        spoken = " ".join(words[first:])
        measure = _SPOKEN.get(spoken, spoken if spoken in MEASURABLE else "")
        if not measure or first > 1:
            continue
        if first and measure in _OF_FLEET and words[0] != ALL:
            raise InputError(f"{text!r:.80}: {spoken} is of the whole fleet, not of a queue; expected {spoken!r} alone")
        return (words[0] if first else ALL), measure
    raise InputError(
        f"{text!r:.80}: no measure is called {' '.join(words)!r:.60}; there are, after a queue's name if any: "
        f"{', '.join(dict.fromkeys([*_SPOKEN, *MEASURABLE]))}"
    )


def _limit(measure: str, told: str, text: str) -> float:
    duration = measure.partition("_")[0] in _DURATIONS
    number = told.removesuffix("%") if measure in _PARTS else told
    if _NUMBER.fullmatch(number) and isfinite(float(number)):
        return float(number) / (100 if number != told else 1)
    if duration:
        try:
            return duration_seconds(re.sub(r"min\b", "m", told), days=True)
        except InputError as error:
            raise InputError(f"{text!r:.80}: {error.message}") from None
    raise InputError(
        f"{text!r:.80}: {told!r:.40} is no amount; expected {'a part such as 60% or 0.6' if measure in _PARTS else 'a number'}"
    )
