"""The smallest situation in which an answer is wrong in the same way, found by leaving out one thing after another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from checks.explaining.ground_truth import GroundTruth
from checks.explaining.judging import JudgedAnswer, judge_answer
from checks.explaining.run import MISTAKES, situation_of
from checks.explaining.situation import Situation, Step
from checks.explaining.workloads import AppliedWorkload
from kailab.errors import KailabError

STEP_PARTS = frozenset({"step", "words", "outcome"})
"""Parts of an answer that are judged only with its steps."""


def shrink_seed(seed: int, failed: JudgedAnswer, area: str = MISTAKES) -> Situation:
    """The shrunk situation of a seed in an area."""
    return shrink(situation_of(seed, area), failed)


def shrink(situation: Situation, failed: JudgedAnswer, most_tries: int = 150) -> Situation:
    """Leave out steps first, then objects, then pools and nodes of the fleet. ``situation`` must fail as ``failed``
    says.
    """
    parts = {part for part, _ in failed.faults}
    tries = most_tries
    smaller = True
    while smaller and tries:
        smaller = False
        for candidate in _smaller_situations(situation, failed.work):
            if not tries:
                break
            tries -= 1
            if _fails(candidate, failed, parts):
                situation, smaller = candidate, True
                break
    return situation


def _fails(situation: Situation, failed: JudgedAnswer, parts: set[str]) -> bool:
    """True if the answer is wrong in one of the same parts, with the same first cause."""
    try:
        with situation.opened() as lab:
            if failed.work.wanted(lab) < 1 or failed.work.runs(lab):
                return False
            answer = judge_answer(GroundTruth(situation, lab), failed.work, steps=not parts.isdisjoint(STEP_PARTS))
    except KailabError:
        return False
    return answer.code == failed.code and not parts.isdisjoint(part for part, _ in answer.faults)


def _smaller_situations(situation: Situation, work: AppliedWorkload) -> Iterator[Situation]:
    for number in range(len(situation.steps) - 1, -1, -1):
        if "apply" not in situation.steps[number] or not _applies_workload(situation.steps[number], work):
            yield situation.with_steps(situation.steps[:number] + situation.steps[number + 1 :])
    for number, step in enumerate(situation.steps):
        objects = step.get("apply") or []
        for place, manifest in enumerate(objects):
            if manifest["metadata"]["name"] != work.name and len(objects) > 1:
                rest: Step = {"apply": objects[:place] + objects[place + 1 :]}
                yield situation.with_steps((*situation.steps[:number], rest, *situation.steps[number + 1 :]))
    pools = situation.fleet["pools"]
    for place, pool in enumerate(pools):
        if len(pools) > 1:
            yield replace(situation, fleet={**situation.fleet, "pools": pools[:place] + pools[place + 1 :]})
        if pool["count"] > 1:
            fewer = {**pool, "count": pool["count"] - 1}
            yield replace(situation, fleet={**situation.fleet, "pools": [*pools[:place], fewer, *pools[place + 1 :]]})
    if situation.config is not None:
        yield replace(situation, config=None)


def _applies_workload(step: Step, work: AppliedWorkload) -> bool:
    return any(manifest["metadata"]["name"] == work.name for manifest in step["apply"])
