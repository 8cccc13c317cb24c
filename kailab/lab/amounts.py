"""Amounts in expectations: an exact number, or a bound. ``running(pods=at_least(8))``."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real

from kailab.errors import InputError


@dataclass(frozen=True)
class Bound:
    """``low`` and ``high`` are inclusive; None: no bound."""

    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        if self.low is None and self.high is None:
            return "any number of"
        if self.low is None:
            return f"at most {self.high:g}"
        if self.high is None:
            return f"at least {self.low:g}"
        return f"{self.low:g} to {self.high:g}"


Amount = int | float | Bound


def at_least(number: float) -> Bound:
    """At least this number."""
    return Bound(low=number)


def at_most(number: float) -> Bound:
    """At most this number."""
    return Bound(high=number)


def between(low: float, high: float) -> Bound:
    """From ``low`` to ``high``, both included."""
    return Bound(low, high)


def no_more(wanted: Amount | None) -> Bound | None:
    """The amount without its lower bound.

    >>> str(no_more(8)), str(no_more(at_least(3)))
    ('at most 8', 'any number of')
    """
    if wanted is None:
        return None
    return Bound(high=wanted.high if isinstance(wanted, Bound) else wanted)


def holds(wanted: Amount, seen: float) -> bool:
    """Compare to a thousandth, because shares are counted in milli-GPU.

    >>> holds(8, 8.0), holds(at_least(3), 2), holds(at_most(3), 2)
    (True, False, True)
    """
    found = round(seen * 1000)
    _check(wanted)
    if not isinstance(wanted, Bound):
        return round(wanted * 1000) == found
    low = wanted.low is None or found >= round(wanted.low * 1000)
    return low and (wanted.high is None or found <= round(wanted.high * 1000))


def describe_amount(wanted: Amount, noun: str) -> str:
    """Describe an amount.

    >>> describe_amount(8, "GPU"), describe_amount(1, "pod"), describe_amount(at_least(2), "pod")
    ('8 GPUs', '1 pod', 'at least 2 pods')
    """
    _check(wanted)
    text = str(wanted) if isinstance(wanted, Bound) else f"{round(wanted, 3):g}"
    return f"{text} {noun}" if text == "1" else f"{text} {noun}s"


def _check(wanted: object) -> None:
    """Raises InputError for a value that is no amount."""
    numbers = (wanted.low, wanted.high) if isinstance(wanted, Bound) else (wanted,)
    for one in numbers:
        if one is None and isinstance(wanted, Bound):
            continue
        if isinstance(one, bool) or not isinstance(one, Real):
            raise InputError(
                f"{one!r:.60} is no amount; expected a number, at_least(...), at_most(...) or between(...)"
            )
