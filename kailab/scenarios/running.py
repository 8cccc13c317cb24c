"""Carries scenarios out, each on a lab of its own."""

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
"""For what a real cluster does late; as long again when a Job's back-off is over."""


@dataclass(frozen=True)
class ScenarioResult:
    """``differences``: from what was expected, as sentences. ``stopped``: what kept it from going on, if anything, and ``error`` the same as
    it was raised; ``defect``: it is none of those that kailab raises on purpose."""

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
    """Run one scenario on a lab of its own. ``venue``, ``options``: see Lab.open. ``wanted_by``: see ``differences``. Raises
    Unsupported where the scheduler lacks a setting of the lab."""
    found: list[str] = []
    known: set[str] = set()
    number = 0
    try:
        with Lab.open(scenario.fleet, backend, scheduler, observers=observers, venue=venue, **options) as lab:
            lab.base = scenario.base
            for number, step in enumerate(scenario.steps, 1):
                applied = do(lab, step)
                known |= set() if applied is None else _apps_of(lab, applied)
                lab.settle()
                here = differences(lab, scenario, step, known, wanted_by)
                if here and not lab.venue.exclusive:
                    here = _later(lab, scenario, step, known, wanted_by, here)
                found += [f"step {number}: {one}" for one in here]
    except Unsupported:
        raise
    except KailabError as error:
        # It may be one of several faults of the manifests.
        told = error.errors if isinstance(error, InputErrors) else [error]
        concept = next((one for one in told if isinstance(one, NotExpressible)), None)
        return ScenarioResult(tuple(found), f"step {number}: stopped: {error}", not_expressible=concept, error=error)
    except Exception as error:
        return ScenarioResult(
            tuple(found), f"step {number}: kailab failed: {type(error).__name__}: {error}", defect=True
        )
    return ScenarioResult(tuple(found))


def do(lab: Lab, step: Step) -> Applied | None:
    """What a step says is done; the lab does not settle. Relative files are seen from the lab's ``base``. Returns what applying did, if
    the step applies anything. Raises InputError(s)."""
    applied = None
    if "apply" in step:
        applied = lab.apply(*(Path(one) if isinstance(one, str) else one for one in step["apply"]))
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
    found = set()
    for one in applied.changes:
        stored = lab.cluster.get(one.kind, one.name, one.namespace or None)
        found.add((stored["metadata"].get("labels") or {}).get("app", ""))
    return found - {""}


def _later(lab: Lab, scenario: Scenario, step: Step, known: set[str], wanted_by: str, found: list[str]) -> list[str]:
    """What still differs after a while. A Job controller that holds back new pods looks like rest until it goes on: pods that are
    expected again are waited for as long as the back-off may last."""
    wanted = step["expect"].get("apps", {})
    for _ in lab.moments(LATE_SECONDS + missed(lab.cluster, wanted)):
        found = differences(lab, scenario, step, known, wanted_by)
        if not found:
            lab.settle()
            return differences(lab, scenario, step, known, wanted_by)
    return found
