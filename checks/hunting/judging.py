"""Whether two truly decide a sample otherwise, or chance has a part in it.

A real cluster gives random uids, and what is created within a second has one age; who acts first is a matter of time. So what differs is
decided again: by the other several times, by kailab with the objects of each step in other orders, and beside the same control plane. Only
where no outcome of one is an outcome of the other do they differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from checks.hunting.outcomes import bare, differences, expecting, first_step, seen
from checks.hunting.sample import Sample
from checks.hunting.side import Bench, Came
from kailab.trials.differences import TrialDifference

Verdict = Literal["same", "differs", "chance", "error"]
OURS = "kailab"


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """``differences``: of the first step in which they differ. ``why``: of an error, or what showed that it was chance."""

    verdict: Verdict
    differences: tuple[TrialDifference, ...] = ()
    why: str = ""


class Judge:
    """``against``: the other scheduler; ``column``: what it is called. ``bench``: where it decides; ``home``: where kailab does. ``kinds``:
    of differences. ``again``: how often the other decides once more what differs. ``folder``: for the files of a sample."""

    def __init__(
        self, against: str, column: str, bench: Bench, home: Bench, kinds: Sequence[str], again: int, folder: Path
    ) -> None:
        self._against = against
        self._column = column
        self._bench = bench
        self._home = home
        self._kinds = kinds
        self._again = again
        self._folder = folder

    def judged(self, sample: Sample) -> Judged:
        ours = self.ours(sample)
        if ours.failed or ours.stopped:
            return Judged(verdict="error", why=f"{OURS}: {ours.failed or ours.stopped}")
        theirs = self.theirs(expecting(sample, ours))
        if theirs.failed:
            return Judged(verdict="error", why=f"{self._column}: {theirs.failed}")
        found = differences(sample, self._column, ours, theirs, self._kinds)
        if not found:
            return Judged(verdict="same")
        chance = self._chance(cut(sample, found), ours, theirs)
        return Judged(verdict="chance" if chance else "differs", differences=tuple(found), why=chance)

    def ours(self, sample: Sample) -> Came:
        return self._home.decided(bare(sample).written(self._folder), OURS)

    def theirs(self, sample: Sample) -> Came:
        """``sample``: with what is expected, for which a real cluster is given time."""
        return self._bench.decided(sample.written(self._folder), self._against)

    def differs(self, sample: Sample) -> list[TrialDifference]:
        """As they are told once, without asking for chance: a step on the way to a smaller sample."""
        ours = self.ours(sample)
        if ours.failed or ours.stopped:
            return []
        theirs = self.theirs(expecting(sample, ours))
        return [] if theirs.failed else differences(sample, self._column, ours, theirs, self._kinds)

    def _chance(self, sample: Sample, ours: Came, theirs: Came) -> str:
        """Why what differs is a matter of chance; empty: it is not. ``sample``: until the step in which they differ."""
        steps = len(sample.steps)
        mine, other = {seen(ours, steps, self._kinds)}, {seen(theirs, steps, self._kinds)}
        for order, one in _in_other_orders(sample):
            mine.add(seen(self.ours(one), steps, self._kinds))
            if mine & other:
                return f"{OURS} decides so too with the objects of each step {order}"
        expected = expecting(sample, _first(ours, steps))
        for number in range(self._again if self._bench.live else 0):
            other.add(seen(self.theirs(expected), steps, self._kinds))
            if mine & other:
                return f"{self._column} decides as {OURS} at its attempt {number + 2}"
        if self._bench.live:
            mine.add(seen(self._bench.decided(expected.written(self._folder), OURS), steps, self._kinds))
            if mine & other:
                return f"{OURS} decides so too beside the same control plane"
        return ""


def cut(sample: Sample, found: Sequence[TrialDifference]) -> Sample:
    """Until the step in which they differ."""
    return sample.with_steps(sample.steps[: first_step(found)])


def _first(came: Came, steps: int) -> Came:
    lab = msgspec.structs.replace(came.lab, phases=came.lab.phases[:steps])
    return msgspec.structs.replace(came, lab=lab)


def _in_other_orders(sample: Sample) -> Iterator[tuple[str, Sample]]:
    """Of the objects of each step. What makes an object possible is found in any order."""
    for order, start, stride in (("in reverse", None, -1), ("by halves", 1, 2)):
        steps = []
        for step in sample.steps:
            objects = step.get("apply") or []
            turned = objects[start::stride] + (objects[::stride] if stride > 0 else [])
            steps.append({**step, "apply": turned} if objects else step)
        yield order, sample.with_steps(steps)
