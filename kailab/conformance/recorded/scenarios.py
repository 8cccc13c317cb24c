"""Runs recorded scenarios (manifests in steps, with the outcome a real KAI showed after each) on labs.

``python -m kailab.conformance.recorded.scenarios [DIR|FILE ...]``. Compared after each step: Running pods per app (always),
Pending pods per app (where given), the codes of pending PodGroups, and in scenarios about placement how many pods of
an app each rack and its nodes got, whatever the nodes' names.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import structs

from kailab.conformance.recorded.choosing import matching
from kailab.conformance.report import Report, Result
from kailab.conformance.shared import shared_folder
from kailab.errors import KailabError
from kailab.lab.venues import Venue
from kailab.scenarios import reading
from kailab.scenarios.running import carry_out
from kailab.scenarios.scenario import Scenario

ABOUT_PLACEMENT = ("place-", "topology-", "consolidate-")


def read_scenarios(paths: Iterable[Path]) -> list[Scenario]:
    """As ``kailab.scenarios`` reads them; by its name a recorded one says whether it is about placement."""
    return [
        structs.replace(one, placement=one.placement or one.name.startswith(ABOUT_PLACEMENT))
        for one in reading.read_scenarios(paths)
    ]


def run_scenario(
    scenario: Scenario, scheduler: str = "kailab", backend: str = "embedded", venue: Venue | None = None
) -> Result:
    """Run one scenario on a lab of its own. What stops it is its last difference. ``venue``: see Lab.open."""
    try:
        ran = carry_out(scenario, scheduler, backend, venue, wanted_by="KAI had")
        differences = (*ran.differences, *([ran.stopped] if ran.stopped else ()))
    except KailabError as error:
        differences = (f"step 0: stopped: {error}",)
    return Result(
        id=scenario.id,
        suite=scenario.suite,
        differences=differences,
        notes=("KAI was still changing after two minutes",) if scenario.unsettled else (),
    )


def run_scenarios(scenarios: Iterable[Scenario], scheduler: str = "kailab") -> Report:
    return Report("scenarios", [run_scenario(scenario, scheduler) for scenario in scenarios])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m kailab.conformance.recorded.scenarios", description=__doc__)
    parser.add_argument("paths", nargs="*", type=Path, metavar="DIR|FILE", help="default: the shared scenarios")
    parser.add_argument("-k", dest="expression", default="", help="only scenarios whose name matches")
    parser.add_argument("-v", "--verbose", action="store_true", help="every difference, not the first alone")
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    options = parser.parse_args(arguments)
    try:
        matches = matching(options.expression)
        chosen = [s for s in read_scenarios(options.paths or [shared_folder() / "scenarios"]) if matches(s.name)]
    except KailabError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    if not chosen:
        print("no scenario matches", file=sys.stderr)
        return 2
    report = run_scenarios(chosen)
    if options.output == "json":
        print(report.as_json())
    else:
        for result in report.results:
            if result.passed:
                print(f"agrees {result.id}")
        print(report.text(options.verbose))
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
