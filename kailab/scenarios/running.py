"""Carry out scenarios, each on a new lab."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kailab.errors import InputErrors, KailabError
from kailab.lab import Lab
from kailab.lab.intake import Applied
from kailab.lab.venues import Venue
from kailab.model.times import duration_seconds
from kailab.scenarios.differences import differences, missed
from kailab.scenarios.scenario import Scenario, Step
from kailab.scheduler.observers import Observer
from kailab.undertest.contract import NotExpressible, Unsupported

LATE_SECONDS = 12.0
"""Time for what a real cluster does late; added to a Job's back-off."""


@dataclass(frozen=True)
class ScenarioResult:
    """``differences``: sentences. ``stopped``: what ended the scenario early, if anything, and ``error``: the same as
    an exception; ``defect``: it is an unexpected error of kailab."""

    differences: tuple[str, ...] = ()
    stopped: str = ""
    defect: bool = False
    not_expressible: NotExpressible | None = None
    error: KailabError | None = None


def carry_out(
    scenario: Scenario,
    scheduler: str = "kailab",
    backend: str = "embedded",
    venue: Venue | None = None,
    observers: Sequence[Observer] = (),
    *,
    wanted_by: str = "expected",
    **options: Any,
) -> ScenarioResult:
    """Run a scenario on a new lab.

    ``venue``, ``options``: see ``Lab.open``. ``wanted_by``: see ``differences``. Raises Unsupported if the scheduler
    lacks a setting of the lab.
    """
    sentences: list[str] = []
    known: set[str] = set()
    number = 0
    try:
        with Lab.open(scenario.fleet, backend, scheduler, observers=observers, venue=venue, **options) as lab:
            lab.base = scenario.base
            for number, step in enumerate(scenario.steps, 1):
                applied = do(lab, step)
                known |= set() if applied is None else _apps_of(lab, applied)
                lab.settle()
                step_differences = differences(lab, scenario, step, known, wanted_by)
                if step_differences and not lab.venue.exclusive:
                    step_differences = _later(lab, scenario, step, known, wanted_by, step_differences)
                sentences += [f"step {number}: {sentence}" for sentence in step_differences]
    except Unsupported:
        raise
    except KailabError as error:
        # A NotExpressible may be one of several faults of the manifests.
        errors = error.errors if isinstance(error, InputErrors) else [error]
        concept = next((each for each in errors if isinstance(each, NotExpressible)), None)
        return ScenarioResult(
            tuple(sentences), f"step {number}: stopped: {error}", not_expressible=concept, error=error
        )
    except Exception as error:
        return ScenarioResult(
            tuple(sentences), f"step {number}: kailab failed: {type(error).__name__}: {error}", defect=True
        )
    return ScenarioResult(tuple(sentences))


def do(lab: Lab, step: Step) -> Applied | None:
    """Do a step without settling; relative files are relative to the lab's ``base``.

    Returns the result of applying manifests, if the step has any. Raises InputError(s).
    """
    applied = None
    if "apply" in step:
        applied = lab.apply(*(Path(manifest) if isinstance(manifest, str) else manifest for manifest in step["apply"]))
    if "delete" in step:
        lab.delete(step["delete"]["kind"], step["delete"]["name"], step["delete"].get("namespace", "default"))
    if "scale" in step:
        scaled = step["scale"]
        lab.scale(scaled["kind"], scaled["name"], scaled["replicas"], scaled.get("namespace", "default"))
    if "fail" in step:
        lab.fail_node(step["fail"])
    if "recover" in step:
        lab.recover_node(step["recover"])
    if "advance" in step:
        lab.advance(duration_seconds(step["advance"], days=True))
    return applied


def _apps_of(lab: Lab, applied: Applied) -> set[str]:
    apps = set()
    for change in applied.changes:
        stored = lab.cluster.get(change.kind, change.name, change.namespace or None)
        apps.add((stored["metadata"].get("labels") or {}).get("app", ""))
    return apps - {""}


def _later(
    lab: Lab, scenario: Scenario, step: Step, known: set[str], wanted_by: str, remaining: list[str]
) -> list[str]:
    """The differences that remain after a while. A Job controller in back-off looks settled, so wait as long as the
    back-off may last."""
    wanted = step["expect"].get("apps", {})
    for _ in lab.moments(LATE_SECONDS + missed(lab.cluster, wanted)):
        remaining = differences(lab, scenario, step, known, wanted_by)
        if not remaining:
            lab.settle()
            return differences(lab, scenario, step, known, wanted_by)
    return remaining
