"""Conditions of a challenge on its lab: data that say which words of ``expect`` must hold, when, and for how long.

    say: All 16 replicas run.
    about: {deployment: serve}
    expect: {running: {pods: 16}, not_evicted: true}
    stays: 10m

Amounts are numbers, or ``{at_least: 8}``, ``{at_most: 8}``, ``{between: [4, 8]}``. Times count from the moment of the condition's step, before
the lab settled. A condition that lets time pass, or is about what would be ``once`` something more is done, is tried on a copy of the lab, so no
condition changes what another one sees.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kailab.course.work import RunTimes, SubjectPods
from kailab.errors import ExpectationFailed, InputError, NotFound
from kailab.lab import Lab, Subject, at_least, at_most, between, eventually, expect, never, stays
from kailab.lab.amounts import Amount
from kailab.lab.expectations import Expectation
from kailab.lab.subjects import everything
from kailab.lab.watching import watching
from kailab.model.schema_files import SchemaFault, join_path
from kailab.model.times import duration_seconds
from kailab.scenarios.running import do

WORDS = (
    "running", "pending", "succeeded", "evicted", "not_evicted", "no_pending", "no_pods", "runs_whole", "waits_whole", "on_nodes",
    "on_one", "spread_over", "sharing", "borrows", "lends", "within_quota", "fair_share", "holding",
)  # fmt: skip
OF_WORK = ("has", "each", "gang", "in_queue", "spared")
"""Words of ``Work``."""
_BOUNDS: Mapping[str, Callable[[Any], Amount]] = {
    "at_least": at_least,
    "at_most": at_most,
    "between": lambda ends: between(*ends),
}
_TIMES = ("stays", "never", "within")
_OF_FILES = ("unchanged", "is", "at_least", "at_most")


def condition_faults(one: Mapping[str, Any], path: str, steps: int) -> Iterator[SchemaFault]:
    """What is wrong with a condition that has the form of the schema."""
    forms = [form for form in ("about", "manifest", "any") if form in one]
    if len(forms) != 1:
        yield SchemaFault(path, "expected one of about (with expect), manifest (with field) and any")
        return
    if one.get("after", 1) > steps:
        yield SchemaFault(f"{path}.after", f"there are {steps} steps")
    for number, inner in enumerate(one.get("any", ())):
        yield from condition_faults(inner, f"{path}.any[{number}]", steps)
    if "manifest" in one:
        asked = [word for word in _OF_FILES if word in one]
        if "field" not in one or len(asked) != 1:
            yield SchemaFault(path, f"expected field and one of {', '.join(_OF_FILES)}")
        if one["manifest"]["kind"] != "Queue":
            yield SchemaFault(
                f"{path}.manifest", f"expected a Queue; of work say {', '.join(OF_WORK)}, which ask its pods"
            )
    if "about" in one:
        if "expect" not in one:
            yield SchemaFault(path, "expected expect beside about")
        for word, arguments in one.get("expect", {}).items():
            yield from _word_faults(word, arguments, join_path(f"{path}.expect", word))
    times = [word for word in _TIMES if word in one]
    if len(times) > 1:
        yield SchemaFault(path, f"expected one of {', '.join(_TIMES)} at most")
    for word in times:
        try:
            duration_seconds(one[word])
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
        yield SchemaFault(path, f"can't be said so: {error}")


def failure_of(lab: Lab, one: Mapping[str, Any], since: float, run_times: RunTimes) -> str:
    """Why a condition does not hold on a lab that has settled, without telling what would help; empty where it holds. ``since``: the moment
    from which its time counts. The lab stays as it is."""
    if "once" not in one and not any(word in one for word in _TIMES):
        return _failure(lab, one, since, run_times)
    with lab.fork() as copy:
        known = RunTimes(run_times)
        copy.observers.add(known)
        if "once" in one:
            since = copy.now
            do(copy, one["once"])
            copy.settle()
        return _failure(copy, one, since, known)


def _failure(lab: Lab, one: Mapping[str, Any], since: float, run_times: RunTimes) -> str:
    def condition() -> None:
        subject = subject_of(lab, one["about"])
        found = expect(subject)
        work = SubjectPods(subject if isinstance(subject, Subject) else everything(lab), run_times)
        for word, arguments in one["expect"].items():
            getattr(work if word in OF_WORK else found, word)(**_arguments(arguments))

    def left(time: str) -> float:
        return max(0.0, since + duration_seconds(time) - lab.now)

    try:
        if "stays" in one:
            stays(condition, for_=left(one["stays"]), lab=lab)
        elif "never" in one:
            never(condition, for_=left(one["never"]), lab=lab)
        elif "within" in one:
            eventually(condition, within=left(one["within"]), lab=lab)
        else:
            with watching():  # so no remedies are tried: finding them is the student's part
                condition()
    except (ExpectationFailed, NotFound) as failure:
        return str(failure)
    return ""


def subject_of(lab: Lab, about: Mapping[str, Any]) -> Subject | Lab:
    """What ``{queue: team-a}`` or ``{lab: true}`` names. Raises NotFound."""
    [(kind, name)] = about.items()
    subject: Subject | Lab = lab if kind == "lab" else getattr(lab, kind)(name)
    return subject


def _arguments(given: Any) -> dict[str, Any]:
    return {} if given is True else {name: _amount(value) for name, value in dict(given).items()}


def _amount(value: Any) -> Any:
    if not isinstance(value, dict) or not set(value) <= set(_BOUNDS):
        return value
    [(bound, number)] = value.items()
    return _BOUNDS[bound](number)
