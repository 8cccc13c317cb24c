"""Conditions of a challenge on its lab: which words of ``expect`` must hold, when, and for how long.

    say: All 16 replicas run.
    about: {deployment: serve}
    expect: {running: {pods: 16}, not_evicted: true}
    stays: 10m

Amounts are numbers, or ``{at_least: 8}``, ``{at_most: 8}``, ``{between: [4, 8]}``. Times count from the condition's
step, before the lab settles. A condition that lets time pass, or that does something ``once`` before it is checked, is
tried on a copy of the lab, so that conditions do not affect each other.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kailab.course.work import RunTimes, SubjectPods
from kailab.errors import ExpectationFailed, InputError, NotFound
from kailab.lab import Lab, Subject, at_least, at_most, between, eventually, expect, never, stays
from kailab.lab.expectations import Amount, Expectation
from kailab.lab.subjects import everything
from kailab.lab.temporal import watching
from kailab.model.schema_files import SchemaFault, join_path
from kailab.model.times import duration_seconds
from kailab.scenarios.running import do

WORDS = (
    "running", "pending", "succeeded", "evicted", "not_evicted", "no_pending", "no_pods", "runs_whole", "waits_whole", "on_nodes",
    "on_one", "spread_over", "sharing", "borrows", "lends", "within_quota", "fair_share", "holding",
)  # fmt: skip
OF_WORK = ("has", "each", "gang", "in_queue", "spared")
"""Words of ``work.SubjectPods``."""
_BOUNDS: Mapping[str, Callable[[Any], Amount]] = {
    "at_least": at_least,
    "at_most": at_most,
    "between": lambda ends: between(*ends),
}
_TIMES = ("stays", "never", "within")
_OF_FILES = ("unchanged", "is", "at_least", "at_most")


def condition_faults(condition: Mapping[str, Any], path: str, steps: int) -> Iterator[SchemaFault]:
    """Faults of a condition that satisfies the schema."""
    forms = [form for form in ("about", "manifest", "any") if form in condition]
    if len(forms) != 1:
        yield SchemaFault(path, "expected one of about (with expect), manifest (with field) and any")
        return
    if condition.get("after", 1) > steps:
        yield SchemaFault(f"{path}.after", f"there are only {steps} steps")
    for number, inner in enumerate(condition.get("any", ())):
        yield from condition_faults(inner, f"{path}.any[{number}]", steps)
    if "manifest" in condition:
        operators = [word for word in _OF_FILES if word in condition]
        if "field" not in condition or len(operators) != 1:
            yield SchemaFault(path, f"expected field and one of {', '.join(_OF_FILES)}")
        if condition["manifest"]["kind"] != "Queue":
            yield SchemaFault(
                f"{path}.manifest", f"expected a Queue; for workloads use {', '.join(OF_WORK)}, which check its pods"
            )
    if "about" in condition:
        if "expect" not in condition:
            yield SchemaFault(path, "expected expect together with about")
        for word, arguments in condition.get("expect", {}).items():
            yield from _word_faults(word, arguments, join_path(f"{path}.expect", word))
    times = [word for word in _TIMES if word in condition]
    if len(times) > 1:
        yield SchemaFault(path, f"expected one of {', '.join(_TIMES)} at most")
    for word in times:
        try:
            duration_seconds(condition[word])
        except InputError as error:
            yield SchemaFault(f"{path}.{word}", error.message)


def _word_faults(word: str, arguments: Any, path: str) -> Iterator[SchemaFault]:
    if word not in WORDS and word not in OF_WORK:
        yield SchemaFault(path, f"unknown word; expected one of {', '.join((*WORDS, *OF_WORK))}")
        return
    try:
        vocabulary = SubjectPods if word in OF_WORK else Expectation
        inspect.signature(getattr(vocabulary, word)).bind(None, **_arguments(arguments))
    except (TypeError, ValueError, KeyError) as error:
        yield SchemaFault(path, f"invalid arguments: {error}")


def failure_of(lab: Lab, condition: Mapping[str, Any], since: float, run_times: RunTimes) -> str:
    """Why a condition does not hold on a settled lab; empty if it holds. The text does not reveal remedies.

    ``since``: the moment from which its time counts. The lab stays unchanged.
    """
    if "once" not in condition and not any(word in condition for word in _TIMES):
        return _failure(lab, condition, since, run_times)
    with lab.fork() as copy:
        copied_run_times = RunTimes(run_times)
        copy.observers.add(copied_run_times)
        if "once" in condition:
            since = copy.now
            do(copy, condition["once"])
            copy.settle()
        return _failure(copy, condition, since, copied_run_times)


def _failure(lab: Lab, definition: Mapping[str, Any], since: float, run_times: RunTimes) -> str:
    def condition() -> None:
        subject = subject_of(lab, definition["about"])
        expectation = expect(subject)
        work = SubjectPods(subject if isinstance(subject, Subject) else everything(lab), run_times)
        for word, arguments in definition["expect"].items():
            getattr(work if word in OF_WORK else expectation, word)(**_arguments(arguments))

    def remaining(time: str) -> float:
        return max(0.0, since + duration_seconds(time) - lab.now)

    try:
        if "stays" in definition:
            stays(condition, for_=remaining(definition["stays"]), lab=lab)
        elif "never" in definition:
            never(condition, for_=remaining(definition["never"]), lab=lab)
        elif "within" in definition:
            eventually(condition, within=remaining(definition["within"]), lab=lab)
        else:
            with watching():  # do not search for remedies, which the student has to find
                condition()
    except (ExpectationFailed, NotFound) as failure:
        return str(failure)
    return ""


def subject_of(lab: Lab, about: Mapping[str, Any]) -> Subject | Lab:
    """The part of the lab that ``{queue: team-a}`` or ``{lab: true}`` names. Raises NotFound."""
    [(kind, name)] = about.items()
    return lab if kind == "lab" else getattr(lab, kind)(name)


def _arguments(given: Any) -> dict[str, Any]:
    return {} if given is True else {name: _amount(value) for name, value in dict(given).items()}


def _amount(value: Any) -> Any:
    if not isinstance(value, dict) or not set(value) <= set(_BOUNDS):
        return value
    [(bound, number)] = value.items()
    return _BOUNDS[bound](number)
