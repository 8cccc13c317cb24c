"""The result of an upgrade trial."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec


class UpgradeCheck(msgspec.Struct, frozen=True, kw_only=True):
    """``told``: the state that differs from the expected one; empty if the check passed."""

    name: str
    told: str = ""


class SchedulerChange(msgspec.Struct, frozen=True, kw_only=True):
    """One scheduler replaced by the next, or its account renewed.

    ``stopped``: seconds until the last old process had ended; ``worked``: until all new ones reported ready;
    ``scheduled``: until a pod that waited from the beginning had a node, None if that took too long. ``lost``: pods and
    objects of KAI, by uid, that are gone; ``altered``: changed spec fields. ``deaf``: the stage at which scheduling
    stopped although all processes ran. ``ended``: processes that ended by themselves, with reasons. ``passed_over``:
    fields of the load that the new scheduler ignores.
    """

    name: str
    version: str
    stopped: float = 0.0
    worked: float | None = None
    scheduled: float | None = None
    lost: tuple[str, ...] = ()
    altered: tuple[str, ...] = ()
    deaf: str = ""
    ended: tuple[str, ...] = ()
    passed_over: tuple[str, ...] = ()
    checks: tuple[UpgradeCheck, ...] = ()

    @property
    def sound(self) -> bool:
        """True if it schedules, nothing is lost and all checks passed."""
        return (
            self.scheduled is not None
            and not (self.lost or self.ended)
            and not any(check.told for check in self.checks)
        )


class Upgrade(msgspec.Struct, frozen=True, kw_only=True):
    """``filled``: pods that ran at the start. ``promise``: seconds within which a rollback must schedule again, or
    None."""

    before: str
    after: str
    filled: int
    changes: tuple[SchedulerChange, ...]
    promise: float | None = None

    @property
    def sound(self) -> bool:
        return all(change.sound for change in self.changes) and self.kept is not False

    @property
    def kept(self) -> bool | None:
        """True if the rollback kept the promise; None without a promise or a rollback."""
        last = self.changes[-1] if self.changes else None
        if self.promise is None or last is None or last.name != "rollback":
            return None
        return last.scheduled is not None and last.scheduled <= self.promise


def lines(upgrade: Upgrade) -> Iterator[str]:
    """Format the result for people."""
    yield f"from {upgrade.before}"
    yield f"to   {upgrade.after}"
    yield f"{upgrade.filled} pods ran when it began"
    for change in upgrade.changes:
        yield ""
        yield f"{change.name}: {change.version}"
        yield from (f"  {line}" for line in _of_change(change))
    if upgrade.kept is not None:
        yield ""
        yield f"a rollback within {upgrade.promise:g} s: {'kept' if upgrade.kept else 'not kept'}"


def _of_change(change: SchedulerChange) -> Iterator[str]:
    if change.scheduled is None:
        yield "schedules again: not within the time limit"
    else:
        yield f"schedules again: after {change.scheduled:.1f} s"
    if change.worked is not None:
        yield f"  the old scheduler had ended after {change.stopped:.1f} s, the new one was ready after {change.worked:.1f} s"
    if change.deaf:
        yield f"does not schedule although its processes run: {change.deaf}"
    yield from (f"ended by itself: {item}" for item in change.ended)
    yield f"lost: {_few(change.lost)}"
    if change.altered:
        yield f"altered: {', '.join(change.altered)}"
    if change.passed_over:
        yield f"ignored without a message: {', '.join(change.passed_over)}"
    yield from (f"{item.name}: {item.told or 'passed'}" for item in change.checks)


def _few(names: tuple[str, ...]) -> str:
    return "nothing" if not names else f"{len(names)}: {', '.join(names[:5])}{', ...' if len(names) > 5 else ''}"
