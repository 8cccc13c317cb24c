"""Run a cell of scenarios: each in its own lab, one after the other in one venue, measured and recorded as a test."""

from __future__ import annotations

import platform
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from kailab.cluster.backends import BACKENDS
from kailab.errors import KailabError
from kailab.evidence.recorder import Recorder, write_test
from kailab.evidence.run import RunFolder
from kailab.lab.venues import Venue, open_venue
from kailab.scenarios.running import ScenarioResult, run_scenario
from kailab.scenarios.scenario import Scenario, read_scenario_file
from kailab.trials.matrix import TrialCell
from kailab.trials.recorder import CellRecorder
from kailab.trials.results import CellResult, TestResult, TestVerdict
from kailab.trials.store import CellFolder
from kailab.undertest.contract import Unsupported
from kailab.version import __version__


def run_scenarios(folder: CellFolder, cell: TrialCell) -> None:
    """Run all scenarios that are not done. Raises KailabError if the cell cannot run at all; completed results stay."""
    scenarios = scenarios_of(cell)
    done = folder.tests()
    bench = _CellLab(folder, cell)
    try:
        for scenario in scenarios:
            if scenario.id not in done:
                folder.keep(bench.test(scenario))
    finally:
        bench.close()
    folder.finish(CellResult(tests=tuple(scenario.id for scenario in scenarios)))


def scenarios_of(cell: TrialCell) -> list[Scenario]:
    """The scenarios of the cell. Manifests become a scenario with one step and no expectation."""
    if cell.subject.kind == "scenarios":
        return read_scenario_file(Path(cell.subject.path))
    step = {"apply": [cell.subject.path]}
    return [Scenario(suite="workload", name=cell.subject.name, steps=(step,), fleet=cell.fleet)]


class _CellLab:
    """The venue and the evidence run of one cell."""

    def __init__(self, folder: CellFolder, cell: TrialCell) -> None:
        self._folder = folder
        self._cell = cell
        self._run = RunFolder.begin(folder.evidence)
        self._venue: Venue | None = None

    def test(self, scenario: Scenario) -> TestResult:
        begun = time.monotonic()
        recorder, cell_recorder = Recorder("lab"), CellRecorder()
        venue_option: dict[str, Any] = (
            {"venue": self._taken()} if "venue" in BACKENDS[self._cell.isolation].options else {}
        )
        try:
            result = run_scenario(
                scenario,
                self._cell.contender.scheduler,
                self._cell.isolation,
                observers=[recorder, cell_recorder],
                **venue_option,
            )
        except Unsupported as error:
            return TestResult(name=scenario.id, verdict="skipped", message=str(error))
        if result.stopped:
            # The error may have left objects behind, so open a new venue for the next scenario.
            self.close()
        verdict, message = _verdict(result)
        evidence = ""
        if recorder.recording.facts is not None:
            path = self._run.write(
                scenario.suite,
                scenario.name,
                lambda partial: write_test(partial, scenario.id, [recorder], _outcome(verdict), message),
            )
            evidence = f"{self._run.run_id}/{path.relative_to(self._run.path).as_posix()}"
        return TestResult(
            name=scenario.id,
            verdict=verdict,
            message=recorder.scrub(message) if recorder.recording.facts is not None else message,
            concept=result.not_expressible.concept if result.not_expressible else "",
            evidence=evidence,
            seconds=round(time.monotonic() - begun, 3),
            labs={"lab": cell_recorder.result()},
        )

    def _taken(self) -> Venue:
        if self._venue is None:
            given = self._cell.options
            options: dict[str, Any] = {name: Path(given[name]) if name in _PATHS else given[name] for name in given}
            self._venue = open_venue(
                self._cell.isolation,
                scheduler=self._cell.contender.scheduler,
                get=True,
                tell=print,
                **options,
            )
        return self._venue

    def close(self) -> None:
        venue, self._venue = self._venue, None
        if venue is not None:
            with suppress(KailabError):
                venue.close()
        if self._run.has_evidence:
            cell = self._cell
            facts = {"backend": cell.isolation, "scheduler": cell.contender.scheduler, "fleet": cell.fleet}
            self._run.finish({"kailab": __version__, "python": platform.python_version()}, facts)


_PATHS = ("kubeconfig", "components")


def _verdict(result: ScenarioResult) -> tuple[TestVerdict, str]:
    message = "\n".join([*result.differences, *([result.stopped] if result.stopped else ())])
    if result.not_expressible is not None:
        return "not expressible", str(result.not_expressible)
    if result.stopped:
        return "error", message
    return ("failed", message) if result.differences else ("passed", "")


def _outcome(verdict: TestVerdict) -> str:
    """The outcome as evidence names it."""
    return verdict if verdict in ("passed", "failed") else "interrupted"
