"""Runs recorded scenarios in labs: manifests in steps, with the outcome of a real KAI after each.

After each step these are compared: Running pods per app (always), Pending pods per app (if given), the codes of pending
PodGroups, and in scenarios about placement how many pods of an app each rack and its nodes got, regardless of node
names.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from msgspec import structs

from checks.report import Result
from kailab.errors import KailabError
from kailab.lab.venues import Venue
from kailab.scenarios import scenario
from kailab.scenarios.running import run_scenario
from kailab.scenarios.scenario import Scenario

ABOUT_PLACEMENT = ("place-", "topology-", "consolidate-")


def read_scenarios(paths: Iterable[Path]) -> list[Scenario]:
    """Read scenarios as ``kailab.scenarios`` does. A recorded scenario's name says whether it is about placement."""
    return [
        structs.replace(recorded, placement=recorded.placement or recorded.name.startswith(ABOUT_PLACEMENT))
        for recorded in scenario.read_scenarios(paths)
    ]


def run_recorded_scenario(
    scenario: Scenario, scheduler: str = "kailab", backend: str = "embedded", venue: Venue | None = None
) -> Result:
    """Run one scenario in its own lab. If it is stopped, the reason is its last difference. ``venue``: see Lab.open."""
    try:
        ran = run_scenario(scenario, scheduler, backend, venue, wanted_by="KAI had")
        differences = (*ran.differences, *([ran.stopped] if ran.stopped else ()))
    except KailabError as error:
        differences = (f"step 0: stopped: {error}",)
    return Result(
        id=scenario.id,
        suite=scenario.suite,
        differences=differences,
        notes=("KAI was still changing after two minutes",) if scenario.unsettled else (),
    )
