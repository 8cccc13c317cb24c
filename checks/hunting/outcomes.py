"""Compares two outcomes of one sample step by step, by what does not depend on order: the number of running pods of
each app, and what queues hold.

``placement`` also compares the numbers of an app's pods on the nodes, by classes of equal nodes, if equally many run.
Which of several equal pods or nodes was chosen is no difference.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import msgspec

from checks.hunting.bench import SampleOutcome
from checks.hunting.sample import HuntSample
from kailab.evidence.wording import gpus
from kailab.trials.differences import TrialDifference, differences_of, pods_by_node_class
from kailab.trials.results import LabPhase, LabResult, TestResult

QUEUES = "queues"
STOPPED = "stopped"
PLACEMENT = "placement"
KINDS = ("outcome", QUEUES, "evictions", "lowest", PLACEMENT)
"""Kinds of differences that a hunt can compare, besides a scheduler that stopped."""
DEFAULT_KINDS = KINDS[:2]


def with_expectations(sample: HuntSample, outcome: SampleOutcome) -> HuntSample:
    """The sample with this outcome expected after each step."""
    steps = []
    for step, phase in zip(sample.steps, outcome.lab.phases, strict=True):
        apps = {app: {"Running": number} for app, number in phase.running.items()}
        queues = {queue: {"gpus": _plain(milli)} for queue, milli in phase.held.items()}
        steps.append({**step, "expect": {"apps": apps, "queues": queues}})
    return sample.with_steps(steps)


def without_expectations(sample: HuntSample) -> HuntSample:
    """The sample without expectations."""
    return sample.with_steps([{key: value for key, value in step.items() if key != "expect"} for step in sample.steps])


def differences(
    sample: HuntSample, column: str, ours: SampleOutcome, theirs: SampleOutcome, kinds: Sequence[str]
) -> list[TrialDifference]:
    """The differences of the first differing step; none if the outcomes agree."""
    for number in range(1, min(len(ours.lab.phases), len(theirs.lab.phases)) + 1):
        step_differences = _phase_differences(sample, column, number, ours, theirs, kinds)
        if step_differences:
            return step_differences
    if ours.stopped == theirs.stopped:
        return []
    number = min(len(outcome.lab.phases) for outcome in (ours, theirs)) + 1
    texts = [outcome.stopped or "it went on" for outcome in (ours, theirs)]
    return [_difference(sample, column, STOPPED, "", number, *texts)]


def first_step(compared: Sequence[TrialDifference]) -> int:
    """The number of the differing step, from 1."""
    return int(compared[0].after.removeprefix("step "))


def comparable_outcome(outcome: SampleOutcome, steps: int, kinds: Sequence[str]) -> Hashable:
    """The compared parts of an outcome after that many steps; equal for outcomes that do not differ."""
    shown = tuple(_compared_amounts(phase, outcome.lab.classes, kinds) for phase in outcome.lab.phases[:steps])
    return (shown, outcome.stopped if len(shown) < steps else "")


def _phase_differences(
    sample: HuntSample, column: str, number: int, ours: SampleOutcome, theirs: SampleOutcome, kinds: Sequence[str]
) -> list[TrialDifference]:
    left, right = (outcome.lab.phases[number - 1] for outcome in (ours, theirs))
    left_result, right_result = (
        TestResult(name=sample.name, verdict="passed", labs={"lab": _single_phase(outcome.lab, number)})
        for outcome in (ours, theirs)
    )
    result = [
        msgspec.structs.replace(each, after=f"step {number}")
        for each in differences_of(column, left_result, right_result, tuple(kinds), None)
    ]
    for queue in sorted({*left.held, *right.held}) if QUEUES in kinds else ():
        our_gpus, their_gpus = left.held.get(queue, 0), right.held.get(queue, 0)
        if our_gpus != their_gpus:
            result.append(_difference(sample, column, QUEUES, queue, number, gpus(our_gpus), gpus(their_gpus)))
    return result


def _single_phase(lab: LabResult, number: int) -> LabResult:
    return LabResult(phases=(lab.phases[number - 1],), classes=lab.classes)


def _difference(
    sample: HuntSample, column: str, kind: str, subject: str, step: int, ours: str, theirs: str
) -> TrialDifference:
    return TrialDifference(
        column=column, test=sample.name, kind=kind, what=subject, after=f"step {step}", reference=ours, here=theirs
    )


def _compared_amounts(phase: LabPhase, classes: Mapping[str, str], kinds: Sequence[str]) -> Hashable:
    amounts = {"outcome": phase.running, QUEUES: phase.held, "evictions": phase.evicted, "lowest": phase.lowest}
    placement = tuple((app, str(pods_by_node_class(nodes, classes))) for app, nodes in sorted(phase.placement.items()))
    return tuple(
        placement
        if kind == PLACEMENT
        else tuple(sorted((name, number) for name, number in amounts[kind].items() if number))
        for kind in kinds
    )


def _plain(milli: int) -> float:
    return milli // 1000 if milli % 1000 == 0 else milli / 1000
