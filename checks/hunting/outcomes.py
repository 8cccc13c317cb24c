"""How two came out of one sample, compared step by step by what hangs on no order: how many pods of each app run, what queues hold.

Which of several equal pods, or which of several equal nodes, is no difference.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import msgspec

from checks.hunting.bench import SampleOutcome
from checks.hunting.sample import HuntSample
from kailab.lab.wording import gpus
from kailab.trials.differences import TrialDifference, compare
from kailab.trials.results import LabPhase, LabResult, TestResult

QUEUES = "queues"
STOPPED = "stopped"
KINDS = ("outcome", QUEUES, "evictions", "lowest")
"""Of differences that a hunt can look for, beside one that stopped."""
DEFAULT_KINDS = KINDS[:2]


def with_expectations(sample: HuntSample, came: SampleOutcome) -> HuntSample:
    """The sample, with this outcome expected after each step."""
    steps = []
    for step, phase in zip(sample.steps, came.lab.phases, strict=True):
        apps = {app: {"Running": number} for app, number in phase.running.items()}
        queues = {queue: {"gpus": _plain(milli)} for queue, milli in phase.held.items()}
        steps.append({**step, "expect": {"apps": apps, "queues": queues}})
    return sample.with_steps(steps)


def without_expectations(sample: HuntSample) -> HuntSample:
    """Without what is expected."""
    return sample.with_steps([{key: value for key, value in step.items() if key != "expect"} for step in sample.steps])


def differences(
    sample: HuntSample, column: str, ours: SampleOutcome, theirs: SampleOutcome, kinds: Sequence[str]
) -> list[TrialDifference]:
    """Those of the first step in which they differ; none: they agree."""
    for number, (left, right) in enumerate(zip(ours.lab.phases, theirs.lab.phases), 1):
        found = _of_phases(sample, column, number, left, right, kinds)
        if found:
            return found
    if ours.stopped == theirs.stopped:
        return []
    number = min(len(one.lab.phases) for one in (ours, theirs)) + 1
    told = [one.stopped or "it went on" for one in (ours, theirs)]
    return [_difference(sample, column, STOPPED, "", number, *told)]


def first_step(found: Sequence[TrialDifference]) -> int:
    """The step, from 1, in which they differ."""
    return int(found[0].after.removeprefix("step "))


def comparable_outcome(came: SampleOutcome, steps: int, kinds: Sequence[str]) -> Hashable:
    """All that counts of an outcome until after that many steps: equal for outcomes that do not differ."""
    shown = tuple(_seen(phase, kinds) for phase in came.lab.phases[:steps])
    return (shown, came.stopped if len(shown) < steps else "")


def _of_phases(
    sample: HuntSample, column: str, number: int, left: LabPhase, right: LabPhase, kinds: Sequence[str]
) -> list[TrialDifference]:
    one, two = (TestResult(name=sample.name, verdict="passed", labs={"lab": _alone(phase)}) for phase in (left, right))
    found = [
        msgspec.structs.replace(each, after=f"step {number}") for each in compare(column, one, two, tuple(kinds), None)
    ]
    for queue in sorted({*left.held, *right.held}) if QUEUES in kinds else ():
        ours, theirs = left.held.get(queue, 0), right.held.get(queue, 0)
        if ours != theirs:
            found.append(_difference(sample, column, QUEUES, queue, number, gpus(ours), gpus(theirs)))
    return found


def _alone(phase: LabPhase) -> LabResult:
    return LabResult(phases=(phase,))


def _difference(
    sample: HuntSample, column: str, kind: str, what: str, step: int, ours: str, theirs: str
) -> TrialDifference:
    return TrialDifference(
        column=column, test=sample.name, kind=kind, what=what, after=f"step {step}", reference=ours, here=theirs
    )


def _seen(phase: LabPhase, kinds: Sequence[str]) -> Hashable:
    amounts = {"outcome": phase.running, QUEUES: phase.held, "evictions": phase.evicted, "lowest": phase.lowest}
    return tuple(tuple(sorted((name, number) for name, number in amounts[kind].items() if number)) for kind in kinds)


def _plain(milli: int) -> float:
    return milli // 1000 if milli % 1000 == 0 else milli / 1000
