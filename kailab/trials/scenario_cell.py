"""A cell of scenarios: each in a lab of its own, one after the other in one venue, measured and recorded as a test is."""

from __future__ import annotations

import platform
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from kailab import __version__
from kailab.cluster.backends import BACKENDS
from kailab.errors import KailabError
from kailab.evidence.recorder import Recorder, write_test
from kailab.evidence.run import RunFolder
from kailab.lab.venues import Venue, open_venue
from kailab.scenarios.running import ScenarioResult, carry_out
from kailab.scenarios.scenario import Scenario, read_file
from kailab.trials.matrix import TrialCell
from kailab.trials.recorder import CellRecorder
from kailab.trials.results import CellResult, TestResult, TestVerdict
from kailab.trials.store import CellFolder
from kailab.undertest.contract import Unsupported


def run(folder: CellFolder, cell: TrialCell) -> None:
    """All that are not done yet. Raises KailabError where the cell can't be run at all; what has ended is kept."""
    scenarios = scenarios_of(cell)
    done = folder.tests()
    bench = _Bench(folder, cell)
    try:
        for one in scenarios:
            if one.id not in done:
                folder.keep(bench.test(one))
    finally:
        bench.close()
    folder.finish(CellResult(tests=tuple(one.id for one in scenarios)))


def scenarios_of(cell: TrialCell) -> list[Scenario]:
    """Manifests are a scenario of one step, of which nothing is expected."""
    if cell.subject.kind == "scenarios":
        return read_file(Path(cell.subject.path))
    step = {"apply": [cell.subject.path]}
    return [Scenario(suite="workload", name=cell.subject.name, steps=(step,), fleet=cell.fleet)]


class _Bench:
    """Where scenarios of one cell run."""

    def __init__(self, folder: CellFolder, cell: TrialCell) -> None:
        self._folder = folder
        self._cell = cell
        self._run = RunFolder.begin(folder.evidence)
        self._venue: Venue | None = None

    def test(self, scenario: Scenario) -> TestResult:
        begun = time.monotonic()
        recorder, course = Recorder("lab"), CellRecorder()
        where: dict[str, Any] = {"venue": self._taken()} if self._wants_venue else {}
        try:
            ran = carry_out(
                scenario, self._cell.contender.scheduler, self._cell.isolation, observers=[recorder, course], **where
            )
        except Unsupported as error:
            return TestResult(name=scenario.id, verdict="skipped", message=str(error))
        if ran.stopped:
            # What stopped it may have left something behind.
            self.close()
        verdict, message = _verdict(ran)
        written = ""
        if recorder.facts is not None:
            path = self._run.write(
                scenario.suite,
                scenario.name,
                lambda partial: write_test(partial, scenario.id, [recorder], _outcome(verdict), message),
            )
            written = f"{self._run.run_id}/{path.relative_to(self._run.path).as_posix()}"
        return TestResult(
            name=scenario.id,
            verdict=verdict,
            message=recorder.scrub(message) if recorder.facts is not None else message,
            concept=ran.not_expressible.concept if ran.not_expressible else "",
            evidence=written,
            seconds=round(time.monotonic() - begun, 3),
            labs={"lab": course.result()},
        )

    @property
    def _wants_venue(self) -> bool:
        return "venue" in BACKENDS[self._cell.isolation].options

    def _taken(self) -> Venue:
        if self._venue is None:
            said = self._cell.options
            options: dict[str, Any] = {name: Path(said[name]) if name in _PATHS else said[name] for name in said}
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


def _verdict(ran: ScenarioResult) -> tuple[TestVerdict, str]:
    told = "\n".join([*ran.differences, *([ran.stopped] if ran.stopped else ())])
    if ran.not_expressible is not None:
        return "not expressible", str(ran.not_expressible)
    if ran.stopped:
        return "error", told
    return ("failed", told) if ran.differences else ("passed", "")


def _outcome(verdict: TestVerdict) -> str:
    """As evidence has it."""
    return verdict if verdict in ("passed", "failed") else "interrupted"
