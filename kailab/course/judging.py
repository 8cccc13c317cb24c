"""Judge a challenge: open a lab from the student's files, do all steps, and check each condition after its step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from kailab.course.challenge import Challenge
from kailab.course.conditions import failure_of
from kailab.course.rules import Submission, broken, rule_failure, submission
from kailab.course.work import RunTimes
from kailab.lab import Lab
from kailab.lab.intake import Applied
from kailab.scenarios.running import do

_LEFT_OUT = ("when     ", "expected ")
"""Lines of a failed expectation that repeat the condition's own sentence."""


@dataclass(frozen=True)
class JudgedCondition:
    """``say``: the condition. ``rule``: True if the task forbids something, False if it asks for something. ``why``:
    why it does not hold, or empty."""

    say: str
    rule: bool
    why: str = ""

    @property
    def holds(self) -> bool:
        return not self.why


@dataclass(frozen=True)
class ChallengeVerdict:
    """``warnings``: about the student's files; they can't change the given ones."""

    challenge: str
    judged: tuple[JudgedCondition, ...]
    warnings: tuple[str, ...] = ()

    @property
    def solved(self) -> bool:
        return all(condition.holds for condition in self.judged)

    def data(self) -> dict[str, Any]:
        """The verdict as plain values."""
        return {
            "challenge": self.challenge,
            "solved": self.solved,
            "judged": [
                {
                    "say": condition.say,
                    "rule": condition.rule,
                    "held": condition.holds,
                    **({"why": condition.why} if condition.why else {}),
                }
                for condition in self.judged
            ],
            "warnings": list(self.warnings),
        }


def judge(challenge: Challenge, folder: Path | None = None) -> ChallengeVerdict:
    """Judge a challenge. ``folder``: the student's; None: the original files. Raises InputError(s) for files that a lab
    does not accept."""
    files = submission(challenge, folder)
    conditions = [JudgedCondition(rule, True, reason) for rule, reason in broken(challenge, files)]
    last = len(challenge.steps)
    warnings: list[str] = []
    given = {str(challenge.path_of(name, folder)) for name in challenge.files.given}
    run_times = RunTimes()
    with open_challenge_lab(challenge, folder) as lab:
        lab.observers.add(run_times)
        for number, step in enumerate(challenge.steps, 1):
            begun = lab.now
            if (applied := do_step(lab, challenge, step, folder)) is not None:
                warnings += [str(notice) for notice in applied.notices if notice.where.file not in given]
            lab.settle()
            for condition in challenge.judged:
                if condition.get("after", last) == number:
                    failure = _failure(files, condition, partial(failure_of, lab, since=begun, run_times=run_times))
                    conditions.append(JudgedCondition(condition["say"], condition.get("rule", False), failure))
    return ChallengeVerdict(challenge.name, tuple(conditions), tuple(dict.fromkeys(warnings)))


def open_challenge_lab(challenge: Challenge, folder: Path | None = None) -> Lab:
    """Open a lab for the challenge, before its first step."""
    config = challenge.path_of(challenge.config, folder) if challenge.config else None
    return Lab.open(challenge.fleet_source, config=config)


def do_step(lab: Lab, challenge: Challenge, step: Mapping[str, Any], folder: Path | None = None) -> Applied | None:
    """Do a step without settling. Raises InputError(s)."""
    if "lose" in step:
        _lose(lab, step["lose"]["app"])
    # Apply the files of both folders at once, so that the lab sees the whole tree of queues.
    files = [challenge.path_of(name, folder) for name in step.get("apply", ())]
    return do(lab, {**step, **({"apply": files} if files else {})})


def _lose(lab: Lab, app: str) -> None:
    pods = sorted(row.name for row in lab.picture().rows if row.app == app and row.phase == "Running")
    if pods:
        namespace, _, name = pods[-1].partition("/")
        lab.delete("Pod", name, namespace)


def _failure(files: Submission, condition: Mapping[str, Any], of_lab: Callable[[Mapping[str, Any]], str]) -> str:
    if "any" in condition:
        failures = [_failure(files, inner, of_lab) for inner in condition["any"]]
        return "" if "" in failures else "\n".join(failures)
    if "manifest" in condition:
        return rule_failure(files, condition)
    return "\n".join(_shown_lines(of_lab(condition)))


def _shown_lines(failure: str) -> Iterator[str]:
    for line in failure.splitlines():
        if not line.startswith(_LEFT_OUT):
            yield line
