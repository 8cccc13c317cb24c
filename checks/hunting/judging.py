"""Judges whether two schedulers really decide a sample differently, or only by chance.

A real cluster has random uids, objects created within one second have the same age, and the order of events depends on
timing. So a difference is decided again: by the other scheduler several times, by kailab with the objects of each step
in other orders, and by kailab on the same control plane. They differ only if no outcome of one equals an outcome of the
other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from checks.hunting.bench import SampleOutcome, SchedulerBench
from checks.hunting.outcomes import comparable_outcome, differences, first_step, with_expectations, without_expectations
from checks.hunting.sample import HuntSample
from kailab.trials.differences import TrialDifference

Verdict = Literal["same", "differs", "chance", "error"]
OURS = "kailab"


class JudgedSample(msgspec.Struct, frozen=True, kw_only=True):
    """``differences``: those of the first differing step. ``why``: the error, or what showed that the difference was
    chance.
    """

    verdict: Verdict
    differences: tuple[TrialDifference, ...] = ()
    why: str = ""


class Judge:
    """``against``: the other scheduler; ``column``: its name. ``bench``: where it decides; ``home``: where kailab
    decides. ``kinds``: of differences. ``again``: how often the other decides a difference again. ``folder``: for
    the files of a sample.
    """

    def __init__(
        self,
        against: str,
        column: str,
        bench: SchedulerBench,
        home: SchedulerBench,
        kinds: Sequence[str],
        again: int,
        folder: Path,
    ) -> None:
        self._against = against
        self._column = column
        self._bench = bench
        self._home = home
        self._kinds = kinds
        self._again = again
        self._folder = folder

    def judge(self, sample: HuntSample) -> JudgedSample:
        ours = self.ours(sample)
        if ours.failed or ours.stopped:
            return JudgedSample(verdict="error", why=f"{OURS}: {ours.failed or ours.stopped}")
        theirs = self.theirs(with_expectations(sample, ours))
        if theirs.failed:
            return JudgedSample(verdict="error", why=f"{self._column}: {theirs.failed}")
        compared = differences(sample, self._column, ours, theirs, self._kinds)
        if not compared:
            return JudgedSample(verdict="same")
        chance = self._chance(cut_to_difference(sample, compared), ours, theirs)
        return JudgedSample(verdict="chance" if chance else "differs", differences=tuple(compared), why=chance)

    def ours(self, sample: HuntSample) -> SampleOutcome:
        return self._home.decided(without_expectations(sample).written(self._folder), OURS)

    def theirs(self, sample: HuntSample) -> SampleOutcome:
        """The other scheduler's outcome. ``sample`` contains expectations, for which a real cluster is given time."""
        return self._bench.decided(sample.written(self._folder), self._against)

    def differs(self, sample: HuntSample) -> list[TrialDifference]:
        """The differences of one attempt, without ruling out chance; used while a sample is cut down."""
        ours = self.ours(sample)
        if ours.failed or ours.stopped:
            return []
        theirs = self.theirs(with_expectations(sample, ours))
        return [] if theirs.failed else differences(sample, self._column, ours, theirs, self._kinds)

    def _chance(self, sample: HuntSample, ours: SampleOutcome, theirs: SampleOutcome) -> str:
        """Why the difference is a matter of chance; empty if it is not. ``sample`` ends with the differing step."""
        steps = len(sample.steps)
        mine, other = {comparable_outcome(ours, steps, self._kinds)}, {comparable_outcome(theirs, steps, self._kinds)}
        for order, reordered in _in_other_orders(sample):
            mine.add(comparable_outcome(self.ours(reordered), steps, self._kinds))
            if mine & other:
                return f"{OURS} decides so too with the objects of each step {order}"
        expected = with_expectations(sample, _first_steps(ours, steps))
        for number in range(self._again if self._bench.live else 0):
            other.add(comparable_outcome(self.theirs(expected), steps, self._kinds))
            if mine & other:
                return f"{self._column} decides as {OURS} at its attempt {number + 2}"
        if self._bench.live:
            mine.add(comparable_outcome(self._bench.decided(expected.written(self._folder), OURS), steps, self._kinds))
            if mine & other:
                return f"{OURS} decides so too beside the same control plane"
        return ""


def cut_to_difference(sample: HuntSample, compared: Sequence[TrialDifference]) -> HuntSample:
    """The sample up to the differing step."""
    return sample.with_steps(sample.steps[: first_step(compared)])


def _first_steps(outcome: SampleOutcome, steps: int) -> SampleOutcome:
    lab = msgspec.structs.replace(outcome.lab, phases=outcome.lab.phases[:steps])
    return msgspec.structs.replace(outcome, lab=lab)


def _in_other_orders(sample: HuntSample) -> Iterator[tuple[str, HuntSample]]:
    """The sample with the objects of each step in other orders. Missing objects may come later in any order."""
    for order, start, stride in (("in reverse", None, -1), ("by halves", 1, 2)):
        steps = []
        for step in sample.steps:
            objects = step.get("apply") or []
            turned = objects[start::stride] + (objects[::stride] if stride > 0 else [])
            steps.append({**step, "apply": turned} if objects else step)
        yield order, sample.with_steps(steps)
