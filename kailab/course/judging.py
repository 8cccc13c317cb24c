"""A challenge judged: a lab opened from the student's files, all steps done, and every condition looked at in its moment."""

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
"""Lines of a failed expectation that say what the condition's own sentence says."""


@dataclass(frozen=True)
class JudgedCondition:
    """``say``: what must be so. ``rule``: what the task forbids, not what it asks for. ``why``: it is not so; empty where it is."""

    say: str
    rule: bool
    why: str = ""

    @property
    def held(self) -> bool:
        return not self.why


@dataclass(frozen=True)
class ChallengeVerdict:
    """``warnings``: what applying the student's files warned of."""

    challenge: str
    judged: tuple[JudgedCondition, ...]
    warnings: tuple[str, ...] = ()

    @property
    def solved(self) -> bool:
        return all(one.held for one in self.judged)

    def data(self) -> dict[str, Any]:
        """For programs."""
        return {
            "challenge": self.challenge,
            "solved": self.solved,
            "judged": [
                {"say": one.say, "rule": one.rule, "held": one.held, **({"why": one.why} if one.why else {})}
                for one in self.judged
            ],
            "warnings": list(self.warnings),
        }


def judge(challenge: Challenge, folder: Path | None = None) -> ChallengeVerdict:
    """``folder``: the student's; None: the files as they are given out. Raises InputError(s) for files that no lab takes."""
    files = submission(challenge, folder)
    found = [JudgedCondition(rule, True, how) for rule, how in broken(challenge, files)]
    last = len(challenge.steps)
    warnings: list[str] = []
    run_times = RunTimes()
    with open_challenge_lab(challenge, folder) as lab:
        lab.observers.add(run_times)
        for number, step in enumerate(challenge.steps, 1):
            begun = lab.now
            if (applied := do_step(lab, challenge, step, folder)) is not None:
                warnings += applied.warnings
            lab.settle()
            for one in challenge.judged:
                if one.get("after", last) == number:
                    why = _failure(files, one, partial(failure_of, lab, since=begun, run_times=run_times))
                    found.append(JudgedCondition(one["say"], one.get("rule", False), why))
    return ChallengeVerdict(challenge.name, tuple(found), tuple(dict.fromkeys(warnings)))


def open_challenge_lab(challenge: Challenge, folder: Path | None = None) -> Lab:
    """A lab for the challenge, before its first step."""
    config = challenge.place(challenge.config, folder) if challenge.config else None
    return Lab.open(challenge.fleet_source, config=config)


def do_step(lab: Lab, challenge: Challenge, step: Mapping[str, Any], folder: Path | None = None) -> Applied | None:
    """Do a step; the lab does not settle. Raises InputError(s)."""
    if "lose" in step:
        _lose(lab, step["lose"]["app"])
    # In an order of its own, files of both folders at once: so that the lab sees the whole tree of queues together.
    files = [challenge.place(name, folder) for name in step.get("apply", ())]
    return do(lab, {**step, **({"apply": files} if files else {})})


def _lose(lab: Lab, app: str) -> None:
    pods = sorted(row.name for row in lab.picture().rows if row.app == app and row.phase == "Running")
    if pods:
        namespace, _, name = pods[-1].partition("/")
        lab.delete("Pod", name, namespace)


def _failure(files: Submission, one: Mapping[str, Any], of_lab: Callable[[Mapping[str, Any]], str]) -> str:
    if "any" in one:
        failures = [_failure(files, inner, of_lab) for inner in one["any"]]
        return "" if "" in failures else "\n".join(failures)
    if "manifest" in one:
        return rule_failure(files, one)
    return "\n".join(_told(of_lab(one)))


def _told(failure: str) -> Iterator[str]:
    for line in failure.splitlines():
        if not line.startswith(_LEFT_OUT):
            yield line
