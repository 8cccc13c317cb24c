"""What an upgrade trial came to."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec


class UpgradeCheck(msgspec.Struct, frozen=True, kw_only=True):
    """``told``: how it stood where it did not come as it should; empty: it did."""

    name: str
    told: str = ""


class SchedulerChange(msgspec.Struct, frozen=True, kw_only=True):
    """One scheduler replaced by the next, or its account made anew.

    ``stopped``: seconds from the first look until the last process of the old had ended; ``worked``: until all of the new said that they
    work; ``scheduled``: until a pod that waited from the beginning had its node, None: not within the patience. ``lost``: pods and objects of KAI
    that were there before, by uid, and are not any more; ``altered``: fields of KAI's objects that say something else. ``deaf``: whose turn it was,
    though all processes ran. ``ended``: processes that had ended by themselves, with why. ``passed_over``: words of the load that the new does not
    know."""

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
        """It schedules, nothing is lost, and what was tried on it came as it should."""
        return self.scheduled is not None and not (self.lost or self.ended) and not any(one.told for one in self.checks)


class Upgrade(msgspec.Struct, frozen=True, kw_only=True):
    """``filled``: pods that ran when it began. ``promise``: seconds in which a rollback is to schedule again; None: no promise."""

    before: str
    after: str
    filled: int
    changes: tuple[SchedulerChange, ...]
    promise: float | None = None

    @property
    def sound(self) -> bool:
        return all(one.sound for one in self.changes) and self.kept is not False

    @property
    def kept(self) -> bool | None:
        """Whether the rollback kept the promise; None: there was none, or no rollback."""
        last = self.changes[-1] if self.changes else None
        if self.promise is None or last is None or last.name != "rollback":
            return None
        return last.scheduled is not None and last.scheduled <= self.promise


def lines(upgrade: Upgrade) -> Iterator[str]:
    """For people."""
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
        yield "schedules again: not within the patience"
    else:
        yield f"schedules again: after {change.scheduled:.1f} s"
    if change.worked is not None:
        yield f"  the old had ended after {change.stopped:.1f} s, the new said that it works after {change.worked:.1f} s"
    if change.deaf:
        yield f"deaf, though its processes run: {change.deaf}"
    yield from (f"ended by itself: {one}" for one in change.ended)
    yield f"lost: {_few(change.lost)}"
    if change.altered:
        yield f"altered: {', '.join(change.altered)}"
    if change.passed_over:
        yield f"passed over in silence: {', '.join(change.passed_over)}"
    yield from (f"{one.name}: {one.told or 'as it should'}" for one in change.checks)


def _few(names: tuple[str, ...]) -> str:
    return "nothing" if not names else f"{len(names)}: {', '.join(names[:5])}{', ...' if len(names) > 5 else ''}"
