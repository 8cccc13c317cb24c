"""Expectations over time: ``eventually``, ``never``, ``stays``.

    eventually(lambda: expect(lab.job("big")).runs_whole(), within=600)
    stays(lambda: expect(lab.queue("team-a")).running(gpus=8), for_=3600)

A condition holds if it raises no ExpectationFailed and does not return False. Seconds are on the lab's clock: virtual in an embedded
cluster, where they pass at once and the condition is checked at every moment at which something may have changed; real on real clusters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from operator import methodcaller
from typing import Any

from kailab.errors import ExpectationFailed, InputError, NothingThere
from kailab.lab.open_lab import OpenLab

# A context variable keeps the labs of tests in several threads apart.
_watched: ContextVar[list[OpenLab] | None] = ContextVar("kailab_watched", default=None)


def note_lab(lab: OpenLab) -> bool:
    """Note that an expectation looks at a lab. True inside a temporal form, where only that form lets time pass."""
    watched = _watched.get()
    if watched is None:
        return False
    if not any(watched_lab is lab for watched_lab in watched):
        watched.append(lab)
    return True


def in_temporal_form() -> bool:
    """True while a temporal form checks its condition."""
    return _watched.get() is not None


@contextmanager
def watching() -> Iterator[list[OpenLab]]:
    """Collect the labs that expectations look at inside."""
    watched: list[OpenLab] = []
    token = _watched.set(watched)
    try:
        yield watched
    finally:
        _watched.reset(token)


# A failed test shows its own line, not a line of this module.
__tracebackhide__ = methodcaller("errisinstance", ExpectationFailed)

Condition = Callable[[], Any]


def eventually(condition: Condition, within: float, lab: OpenLab | None = None) -> None:
    """Check that the condition holds at some moment of the next ``within`` seconds; time stops there. Raises the last ExpectationFailed of
    the condition."""
    lab = lab or _lab_of(condition)
    start = lab.now
    failure = _check(condition)
    # No time passes if the condition holds at once.
    for _ in () if failure is None else lab.moments(within):
        failure = _check(condition)
        if failure is None:
            break
    if failure is None:
        _held(lab, f"eventually, within {within:g} s", f"it holds after {lab.now - start:g} s")
        return
    raise _failed(lab, f"not within {within:g} s", failure)


def stays(condition: Condition, for_: float, lab: OpenLab | None = None) -> None:
    """Check that the condition holds now and at every moment of the next ``for_`` seconds."""
    lab = lab or _lab_of(condition)
    lab.settle_if_changed()
    start = lab.now
    failure = _check(condition)
    if failure is not None:
        raise _failed(lab, "it does not hold to begin with", failure)
    for _ in lab.moments(for_):
        if (failure := _check(condition)) is not None:
            raise _failed(lab, f"it held for {lab.now - start:g} s of {for_:g} s", failure)
    _held(lab, f"stays so for {for_:g} s", "it stayed so")


def never(condition: Condition, for_: float, lab: OpenLab | None = None) -> None:
    """Check that the condition holds at no moment, from now on for ``for_`` seconds."""
    lab = lab or _lab_of(condition)
    lab.settle_if_changed()
    start = lab.now
    failure = _check(condition)
    held = failure is None
    for _ in () if held else lab.moments(for_):
        failure = _check(condition)
        if held := failure is None:
            break
    # A misspelt name must not make the condition hold.
    if isinstance(failure, NothingThere):
        raise failure
    if held:
        failure = ExpectationFailed(f"it held after {lab.now - start:g} s")
        raise _failed(lab, f"expected never, for {for_:g} s: {lab.last_expectation}", failure)
    _held(lab, f"never, for {for_:g} s", "it never held")


def _check(condition: Condition) -> ExpectationFailed | None:
    """Why the condition does not hold; None if it holds."""
    with watching():
        try:
            result = condition()
        except ExpectationFailed as failure:
            return failure
    return ExpectationFailed("the condition is False") if result is False else None


def _lab_of(condition: Condition) -> OpenLab:
    # This only finds out which lab the condition looks at.
    with watching() as watched, suppress(ExpectationFailed):
        condition()
    if len(watched) == 1:
        return watched[0]
    raise InputError(
        "the condition looks at several labs: pass lab=... to choose the one in which time passes"
        if watched
        else "the condition looks at no lab through expect(): pass lab=... to choose the one in which time passes"
    )


def _held(lab: OpenLab, how: str, seen: str) -> None:
    lab.noted_expectation("", f"{how}: {lab.last_expectation}", seen, True)


def _failed(lab: OpenLab, what: str, failure: ExpectationFailed | None) -> ExpectationFailed:
    lab.noted_expectation("", lab.last_expectation, what, False)
    return ExpectationFailed(f"{what}\n{failure}")
